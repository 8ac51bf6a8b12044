"""The test of a student on private units that were kept out of learning: noisy counts by true and predicted class.

The units of the test part (tasks.data.parts) are counted, one row per unit, and the counts are released once, in a
session of their own (tasks.mechanisms.private_test). It costs no more than learning reserved, and if both sessions name
their parts, no unit pays for both (artifacts.parts). If learning had few refusals and settled for less, the test part
costs more, and the domain pays that.

Assumes      a student's prediction for a row depends on that row alone: it predicts one row at a time
Guarantees   (ε, δ) for the released counts; the counts, and how many units there are, stay in the vault
Ends         with its one release
Not covered  a student that was chosen by earlier results on the same units: its intervals are optimistic, and the
             certificate states how many sessions may have used them. Checked by tests/tasks/asks/test_student_test.py
             and tests/flows/test_private_test_run.py
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl

from concord.artifacts.domains import Domain
from concord.artifacts.errors import BudgetRefused
from concord.artifacts.home.vault import Vault
from concord.artifacts.parts import TEST
from concord.artifacts.plan import Plan
from concord.artifacts.privacy import Charge
from concord.artifacts.schemas import Encoding, Ref
from concord.artifacts.sessions import STUDENT_TEST, Session
from concord.tasks.asks.counted import Predictor, classes_by, classes_of, is_clean
from concord.tasks.door.ask import SingleAsk
from concord.tasks.mechanisms.distance import Ints, RandomSource
from concord.tasks.mechanisms.noise import ROUNDED
from concord.tasks.mechanisms.private_test import PrivateTest


@dataclass(frozen=True)
class StudentTestAsk(SingleAsk[PrivateTest]):
    """A test; `about` is public: the student, its session, and whether the test is clean. `classes` are their names."""

    classes: tuple[str, ...]

    purpose: ClassVar[str] = STUDENT_TEST
    file: ClassVar[str] = "test.json"
    part: ClassVar[str] = TEST

    @classmethod
    def of(cls, plan: Plan, mechanism: PrivateTest, learned: Session, student: Ref, vault: Vault) -> "StudentTestAsk":
        """The test of a student that learned from a session."""
        return cls.named(plan, mechanism, learned.id, student.digest, clean=is_clean(plan, learned, vault))

    @classmethod
    def named(cls, plan: Plan, mechanism: PrivateTest, learned: str, student: str, *, clean: bool) -> "StudentTestAsk":
        """The test of the student of that digest, which learned from the session of that name."""
        share = None if plan.test is None else plan.test.share
        about = {"session": learned, "student": student, "share": share, "clean": clean}
        return cls(mechanism, about, tuple(plan.data.classes))

    @property
    def delta(self) -> float:
        """δ of the mechanism."""
        return self.mechanism.delta

    def depends(self, plan: Plan) -> dict[str, Any]:  # noqa: ARG002, since its settings name everything
        """Its settings."""
        return {"tried": self.settings()}

    def draw(self, exact: bytes, source: RandomSource) -> Ints:
        """Noisy counts, as `PrivateTest.release` has them, from the file of `Confusion`."""
        size = len(self.classes)
        return self.mechanism.release(np.frombuffer(exact, dtype="<i8").reshape(size, size), source)

    def result(self, drawn: Ints) -> dict[str, Any]:
        """The noisy counts by name."""
        size = len(self.classes)
        right, wrong, *cells = drawn.tolist()
        matrix = [cells[size * at : size * (at + 1)] for at in range(size)]
        found = {"classes": list(self.classes), "right": right, "wrong": wrong, "matrix": matrix}
        return {"format": "concord private test 1", "settings": self.settings(), **found}


def planned_test(plan: Plan, domain: Domain, learning: Charge, epsilon: float) -> PrivateTest:
    """The test that costs no more than learning reserved: at most its ε, and at most that by the domain's filter.

    learning   what the session that the student learns from was charged when it was opened
    """
    return PrivateTest.calibrate(
        epsilon=epsilon,
        delta=plan.privacy.delta,
        classes=len(plan.data.classes),
        secret=plan.privacy.secret,
        most=_most(domain, learning),
    )


def _most(domain: Domain, learning: Charge) -> tuple[float, float]:
    """Order and nats of discrete Gaussians that are charged as much as learning: nats are ρ times the order.

    For μ², of moves v at scales σ: Σ ‖v‖²/(σ² − t²) ≤ 2ρ/(1 − 2ρt²), since 1/σ² is at most 2ρ. That is μ² at this ρ.
    """
    if domain.filter.kind == "renyi":
        return domain.filter.order, float(learning.renyi)
    square = float(learning.mu_squared)
    return 1.0, square / (2 * (1 + ROUNDED**2 * square))


def left_for_test(learning: Charge, epsilon: float, choices: Iterable[tuple[Charge, float]]) -> tuple[Charge, float]:
    """The charge and ε left for the test: those of learning minus those of choices, which use the same units.

    Raises BudgetRefused if nothing is left.
    """
    left, each = learning, epsilon
    for charge, claimed in choices:
        left, each = left - charge, each - claimed
    if left.divergence <= 0 or each <= 0:
        raise BudgetRefused(
            "student.epsilon leaves the private test nothing: the choice is charged as much as learning is, or more; "
            "make it smaller"
        )
    return replace(left, delta=learning.delta), each


@dataclass(frozen=True)
class Confusion:
    """Numbers of units of the test part, (classes, classes), by true class and the one that the student predicts."""

    student: Predictor
    classes: int

    name: ClassVar[str] = "confusion"
    part: ClassVar[str] = TEST

    @property
    def shape(self) -> tuple[int, ...]:
        """A row for each true class."""
        return self.classes, self.classes

    def counted(self, rows: pl.DataFrame, encoding: Encoding) -> Ints:
        """The matrix of some rows."""
        matrix = np.zeros(self.shape, dtype=np.int64)
        np.add.at(matrix, (classes_of(rows), classes_by(self.student, rows, encoding)), 1)
        return matrix
