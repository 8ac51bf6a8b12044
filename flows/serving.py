"""Serving: flows run on one Prefect server, with their task runner, and with their cache in the home folder.

Tasks are sent Prefect's settings, so flows run without Prefect's secrets but those for requests to its server.
Checked by tests/flows/test_cluster.py
"""

import importlib
import logging
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from prefect.context import FlowRunContext
from prefect.events.worker import EventsWorker
from prefect.flows import Flow
from prefect.logging.handlers import APILogWorker
from prefect.results import get_result_store
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_URL,
    PREFECT_FLOWS_HEARTBEAT_FREQUENCY,
    PREFECT_SERVER_API_AUTH_STRING,
    PREFECT_SERVER_DATABASE_CONNECTION_URL,
    PREFECT_SERVER_DATABASE_PASSWORD,
    PREFECT_SERVER_DOCKET_URL,
    temporary_settings,
)

from concord.artifacts.learners import TeachersPlan
from concord.artifacts.settings import STORE, check_answers
from concord.flows import server
from concord.flows.cache import SealedResults
from concord.flows.cluster import task_runner

FlowResult = TypeVar("FlowResult")
SERVER = (PREFECT_API_URL, PREFECT_API_AUTH_STRING)
SERVERS_OWN: dict[Any, Any] = {
    PREFECT_SERVER_API_AUTH_STRING: None,
    PREFECT_SERVER_DATABASE_CONNECTION_URL: None,
    PREFECT_SERVER_DATABASE_PASSWORD: None,
    PREFECT_SERVER_DOCKET_URL: "memory://",
}
"""Settings that may hold a server's secret, and their values while flows run, since tasks are sent all settings."""

NEEDED_LATER = ("skops.io", "concord.artifacts.mlflow.write", "matplotlib.figure", "matplotlib.backends.backend_svg")
"""Modules that every run that is not cached loads before it ends; skops looks through all that are there already."""


def servers_awake() -> None:
    """Wait until every server answers, loading modules needed later meanwhile. Raises EnvironmentFailed."""
    check_answers(STORE)
    with ThreadPoolExecutor(1) as thread:
        waited_for = thread.submit(server.awake)
        for name in NEEDED_LATER:
            if not waited_for.done():
                importlib.import_module(name)
        waited_for.result()


@contextmanager
def serving_flows(home: Path) -> Iterator[None]:
    """One Prefect server within the block, with Prefect's settings for it, which Prefect read when it was imported.

    Failures to send it Prefect's logs, such as on a full disk, are not shown on the console.
    """
    with server.serving(home):
        named = SERVERS_OWN | {each: os.environ[each.name] for each in SERVER if each.name in os.environ}
        if server.Server.own:  # nobody watches heartbeats, whose thread would delay a run's end by a second
            named[PREFECT_FLOWS_HEARTBEAT_FREQUENCY] = None
        before, logging.raiseExceptions = logging.raiseExceptions, False
        try:
            with temporary_settings(named):
                yield
        finally:
            with ThreadPoolExecutor(1) as thread:  # a notebook has a loop in its own thread
                thread.submit(_send)
            logging.raiseExceptions = before


def _send() -> None:
    """Send logs and task states before the server ends; a lost server is sent nothing."""
    own = server.Server.own
    for worker in () if own and own.lost else (APILogWorker, EventsWorker):
        worker.drain_all(timeout=server.GRACE)


def run_once(flow: Flow[..., FlowResult], home: Path, *values: Any, **named: Any) -> FlowResult:
    """The result of one run of a flow that asks no teachers, on its own server."""
    with serving_flows(home):
        result: FlowResult = ready(flow, home)(*values, **named)
    return result


def ready(flow: Flow[..., FlowResult], home: Path, teachers: TeachersPlan | None = None) -> Callable[..., FlowResult]:
    """The flow with its task runner and its cache in the home folder, once its servers answer.

    Within `as_one_run` it is a part of the run that is active.
    """
    servers_awake()
    runner = task_runner(teachers, home) if teachers else None
    made = flow.with_options(task_runner=runner, result_storage=SealedResults(home=home), persist_result=False)
    return partial(_in_active_run, made) if _one_run.get() else made


_one_run: ContextVar[bool] = ContextVar("one_run", default=False)


@contextmanager
def as_one_run() -> Iterator[None]:
    """Within the block, flows are parts of the run that is active: its page has their tasks, name and artifacts. Runs
    of their own would stay "Running" in Prefect if the process were killed, since nobody watches those."""
    before = _one_run.set(True)
    try:
        yield
    finally:
        _one_run.reset(before)


def _in_active_run(flow: Flow[..., FlowResult], *values: Any, **named: Any) -> FlowResult:
    active = FlowRunContext.get()
    assert active is not None
    kept = get_result_store().update_for_flow(flow, _sync=True)  # type: ignore[call-arg]  # as Prefect's engine does
    own = {"result_store": kept, "persist_result": False}
    with flow.task_runner.duplicate() as runner, active.model_copy(update={"task_runner": runner, **own}):
        return flow.fn(*values, **named)
