"""A home copied to another place answers from its cache, spends nothing, verifies, and writes nothing where it was."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from concord.artifacts.mlflow.read import ADDRESSES, follow
from tests.support.console import concord
from tests.support.homes import charged
from tests.support.people import write_plan, write_tables


@pytest.mark.slow
def test_a_moved_home_goes_on_as_it_was(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"teachers__count": 40, "teachers__block": 20, "labeling__cutoff": 4}
    plan = write_plan(write_tables(tmp_path / "data"), **small)
    assert concord("run", str(plan), "--home", str(home))[0] == 0
    before = charged(home)
    moved = tmp_path / "another machine" / "home"
    shutil.copytree(home, moved)
    shutil.rmtree(home)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{moved / 'mlflow.db'}")

    status, result, wrong = concord("run", str(plan), "--home", str(moved), "--json")
    assert status == 0, wrong
    summary = json.loads(result)
    assert (summary["asked_now"], charged(moved)) == (0, before)
    assert all(stage["cached"] for stage in summary["stages"])
    assert Path(summary["certificate"]).is_relative_to(moved)
    assert concord("verify", "--home", str(moved))[0] == 0

    assert concord("run", str(plan), "--from", "certify", "--home", str(moved))[0] == 0  # a further run in MLflow
    assert concord("verify", "--home", str(moved))[0] == 0
    assert not home.exists()


def test_addresses_in_other_places_are_left_alone(tmp_path: Path) -> None:
    database = tmp_path / "mlflow.db"
    old, new = "file:///old/mlartifacts", (tmp_path / "mlartifacts").as_uri()
    kept = [
        "mlruns/0",
        "s3://bucket/mlartifacts/people",
        "file:///old/mlartifacts-of-others/people",
        "models:/m-1",
        None,
    ]
    with closing(sqlite3.connect(database)) as store, store:
        for table in {table for table, _ in ADDRESSES}:
            columns = [column for item, column in ADDRESSES if item == table]
            store.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            rows = [[address] * len(columns) for address in (*kept, f"{old}/people", f"{old}/a%20b")]
            store.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", rows)
    follow(database, tmp_path / "mlartifacts")
    with closing(sqlite3.connect(database)) as store:
        for table, column in ADDRESSES:
            found = [row[0] for row in store.execute(f"SELECT {column} FROM {table}")]
            assert found == [*kept, f"{new}/people", f"{new}/a%20b"]


def test_a_store_that_is_not_there_yet_is_left_to_be_made(tmp_path: Path) -> None:
    follow(tmp_path / "mlflow.db", tmp_path / "mlartifacts")
    assert list(tmp_path.iterdir()) == []
