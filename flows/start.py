"""Start a flow: with the task runner its plan names, on one Prefect server, its cache in the home folder.

Offers       `start`, `start_extension`, `start_estimate`, `start_question`, `start_study` and `start_test` (one flow,
             once), `serve` (an extension whenever a cron expression says so)

Tasks are sent Prefect's settings: the flow has none of its secrets but those by which its server is asked.
A service needs no server: each run is one `concord extend`, and what it begins is finished by the next run, however the
process ends. If a table is wrong or the machine fails, that is printed and the next time is waited for. If the session
has ended or something does not verify, the service ends with the exit status of `extend`.
Checked by tests/flows/test_cluster.py and tests/deployments/test_serve.py.
"""

import asyncio
import importlib
import logging
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from prefect.events.worker import EventsWorker
from prefect.flows import Flow, flow
from prefect.logging.handlers import APILogWorker
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

from concord.artifacts.errors import EnvironmentFailed, WrongInput
from concord.artifacts.learners import StudentPlan, TeachersPlan
from concord.artifacts.plan import Plan
from concord.artifacts.sessions import Session
from concord.artifacts.settings import STORE, check_answers
from concord.flows import server
from concord.flows.again import try_again
from concord.flows.ask import QuestionTerms, ask
from concord.flows.cache import SealedResults
from concord.flows.cluster import task_runner
from concord.flows.console import err, out
from concord.flows.environment import is_known, remember
from concord.flows.learn import estimate, extend, learn, study_again, tallies
from concord.flows.outcome import STAGES, StageName, Summary, in_words
from concord.flows.replay import replayed
from concord.flows.universal import universal
from concord.tasks.advice.cover import naming_the_largest
from concord.tasks.asking.questions import Question
from concord.tasks.data.sources import check_tables
from concord.tasks.door.checkpoint import check_open, checkpoint_to_extend
from concord.tasks.door.release import Stores

FlowResult = TypeVar("FlowResult")
SERVER = (PREFECT_API_URL, PREFECT_API_AUTH_STRING)
SERVERS_OWN: dict[Any, Any] = {
    PREFECT_SERVER_API_AUTH_STRING: None,
    PREFECT_SERVER_DATABASE_CONNECTION_URL: None,
    PREFECT_SERVER_DATABASE_PASSWORD: None,
    PREFECT_SERVER_DOCKET_URL: "memory://",
}
"""What may hold a secret of a server, and what it says instead while flows run, whose tasks are sent all settings."""


def start(plan: Plan, home: Path, *, new_session: bool = False, start_from: str | None = None) -> Summary:
    """Run the flow `learn`, `tallies` or `universal` over a plan.

    Raises a ConcordError for everything that is not a fault of this program.
    """
    if start_from is not None and start_from not in STAGES:
        raise WrongInput(f"--from must name one of {', '.join(STAGES)}, got {start_from!r}")
    plan.labeling.check_end()
    stage: StageName | None = next((stage for stage in STAGES if stage == start_from), None)
    chosen = tallies if plan.tallied else universal if plan.student.learner == "universal" else learn
    if not new_session and stage is None and is_known(plan, home):
        again = replayed(lambda: chosen.fn(plan, home))
        if again is not None:
            return again
        err.print(f"{'replay':>8} not all of it is there: starting what runs the rest")
    check_tables(plan)
    with naming_the_largest(plan, home), serving_flows(home):
        summary = ready(chosen, home, plan.teachers)(plan, home, new_session=new_session, start_from=stage)
    remember(plan, home)
    return summary


def start_extension(session: str, public: Path, home: Path) -> Summary:
    """Run the flow `extend` over more public rows. Raises a ConcordError likewise.

    session   its id, or the domain whose latest session is meant
    """
    check_here(public)
    door = Stores.of(home)
    known = latest(door, session)
    teachers = checkpoint_to_extend(door.vault, known).plan.teachers
    with serving_flows(home):
        return ready(extend, home, teachers)(known.id, str(public.absolute()), home)


def check_here(public: Path) -> None:
    """Raise WrongInput if a path is an address: later rows are told apart by the files they come in. It is not shown,
    since it may hold a password."""
    scheme = public.parts[0] if public.parts else ""
    if len(scheme) > 2 and scheme.endswith(":"):  # a drive of Windows has one letter
        raise WrongInput(
            f"--public must be a file, a folder or a glob of this machine, got an address of {scheme}//: copy what "
            "arrived into a folder, and name that one again and again"
        )


def start_estimate(plan: Plan, home: Path, *, epsilon: float, share: float, beta: float, again: bool) -> dict[str, Any]:
    """Run the flow `estimate` over a plan. Raises a ConcordError likewise."""
    check_tables(plan)
    with serving_flows(home):
        return ready(estimate, home, plan.teachers)(plan, home, epsilon, share, beta, again=again)


