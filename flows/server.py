"""Servers of one command, Prefect's and MLflow's, which nobody else can replace or use.

Assumes      other users of the machine may connect to its ports, bind any that is free, and list its processes
Guarantees   the server is a process that this one started: the port was bound and listened on before its number was
             known to anyone, and is held until the end, even if the server ends before. It answers only with a random
             password, which is in its environment and in the settings of its clients alone. It ends with this process,
             however that ends (flows/hosted.py); if it ends before, every request fails at once and the command ends
Not covered  root; other processes of the same user, which can read the vault anyway

A server that PREFECT_API_URL names in the environment is used instead; no other is trusted. Imports nothing heavy: a
command starts its server first and loads packages meanwhile. Checked by tests/promises/test_own_server.py.
"""

import base64
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from concord.artifacts.errors import ConcordError, EnvironmentFailed
from concord.artifacts.settings import STORE, Settings, check_answers
from concord.flows.database import database_of_its_own
from concord.flows.ending import NOTHING_LOST, leave

ADDRESS_VARIABLE = "PREFECT_API_URL"
PREFECT, MLFLOW = "prefect.server.api.server:create_app()", "mlflow.server.fastapi_app:app"
FINAL = {"PREFECT_UI_ENABLED": "false", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
"""As Prefect sets them for a server of a single process."""
NO_BLOCKS = {"PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false"}
"""Types of blocks are for people who configure Prefect on its pages, which this server has none of; to write them all
into a fresh database takes a second. A server that has pages does it when it starts."""
SERVER_GONE = b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
"""The answer in place of a server that has ended: the one failure that Prefect's clients do not retry."""
ALONE = {"MLFLOW_ENABLE_AI_GATEWAY": "false", "MLFLOW_ENABLE_REMOTE_ASSISTANT": "false"}
"""An audit view has no model of others beside it."""
GRACE = 5.0
"""Seconds to wait for a server to end by itself."""
STARTUP = "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"
PATIENCE = "90"
"""Seconds to wait for a server's first answer, unless the environment has others."""


class Hosted:
    """An ASGI application in its own process, on a loopback port bound here; it lasts as long as this process.

    ended   the sentence of a command that cannot go on because the application ended by itself
    """

    def __init__(self, application: str, environment: Mapping[str, str], log: Path, ended: str, port: int = 0) -> None:
        try:
            self.socket = socket.create_server(("127.0.0.1", port), backlog=socket.SOMAXCONN)
        except OSError as failed:
            raise EnvironmentFailed(f"--port {port} cannot be had ({failed.strerror}): name another") from None
        self.port: int = self.socket.getsockname()[1]
        self.ended, self._stopping, self._over = ended, False, threading.Event()
        script = str(Path(__file__).with_name("hosted.py"))
        descriptor = str(self.socket.fileno())
        words = [sys.executable, "-P", script, application, descriptor, str(os.getpid())]
        self._started: Future[subprocess.Popen[bytes]] = Future()
        threading.Thread(target=self._keep, args=(words, dict(environment), log), daemon=True).start()
        self.process = self._started.result()

    @property
    def lost(self) -> bool:
        """Whether it has ended by itself."""
        return self._over.is_set() and not self._stopping

    def wait(self) -> None:
        """Wait until it has ended."""
        self._over.wait()

    def stop(self) -> None:
        """Stop it; kill it if that takes too long."""
        self._stopping = True
        self.process.terminate()
        if not self._over.wait(GRACE):
            self.process.kill()
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread in `_refuse`
        self.socket.close()

    def _keep(self, words: list[str], environment: dict[str, str], log: Path) -> None:
        """Start the process and wait for its end, in one thread: the kernel ends the process with this thread."""
        try:
            with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as sink:
                process = subprocess.Popen(
                    words,
                    env=environment,
                    pass_fds=[self.socket.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=sink,
                    stderr=sink,
                    start_new_session=True,
                )
        except OSError as failed:
            self.socket.close()
            self._started.set_exception(failed)
            return
        self._started.set_result(process)
        process.wait()
        self._over.set()
        if self.lost:
            leave(EnvironmentFailed.exit_status, self.ended)
            self._refuse()

    def _refuse(self) -> None:
        """Answer in place of a process that has ended, so that its clients fail at once."""
        while True:
            try:
                asked, _ = self.socket.accept()
            except OSError:  # it was stopped
                return
            with asked, suppress(OSError):
                asked.settimeout(1.0)
                asked.sendall(SERVER_GONE)
                asked.shutdown(socket.SHUT_WR)
                asked.recv(1 << 16)


class Page(Hosted):
    """MLflow's pages over the store of a home, for those who have the address; they open `at` a fragment. Nothing of
    them can send text elsewhere: the gateway is switched off, and the assistant, for which MLflow has no switch, is not
    answered (flows/hosted.py).

    Anyone who may use MLflow's server can have it read any file of its owner's, the vault too: an experiment's files
    may be anywhere. Raises EnvironmentFailed if the port is taken.
    """

    def __init__(self, home: Path, port: int, at: str = "#/experiments") -> None:
        token, self.log = secrets.token_hex(32), home / "mlflow-server.log"
        ended = f"MLflow's server, which this command started, has ended: see {self.log}"
        environment = {**os.environ, **ALONE, STORE: Settings.now().store_of(home), "CONCORD_UI_TOKEN": token}
        super().__init__(MLFLOW, environment, self.log, ended, port)
        self.address = f"http://127.0.0.1:{self.port}/?token={token}{at}"


class Server(Hosted):
    """Prefect's server over a `database`, as its settings, and the environment for its clients."""

    def __init__(self, home: Path, database: Mapping[str, str]) -> None:
        self.home, self.log = home, home / "prefect" / "server.log"
        self.password = f"concord:{secrets.token_hex(32)}"
        password = {"PREFECT_SERVER_API_AUTH_STRING": self.password}
        place = {"PREFECT_HOME": str(home / "prefect"), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
        environment = {**NO_BLOCKS, **os.environ, **FINAL, **place, **database, **password}
        ours = "Prefect's server, which this command started,"
        ended = f"{ours} ended before it did: {NOTHING_LOST} (see {self.log})"
        self.cannot = f"{ours} cannot go on, as where the disk is full: {NOTHING_LOST} (see {self.log})"
        super().__init__(PREFECT, environment, self.log, ended)

    @property
    def address(self) -> str:
        """The address of its API."""
        return f"http://127.0.0.1:{self.port}/api"

    def check_answers(self) -> None:
        """Wait until it answers a request with the password. Raises EnvironmentFailed if it ends or is too slow."""
        patience = float(os.environ.get(STARTUP) or PATIENCE)
        token = base64.b64encode(self.password.encode()).decode()
        asked = HTTPConnection("127.0.0.1", self.port, timeout=patience)
        try:  # one request is enough: the kernel queues it until the server accepts
            asked.request("GET", "/api/admin/version", headers={"Authorization": f"Basic {token}"})
            status = asked.getresponse().status
        except (OSError, HTTPException):
            status = 0
        finally:
            asked.close()
        if status != 200:
            raise EnvironmentFailed(f"Prefect's server, which this command started, did not begin: see {self.log}")


own_server: ContextVar[Server | None] = ContextVar("own_server", default=None)
"""The server that this command started for itself, while it runs."""


def is_named() -> bool:
    """Whether the environment names a server."""
    return bool(os.environ.get(ADDRESS_VARIABLE))


@contextmanager
def serving(home: Path) -> Iterator[None]:
    """A server within the context: the one that the environment names, or one of our own, in `own_server`.

    Nested contexts of a home share one server. Does not wait for it: `awake` does.
    """
    known = own_server.get()
    if is_named() or (known is not None and known.home == home):
        yield
        return
    with database_of_its_own(home) as database:
        started = Server(home, database)
        token = own_server.set(started)
        try:
            yield
        except ConcordError:
            raise
        except Exception as failed:
            if started.lost:
                raise EnvironmentFailed(started.ended) from None
            from prefect.exceptions import PrefectHTTPStatusError  # loaded by now, as it was used

            if isinstance(failed, PrefectHTTPStatusError) and failed.response.is_server_error:
                raise EnvironmentFailed(started.cannot) from None
            raise
        finally:
            own_server.reset(token)
            started.stop()


def awake() -> None:
    """Wait until our own server answers, or the one that the environment names. Raises EnvironmentFailed."""
    own = own_server.get()
    check_answers(ADDRESS_VARIABLE) if own is None else own.check_answers()
