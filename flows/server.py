"""Servers of one command, Prefect's and MLflow's, which nobody else can replace or use.

Assumes      other users of the machine may connect to its ports, bind any that is free, and list its processes
Guarantees   the server is a process that this one started: the port was bound and listened on before its number was
             known to anyone, and is held until the end, even if the server ends before. It answers only with a random
             password, which is in its environment and in the settings of its clients alone. It ends with this process,
             however that ends (flows/hosted.py); if it ends before, every request fails at once and the command ends
Not covered  root; other processes of the same user, which can read the vault anyway

A server that PREFECT_API_URL names in the environment is used instead; no other is trusted. Nothing heavy is imported
before a command has started its server: packages are loaded meanwhile.

Measured: the server that Prefect 3.8 starts by itself shows its port in the list of processes seconds before it binds
it. Another user of the machine bound the port first, answered, and was sent the password
(PREFECT_SERVER_API_AUTH_STRING) with the second request. Its database is one for all commands and stays; to make that
takes 14 s of processor time, and to open it again 9 s; a copy of an empty one takes none. So the server is our own.

`python -m concord.flows.server` has Prefect and MLflow make the empty databases that are copied, once per installation
(artifacts/home/empty.py). Checked by tests/promises/test_own_server.py and tests/flows/test_prefect_database.py.
"""

import asyncio
import base64
import importlib
import logging
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, chdir, contextmanager, suppress
from contextvars import ContextVar
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from concord.artifacts.errors import ConcordError, EnvironmentFailed
from concord.artifacts.home.atomic import passing_folder
from concord.artifacts.home.empty import copy_empty, keep_as_empty
from concord.artifacts.process import ProcessChange
from concord.artifacts.settings import STORE, Settings, check_answers, sqlite_address
from concord.flows.ending import NOTHING_LOST, leave

if TYPE_CHECKING:
    from concord.artifacts.plan import Plan

