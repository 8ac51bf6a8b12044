"""Start a flow with the task runner its plan names, on one Prefect server, its cache in the home folder."""

import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from prefect.events.worker import EventsWorker
from prefect.flows import Flow
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings
from prefect.task_runners import ProcessPoolTaskRunner, TaskRunner, ThreadPoolTaskRunner

from artifacts.errors import EnvironmentFailed, WrongInput
from artifacts.plan import Plan
from artifacts.sections import StudentPlan, TeachersPlan
from artifacts.servers import check_answers
from artifacts.sessions import Session
from flows import server
from flows.estimating import estimate
from flows.extend import extend
from flows.learn import learn
from flows.leaving import end_with_parent, shield_workers
from flows.outcome import STAGES, StageName, Summary
from flows.sealed import SealedResults
from flows.study import study
from tasks.recipe import recipe_to_extend
from tasks.release import Door

Outcome = TypeVar("Outcome")
SERVER = (PREFECT_API_URL, PREFECT_API_AUTH_STRING)


def start(plan: Plan, home: Path, *, new_session: bool = False, start_from: str | None = None) -> Summary:
    """Run the flow `learn` over a plan. Raises a ConcordError for everything that is not a fault of this program."""
    if start_from is not None and start_from not in STAGES:
        raise WrongInput(f"--from must name one of {', '.join(STAGES)}, got {start_from!r}")
    plan.labeling.check_end()
    stage: StageName | None = next((stage for stage in STAGES if stage == start_from), None)
    with serving(home):
        return ready(learn, home, plan.teachers)(plan, home, new_session=new_session, start_from=stage)


def start_extension(session: str, public: Path, home: Path) -> Summary:
    """Run the flow `extend` over more public rows. Raises a ConcordError likewise.

    session   its id, or the domain whose latest session is meant
    """
    door = Door.of(home)
    known = latest(door, session)
    teachers = recipe_to_extend(door.vault, known).plan.teachers
    with serving(home):
        return ready(extend, home, teachers)(known.id, str(public.absolute()), home)


def start_estimate(plan: Plan, home: Path, *, epsilon: float, share: float, beta: float, again: bool) -> dict[str, Any]:
    """Run the flow `estimate` over a plan. Raises a ConcordError likewise."""
    with serving(home):
        return ready(estimate, home, plan.teachers)(plan, home, epsilon, share, beta, again=again)


def start_study(session: str, student: StudentPlan | None, home: Path) -> Summary:
    """Run the flow `study` over a session, named likewise. Raises a ConcordError likewise."""
    with serving(home):
        return ready(study, home)(latest(Door.of(home), session).id, home, student)


def latest(door: Door, name: str) -> Session:
    """The latest session of the domain of that name that answers rows, or the session of that id. Raises WrongInput."""
    answering = [session for session in door.ledger.sessions(name) if not session.estimates]
    return answering[-1] if answering else door.ledger.session(name)


def awake() -> None:
    """Every server must answer before anything begins. Raises EnvironmentFailed."""
    check_answers("MLFLOW_TRACKING_URI")
    server.awake()


@contextmanager
def serving(home: Path) -> Iterator[None]:
    """One Prefect server for all that is inside, and Prefect's settings for it: it read them when it was imported.

    What it does not take of Prefect's logs, as where the disk is full, is no matter for the console.
    """
    with server.serving(home):
        named = {setting: os.environ[setting.name] for setting in SERVER if setting.name in os.environ}
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


def ready(flow: Flow[..., Outcome], home: Path, teachers: TeachersPlan | None = None) -> Flow[..., Outcome]:
    """The flow with what it runs on: servers that answer, the teachers' task runner, its cache in the home folder."""
    awake()
    runner = task_runner(teachers, home) if teachers else None
    return flow.with_options(task_runner=runner, result_storage=SealedResults(home=home), persist_result=False)


def task_runner(teachers: TeachersPlan, home: Path) -> TaskRunner[Any]:
    """Threads, processes, or Dask (a cluster by its address, or one made on this machine)."""
    workers = os.cpu_count() or 1
    if teachers.runner == "threads":
        return ThreadPoolTaskRunner(max_workers=workers)
    shield_workers()
    if teachers.runner == "processes":
        return ProcessPoolTaskRunner(max_workers=workers, initializer=end_with_parent)
    try:
        from prefect_dask.task_runners import DaskTaskRunner
    except ImportError:
        raise EnvironmentFailed(
            "runner = 'dask' needs the extra concord[dask]: install it, or take runner = 'threads'"
        ) from None
    if teachers.address is not None:
        return DaskTaskRunner(address=teachers.address)
    from flows.cluster import closed_cluster

    made: Any = closed_cluster  # which Prefect calls with what follows
    return DaskTaskRunner(cluster_class=made, cluster_kwargs={"workers": workers, "home": home})