def start_question(plan: Plan, question: Question, home: Path, terms: QuestionTerms) -> dict[str, Any]:
    """Run the flow `ask` over a plan. Raises a ConcordError likewise."""

    @flow(name="ask")
    def asking() -> dict[str, Any]:  # without parameters: Prefect keeps those, and a question is code
        return ask(plan, question, home, terms)

    with serving_flows(home):
        return ready(asking, home)()


def start_study(session: str, student: StudentPlan | None, home: Path) -> Summary:
    """Run the flow `study` over a session, named likewise. Raises a ConcordError likewise."""
    with serving_flows(home):
        return ready(study_again, home)(latest(Stores.of(home), session).id, home, student)


def start_test(session: str, home: Path, *, epsilon: float | None, again: bool) -> Summary:
    """Run the flow `test` over a session, named likewise. Raises a ConcordError likewise."""
    with serving_flows(home):
        return ready(try_again, home)(latest(Stores.of(home), session).id, home, epsilon=epsilon, again=again)


def latest(door: Stores, name: str) -> Session:
    """The latest session of the domain of that name that answers rows, or the session of that id. Raises WrongInput."""
    answering = [session for session in door.ledger.sessions(name) if session.kind == "labels"]
    return answering[-1] if answering else door.ledger.session(name)


NEEDED_LATER = ("concord.artifacts.mlflow.write", "skops.io", "matplotlib.figure", "matplotlib.backends.backend_svg")
"""What every run that is not cached loads before it ends."""


def servers_awake() -> None:
    """Every server must answer before anything begins. Raises EnvironmentFailed.

    What is needed later is loaded as long as none does.
    """
    check_answers(STORE)
    with ThreadPoolExecutor(1) as thread:
        waited_for = thread.submit(server.awake)
        for name in NEEDED_LATER:
            if not waited_for.done():
                importlib.import_module(name)
        waited_for.result()


@contextmanager
def serving_flows(home: Path) -> Iterator[None]:
    """One Prefect server for all that is inside, and Prefect's settings for it: it read them when it was imported.

    What it does not take of Prefect's logs, such as when the disk is full, is no matter for the console.
    """
    with server.serving(home):
        named = SERVERS_OWN | {each: os.environ[each.name] for each in SERVER if each.name in os.environ}
        if server.Server.own:  # nobody listens: it ends with the run, which waits a second for the thread that tells it
            named[PREFECT_FLOWS_HEARTBEAT_FREQUENCY] = None
        before, logging.raiseExceptions = logging.raiseExceptions, False
        try:
            with temporary_settings(named):
                yield
        finally:
            with ThreadPoolExecutor(1) as thread:  # a notebook has a loop in its own
                thread.submit(_send)
            logging.raiseExceptions = before


def _send() -> None:
    """Send what was logged, and the states of tasks, before the server goes; one that is lost gets nothing."""
    own = server.Server.own
    for worker in () if own and own.lost else (APILogWorker, EventsWorker):
        worker.drain_all(timeout=server.GRACE)


def ready(flow: Flow[..., FlowResult], home: Path, teachers: TeachersPlan | None = None) -> Flow[..., FlowResult]:
    """The flow with what it runs on: servers that answer, the teachers' task runner, its cache in the home folder."""
    servers_awake()
    runner = task_runner(teachers, home) if teachers else None
    return flow.with_options(task_runner=runner, result_storage=SealedResults(home=home), persist_result=False)


NAP = 60.0
"""Seconds slept at most: a clock that was set, or a machine that slept, is noticed."""


def serve(session: str, public: Path, home: Path, *, cron: str, timezone: str) -> None:
    """Extend a session whenever the time has come, until it is asked to end (flows/console.py).

    session   its id, or the domain whose latest session is meant
    cron      five fields, read in `timezone`, a name of the IANA database
    Raises WrongInput if there is no such session, time or zone, and what `extend` raises, except
    for faults of public tables.
    """
    check_here(public)
    check_open(latest(Stores.of(home), session))
    while True:
        moment = next_time(cron, timezone, datetime.now(UTC))
        out.print(f"next run at {moment:%Y-%m-%d %H:%M:%S %Z}", soft_wrap=True)
        _wait(moment)
        try:
            summary = start_extension(session, public, home)
        except (EnvironmentFailed, WrongInput) as error:
            err.print(f"concord: {error}", soft_wrap=True, markup=False)
        else:
            out.print(in_words(summary), soft_wrap=True)


def next_time(cron: str, timezone: str, after: datetime) -> datetime:
    """The first moment after `after` that the expression means. Raises WrongInput if it means none."""
    from prefect.server.schemas.schedules import CronSchedule

    try:
        dates = asyncio.run(CronSchedule(cron=cron, timezone=timezone).get_dates(2, start=after))
    except ValueError:
        rule = "--cron must be five fields that some day meets, such as '0 3 * * *', and --timezone a name such as UTC"
        raise WrongInput(f"{rule}, got {cron!r} and {timezone!r}") from None
    return next(date for date in dates if date > after)


def _wait(moment: datetime) -> None:
    while (left := (moment - datetime.now(UTC)).total_seconds()) > 0:
        time.sleep(min(left, NAP))
