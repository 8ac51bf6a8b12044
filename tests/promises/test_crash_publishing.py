"""A session that was published is published again, and the command is killed at each point of that: a reader finds the
earlier publication or the later one, and the next command goes on.
"""

from functools import cache
from pathlib import Path

import polars as pl
import pytest

from tests.promises.commands import Command, Commands
from tests.support.people import arrive, changed, tables_of_plan
from tests.world import (
    BEHIND,
    LABELS,
    Ledger,
    StudentPlan,
    flows_learn,
    handed_on,
    settle,
    student_of,
    verify,
    verify_published,
)

SAMPLES = 3


def learning(home: Path, data: Path) -> None:
    tables = {**tables_of_plan(data), "labeling": {"mechanism": "noisy_votes", "queries": 500, "batch": 128}}
    small = {"teachers__count": 20, "teachers__block": 10, "test__share": 0.3}
    flows_learn.learn.fn(changed(tables, **small, privacy__lifetime={"epsilon": 60.0, "delta": 4e-4}), home)


def extending(home: Path, data: Path) -> None:
    flows_learn.extend.fn(session_of(home), str(data / "more"), home)


def studying(home: Path, _: Path) -> None:
    flows_learn.study_again.fn(session_of(home), home, StudentPlan(estimator="sklearn.dummy.DummyClassifier"))


def session_of(home: Path) -> str:
    return next(session.id for session in Ledger.of(home).sessions("people") if session.purpose == LABELS)


class Published(Commands):
    """A home that published a session; commands run in copies of it."""

    def __init__(self, folder: Path, mlflow_database: Path) -> None:
        super().__init__(learning, folder, mlflow_database, {})
        arrive(self.data / "more", 11)
        self.go(self.base)
        self.points = cache(lambda command: self.go(self.home(command.__name__), command=command))


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, mlflow_database: Path) -> Published:
    return Published(tmp_path_factory.mktemp("published"), mlflow_database)


@pytest.mark.slow
@pytest.mark.parametrize("sample", range(SAMPLES))
@pytest.mark.parametrize("command", [extending, studying])
def test_a_session_stays_usable_wherever_its_next_publication_is_killed(
    published: Published, command: Command, sample: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: `predict`, `export` and `verify` ended in 4, from when the student was replaced to the next command."""
    points = published.points(command)
    first = next(at for at, point in enumerate(points) if "student.skops" in point or "certificate.json" in point)
    at = first + (2 * sample + 1) * (len(points) - first) // (2 * SAMPLES)
    home = published.home(f"{command.__name__}-{at}")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
    published.go(home, at, command)
    settle(home)  # as each command does first
    rows = pl.read_parquet(published.data / "public.parquet")
    assert len(student_of(handed_on(session_of(home), home)).predict(rows)) == rows.height, points[at]
    checks = [*verify(home), *verify_published(home / "released" / session_of(home))]
    assert [check for check in checks if not check.ok] == [], (at, points[at])
    published.go(home, command=command)
    assert [check for check in verify(home) if not check.ok or check.detail == BEHIND] == [], (at, points[at])
