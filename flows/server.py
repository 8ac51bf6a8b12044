"""Servers of one command, Prefect's and MLflow's, which nobody else can be or ask.

Assumes      other users of the machine may connect to its ports, bind any that is free, and list its processes
Guarantees   what answers at PREFECT_API_URL is a process that this one started: the port was bound and listened on
             before its number was known to anyone, and is held until the end, even if the server ends before. Nobody
             asks it without a random password, which stands in environments alone. It ends with this process, however
             that ends (flows/hosted.py), and if it ends before, every request fails at once and a command ends
Not covered  root; other processes of the same user, which can read the vault anyway

A server that PREFECT_API_URL names in the environment is used instead; nothing else is believed. Imports nothing heavy:
a command begins its server first and loads packages while it starts. Checked by tests/promises/test_own_server.py.
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
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import IO, ClassVar

from concord.artifacts.errors import ConcordError, EnvironmentFailed
from concord.artifacts.home.whole import locked
from concord.artifacts.settings import check_answers
from concord.flows.console import NOTHING_LOST, leave
from concord.flows.database import is_made, sound_database

ADDRESS_VARIABLE = "PREFECT_API_URL"
PREFECT, MLFLOW = "prefect.server.api.server:create_app()", "mlflow.server.fastapi_app:app"
FINAL = {"PREFECT_UI_ENABLED": "false", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
"""As Prefect sets them for a server of a single process."""
NO_BLOCKS = {"PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false"}
"""Types of blocks are for people who configure Prefect on its pages, which this server has none of; to write them all
into a fresh database takes a second. A server that has pages does it when it starts."""
SERVER_GONE = b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
"""The answer for a server that has ended: of all failures, the one that Prefect's clients do not try again."""
GRACE = 5.0
"""Seconds that a server has to end in order."""


class Hosted:
    """An ASGI application in a process of its own, on a port of loopback bound here; it lasts as long as this process.

    ended   what a command says that cannot go on because the application ended by itself
    """

    def __init__(self, application: str, environment: Mapping[str, str], log: Path, ended: str, port: int = 0) -> None:
        self.socket = socket.create_server(("127.0.0.1", port), backlog=socket.SOMAXCONN)
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
        """Whether it has ended, and nobody stopped it."""
        return self._over.is_set() and not self._stopping

    def wait(self) -> None:
        """Until it has ended."""
        self._over.wait()

    def stop(self) -> None:
        """End it in order, or after a while by force."""
        self._stopping = True
        self.process.terminate()
        if not self._over.wait(GRACE):
            self.process.kill()
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes who refuses in its stead
        self.socket.close()

    def _keep(self, words: list[str], environment: dict[str, str], log: Path) -> None:
        """Start the process, and wait for its end: the kernel would end it with this very thread."""
        try:
            with open_log(log) as sink:
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
        """Answer in the stead of a process that has ended, so that whoever asks it fails at once."""
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


def open_log(log: Path) -> IO[bytes]:
    """A log begun anew, which nobody else may read."""
    return os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")


class Page(Hosted):
    """MLflow's pages over the store that MLFLOW_TRACKING_URI names, for those who have the address.

    Who may ask MLflow's server has it read any file of its owner's, the vault's too: an experiment may lie anywhere.
    Raises EnvironmentFailed if the port is taken.
    """

    def __init__(self, home: Path, port: int) -> None:
        token, self.log = secrets.token_hex(32), home / "mlflow-server.log"
        ended = f"MLflow's server, which this command started, has ended: see {self.log}"
        try:
            super().__init__(MLFLOW, {**os.environ, "CONCORD_UI_TOKEN": token}, self.log, ended, port)
        except OSError as failed:
            raise EnvironmentFailed(f"--port {port} cannot be had ({failed.strerror}): name another") from None
        self.address = f"http://127.0.0.1:{self.port}/?token={token}#/experiments"


