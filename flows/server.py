"""Prefect's server of one command, which nobody else can replace or use.

Assumes      other users of the machine may connect to its ports, bind any that is free, and list its processes
Guarantees   the server is a process that this one started: the port was bound and listened on before its number was
             known to anyone, and is held until the end, even if the server ends before. It answers only with a random
             password, which is in its environment and in the settings of its clients alone. It ends with the thread
             that started it (flows/hosted.py); if it ends before, every request fails at once, and the command ends.
             One that lives and answers nothing is ended, within two minutes
Not covered  root; other processes of the same user, which can read the vault anyway

A server that PREFECT_API_URL names in the environment is used instead; no other is trusted. Nothing heavy is imported
before a command has started its server: packages are loaded meanwhile.

Measured: a password keeps strangers from the records and events of the server that Prefect 3.8.8 starts by itself. Its
port, though, is in the list of processes seconds before it is bound, and no setting changes that: another user of the
machine bound it first, answered, and was sent the password with the second request. It survives a command that is
killed. Its database is one for all commands and stays; to make that takes 14 s of processor time, and to open it again
9 s; a copy of an empty one takes none. So the server is our own.

Checked by tests/promises/test_own_server.py and tests/flows/test_prefect_database.py.
"""

import importlib
import os
import secrets
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from concord.artifacts.errors import ConcordError, EnvironmentFailed
from concord.artifacts.home.atomic import passing_folder
from concord.artifacts.home.empty import copy_empty
from concord.artifacts.plan import Plan
from concord.artifacts.process import ProcessChange
from concord.artifacts.settings import check_answers, sqlite_address
from concord.flows.console import prefect_hushed
from concord.flows.ending import NOTHING_LOST, leave

ADDRESS_VARIABLE = "PREFECT_API_URL"
DATABASE = "PREFECT_SERVER_DATABASE_CONNECTION_URL"
PRIVATE = {
    "PREFECT_UI_ENABLED": "false",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT__SERVER_FINAL": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_API_MAX_PARAMETER_SIZE": "0",  # a plan is a parameter, and its schema may list many categories
}
"""Settings of a server of a single process; the first three are Prefect's own for such a server."""
UNRECORDED = {
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "false",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TRIGGERS_ENABLED": "false",
}
"""Settings by which no types of blocks, tasks and events are written into a database that nobody reads: the types took
a second of each start, the others a tenth of a short run."""
SERVER_GONE = b"HTTP/1.1 410 Gone\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
"""The answer in place of a server that has ended: the one failure that Prefect's clients do not retry."""
PATIENCE = 60.0
"""Seconds between two looks at whether a server still answers, and for its answer: Prefect's clients wait six times as
long, once for each request."""
FIGURES = ("matplotlib.figure", "matplotlib.backends.backend_svg")
NEEDED = ("concord.flows.learn", "skops.io", "concord.artifacts.mlflow.write", *FIGURES)
"""Modules that a run loads before it ends; skops looks through all that are there already."""


