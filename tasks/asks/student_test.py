"""The test of a student on private units that were kept out of learning: noisy counts by true and predicted class, or
by the error of a number.

The units of the test part (tasks.units.parts) are counted, one row per unit, and the counts are released once, in a
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

from dataclasses import dataclass
from typing import Any, ClassVar

from concord.artifacts.domains import Domain
from concord.artifacts.parts import TEST
from concord.artifacts.plan import Plan
from concord.artifacts.privacy import Charge
from concord.artifacts.sessions import STUDENT_TEST
from concord.tasks.door.ask import SingleAsk
from concord.tasks.door.door import Drawn
from concord.tasks.door.exact import FormName
from concord.tasks.mechanisms.calibration import calibrated_test
from concord.tasks.mechanisms.private_test import PrivateTest


@dataclass(frozen=True)
class StudentTestAsk(SingleAsk[PrivateTest]):
    """A test; `about` is public: the student, its session, and whether the test is clean. `classes` are their names."""

    classes: tuple[str, ...]

    purpose: ClassVar[str] = STUDENT_TEST
    stage = "test"
    form: ClassVar[FormName] = "counts"
    file: ClassVar[str] = "test.json"
    part: ClassVar[str] = TEST

    @classmethod
    def of(
        cls,
        plan: Plan,
        mechanism: PrivateTest,
        learned: str,
        student: str,
        *,
        clean: bool,
        constant: float | None = None,
    ) -> "StudentTestAsk":
        """The test of the student of that digest, which learned from the session of that name; of a number, beside that
        of naming `constant` for every row."""
        share = None if plan.test is None else plan.test.share
        about: dict[str, Any] = {"session": learned, "student": student, "share": share, "clean": clean}
        if plan.data.bounds is not None:
            about["bounds"] = list(plan.data.bounds)
        if constant is not None:
            about["constant"] = constant
        return cls(mechanism, about, tuple(plan.data.classes))

    def depends(self, plan: Plan) -> dict[str, Any]:  # noqa: ARG002, since its settings name everything
        """Its settings."""
        return {"tried": self.settings()}

    def result(self, drawn: Drawn) -> dict[str, Any]:
        """The noisy counts by name."""
        (counts,) = drawn.arrays
        head = {"format": "concord private test 2", "settings": self.settings()}
        if not self.mechanism.classes:
            errors, of_constant = counts.reshape(2, -1).tolist()
            return {**head, "errors": errors, "constant_errors": of_constant}
        right, wrong = counts[:2].tolist()
        matrix = counts[2:].reshape(self.mechanism.classes, -1).tolist()
        return {**head, "classes": list(self.classes), "right": right, "wrong": wrong, "matrix": matrix}


def planned_test(plan: Plan, domain: Domain, learning: Charge, epsilon: float) -> PrivateTest:
    """The test that costs no more than learning reserved: at most its ε, and at most that by the domain's filter.

    learning   what the session that the student learns from was charged when it was opened
    """
    return calibrated_test(
        epsilon=epsilon,
        delta=plan.privacy.delta,
        classes=len(plan.data.classes),
        secret=plan.privacy.secret,
        most=(domain.filter.order, float(learning.renyi)),  # discrete Gaussians charged as much: nats are ρ times it
    )
