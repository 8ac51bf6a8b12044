"""The Prefect server of a command is its own: nobody else can replace it, use it, or intercept its requests."""

import base64
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from prefect import flow

from tests.deployments.services import until
from tests.support.processes import alone, own_environment
from tests.world import ADDRESS_VARIABLE, EnvironmentFailed, Hosted, Server, engine, flows_server, serving

ASKED = "/api/flow_runs/filter"


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server of a process for which none is named; the only Prefect server that these tests start."""
    with pytest.MonkeyPatch.context() as patch, serving(alone(tmp_path_factory.mktemp("own"), patch)) as server:
        yield server


def ask(port: int, password: str | None = None, path: str = ASKED) -> int:
    """The status that a request to a port of loopback gets."""
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=60)) as asked:
        token = {} if password is None else {"Authorization": f"Basic {base64.b64encode(password.encode()).decode()}"}
        asked.request("POST", path, b"{}", {"Content-Type": "application/json", **token})
        return asked.getresponse().status


@contextmanager
def stranger() -> Iterator[tuple[int, list[bytes]]]:
    """Listen on a port; yields the port and the requests received."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as bound:

        def listen() -> None:
            while True:
                try:
                    asked, _ = bound.accept()
                except OSError:
                    return
                with asked:
                    heard.append(asked.recv(1 << 16))

        threading.Thread(target=listen, daemon=True).start()
        yield bound.getsockname()[1], heard
        bound.shutdown(socket.SHUT_RDWR)


@pytest.mark.slow
def test_nobody_asks_it_without_the_password(one: Server) -> None:
    """Nor listens to its events; and the password stands on no command line."""
    from websockets.exceptions import WebSocketException
    from websockets.sync.client import connect

    password = one.password
    assert ask(one.port, password) == 200
    assert [ask(one.port, guess) for guess in (None, "", "concord:", password[:-1])] == [401] * 4

    def listen(path: str) -> None:
        with connect(f"ws://127.0.0.1:{one.port}{path}", proxy=None) as asked:
            asked.send('{"type": "auth", "token": "concord:"}')
            asked.recv(60)
            asked.recv(60)

    for path in ("/api/events/in", "/api/events/out", "/api/logs/out"):
        with pytest.raises(WebSocketException):
            listen(path)
    lines = list[bytes]()
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it ended meanwhile
            lines.append(file.read_bytes())
    assert any(b"hosted.py" in line for line in lines)
    assert not any(password.split(":")[1].encode() in line for line in lines)
    assert os.getsid(one.process.pid) == one.process.pid  # where the terminal reaches nothing


@pytest.mark.slow
def test_it_takes_a_plan_whose_schema_lists_many_categories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plan is a parameter of the flow: `run` ended in a traceback that held it, although `plan` took it."""

    @flow
    def listed(words: list[str]) -> int:
        return len(words)

    with engine(alone(tmp_path, monkeypatch)):
        assert listed(["icd00000"] * 60_000) == 60_000


@pytest.mark.slow
def test_nobody_binds_its_port_while_it_starts_or_after_it_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever could bind it would get the next request, with the password."""

    def dies(home: Path) -> None:
        with serving(home) as lost:
            for _ in range(2):
                with pytest.raises(OSError, match="in use"):
                    socket.create_server(("127.0.0.1", lost.port))
                os.kill(lost.process.pid, signal.SIGKILL)
                lost.process.wait()
            assert ask(lost.port, lost.password) == http.client.GONE  # not retried
            raise ConnectionError("as a client of Prefect would")

    with pytest.raises(EnvironmentFailed, match="ended before it did"):
        dies(alone(tmp_path, monkeypatch))


def test_one_that_lives_and_never_answers_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Prefect's client asked a stopped server six times and waited a minute each, then ended in a traceback."""
    monkeypatch.setattr(flows_server, "PATIENCE", 1.0)
    silent = Hosted("signal:pause", own_environment(), tmp_path / "log", "it no longer answers")
    try:
        assert ask(silent.port) == http.client.GONE
        assert silent.process.poll() == -signal.SIGKILL
    finally:
        silent.stop()


BEGIN = """
import os, time
from pathlib import Path
from concord.flows.server import Server
print(Server(Path(), Path("prefect.db")).process.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_who_started_it_however_that_ends(tmp_path: Path, end: signal.Signals) -> None:
    (tmp_path / "prefect").mkdir()
    words, environment = [sys.executable, "-c", BEGIN], own_environment() | {"PREFECT_HOME": str(tmp_path / "prefect")}
    with subprocess.Popen(words, cwd=tmp_path, env=environment, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        started = int(parent.stdout.readline())
        parent.send_signal(end)
    until(lambda: not runs(started), 60, lambda: f"process {started} is still there")


def runs(process: int) -> bool:
    """Whether a process has not ended."""
    try:
        return b") Z " not in Path(f"/proc/{process}/stat").read_bytes()
    except OSError:
        return False


@pytest.mark.slow
def test_two_homes_share_no_server(one: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(alone(tmp_path, monkeypatch)) as other:
        assert other.port != one.port
        assert ask(one.port, other.password) == 401


def test_a_server_that_the_environment_names_is_used_and_none_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(ADDRESS_VARIABLE, "http://127.0.0.1:9/api")
    monkeypatch.setattr(flows_server, "Server", None)
    with (
        pytest.raises(EnvironmentFailed, match=f"{ADDRESS_VARIABLE} names .*:9/api, but no server answers"),
        engine(tmp_path),
    ):
        pass


PROBE = """
from pathlib import Path
from concord.artifacts.process import our_settings
from concord.flows.home import prepare
with our_settings():
    from concord.flows.server import engine
with our_settings(), engine(prepare(Path("home"))):
    from prefect.client.orchestration import get_client
    with get_client(sync_client=True) as client:
        print(client.hello().status_code)
"""


@pytest.mark.slow
def test_a_server_that_a_file_or_a_proxy_names_gets_no_request(tmp_path: Path) -> None:
    with stranger() as (port, heard):
        url, settings = f"http://127.0.0.1:{port}", tmp_path / "home" / "prefect"
        settings.mkdir(parents=True)
        (tmp_path / ".env").write_text(f"{ADDRESS_VARIABLE}={url}/api\n")
        (tmp_path / "prefect.toml").write_text(f'[api]\nurl = "{url}/api"\n')
        (settings / "profiles.toml").write_text(f'active = "x"\n[profiles.x]\n{ADDRESS_VARIABLE} = "{url}/api"\n')
        done = subprocess.run(
            [sys.executable, "-c", PROBE],
            cwd=tmp_path,
            env=own_environment() | {"HTTP_PROXY": url, "ALL_PROXY": url},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (0, "200\n"), done.stderr
        assert heard == []
