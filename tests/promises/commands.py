"""Whole commands, from plan to MLflow, each in a process of its own.

They run without Prefect's engine, which does not affect the guarantee and would take seconds for each run.
"""

import os
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from prefect.flows import Flow
from prefect.tasks import Task

from tests.support.copies import copied
from tests.support.homes import undrawn
from tests.support.people import people, write_tables
from tests.support.processes import FRESH
from tests.world import Begun, Call, Disclosure, Session, StageName, Stages, Steps, Stores, Vault, flows_run, release

Command = Callable[[Path, Path], object]
"""Is given a home, and a folder of tables; a function of a module, since other processes import it by name."""


class Direct(Stages):
    """Stages as plain calls."""

    def result(self, work: Any, arguments: Call) -> tuple[Any, bool]:
        return work.task.fn(**work.call(self.home, arguments)), False

    def each(self, work: Any, parts: Iterable[Call]) -> list[Any]:
        return [self.result(work, arguments)[0] for arguments in parts]

    def begin(self, work: Any, arguments: Call) -> Begun:
        return lambda: self.result(work, arguments)

    def uncached(self, name: StageName, work: Any) -> Any:  # noqa: ARG002
        return work()[0]

    def pass_door(self, session: Session, steps: Steps, name: str = "release") -> Disclosure:  # noqa: ARG002
        stores = Stores.of(self.home)
        return Disclosure.of(stores, session, release(stores, session, steps(stores, session)))


def bare(flow: Flow[..., Any], *values: object, **named: object) -> Any:
    """What a flow returns, as a plain call. Raises what it ended with."""
    data = flow.fn(*values, **named).data
    if isinstance(data, Exception):
        raise data
    return data


def in_turn(work: Task[..., Any], calls: Iterable[Call]) -> list[Any]:
    """The parts of a stage as plain calls."""
    return [work.fn(**call) for call in calls]


def nothing(*_: object) -> AbstractContextManager[None]:
    """No server is started, and no worker."""
    return nullcontext()


STAND_INS: dict[str, Any] = {
    "tests.world.flows_run.Stages": Direct,
    "tests.world.flows_private_stages.on_workers": in_turn,
    "tests.world.flows_run.at_work": nothing,
    "tests.world.flows_server.engine": nothing,
    "tests.world.flows_api.engine": nothing,
    "prefect.flows.Flow.__call__": bare,
    "tests.world.publish_figures._svg": undrawn,
}


PLAIN = (
    *("tests.world.flows_run.Stages", "tests.world.flows_run.at_work"),
    *("tests.world.publish_figures._svg", "prefect.flows.Flow.__call__"),
)


@contextmanager
def plainly() -> Iterator[None]:
    """Flows as plain functions, without Prefect's engine and without MLflow's store."""
    with pytest.MonkeyPatch.context() as patch:
        for place in PLAIN:
            patch.setattr(place, STAND_INS[place])
        patch.setattr(flows_run, "ready_mlflow", lambda _: None)
        yield


class Commands:
    """One command, in copies of a home.

    patch   what else stands in for parts of the product, by place
    """

    def __init__(self, command: Command, folder: Path, mlflow_database: Path, patch: dict[str, Any]) -> None:
        self.command, self.folder, self.base, self.patch = command, folder, folder / "base", STAND_INS | patch
        self.data = write_tables(folder / "data", people(1200, 1))
        Vault(self.base / "vault").make_secret("domains/people")
        shutil.copy(mlflow_database, self.base / "mlflow.db")

    def home(self, name: str) -> Path:
        return copied(self.base, self.folder / name)

    def go(self, home: Path) -> None:
        """Give the command in a new process."""
        process = FRESH.Process(target=attempt, args=(self.command, home, self.data, self.patch))
        process.start()
        process.join()
        assert process.exitcode == 0


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def killed(command: Command, home: Path, data: Path, place: str, **patch: Any) -> None:
    """Give a command in a new process, which is killed where it calls that function."""
    process = FRESH.Process(target=attempt, args=(command, home, data, STAND_INS | patch | {place: die}))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL, place


def attempt(command: Command, home: Path, data: Path, stand_ins: dict[str, Any]) -> None:
    """One process gives the command."""
    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{home / 'mlflow.db'}"
    patch = pytest.MonkeyPatch()  # for as long as the process lasts
    for place, stand_in in stand_ins.items():
        patch.setattr(place, stand_in)
    command(home, data)
