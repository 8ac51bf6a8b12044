"""A home that is moved leaves MLflow's store behind: it answers from its cache, spends nothing, is recorded again."""

import json
import shutil
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from tests.support.console import concord
from tests.support.homes import charged
from tests.support.people import write_plan, write_tables
from tests.support.sentences import facts
from tests.world import EnvironmentFailed, Records, ready_store, sqlite_address


@pytest.mark.slow
def test_a_moved_home_goes_on_as_it_was(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = {"teachers__count": 40, "teachers__block": 20, "labeling__cutoff": 4}
    plan = write_plan(write_tables(tmp_path / "data"), **small)
    assert concord("run", str(plan), "--home", str(home))[0] == 0
    before = charged(home)
    moved = tmp_path / "another machine" / "home"
    shutil.copytree(home, moved, ignore=shutil.ignore_patterns("mlflow.db", "mlartifacts"))
    shutil.rmtree(home)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{moved / 'mlflow.db'}")

    status, result, wrong = concord("run", str(plan), "--home", str(moved), "--json")
    assert status == 0, wrong
    summary = json.loads(result)
    assert (summary["asked_now"], charged(moved)) == (0, before)
    again = [stage["name"] for stage in summary["stages"] if not stage["cached"]]
    assert again == ["certify"]  # recorded again
    assert concord("verify", "--home", str(moved))[0] == 0
    assert not home.exists()


def test_a_store_that_was_made_elsewhere_is_not_used(
    tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its addresses lead to where the home was: what is published would be written there."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    shutil.copy(mlflow_database, tmp_path / "mlflow.db")
    client = MlflowClient(sqlite_address(tmp_path / "mlflow.db"))
    places = ["s3://bucket/mlartifacts/people", "file:///old/mlartifacts-of-others/people", "file:///mlartifacts-a/b"]
    for name, location in zip("abc", [*places], strict=True):
        client.create_experiment(name, artifact_location=location)
    client.create_experiment("here", artifact_location=(tmp_path / "mlartifacts" / "here").as_uri())
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    for home in (tmp_path, link):
        Records.of(home)
        ready_store(home)
    client.create_experiment("moved", artifact_location="file:///old/mlartifacts/moved")
    for use in (Records.of, ready_store):
        with pytest.raises(EnvironmentFailed, match=facts(tmp_path, "mlflow.db", "mlartifacts", "recorded anew")):
            use(tmp_path)
