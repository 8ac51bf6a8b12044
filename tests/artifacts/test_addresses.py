"""A home folder's path may hold what an address gives a meaning to: everything is kept inside it all the same."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import create_engine

from tests.world import Ledger, Tracking, sqlite_address, sqlite_file

ODD = ["a?b", "?mode=memory", "a#b", "a%3Fb", "a b", "ä é 漢", "a?b#c%20d e", "file:a?b", "a@b:c", "a&uri=true?"]


@pytest.mark.parametrize("name", ["a?b#c%20d e", "a#b"])
def test_the_ledger_and_mlflows_store_and_files_lie_in_their_home(
    tmp_path: Path, name: str, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("CONCORD_LEDGER", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    home = tmp_path / name
    home.mkdir()
    Ledger.of(home).name_domain("people", unit="person", neighbours="add or remove", epsilon=4.0, delta=1e-5)
    assert [domain.name for domain in Ledger.of(home).domains()] == ["people"]
    assert (home / "ledger.db").stat().st_mode & 0o777 == 0o600
    shutil.copy(mlflow_database, home / "mlflow.db")
    tracking = Tracking.of(home)
    experiment = tracking._experiment("people")
    run = tracking._client.create_run(experiment)
    tracking._client.log_text(run.info.run_id, "what was published", "report.html")
    (kept,) = (home / "mlartifacts").rglob("report.html")
    assert kept.read_text() == "what was published"
    assert list(tmp_path.iterdir()) == [home]
    with closing(sqlite3.connect(home / "mlflow.db")) as store:
        assert ("people",) in store.execute("SELECT name FROM experiments").fetchall()


@pytest.mark.parametrize("name", ODD)
def test_an_address_means_its_file(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / name / "one.db"
    file.parent.mkdir()
    address = sqlite_address(file)
    assert sqlite_file(address) == sqlite_file(sqlite_address(file, "aiosqlite")) == file
    with create_engine(address).begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (c)")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [file]


@pytest.mark.parametrize("address", ["postgresql://one:two@three/four", "http://127.0.0.1:5000", "sqlite://", ""])
def test_an_address_of_no_file_means_none(address: str) -> None:
    assert sqlite_file(address) is None
