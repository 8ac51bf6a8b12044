"""Serving: flows run on one Prefect server, with their task runner, and with their cache in the home folder.

Tasks are sent Prefect's settings, so flows run without Prefect's secrets but those for requests to its server.
Checked by tests/flows/test_cluster.py
"""

import importlib
import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar, copy_context
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from prefect.context import (
    AssetContext,
    AsyncClientContext,
    FlowRunContext,
    SyncClientContext,
    TagsContext,
    TaskRunContext,
)
from prefect.events.worker import EventsWorker
from prefect.flows import Flow
from prefect.logging.handlers import APILogWorker, PrefectConsoleHandler
from prefect.results import get_result_store
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_KEY,
    PREFECT_API_URL,
    PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
    PREFECT_HOME,
    PREFECT_SERVER_API_AUTH_STRING,
    PREFECT_SERVER_DATABASE_CONNECTION_URL,
    PREFECT_SERVER_DATABASE_PASSWORD,
    PREFECT_SERVER_DOCKET_URL,
    temporary_settings,
)
from prefect.transactions import Transaction

from concord.artifacts.process import ProcessChange
from concord.artifacts.sections import TeachersPlan
from concord.artifacts.settings import STORE, check_answers
from concord.flows import server
from concord.flows.cache import SealedResults
from concord.flows.cluster import task_runner

P = ParamSpec("P")
FlowResult = TypeVar("FlowResult")
SERVERS_OWN: dict[Any, Any] = {
    PREFECT_SERVER_API_AUTH_STRING: None,
    PREFECT_SERVER_DATABASE_CONNECTION_URL: None,
    PREFECT_SERVER_DATABASE_PASSWORD: None,
    PREFECT_SERVER_DOCKET_URL: "memory://",
}
"""Settings that may hold a server's secret, and their values while flows run, since tasks are sent all settings."""
NAMING = (PREFECT_API_URL, PREFECT_API_AUTH_STRING)
"""Settings by which the environment names a server."""
RUNNING = (FlowRunContext, TaskRunContext, AssetContext, SyncClientContext, AsyncClientContext, Transaction)
"""Where Prefect looks for the run that a flow belongs to, and for its client."""
_ours: ContextVar[bool] = ContextVar("_ours", default=False)
_one_run: ContextVar[bool] = ContextVar("one_run", default=False)

NEEDED_LATER = ("skops.io", "concord.artifacts.mlflow.write", "matplotlib.figure", "matplotlib.backends.backend_svg")
"""Modules that every run that is not cached loads before it ends; skops looks through all that are there already."""


def servers_awake() -> None:
    """Wait until every server answers, loading modules needed later meanwhile. Raises EnvironmentFailed."""
    check_answers(STORE)
    with ThreadPoolExecutor(1) as thread:
        waited_for = thread.submit(copy_context().run, server.awake)
        for name in NEEDED_LATER:
            if not waited_for.done():
                importlib.import_module(name)
        waited_for.result()


@contextmanager
def serving_flows(home: Path) -> Iterator[None]:
    """One Prefect server within the context, with Prefect's settings for it; afterwards Prefect is as the user had it.

    On a server of our own a run belongs to no other, whatever flow or task this is called from: that is on another
    server. Our runs log to Prefect's server alone, unless they are part of a deployment's: on the console our errors
    are one sentence.
    """
    with server.serving(home), silently(), ExitStack() as stack:
        own = server.own_server.get()
        stack.enter_context(_with(_ours, not _one_run.get()))
        if own is None:  # the environment names a server, by what Prefect read when it was imported
            named = {each: os.environ[each.name] for each in NAMING if each.name in os.environ}
            stack.enter_context(temporary_settings(SERVERS_OWN | named))
        else:
            _send(own)  # what the user's own flows have logged so far, to their server
            settings = {
                PREFECT_API_URL: own.address,
                PREFECT_API_AUTH_STRING: own.password,
                PREFECT_API_KEY: None,
                PREFECT_HOME: home / "prefect",
                PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None,  # nobody watches; the thread would delay a run's end
            }
            stack.enter_context(temporary_settings(SERVERS_OWN | settings))
            stack.enter_context(TagsContext())
            for running in RUNNING:
                stack.enter_context(_with(running.__var__, None))
        try:
            yield
        finally:
            _send(own)


@contextmanager
def _with(variable: ContextVar[Any], value: Any) -> Iterator[None]:
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def _send(own: server.Server | None) -> None:
    """Send logs and task states, such as before the server ends; a lost server is sent nothing."""
    if own is not None and own.lost:
        return
    with ThreadPoolExecutor(1) as thread:  # a notebook has a loop in its own thread
        for worker in (APILogWorker, EventsWorker):
            thread.submit(worker.drain_all, timeout=server.GRACE)


def _is_a_users(_: logging.LogRecord) -> bool:
    return not _ours.get()


@ProcessChange
@contextmanager
def silently() -> Iterator[None]:
    """Print nothing of our flows' logs on the console, nor failures to send them, such as on a full disk."""
    consoles = [each for each in logging.getLogger().handlers if isinstance(each, PrefectConsoleHandler)]
    before, logging.raiseExceptions = logging.raiseExceptions, False
    for console in consoles:
        console.addFilter(_is_a_users)
    try:
        yield
    finally:
        for console in consoles:
            console.removeFilter(_is_a_users)
        logging.raiseExceptions = before


def run_once(flow: Flow[P, FlowResult], home: Path, teachers: TeachersPlan | None = None) -> Callable[P, FlowResult]:
    """The flow as a function that runs it on a server of its own, with the task runner of the teachers, if it asks any.

    home   the home folder whose cache and server it has
    """

    def run(*values: P.args, **named: P.kwargs) -> FlowResult:
        with serving_flows(home):
            return ready(flow, home, teachers)(*values, **named)

    return run


def ready(flow: Flow[P, FlowResult], home: Path, teachers: TeachersPlan | None = None) -> Callable[P, FlowResult]:
    """The flow with its task runner and its cache in the home folder, once its servers answer.

    Within `as_one_run` it is a part of the run that is active, if that is on the same server.
    """
    servers_awake()
    runner = task_runner(teachers, home) if teachers else None
    made = flow.with_options(task_runner=runner, result_storage=SealedResults(home=home), persist_result=False)
    if not _one_run.get() or server.own_server.get() is not None:
        return made

    def in_active_run(*values: P.args, **named: P.kwargs) -> FlowResult:
        active = FlowRunContext.get()
        assert active is not None
        kept = get_result_store().update_for_flow(made, _sync=True)  # type: ignore[call-arg]  # as Prefect's engine
        own = {"result_store": kept, "persist_result": False}
        with made.task_runner.duplicate() as runner, active.model_copy(update={"task_runner": runner, **own}):
            return made.fn(*values, **named)

    return in_active_run


@contextmanager
def as_one_run() -> Iterator[None]:
    """Within the context, flows are parts of the run that is active: its page has their tasks, name and artifacts. Runs
    of their own would stay "Running" in Prefect if the process were killed, since nobody watches those."""
    with _with(_one_run, True):
        yield
