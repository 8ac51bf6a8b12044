"""The whole flow, from plan to MLflow, killed at each point and run again: nothing is drawn or recorded twice.

It runs without Prefect's engine, which does not affect the guarantee and would take seconds for each run.
"""

import os
import shutil
import signal
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from prefect.tasks import Task

from concord.artifacts.home.vault import Vault
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.mlflow.read import Records
from concord.flows import stages
from concord.flows.learn import learn
from concord.flows.outcome import StageName
from concord.flows.stage import Begun, Call, Stages
from concord.tasks.verify.verify import verify
from tests.promises.faults import Faults
from tests.support.copies import copied
from tests.support.people import changed, tables_of_plan, write_tables
from tests.support.processes import FRESH

SAMPLES = 16


class Direct(Stages):
    """Stages as plain calls."""

    def result(self, work: Task[..., Any], arguments: Call) -> tuple[Any, bool]:
        return work.fn(**self.call(work, arguments)), False

    def each(self, work: Task[..., Any], parts: Iterable[Call]) -> list[Any]:
        return [self.result(work, arguments)[0] for arguments in parts]

    def begin(self, work: Task[..., Any], arguments: Call) -> Begun:
        return lambda: self.result(work, arguments)

    def uncached(self, name: StageName, work: Any) -> Any:  # noqa: ARG002
        return work()[0]


class Named:
    """One name and key for all sessions here, so that their labels can be compared."""

    @staticmethod
    def token_hex(_: int) -> str:
        return "1"


SESSION = "people-1"
STAND_INS = {
    "concord.flows.run.Stages": Direct,
    "concord.flows.stages.release.task": stages.release.task.fn,
    "concord.flows.learn.shown": lambda summary: (
        summary
    ),  # otherwise each process would start a Prefect server, and leave it running
    "concord.tasks.door.admit.secrets": Named,
}


def attempt(home: Path, data: Path, at: int | None, path: Path) -> None:
    """One process runs the flow, killed at one point or at none; the points it passed are written down."""
    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{home / 'mlflow.db'}"
    for place, stand_in in STAND_INS.items():
        pytest.MonkeyPatch().setattr(place, stand_in)  # for as long as the process lasts
    small = {"teachers__count": 20, "teachers__block": 10, "labeling__cutoff": 300, "student__refused": "drop"}
    plan = changed(tables_of_plan(data), **small, privacy__lifetime={"epsilon": 20.0, "delta": 4e-5})
    faults = Faults(home, at)
    faults.install()
    learn.fn(plan, home)
    path.write_text("\n".join(faults.points))


class Runs:
    """Runs of one plan, each in a process and a home of its own."""

    def __init__(self, folder: Path, mlflow_database: Path) -> None:
        self.folder, self.data, self.base = folder, write_tables(folder / "data"), folder / "base"
        vault = Vault(self.base / "vault")
        for secret in (f"sessions/{SESSION}", "domains/people"):
            vault.secret(secret)
        shutil.copy(mlflow_database, self.base / "mlflow.db")
        self.points = self.go(self.home("undisturbed"))
        self.undisturbed = self.labels(folder / "undisturbed")

    def home(self, name: str) -> Path:
        return copied(self.base, self.folder / name)

    def go(self, home: Path, at: int | None = None) -> list[str]:
        result = self.folder / "points"
        process = FRESH.Process(target=attempt, args=(home, self.data, at, result))
        process.start()
        process.join()
        assert process.exitcode == (0 if at is None else -signal.SIGKILL)
        return result.read_text().splitlines() if result.exists() else []

    def labels(self, home: Path) -> list[pa.Table]:
        files = sorted((home / "released" / SESSION / "labels").glob("batch-*.arrow"))
        return [pa.ipc.open_file(file.read_bytes()).read_all() for file in files]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, mlflow_database: Path) -> Runs:
    return Runs(tmp_path_factory.mktemp("learn"), mlflow_database)


@pytest.mark.slow
@pytest.mark.parametrize("sample", range(SAMPLES))
def test_a_killed_run_is_finished_by_the_next(runs: Runs, sample: int, monkeypatch: pytest.MonkeyPatch) -> None:
    at = (2 * sample + 1) * len(runs.points) // (2 * SAMPLES)
    home = runs.home(f"killed-{at}")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
    runs.go(home, at)
    runs.go(home)
    assert runs.labels(home) == runs.undisturbed, runs.points[at]
    assert [check for check in verify(home, None) if not check.ok] == [], runs.points[at]
    assert len(Records.of(home).runs(SESSION)) == 1, runs.points[at]
    assert Ledger.of(home).sessions("people") == Ledger.of(runs.folder / "undisturbed").sessions("people")
