"""The test of a student on private units that were kept out of learning: noisy counts by true and predicted class, or
by the error of a number.

The units of the test part (tasks.data.parts) are counted, one row per unit, and the counts are released once, in a
session of their own (tasks.mechanisms.private_test). It costs no more than learning reserved, and if both sessions name
their parts, no unit pays for both (artifacts.parts). If learning had few refusals and settled for less, the test part
costs more, and the domain pays that.

Assumes      a student's prediction for a row depends on that row alone: it predicts one row at a time
Guarantees   (ε, δ) for the released counts; the counts, and how many units there are, stay in the vault
             Of a stream, units are tested with the student of the release with which they arrive, and never again by
             that stream: so tests are seasons of a stream of their own, and a domain pays the largest of them
Ends         with its one release
Not covered  a student that was chosen by earlier results on the same units: its intervals are optimistic, and the
             certificate states how many sessions may have used them. Checked by tests/tasks/asks/test_student_test.py,
             tests/flows/test_private_test_run.py and test_refresh_tested.py
"""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar

import numpy as np

from concord.artifacts.domains import Domain
from concord.artifacts.errors import BudgetRefused, WrongInput
from concord.artifacts.home.vault import Vault
from concord.artifacts.parts import TEST
from concord.artifacts.plan import Plan
from concord.artifacts.privacy import Charge
from concord.artifacts.schemas import Encoding, Ref
from concord.artifacts.sessions import STUDENT_TEST, Session
from concord.tasks.asks.group_counts import MOST_WRITTEN
from concord.tasks.asks.unit_counts import is_clean
from concord.tasks.data.encode import grouping
from concord.tasks.data.units import private_table
from concord.tasks.door.ask import SingleAsk
from concord.tasks.mechanisms.distance import Ints, RandomSource
from concord.tasks.mechanisms.private_test import OTHER, Noisy, PrivateTest

MOST_CELLS = 100_000
"""Most cells of the matrices of all groups."""
FAR = -(10**9)
"""A number with as many characters as a noisy count may have."""


@dataclass(frozen=True)
class StudentTestAsk(SingleAsk[PrivateTest]):
    """A test; `about` is public: the student, its session, and whether the test is clean. `classes` are their names.

    tests_of   the stream, if it is of the units that arrived with one release of it, which no other test of it reads
    """

    classes: tuple[str, ...]
    tests_of: str = ""

    purpose: ClassVar[str] = STUDENT_TEST
    stage = "test"
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
        bounds = {} if plan.data.bounds is None else {"bounds": list(plan.data.bounds)}
        about = {"session": learned, "student": student, "share": share, "clean": clean, **bounds}
        return cls(mechanism, about, tuple(plan.data.classes))

    def beside(self, constant: float) -> "StudentTestAsk":
        """The same test of a number, beside that of naming `constant` for every row."""
        return replace(self, about={**self.about, "constant": constant})

    def of_release(self, stream: str, number: int) -> "StudentTestAsk":
        """The same test, on the units that arrived with that release of a stream."""
        return replace(self, about={**self.about, "release": number}, tests_of=stream)

    @property
    def stream(self) -> str:
        """Tests of a stream's releases are its seasons: a unit is in one of them (artifacts.parts)."""
        return self.tests_of and f"{self.tests_of}-tests"

    @property
    def delta(self) -> float:
        """δ of the mechanism."""
        return self.mechanism.delta

    def depends(self, plan: Plan) -> dict[str, Any]:  # noqa: ARG002, since its settings name everything
        """Its settings."""
        return {"tried": self.settings()}

    def draw(self, exact: bytes, source: RandomSource) -> Ints:
        """Noisy counts, as `PrivateTest.release` has them, from the file of `Confusion` or `NumberErrors`."""
        return self.mechanism.release(np.frombuffer(exact, dtype="<i8"), source)

    def result(self, drawn: Ints) -> dict[str, Any]:
        """The noisy counts by name; by group, the matrix of all units is the sum of those of the groups."""
        head = {"format": "concord private test 1", "settings": self.settings()}
        if not self.mechanism.classes:
            errors, of_constant = drawn.reshape(2, -1).tolist()
            return {**head, "errors": errors, "constant_errors": of_constant}
        noisy = Noisy.of(self.mechanism, drawn.tolist())
        right, wrong = noisy.pair.tolist()
        found: dict[str, Any] = {"classes": list(self.classes), "right": right, "wrong": wrong}
        found["matrix"] = noisy.matrices.sum(axis=0).tolist()
        if self.mechanism.by:
            found["groups"] = [
                {"words": words, "matrix": matrix.tolist(), "pairs": pairs.tolist()}
                for words, matrix, pairs in zip([*self.mechanism.named, None], noisy.matrices, noisy.pairs, strict=True)
            ]
        return {**head, **found}


def planned_groups(plan: Plan, encoding: Encoding) -> dict[str, Any]:
    """The groups of the plan's private test, as `PrivateTest` has them: all combinations of the words that the public
    test table has in each column of `data.groups`, or OTHER, so that the groups of a word have all units with it. None
    for a number, which is tested as a whole.

    Raises WrongInput if the private table lacks a column, or if there are too many.
    """
    by = plan.data.groups
    if not by or plan.data.bounds is not None:
        return {}
    private_table(plan).frames(dict.fromkeys(by, "data.groups"))  # checks its columns, and reads no row
    found = grouping(plan.path("test"), by, encoding).values()
    words = [(*cells.unique().sort(nulls_last=False).to_list(), OTHER) for cells in found]
    if (many := math.prod(map(len, words)) * len(encoding.classes) ** 2) > MOST_CELLS:
        rule = f"data.groups must make at most {MOST_CELLS:,} counts for the private test"
        raise WrongInput(f"{rule}, got {many:,}: groups by all columns at once, times classes, squared; name fewer")
    named = tuple(product(*words))[:-1]
    table = [[FAR] * len(encoding.classes)] * len(encoding.classes)
    groups = [{"words": each, "matrix": table, "pairs": [[FAR] * 2]} for each in (*named, None)]
    if len(json.dumps({"named": named, "groups": groups}, indent=2)) > MOST_WRITTEN:
        raise WrongInput("data.groups makes more groups, or longer names of them, than one test may hold: name fewer")
    return {"by": by, "named": named}


def planned_test(
    plan: Plan, domain: Domain, learning: Charge, epsilon: float, groups: dict[str, Any] | None = None
) -> PrivateTest:
    """The test that costs no more than learning reserved: at most its ε, and at most that by the domain's filter.

    learning   what the session that the student learns from was charged when it was opened
    groups     those of `planned_groups`
    """
    return PrivateTest.calibrate(
        epsilon=epsilon,
        delta=plan.privacy.delta,
        classes=len(plan.data.classes),
        secret=plan.privacy.secret,
        most=(domain.filter.order, float(learning.renyi)),  # discrete Gaussians charged as much: nats are ρ times it
        **(groups or {}),
    )


def left_for_test(learning: Charge, epsilon: float, choices: Iterable[tuple[Charge, float]]) -> tuple[Charge, float]:
    """The charge and ε left for the test: those of learning minus those of choices, which use the same units.

    Raises BudgetRefused if nothing is left.
    """
    left, each = learning, epsilon
    for charge, claimed in choices:
        left, each = left - charge, each - claimed
    if left.renyi <= 0 or each <= 0:
        raise BudgetRefused(
            "student.epsilon leaves the private test nothing: the choice is charged as much as learning is, or more; "
            "make it smaller"
        )
    return replace(left, delta=learning.delta), each
