"""The choice of a student among candidates that the plan names, by errors on private units kept out of learning.

The units of the test part that each candidate gets wrong are counted, and one candidate is chosen, in a session of its
own (tasks.mechanisms.exponential). Choice and test use the same part and their costs add up, so the test has the
budget that the choice leaves.

Assumes      a student's prediction for a row depends on that row alone: it predicts one row at a time
Guarantees   (ε, 0) for the choice; the counts stay in the vault. A choice that was drawn is the one that is released,
             however often this runs
Ends         with its one release
Not covered  as in tasks.asks.student_test. Checked by tests/tasks/asks/test_candidates_aside.py
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from concord.artifacts import kinds
from concord.artifacts.errors import BudgetRefused, WrongInput
from concord.artifacts.learners import StudentPlan
from concord.artifacts.ledger.reading import choices_of
from concord.artifacts.parts import TEST
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import STUDENT_CHOICE, Session
from concord.artifacts.stores import Stores
from concord.tasks.door.ask import SingleAsk
from concord.tasks.mechanisms.distance import Ints, RandomSource
from concord.tasks.mechanisms.exponential import StudentChoice


@dataclass(frozen=True)
class StudentChoiceAsk(SingleAsk[StudentChoice]):
    """A choice among candidates; `about` is public: the candidates, their files, and the session they learned from."""

    purpose: ClassVar[str] = STUDENT_CHOICE
    stage = "choose"
    file: ClassVar[str] = "choice.json"
    part: ClassVar[str] = TEST

    @classmethod
    def of(
        cls, plan: Plan, mechanism: StudentChoice, learned: str, students: Sequence[Ref], *, clean: bool
    ) -> "StudentChoiceAsk":
        """The choice among candidates fitted to a session; `students` are their files, in order."""
        about = {
            "session": learned,
            "candidates": [candidate.model_dump(mode="json") for candidate in plan.student.candidates or ()],
            "students": [student.digest for student in students],
            "share": None if plan.test is None else plan.test.share,
            "clean": clean,
        }
        return cls(mechanism, about)

    def depends(self, plan: Plan) -> dict[str, Any]:  # noqa: ARG002, since its settings name everything
        """Its settings."""
        return {"chosen": self.settings()}

    def draw(self, exact: bytes, source: RandomSource) -> Ints:  # noqa: ARG002, since it draws by itself
        """Index of a candidate, (1,), from the file of `ErrorsAside`."""
        return np.array([self.mechanism.choose_least(np.frombuffer(exact, dtype="<i8"))])

    def result(self, drawn: Ints) -> dict[str, Any]:
        """The index."""
        return {"format": "concord student choice 1", "settings": self.settings(), "chosen": int(drawn[0])}


def planned_choice(plan: Plan) -> StudentChoice | None:
    """The choice among the candidates that a plan names, if it names any."""
    student = plan.student
    if student.candidates is None or student.epsilon is None:
        return None
    return StudentChoice(epsilon=student.epsilon, secret=plan.privacy.secret)


def with_chosen_student(stores: Stores, learned: Session, plan: Plan) -> Plan | None:
    """The plan with the student that was chosen among its candidates for a session; None if none was chosen yet.

    Raises BudgetRefused if the session has chosen, or began to choose, among other candidates: that would cost again.
    """
    candidates = plan.student.candidates
    if candidates is None:
        return plan
    asked = [candidate.model_dump(mode="json") for candidate in candidates]
    for session in choices_of(stores.ledger.sessions(learned.domain), learned.id):
        if [*session.kind.only(kinds.StudentChoice).candidates] != asked:
            raise BudgetRefused(
                f"session {learned.id} chose among other candidates: another choice costs again, with what is learned "
                "from, so ask for it with --new-session; or name one of them in [student], which costs nothing"
            )
    made = stores.ledger.choice(learned)
    if made is None:
        return None
    number = int(json.loads(stores.released.read(made[1]))["chosen"])
    return plan.model_copy(update={"student": StudentPlan.of(candidates[number])})


def settled_now(stores: Stores, learned: Session, plan: Plan) -> Plan:
    """The plan with its chosen student. Raises WrongInput if none was chosen."""
    found = with_chosen_student(stores, learned, plan)
    if found is None:
        raise WrongInput(f"session {learned.id} has no student yet: run its plan, which chooses one of its candidates")
    return found
