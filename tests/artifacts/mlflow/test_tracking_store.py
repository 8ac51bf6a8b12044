"""MLflow's store in a home is made whole by one process, or made anew; a server is asked first whether it answers."""

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from contextlib import nullcontext as does_not_raise
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
import sqlalchemy
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from sqlalchemy.engine import Engine

from tests import world
from tests.support.homes import killed_at
from tests.support.processes import FRESH

MOMENT = datetime(2026, 1, 2, tzinfo=UTC)


@pytest.fixture(autouse=True)
def no_store_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)


@pytest.fixture
def database(mlflow_database: Path, tmp_path: Path) -> Path:
    """The store of a home, whole, with a run in it."""
    shutil.copy(mlflow_database, tmp_path / "mlflow.db")
    with closing(sqlite3.connect(tmp_path / "mlflow.db")) as store, store:
        store.execute("INSERT INTO runs (run_uuid, experiment_id, status) VALUES ('r', 0, 'FINISHED')")
    return tmp_path / "mlflow.db"


def answers(home: Path) -> bool:
    return world.Records.of(home).runs("none") == []


def _first_user(home: Path) -> None:
    os.environ.pop("MLFLOW_TRACKING_URI", None)
    world.ready_store(home)
    world.Tracking.of(home).sessions()


@pytest.mark.slow
def test_three_processes_make_one_store(tmp_path: Path) -> None:
    users = [FRESH.Process(target=_first_user, args=(tmp_path,)) for _ in range(3)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert [user.exitcode for user in users] == [0, 0, 0]
    assert sorted(path.name for path in tmp_path.iterdir()) == [world.UNFINISHED, "mlflow.db", world.STORE_LOCK]
    assert answers(tmp_path)


@pytest.mark.slow
def test_a_store_whose_first_user_dies_in_the_middle_is_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("mlflow.store.tracking.sqlalchemy_store.SqlAlchemyStore._initialize_store_state", _die)
        with pytest.raises(KeyboardInterrupt):
            world.ready_store(tmp_path)
    assert not (tmp_path / "mlflow.db").exists()
    (tmp_path / world.UNFINISHED).mkdir(exist_ok=True)
    left = tmp_path / world.UNFINISHED / "mlflow.db.0123456789abcdef"
    left.write_text("left by one that was killed")
    world.ready_store(tmp_path)
    assert answers(tmp_path)
    assert not left.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [world.UNFINISHED, "mlflow.db", world.STORE_LOCK]


def _die(*_: object) -> None:
    raise KeyboardInterrupt


def garbage(database: Path) -> None:
    database.write_bytes(b"no database at all, but longer than a header of SQLite: " * 40)


def truncated(database: Path) -> None:
    database.write_bytes(database.read_bytes()[: database.stat().st_size // 2])


def half_migrated(database: Path) -> None:
    database.unlink()
    with closing(sqlite3.connect(database)) as store:
        store.execute("CREATE TABLE latest_metrics (key TEXT)")  # one migration of many makes it


@pytest.mark.parametrize(
    "broken", [pytest.param(broken, marks=pytest.mark.slow) for broken in (garbage, truncated, half_migrated)]
)
def test_a_store_that_cannot_be_read_is_put_aside_and_made_anew(broken: Callable[[Path], None], database: Path) -> None:
    broken(database)
    was = database.read_bytes()
    database.with_name("mlflow.db-journal").write_bytes(b"of the broken one")
    aside = world.ready_store(database.parent)
    assert aside == database.with_name("mlflow.db.unreadable-1")
    assert broken is half_migrated or aside.read_bytes() == was
    assert answers(database.parent)
    assert world.ready_store(database.parent) is None


def test_a_store_that_another_process_holds_is_not_put_aside(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.mlflow_store, "STORE_PATIENCE", 0.1)
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(world.EnvironmentFailed, match="locked"):
            world.ready_store(database.parent)
    assert world.ready_store(database.parent) is None


@pytest.mark.parametrize("revision", ["0a8213491aaa", "f" * 12])
def test_a_store_of_another_version_is_no_fault_and_left_as_it_is(
    database: Path, tmp_path: Path, revision: str
) -> None:
    """An earlier version's, or a later one's. `verify` ended with exit status 4, as if it was tampered with."""
    world.ready_store(database.parent)
    world.Tracking.of(database.parent).keep_estimate("people", "s-1", {"name": "stable", "epsilon": 1.0}, MOMENT)
    home = tmp_path / "upgraded"
    home.mkdir()
    copy = Path(shutil.copy(database, home / "mlflow.db"))
    with closing(sqlite3.connect(copy)) as store, store:
        store.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    before = copy.read_bytes()
    for command in (world.ready_store, world.Records.of, world.verify):
        with pytest.raises(
            world.EnvironmentFailed, match=f"{copy} was made by another version.*{revision}.*upgrade.md"
        ):
            command(home)
    assert copy.read_bytes() == before


def test_a_store_named_elsewhere_is_left_as_it_is(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    garbage(database)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{database}")
    (tmp_path / "home").mkdir()
    with pytest.raises(world.EnvironmentFailed, match="not a database"):
        world.ready_store(tmp_path / "home")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "mlflow.db"]


def test_a_server_that_hangs_is_given_up_within_a_minute() -> None:
    """It took 400 seconds: whether it answers is asked once, then what fails is tried again, and so is to say so."""
    once, retries = (int(world.VARIABLES[f"MLFLOW_HTTP_REQUEST_{name}"]) for name in ("TIMEOUT", "MAX_RETRIES"))
    assert world.artifacts_settings.SERVER_PATIENCE + 2 * once * (1 + retries) < 60
    assert 2 * world.mlflow_store.STORE_PATIENCE < 60  # a SQLite store that another process holds


def test_a_run_that_a_server_could_not_send_is_not_called_missing(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, `verify` said that a session was not recorded, and advised to record it again."""
    records = world.Records(f"sqlite:///{database}", tmp_path)
    assert records.recorded("0" * 32) is None

    def cut(*_: object) -> None:
        raise MlflowException("Connection aborted")

    monkeypatch.setattr(MlflowClient, "get_run", cut)
    with pytest.raises(world.EnvironmentFailed, match="Connection aborted"):
        records.recorded("0" * 32)


def test_an_estimate_that_was_half_recorded_is_shown_once(database: Path, tmp_path: Path) -> None:
    """The run of a killed command stayed in the list, as running for ever."""
    tracking, given = world.Tracking.of(tmp_path), ("people", "s-1", {"name": "stable", "epsilon": 1.0}, MOMENT)
    with killed_at(world.Tracking, "_log_settings"):
        tracking.keep_estimate(*given)
    recorded = tracking.keep_estimate(*given)
    assert tracking.keep_estimate(*given) == recorded
    with closing(sqlite3.connect(database)) as store:
        shown = store.execute("SELECT run_uuid FROM runs WHERE lifecycle_stage = 'active' AND name = 's-1'").fetchall()
    assert shown == [(recorded,)]


def test_a_full_disk_is_told_in_one_sentence_without_a_traceback(
    database: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """MLflow logs what its database fails with, traceback and all."""
    tracking = world.Tracking.of(database.parent)

    def full(connection: sqlite3.Connection, _: object) -> None:
        connection.execute("PRAGMA max_page_count = 1")  # SQLite then takes the size that the file has

    def fill() -> None:
        for number in range(100):
            tracking.keep_estimate("people", f"s-{number}", {"name": "x" * 4000, "epsilon": 1.0}, MOMENT)

    sqlalchemy.event.listen(Engine, "connect", full)
    try:
        with pytest.raises(world.EnvironmentFailed, match="disk is full"):
            fill()
    finally:
        sqlalchemy.event.remove(Engine, "connect", full)
    out, err = capfd.readouterr()
    assert "Traceback" not in out + err


VARIABLE = "MLFLOW_TRACKING_URI"


class Forbidding(BaseHTTPRequestHandler):
    """It wants to know first who asks."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_error(401)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    """Where a server listens while the test lasts."""
    Forbidding.asked.clear()
    server = HTTPServer(("127.0.0.1", 0), Forbidding)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    "url",
    [
        *("http://auditor:horse@127.0.0.1:{port}/", "postgresql://auditor:horse@127.0.0.1:{port}/mlflow"),
        *("", "sqlite:////srv/mlflow.db", "databricks", "postgresql:///mlflow?host=/run"),
    ],
)
def test_a_server_that_refuses_has_answered_and_what_is_no_server_is_not_asked(
    port: int, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv(VARIABLE, url.format(port=port))
    with does_not_raise():
        world.check_answers(VARIABLE)


@pytest.mark.parametrize("scheme", ["http", "postgresql", "postgresql+psycopg2", "mysql+pymysql"])
def test_where_nobody_answers_is_told_at_once_and_without_the_password(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MLflow tries for 100 seconds."""
    monkeypatch.setenv(VARIABLE, f"{scheme}://auditor:horse@127.0.0.1:9/mlflow")
    with pytest.raises(world.EnvironmentFailed) as raised:
        world.check_answers(VARIABLE)
    assert str(raised.value).startswith(f"{VARIABLE} names {scheme}://127.0.0.1:9/mlflow, but no server answers")
