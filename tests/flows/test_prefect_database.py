"""Prefect's database is no authority: one that is not sound is set aside, said in one sentence, and begun anew."""

import asyncio
import logging
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from prefect.exceptions import PrefectHTTPStatusError
from prefect.logging.handlers import APILogWorker

from concord.artifacts.errors import EnvironmentFailed
from concord.flows import database as prefect_database
from concord.flows import server
from concord.flows.database import NAMED, sound_database
from concord.flows.start import serving_flows


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The place of a sound database, of many pages, in a home folder."""
    for name in (*NAMED, "PREFECT_HOME"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "prefect"
    folder.mkdir()
    with closing(sqlite3.connect(folder / "prefect.db")) as made:
        made.execute("PRAGMA journal_mode = WAL")
        made.execute("CREATE TABLE flow_run (id INTEGER PRIMARY KEY, name TEXT)")
        made.executemany("INSERT INTO flow_run (name) VALUES (?)", [(f"{at:0200d}",) for at in range(500)])
        made.commit()
    yield folder / "prefect.db"
    folder.chmod(0o700)


def garbage(database: Path) -> None:
    database.write_bytes(b"not a database at all, " * 1000)


def truncated(database: Path) -> None:
    os.truncate(database, database.stat().st_size // 2)


def overwritten_in_the_middle(database: Path) -> None:
    with database.open("r+b") as file:
        file.seek(3 * 4096)
        file.write(os.urandom(8 * 4096))


def a_folder(database: Path) -> None:
    database.unlink()
    database.mkdir()


def a_link_to_nowhere(database: Path) -> None:
    database.unlink()
    database.symlink_to(database.parent / "gone")


def with_a_trigger(database: Path) -> None:
    """A new run would be named as whoever edited the file likes."""
    with closing(sqlite3.connect(database)) as opened:
        opened.execute("CREATE TRIGGER t AFTER INSERT ON flow_run BEGIN UPDATE flow_run SET name = 'theirs'; END")


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (garbage, "is damaged"),
        (truncated, "is damaged"),
        (overwritten_in_the_middle, "is damaged"),
        (a_folder, "cannot be written"),
        (a_link_to_nowhere, "cannot be written"),
        (with_a_trigger, "has triggers"),
    ],
)
def test_an_unsound_database_is_set_aside(
    database: Path, damage: Callable[[Path], None], fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(database)
    with sound_database(database.parents[1]):
        assert not os.path.lexists(database)
    (kept,) = database.parent.iterdir()
    (result,) = capsys.readouterr().err.splitlines()
    assert result.startswith(f"concord: Prefect's record of runs {fault}")
    assert result.endswith(f": kept as {kept.name}, and begun anew")


def test_a_database_that_somebody_foreign_locks_is_set_aside(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as foreign:
        foreign.execute("PRAGMA journal_mode = DELETE")
        foreign.execute("BEGIN EXCLUSIVE")
        with sound_database(database.parents[1]):
            assert not database.exists()
    assert "cannot be used (database is locked)" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["sound", "empty", "absent"])
def test_a_sound_database_stays(database: Path, content: str, capsys: pytest.CaptureFixture[str]) -> None:
    if content == "absent":
        database.unlink()
    if content == "empty":
        os.truncate(database, 0)
    before = [(file.name, file.read_bytes()) for file in database.parent.iterdir()]
    with sound_database(database.parents[1]):
        assert [(file.name, file.read_bytes()) for file in database.parent.iterdir()] == before
    assert capsys.readouterr().err == ""


def test_a_home_keeps_two_databases_of_a_bounded_size(
    database: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(prefect_database, "LARGEST_DATABASE", database.stat().st_size - 1)
    first = database.read_bytes()
    with sound_database(database.parents[1]):
        assert not database.exists()
        assert (database.parent / "prefect.db.earlier").read_bytes() == first
    assert "has grown: kept as prefect.db.earlier" in capsys.readouterr().err
    for size in (5, 9):
        with closing(sqlite3.connect(database)) as opened:
            opened.execute("CREATE TABLE filled (row BLOB)")
            opened.execute("INSERT INTO filled VALUES (zeroblob(?))", (size * len(first),))
            opened.commit()
        with sound_database(database.parents[1]):
            assert [file.name for file in database.parent.iterdir()] == ["prefect.db.earlier"]
        assert (database.parent / "prefect.db.earlier").stat().st_size > size * len(first)


def test_a_database_that_another_command_uses_is_left_alone(database: Path) -> None:
    """Its server may be making the tables, and hold every lock for seconds."""
    with sound_database(database.parents[1]):
        garbage(database)
        with sound_database(database.parents[1]):
            assert database.exists()


@pytest.mark.parametrize("variable", [*NAMED, "PREFECT_HOME"])
def test_what_the_environment_names_is_not_looked_at(
    database: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    garbage(database)
    monkeypatch.setenv(variable, "elsewhere")
    with sound_database(database.parents[1]):
        assert database.exists()


class Stub:
    """A server that was started; what it cannot write, its answers say."""

    making = None

    def __init__(self, home: Path) -> None:
        self.log, self.lost, self.ended = home / "prefect" / "server.log", False, "it ended"
        self.cannot = f"it cannot go on (see {self.log})"

    def variables(self) -> dict[str, str]:
        return {"PREFECT_API_URL": "http://127.0.0.1:9/api"}

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize(("status", "raised"), [(500, EnvironmentFailed), (404, PrefectHTTPStatusError)])
def test_a_disk_that_is_full_under_prefects_database_is_one_sentence(
    database: Path, monkeypatch: pytest.MonkeyPatch, status: int, raised: type[Exception]
) -> None:
    monkeypatch.setattr(server, "Server", Stub)
    asked = httpx.Request("POST", "http://127.0.0.1:9/api/flow_runs/set_state")
    answer = httpx.Response(status, request=asked)
    with (
        pytest.raises(raised, match=r"cannot go on \(see .*server.log\)" if status == 500 else "Internal"),
        server.serving(database.parents[1]),
    ):
        raise PrefectHTTPStatusError("Internal Server Error", request=asked, response=answer)


def test_logs_that_a_server_on_a_full_disk_does_not_take_are_no_matter_for_the_console(
    database: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "Server", Stub)

    class Refusing:
        async def create_logs(self, _: object) -> None:
            raise OSError("500 Internal Server Error")

    before, worker = logging.raiseExceptions, SimpleNamespace(_client=Refusing())
    with serving_flows(database.parents[1]):
        asyncio.run(APILogWorker._handle_batch(worker, []))  # type: ignore[arg-type]  # all it asks of itself
    assert capsys.readouterr().err == ""
    assert logging.raiseExceptions is before


def test_what_a_server_wrote_is_folded_however_the_command_ends(database: Path) -> None:
    script = f"import os, sqlite3; sqlite3.connect({str(database)!r}).execute('CREATE TABLE t (id)'); os._exit(0)"

    def refused() -> None:
        with sound_database(database.parents[1]):
            subprocess.run([sys.executable, "-c", script], check=True)
            assert database.with_name("prefect.db-wal").stat().st_size
            raise EnvironmentFailed("it was refused")

    with pytest.raises(EnvironmentFailed, match="it was refused"):
        refused()
    assert not database.with_name("prefect.db-wal").exists()