class Server(Hosted):
    """Prefect's server over the database of a home folder, and the environment of whoever is to ask it."""

    own: ClassVar["Server | None"] = None  # this process's, while it lasts
    making: threading.Thread | None = None  # if there is no database yet: it ends when that is made

    def __init__(self, home: Path) -> None:
        self.log = home / "prefect" / "server.log"
        self.password = f"concord:{secrets.token_hex(32)}"
        environment = {**NO_BLOCKS, **os.environ, **FINAL, "PREFECT_SERVER_API_AUTH_STRING": self.password}
        ours = "Prefect's server, which this command started,"
        ended = f"{ours} ended before it did: {NOTHING_LOST} (see {self.log})"
        self.cannot = f"{ours} cannot go on, as where the disk is full: {NOTHING_LOST} (see {self.log})"
        super().__init__(PREFECT, environment, self.log, ended)

    def variables(self) -> dict[str, str]:
        """Where it is, the password, and that no proxy stands between."""
        direct = ",".join(filter(None, (os.environ.get("no_proxy") or os.environ.get("NO_PROXY"), "127.0.0.1")))
        place = {ADDRESS_VARIABLE: f"http://127.0.0.1:{self.port}/api", "PREFECT_API_AUTH_STRING": self.password}
        return place | {"NO_PROXY": direct, "no_proxy": direct}

    def check_answers(self) -> None:
        """Wait until it answers, who knows the password. Raises EnvironmentFailed if it ends, or is too slow."""
        patience = float(os.environ["PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"])
        token = base64.b64encode(self.password.encode()).decode()
        asked = HTTPConnection("127.0.0.1", self.port, timeout=patience)
        try:  # nothing is asked again: until it accepts, the kernel keeps the question for it
            asked.request("GET", "/api/admin/version", headers={"Authorization": f"Basic {token}"})
            status = asked.getresponse().status
        except (OSError, HTTPException):
            status = 0
        finally:
            asked.close()
        if status != 200:
            raise EnvironmentFailed(f"Prefect's server, which this command started, did not begin: see {self.log}")


@contextmanager
def serving(home: Path) -> Iterator[None]:
    """A server for what is inside: the one that the environment names, or else one of our own, which it names then.

    Within another it is the same one. Does not wait for it: `awake` does.
    """
    if os.environ.get(ADDRESS_VARIABLE):
        yield
        return
    with sound_database(home):
        own = Server.own = _begun(home)
        variables = own.variables()
        before = {name: os.environ.get(name) for name in variables}
        os.environ.update(variables)
        try:
            yield
        except Exception as failed:
            if not isinstance(failed, ConcordError) and (own.lost or _refused(failed)):
                raise EnvironmentFailed(own.ended if own.lost else own.cannot) from None
            raise
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})
            Server.own = None
            if own.making is not None:
                own.making.join()  # a database that is half made may never be whole
            own.stop()


def _begun(home: Path) -> Server:
    """A server of our own. If it has to make its database, no other begins before it has: two at once would race the
    migration, and one of them end. Its command loads packages meanwhile."""
    with ExitStack() as held:
        held.enter_context(locked(home / "prefect.lock"))
        made, server = is_made(home), Server(home)
        if not made:
            server.making = threading.Thread(target=_until_it_answers, args=(server, held.pop_all()), daemon=True)
            server.making.start()
    return server


def _until_it_answers(server: Server, held: ExitStack) -> None:
    """Hold what is held until the server answers, or has ended."""
    with held, suppress(EnvironmentFailed):
        server.check_answers()


def _refused(failed: Exception) -> bool:
    """Whether Prefect's server answered that it cannot do what it must."""
    from prefect.exceptions import PrefectHTTPStatusError  # loaded by now: it was asked

    return isinstance(failed, PrefectHTTPStatusError) and failed.response.is_server_error


def awake() -> None:
    """Wait for the server of our own, or ask the one that the environment names. Raises EnvironmentFailed."""
    Server.own.check_answers() if Server.own else check_answers(ADDRESS_VARIABLE)
