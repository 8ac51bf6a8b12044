"""The database of a command's own server: new, its own, and gone with it; and a server that cannot write to it."""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from prefect.exceptions import PrefectHTTPStatusError
from prefect.logging.handlers import APILogWorker

from tests.support.processes import own_environment
from tests.world import DATABASE, NAMED, EnvironmentFailed, database_of_its_own, engine, flows_server, sqlite_file, tidy

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture(params=["home", "odd?home"])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, in an environment that names no database and no server."""
    for name in (*NAMED, "PREFECT_API_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / request.param / "prefect").mkdir(parents=True)
    return tmp_path / str(request.param)


def place_of(database: Mapping[str, str]) -> Path:
    found = sqlite_file(database[DATABASE])
    assert found is not None
    return found


def test_it_is_its_owner_s_alone_and_goes_with_its_server(home: Path) -> None:
    with database_of_its_own(home) as database:
        place = place_of(database)
        place.touch()  # if there was no empty one to copy, as the server makes it
        assert place.is_relative_to(home)
        assert place.parent.stat().st_mode & 0o777 == 0o700
    assert not place.parent.exists()


def test_no_two_servers_share_one(home: Path) -> None:
    """Of four first runs one ended: their servers had raced the migration of one database."""
    with database_of_its_own(home) as one, database_of_its_own(home) as other:
        tidy(home)
        places = {place_of(one), place_of(other)}
        assert len(places) == 2
        assert all(place.parent.is_dir() for place in places)


KILLED = """
import os, sys
from pathlib import Path
from concord.flows.server import database_of_its_own
with database_of_its_own(Path(sys.argv[1])) as database:
    (found,) = Path(sys.argv[1]).rglob("server.*")
    (found / "prefect.db").touch()
    os._exit(0)
"""


def test_that_of_a_killed_command_is_removed_by_the_next(home: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(home)], env=own_environment(), check=True)
    assert [*home.rglob("prefect.db")]
    tidy(home)
    assert not [*home.rglob("prefect.db")]


@pytest.mark.parametrize("variable", NAMED)
def test_one_that_the_environment_names_is_used(home: Path, variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "postgresql+asyncpg://elsewhere/prefect")
    with database_of_its_own(home) as database:
        assert database == {}
        assert [file for file in home.rglob("*") if file.is_file()] == []


class Stub:
    """A server that was started; what it cannot write, its answers say."""

    def __init__(self, home: Path, _: Mapping[str, str]) -> None:
        self.log, self.lost, self.ended = home / "prefect" / "server.log", False, "it ended"
        self.cannot = f"it cannot go on (see {self.log})"

    address, password = "http://127.0.0.1:9/api", "concord:secret"

    def check_answers(self) -> None:
        pass

    def stop(self) -> None:
        self.stopped = True


@pytest.mark.parametrize(("status", "raised"), [(500, EnvironmentFailed), (404, PrefectHTTPStatusError)])
def test_a_disk_that_is_full_under_prefects_database_is_one_sentence(
    home: Path, monkeypatch: pytest.MonkeyPatch, status: int, raised: type[Exception]
) -> None:
    monkeypatch.setattr(flows_server, "Server", Stub)
    asked = httpx.Request("POST", "http://127.0.0.1:9/api/flow_runs/set_state")
    answer = httpx.Response(status, request=asked)
    with (
        pytest.raises(raised, match=r"cannot go on \(see .*server.log\)" if status == 500 else "Internal"),
        flows_server.serving(home),
    ):
        raise PrefectHTTPStatusError("Internal Server Error", request=asked, response=answer)


def test_logs_that_a_server_on_a_full_disk_does_not_take_are_no_matter_for_the_console(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(flows_server, "Server", Stub)

    class Refusing:
        async def create_logs(self, _: object) -> None:
            raise OSError("500 Internal Server Error")

    before, worker = logging.raiseExceptions, SimpleNamespace(_client=Refusing())
    with engine(home):
        asyncio.run(APILogWorker._handle_batch(worker, []))  # type: ignore[arg-type]  # all it asks of itself
    assert capsys.readouterr().err == ""
    assert logging.raiseExceptions is before
