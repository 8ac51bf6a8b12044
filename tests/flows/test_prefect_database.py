"""The database of a command's own server: new, its own, and gone with it; and a server that cannot write to it."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from prefect.exceptions import PrefectHTTPStatusError

from tests.support.processes import own_environment
from tests.world import DATABASE, EnvironmentFailed, Server, flows_server, operation, serving, sqlite_file, tidy


class Child:
    """The process of a server that goes on."""

    def poll(self) -> None:
        pass


class Stub:
    """A server that was started; what it cannot write, its answers say."""

    process = Child()

    def __init__(self, home: Path, database: Path) -> None:
        self.database, self.cannot = database, f"it cannot go on (see {home / 'prefect' / 'server.log'})"

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture(params=["home", "odd?home"])
def home(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, in which no server is started."""
    monkeypatch.setattr(flows_server, "Server", Stub)
    (tmp_path / request.param / "prefect").mkdir(parents=True)
    return tmp_path / str(request.param)


def place_of(server: Server) -> Path:
    """Where the database of a stub is."""
    place: Path = vars(server)["database"]
    return place


def test_it_is_its_owner_s_alone_and_goes_with_its_server(home: Path) -> None:
    with serving(home) as server:
        place = place_of(server)
        place.touch()  # if there was no empty one to copy, as the server makes it
        assert place.is_relative_to(home)
        assert place.parent.stat().st_mode & 0o777 == 0o700
    assert not place.parent.exists()


def test_no_two_servers_share_one(home: Path) -> None:
    """Of four first runs one ended: their servers had raced the migration of one database."""
    with serving(home) as one, serving(home) as other:
        tidy(home)
        places = {place_of(one), place_of(other)}
        assert len(places) == 2
        assert all(place.parent.is_dir() for place in places)


KILLED = """
import os, sys
from pathlib import Path
from concord.flows import server
server.Server = lambda home, database: database.touch()
with server.serving(Path(sys.argv[1])):
    os._exit(0)
"""


def test_that_of_a_killed_command_is_removed_by_the_next(home: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(home)], env=own_environment(), check=True)
    assert [*home.rglob("prefect.db")]
    tidy(home)
    assert not [*home.rglob("prefect.db")]


def test_no_setting_of_prefect_that_the_environment_has_is_its(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prefect").mkdir()
    for name in (DATABASE, "prefect_server_database_connection_url", "PREFECT_SERVER_API_BASE_PATH"):
        monkeypatch.setenv(name, "postgresql+asyncpg://elsewhere/prefect")
    given, start = dict[str, str](), subprocess.Popen

    def started(words: list[str], **settings: Any) -> subprocess.Popen[bytes]:
        given.update(settings["env"])
        return start(words, **settings)

    monkeypatch.setattr(subprocess, "Popen", started)
    Server(tmp_path, tmp_path / "new.db").stop()
    assert sqlite_file(given[DATABASE]) == tmp_path / "new.db"
    assert "elsewhere" not in str(given)


def refusal(status: int) -> PrefectHTTPStatusError:
    asked = httpx.Request("POST", "http://127.0.0.1:9/api/flow_runs")
    return PrefectHTTPStatusError("Internal", request=asked, response=httpx.Response(status, request=asked))


@pytest.mark.parametrize(("status", "raised"), [(500, EnvironmentFailed), (404, PrefectHTTPStatusError)])
def test_a_disk_that_is_full_under_prefects_database_is_one_sentence(
    home: Path, status: int, raised: type[Exception]
) -> None:
    said = r"cannot go on \(see .*server.log\)" if status == 500 else "Internal"
    with pytest.raises(raised, match=said), serving(home):
        raise refusal(status)


ADVICE = {401: "PREFECT_API_AUTH_STRING", 422: "MAX_PARAMETER_SIZE", 503: "see its log"}


@pytest.mark.usefixtures("prefect_server")
@pytest.mark.parametrize("status", [None, *ADVICE])
def test_a_named_server_that_has_gone_or_refuses_a_request_is_one_sentence(status: int | None) -> None:
    """One that was killed in the middle of a run ended the command in a traceback, as did one without its password, or
    with a plan that it takes for too large."""
    refused = rf"^the Prefect server that PREFECT_API_URL .*\({status} .*{ADVICE.get(status or 0)}"

    @operation("failing", run_name="failing")
    def failing() -> dict[str, Any]:
        raise refusal(status) if status else httpx.ConnectError("All connection attempts failed")

    with pytest.raises(EnvironmentFailed, match=refused if status else r"^Prefect's server no longer answers \(Conn"):
        failing()
