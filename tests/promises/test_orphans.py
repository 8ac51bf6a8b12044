"""A command killed at any moment leaves no process running; and none of its listening processes trusts a stranger."""

import os
import re
import shutil
import signal
import socket
import ssl
import time
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.promises.endings import SMALL
from tests.promises.stalling import STUCK
from tests.promises.terminal import GIVEN, STARTED, Run
from tests.support.people import write_plan, write_tables
from tests.support.ports import own_port

KILLS = int(os.environ.get("CONCORD_TEST_KILLS", "2"))
"""Of each kind; thirty where somebody waits for it."""


def begin(command: str, folder: Path, mlflow_database: Path) -> Run:
    """Start the command in a new home."""
    home, port = folder / "home", str(own_port())
    home.mkdir(exist_ok=True)
    shutil.copy(mlflow_database, home / "mlflow.db")
    (home / "vault").mkdir(mode=0o700, exist_ok=True)
    plan = write_plan(write_tables(folder / "data"), **SMALL)
    words = {"run": ["run", str(plan)], "ui": ["ui", "--port", port]}[command]
    return Run(["tests.promises.stalling", "nowhere", *words, "--home", str(home)], folder)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "end"), [("run", signal.SIGKILL), ("ui", signal.SIGKILL), ("ui", signal.SIGTERM)])
def test_no_process_is_left_after_kills(
    tmp_path: Path, mlflow_database: Path, command: str, end: signal.Signals
) -> None:
    for kill in range(KILLS):
        run = begin(command, tmp_path, mlflow_database)
        deadline = time.monotonic() + STARTED
        while len(run.processes()) < 2 and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(kill * 10 / KILLS)
        os.kill(run.process.pid, end)
        assert run.ends() in (-signal.SIGKILL, 143, 0)
        assert [left for left in run.leaves() if "python" in left] == []


UNTIED = """import ctypes, types
known = ctypes.CDLL
ctypes.CDLL = lambda *name, **how: known(*name, **how) if name != (None,) else types.SimpleNamespace(prctl=lambda *_: 0)
"""
"""A process begun with it does not ask the kernel to end it with its parent."""


@pytest.mark.slow
def test_a_process_that_outlives_its_command_is_found(
    tmp_path: Path, mlflow_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(UNTIED)
    monkeypatch.setitem(GIVEN, "PYTHONPATH", f"{tmp_path}{os.pathsep}{os.getcwd()}")
    run = begin("ui", tmp_path, mlflow_database)
    run.until("/?token=")
    with suppress(HTTPError):  # without the token
        urlopen(re.findall(r"http://[0-9.:]+", run.text)[0], timeout=STARTED)
    run.process.kill()
    run.ends()
    assert any("hosted.py" in left for left in run.leaves())


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["threads", "dask"])
def test_nothing_that_listens_trusts_a_stranger(tmp_path: Path, runner: str) -> None:
    """Anyone who can connect to a Dask scheduler can run code on it."""
    stuck = {"teachers__estimator": "tests.promises.stalling.Stuck", "teachers__runner": runner}
    plan = write_plan(write_tables(tmp_path / "data"), **SMALL, **stuck)
    run = Run(["tests.promises.stalling", "nowhere", "run", str(plan), "--home", str(tmp_path / "home")], tmp_path)
    try:
        run.until(STUCK)
        ports = listening(run)
        trusting = [port for port in ports if trusts(port)]
    finally:
        run.process.kill()
        run.ends()
        run.leaves()
    assert len(ports) == 1 or runner == "dask"
    assert set(ports.values()) == {"0100007F"}  # loopback
    assert trusting == []


def listening(run: Run) -> dict[int, str]:
    """The ports on which processes of a run listen, with the address of each as the kernel writes it."""
    sockets = set[str]()
    for process in run.processes():
        for place in Path(f"/proc/{process}/fd").glob("*"):
            with suppress(OSError):  # it was closed meanwhile
                sockets.add(os.readlink(place))
    lines = [
        line.split() for kind in ("tcp", "tcp6") for line in Path(f"/proc/net/{kind}").read_text().splitlines()[1:]
    ]
    return {
        int(words[1].split(":")[1], 16): words[1].split(":")[0]
        for words in lines
        if words[3] == "0A" and f"socket:[{words[9]}]" in sockets
    }


def trusts(port: int) -> bool:
    """Whether a client without a password or a certificate gets any answer but a refusal."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
        plain.sendall(b"GET /api/admin/version HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        answer = received(plain)
    if answer.startswith(b"HTTP/1.1"):
        return answer.split()[1] not in (b"401", b"404")
    return bool(answer) or trusts_without_certificate(port)


def trusts_without_certificate(port: int) -> bool:
    nobody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    nobody.check_hostname, nobody.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
        try:
            with nobody.wrap_socket(plain) as asked:
                return bool(received(asked))
        except OSError:
            return False


def received(asked: socket.socket) -> bytes:
    """The bytes received within a while."""
    asked.settimeout(5)
    try:
        return asked.recv(1 << 16)
    except OSError:  # or a timeout
        return b""