class Hosted:
    """The ASGI application of a factory in its own process, on a loopback port bound here; it lasts as long as the
    thread that started it.

    ended   the sentence of a command that cannot go on because the application ended by itself
    """

    def __init__(self, factory: str, environment: Mapping[str, str], log: Path, ended: str, port: int = 0) -> None:
        script = str(Path(__file__).with_name("hosted.py"))
        with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as sink:
            try:
                self.socket = socket.create_server(("127.0.0.1", port), backlog=socket.SOMAXCONN)
            except OSError as failed:
                raise EnvironmentFailed(f"--port {port} cannot be had ({failed.strerror}): name another") from None
            self.process = subprocess.Popen(
                [sys.executable, "-P", script, factory, str(self.socket.fileno()), str(os.getpid())],
                env=environment,
                pass_fds=[self.socket.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                start_new_session=True,
            )
        self.port: int = self.socket.getsockname()[1]
        self.ended, self._stopping = ended, False
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def stop(self) -> None:
        """End it at once: what it has answered is written, and it does nothing else."""
        self._stopping = True
        self.process.kill()
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # wakes the watcher, if it answers
        self._watcher.join()
        self.socket.close()

    def _watch(self) -> None:
        """Wait for the end of the process, and end it if it no longer answers. If it was not stopped, end the command,
        or answer in its place, so that the clients of a caller from Python fail at once."""
        while self.process.poll() is None:
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                if not self._answers():
                    self.process.kill()
        if self._stopping:
            return
        leave(EnvironmentFailed.exit_status, self.ended)
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

    def _answers(self) -> bool:
        """Whether a request is answered, be it with a refusal."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), PATIENCE) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return bool(connection.recv(1))
        return False


class Server(Hosted):
    """Prefect's server over a database file, with no setting of Prefect's from the environment, and its password."""

    def __init__(self, home: Path, database: Path) -> None:
        log = home / "prefect" / "server.log"
        self.password = f"concord:{secrets.token_hex(32)}"
        environment = {name: value for name, value in os.environ.items() if not name.upper().startswith("PREFECT_")}
        environment |= {
            **PRIVATE,
            **UNRECORDED,
            "PREFECT_HOME": str(home / "prefect"),
            DATABASE: sqlite_address(database, "aiosqlite"),
            "PREFECT_SERVER_API_AUTH_STRING": self.password,
        }
        ours, see = "Prefect's server, which this command started,", f"(see {log})"
        self.cannot = f"{ours} cannot go on, as where the disk is full: {NOTHING_LOST} {see}"
        ended = f"{ours} ended before it did, or no longer answered: {NOTHING_LOST} {see}"
        super().__init__("prefect.server.api.server:create_app", environment, log, ended)
        self.address = f"http://127.0.0.1:{self.port}/api"


def is_named() -> bool:
    """Whether the environment names a server."""
    return bool(os.environ.get(ADDRESS_VARIABLE))


@contextmanager
def serving(home: Path) -> Iterator[Server]:
    """A server of our own within the context, over a new database. Does not wait for it.

    No two servers share a database, nobody reads it afterwards, and that of a killed command is removed by the next.
    """
    with passing_folder(home / "prefect" / "server", home) as folder:
        copy_empty("prefect", folder / "prefect.db")
        server = Server(home, folder / "prefect.db")
        try:
            yield server
        except ConcordError:
            raise
        except Exception as failed:
            if server.process.poll() is not None:
                raise EnvironmentFailed(server.ended) from None
            from prefect.exceptions import PrefectHTTPStatusError  # loaded by now, as it was used

            if isinstance(failed, PrefectHTTPStatusError) and failed.response.is_server_error:
                raise EnvironmentFailed(server.cannot) from None
            raise
        finally:
            server.stop()


@contextmanager
def engine(home: Path, plan: Plan | None = None, waiting: Callable[[str], None] = lambda _: None) -> Iterator[None]:
    """The one way to begin: within the context, flows of ours run on one Prefect server, which answers: the one that
    the environment names, or our own. Afterwards Prefect is as the user had it.

    plan      whose tables are looked for first, while the server starts
    waiting   is told what is waited for
    On a server of our own a run belongs to no other, whatever flow or task this is called from: that is on another
    server. Nothing is logged there, since nobody reads it; nor on the console, where our errors are one sentence.
    Raises EnvironmentFailed if Prefect's server does not answer, WrongInput if a table is missing or lacks a column.
    """
    with ExitStack() as stack:
        server = None if is_named() else stack.enter_context(serving(home))
        if plan is not None:
            from concord.tasks.data.sources import check_tables  # with scikit-learn, while the server starts

            check_tables(plan)
        for name in NEEDED:
            importlib.import_module(name)
        waiting("Prefect's server")
        stack.enter_context(prefect_hushed())
        _by_named(stack) if server is None else _by_own(stack, server, home)
        yield


def _by_named(stack: ExitStack) -> None:
    """Have Prefect use the server that the environment names now; it may have read other settings when it was
    imported."""
    from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

    check_answers(ADDRESS_VARIABLE)
    settings = (PREFECT_API_URL, PREFECT_API_AUTH_STRING)
    given = {setting: os.environ[setting.name] for setting in settings if setting.name in os.environ}
    stack.enter_context(temporary_settings(given))


def _by_own(stack: ExitStack, server: Server, home: Path) -> None:
    """Have Prefect use our own server, as if it were in no run, and tell nobody what happens."""
    from prefect import context, settings
    from prefect.transactions import Transaction

    ours: dict[Any, Any] = {
        settings.PREFECT_API_URL: server.address,
        settings.PREFECT_API_AUTH_STRING: server.password,
        settings.PREFECT_API_KEY: None,
        settings.PREFECT_HOME: home / "prefect",
        settings.PREFECT_LOGGING_TO_API_ENABLED: False,
        settings.PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,  # nobody watches; the thread would delay a run's end
    }
    stack.enter_context(settings.temporary_settings(ours))
    stack.enter_context(context.TagsContext())
    runs: tuple[Any, ...] = (context.FlowRunContext, context.TaskRunContext, context.AssetContext, Transaction)
    for active in (*runs, context.SyncClientContext, context.AsyncClientContext):
        stack.callback(active.__var__.reset, active.__var__.set(None))
    stack.enter_context(_without_events())
    stack.enter_context(context.SyncClientContext())  # its first request waits until the server answers


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