ADDRESS_VARIABLE = "PREFECT_API_URL"
DATABASE = "PREFECT_SERVER_DATABASE_CONNECTION_URL"
NAMED = (DATABASE, "PREFECT_API_DATABASE_CONNECTION_URL")
PREFECT, MLFLOW = "prefect.server.api.server:create_app()", "mlflow.server.fastapi_app:app"
FINAL = {"PREFECT_UI_ENABLED": "false", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
"""As Prefect sets them for a server of a single process."""
NO_BLOCKS = {"PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false"}
"""Types of blocks are for people who configure Prefect on its pages, which this server has none of; to write them all
into a fresh database takes a second. A server that has pages does it when it starts."""
ANY_SIZE = {"PREFECT_SERVER_API_MAX_PARAMETER_SIZE": "0"}
"""A plan is a parameter, and its schema may list more categories than Prefect's half a megabyte holds."""
RECORDERS = ("TASK_RUN_RECORDER", "EVENT_PERSISTER", "TRIGGERS")
UNRECORDED = {f"PREFECT_SERVER_SERVICES_{service}_ENABLED": "false" for service in RECORDERS}
"""Writing down every task and event in a database that nobody reads took a tenth of a short run."""
SERVER_GONE = b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
"""The answer in place of a server that has ended: the one failure that Prefect's clients do not retry."""
ALONE = {"MLFLOW_ENABLE_AI_GATEWAY": "false", "MLFLOW_ENABLE_REMOTE_ASSISTANT": "false"}
"""An audit view has no model of others beside it."""
GRACE = 5.0
"""Seconds to wait for a server to end by itself."""
STARTUP = "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS"
PATIENCE = "90"
"""Seconds to wait for a server's first answer, unless the environment has others."""
FIGURES = ("matplotlib.figure", "matplotlib.backends.backend_svg")
NEEDED = ("concord.flows.learn", "skops.io", "concord.artifacts.mlflow.write", *FIGURES)
"""Modules that a run loads before it ends; skops looks through all that are there already."""


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
                connection, _ = self.socket.accept()
            except OSError:  # it was stopped
                return
            with connection, suppress(OSError):
                connection.settimeout(1.0)
                connection.sendall(SERVER_GONE)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1 << 16)


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
    """Prefect's server over a `database`, as its settings, and the password for its clients."""

    def __init__(self, home: Path, database: Mapping[str, str]) -> None:
        self.log = home / "prefect" / "server.log"
        self.password = f"concord:{secrets.token_hex(32)}"
        password = {"PREFECT_SERVER_API_AUTH_STRING": self.password}
        place = {"PREFECT_HOME": str(home / "prefect"), "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
        environment = {**NO_BLOCKS, **ANY_SIZE, **os.environ, **FINAL, **place, **database, **password}
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
        connection = HTTPConnection("127.0.0.1", self.port, timeout=patience)
        try:  # one request is enough: the kernel queues it until the server accepts
            connection.request("GET", "/api/admin/version", headers={"Authorization": f"Basic {token}"})
            status = connection.getresponse().status
        except (OSError, HTTPException):
            status = 0
        finally:
            connection.close()
        if status != 200:
            raise EnvironmentFailed(f"Prefect's server, which this command started, did not begin: see {self.log}")


own_server: ContextVar[Server | None] = ContextVar("own_server", default=None)
"""The server that this command started for itself, while it runs."""
_ours: ContextVar[bool] = ContextVar("_ours", default=False)
"""Whether what is logged is of our flows."""


def is_named() -> bool:
    """Whether the environment names a server."""
    return bool(os.environ.get(ADDRESS_VARIABLE))


@contextmanager
def database_of_its_own(home: Path) -> Iterator[dict[str, str]]:
    """The settings by which a server has a new database within the context; none if the environment names one.

    No two servers share one, nobody reads it afterwards, and that of a killed command is removed by the next. Without
    an empty one to copy, the server makes it by its migrations, which takes seconds.
    """
    if any(map(os.environ.get, NAMED)):
        yield {}
        return
    with passing_folder(home / "prefect" / "server", home) as folder:
        copy_empty("prefect", folder / "prefect.db")
        yield {**UNRECORDED, DATABASE: sqlite_address(folder / "prefect.db", "aiosqlite")}


@contextmanager
def serving(home: Path) -> Iterator[None]:
    """A server within the context: the one that the environment names, or one of our own, in `own_server`.

    Does not wait for it: `awake` does.
    """
    if is_named():
        with _set(own_server, None):
            yield
        return
    with database_of_its_own(home) as database:
        started = Server(home, database)
        try:
            with _set(own_server, started):
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
            started.stop()


def awake() -> None:
    """Wait until our own server answers, or the one that the environment names. Raises EnvironmentFailed."""
    started = own_server.get()
    check_answers(ADDRESS_VARIABLE) if started is None else started.check_answers()


@contextmanager
def engine(home: Path, plan: "Plan | None" = None, waiting: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """The one way to begin: within the context, flows of ours run on one Prefect server, which answers. Afterwards
    Prefect is as the user had it.

    plan      whose tables are looked for first, while the server starts
    waiting   is told what is waited for
    On a server of our own a run belongs to no other, whatever flow or task this is called from: that is on another
    server. Nothing is logged there, since nobody reads it; nor on the console, where our errors are one sentence.
    Raises EnvironmentFailed if Prefect's server does not answer, WrongInput if a table is missing or lacks a column.
    """
    with serving(home), ExitStack() as stack:
        if plan is not None:
            from concord.tasks.data.sources import check_tables  # with scikit-learn, while the server starts

            check_tables(plan)
        for name in NEEDED:
            importlib.import_module(name)
        waiting("Prefect's server")
        awake()
        stack.enter_context(_silently())
        stack.enter_context(_set(_ours, True))
        started = own_server.get()
        _by_named(stack) if started is None else _by_own(stack, started, home)
        yield


def _by_named(stack: ExitStack) -> None:
    """Have Prefect use the server that the environment names now; it may have read other settings when it was
    imported."""
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    settings = (PREFECT_API_URL, PREFECT_API_AUTH_STRING)
    stack.enter_context(
        temporary_settings({setting: os.environ[setting.name] for setting in settings if setting.name in os.environ})
    )


def _by_own(stack: ExitStack, started: Server, home: Path) -> None:
    """Have Prefect use our own server, as if it were in no run, and tell nobody what happens."""
    from prefect import context, settings
    from prefect.transactions import Transaction

    ours: dict[Any, Any] = {
        settings.PREFECT_API_URL: started.address,
        settings.PREFECT_API_AUTH_STRING: started.password,
        settings.PREFECT_API_KEY: None,
        settings.PREFECT_HOME: home / "prefect",
        settings.PREFECT_LOGGING_TO_API_ENABLED: False,
        settings.PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,  # nobody watches; the thread would delay a run's end
    }
    stack.enter_context(settings.temporary_settings(ours))
    stack.enter_context(context.TagsContext())
    runs = (context.FlowRunContext, context.TaskRunContext, context.AssetContext, Transaction)
    clients = (context.SyncClientContext, context.AsyncClientContext)
    for active in (*runs, *clients):
        stack.enter_context(_set(active.__var__, None))
    stack.enter_context(_without_events())


@contextmanager
def _set(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def _is_a_users(_: logging.LogRecord) -> bool:
    return not _ours.get()


@ProcessChange
@contextmanager
def _without_events() -> Iterator[None]:
    """Send none of Prefect's events, until the last run of ours in this process has ended. Prefect has this for a whole
    process alone: events of the user's own flows, in other threads meanwhile, are not sent either."""
    from prefect.events.clients import NullEventsClient
    from prefect.events.worker import EventsWorker

    before = EventsWorker._client_override
    EventsWorker.set_client_override(NullEventsClient)
    try:
        yield
    finally:
        EventsWorker._client_override = before


@ProcessChange
@contextmanager
def _silently() -> Iterator[None]:
    """Print nothing of our flows' logs on the console, nor failures to send them, such as on a full disk."""
    from prefect.logging.handlers import PrefectConsoleHandler

    consoles = [handler for handler in logging.getLogger().handlers if isinstance(handler, PrefectConsoleHandler)]
    before, logging.raiseExceptions = logging.raiseExceptions, False
    for console in consoles:
        console.addFilter(_is_a_users)
    try:
        yield
    finally:
        for console in consoles:
            console.removeFilter(_is_a_users)
        logging.raiseExceptions = before


def install() -> None:
    """Make an empty database of Prefect's and one of MLflow's in a temporary folder, and keep them to be copied."""
    for name in [name for name in os.environ if name.startswith(("PREFECT_", "MLFLOW_"))]:
        del os.environ[name]  # it may name somebody's database
    with TemporaryDirectory() as folder, chdir(folder):
        made = Path(folder) / "prefect.db"
        os.environ |= {"PREFECT_HOME": folder, DATABASE: sqlite_address(made, "aiosqlite")}
        os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
        from prefect.server.database import provide_database_interface  # reads its settings on import

        from concord.artifacts.mlflow.store import keep_empty_store

        asyncio.run(provide_database_interface().create_db())
        keep_as_empty("prefect", made)
        keep_empty_store(Path(folder))


if __name__ == "__main__":
    install()
