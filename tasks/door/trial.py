"""Trial of students on private units that were kept out of learning: choose one of several, and release noisy counts.

The units of the test part (tasks.data.parts) are counted by true and predicted class, one row per unit, and the counts
are released once, at the door, in a session of their own (tasks.mechanisms.private_test). It costs no more than
learning reserved, and if both sessions name their parts, no unit pays for both (artifacts.parts). If learning had few
refusals and settled for less, the test part costs more, and the domain pays that.

If the plan names candidates, one of them is chosen first, by the number of those units it gets wrong, in a session of
its own (tasks.mechanisms.student_choice). Choice and test use the same part and their costs add up, so the test has the
budget that the choice leaves.

Assumes      a student's prediction for a row depends on that row alone: it predicts one row at a time
Guarantees   (ε, δ) for the released counts, (ε, 0) for the choice; the counts, and how many units there are, stay in
             the vault. A choice that was drawn is the one that is released, however often this runs
Ends         with its one release
Not covered  a student that was chosen by earlier results on the same units: its intervals are optimistic, and the
             certificate states how many sessions may have used them. Checked by tests/tasks/door/test_trial.py,
             tests/tasks/door/test_choice_of_student.py and tests/flows/test_trial_run.py
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from concord.artifacts.domains import Domain
from concord.artifacts.errors import BudgetRefused, WrongInput
from concord.artifacts.home.vault import Vault
from concord.artifacts.learners import StudentPlan
from concord.artifacts.ledger.reading import choices_of
from concord.artifacts.parts import LEARNING, TEST
from concord.artifacts.plan import Plan
from concord.artifacts.privacy import Charge
from concord.artifacts.schemas import Encoding, Ref, canonical_json
from concord.artifacts.sessions import Session
from concord.tasks.asking.teachers import aligned_copy, read_only
from concord.tasks.data.cells import LABEL
from concord.tasks.data.codes import Codes
from concord.tasks.data.encode import encode
from concord.tasks.data.guard import private_stage, silenced
from concord.tasks.data.parts import division_of
from concord.tasks.data.split import one_row_a_unit
from concord.tasks.data.units import Erased
from concord.tasks.door.checkpoint import Randomness
from concord.tasks.door.release import Stores, publish_answer, release_once
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.mechanism import Once
from concord.tasks.mechanisms.noise import ROUNDED
from concord.tasks.mechanisms.private_test import PrivateTest
from concord.tasks.mechanisms.student_choice import StudentChoice

TEST_FORMAT = "concord private test 1"
CHOICE_FORMAT = "concord student choice 1"
Says = Callable[[NDArray[Any]], NDArray[Any]]
"""A student's prediction: class names (rows,) of rows in its own format (rows, width)."""


Trial = Once[PrivateTest]
"""Settings of a session for a test; `about` is public: the student, its session, and whether the test is clean."""


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


def planned_choice(plan: Plan) -> StudentChoice | None:
    """The choice among the candidates that a plan names, if it names any."""
    student = plan.student
    if student.candidates is None or student.epsilon is None:
        return None
    return StudentChoice(epsilon=student.epsilon, secret=plan.privacy.secret)


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


def choice_of(
    plan: Plan, mechanism: StudentChoice, learned: str, students: Sequence[Ref], *, clean: bool
) -> Once[StudentChoice]:
    """The choice among candidates fitted to a session; `students` are their files, in order."""
    about = {
        "session": learned,
        "candidates": [candidate.model_dump(mode="json") for candidate in plan.student.candidates or ()],
        "students": [student.digest for student in students],
        "share": None if plan.test is None else plan.test.share,
        "clean": clean,
    }
    return Once(mechanism, about)


def is_clean(plan: Plan, learned: Session, vault: Vault) -> bool:
    """Whether a session learned from no unit of the test part: it named the learning part of the same division."""
    division = division_of(plan, vault)
    return division is not None and (learned.part, learned.division) == (LEARNING, division.commitment)


def trial_of(plan: Plan, mechanism: PrivateTest, learned: Session, student: Ref, vault: Vault) -> Trial:
    """The test of a student that learned from a session."""
    share = None if plan.test is None else plan.test.share
    about = {"session": learned.id, "student": student.digest, "share": share, "clean": is_clean(plan, learned, vault)}
    return Trial(mechanism, about)


@private_stage
def confusion(
    plan: Plan,
    encoding: Encoding,
    says: Says,
    vault: Vault,
    folder: str,
    key: bytes,
    erased: Erased,
    codes: Codes | None = None,
) -> Ref:
    """Write the confusion matrix of the test part, (classes, classes), true by predicted class, to the vault.

    codes   the codes of a student that reads their fine fields instead of encoded rows
    """
    matrix = np.zeros((len(encoding.classes),) * 2, dtype=np.int64)
    with silenced():
        for rows in one_row_a_unit(plan, encoding, vault, folder, key, erased, part=TEST):
            predicted = classes_given(says, _as_read(rows, encoding, codes), encoding.classes)
            np.add.at(matrix, (_truth(rows), predicted), 1)
    return _kept(matrix, vault, f"{folder}/confusion")


@private_stage
def errors_aside(
    plan: Plan,
    encoding: Encoding,
    candidates: Sequence[tuple[Says, Codes | None]],
    vault: Vault,
    folder: str,
    key: bytes,
    erased: Erased,
) -> Ref:
    """Write the number of units of the test part, one row each, that each candidate gets wrong, (candidates,).

    candidates   prediction function of each, with its codes if it does not read encoded rows
    """
    errors = np.zeros(len(candidates), dtype=np.int64)
    with silenced():
        for rows in one_row_a_unit(plan, encoding, vault, folder, key, erased, part=TEST):
            for at, (says, codes) in enumerate(candidates):
                predicted = classes_given(says, _as_read(rows, encoding, codes), encoding.classes)
                errors[at] += np.count_nonzero(predicted != _truth(rows))
    return _kept(errors, vault, f"{folder}/errors")


def _as_read(rows: pl.DataFrame, encoding: Encoding, codes: Codes | None) -> NDArray[Any]:
    return encode(rows, encoding) if codes is None else codes.of(rows)[:, list(codes.fine)]


def _truth(rows: pl.DataFrame) -> Ints:
    return rows[LABEL].to_numpy().astype(np.int64)


def _kept(counts: Ints, vault: Vault, path: str) -> Ref:
    with vault.create(path) as sink:
        sink.write(counts.astype("<i8").tobytes())
    return sink.ref


def classes_given(says: Says, X: NDArray[Any], classes: Sequence[str]) -> Ints:
    """The class (rows,) that a student predicts for each row (rows, width), one row at a time.

    In a batch a prediction could depend on other rows: matrix products round by position, and an estimator may use all
    rows at once. If it fails on a row or predicts no declared class, the first class counts.
    """
    indices = {name: index for index, name in enumerate(classes)}
    known: dict[bytes, int] = {}
    predicted = np.zeros(len(X), dtype=np.int64)
    for at in range(len(X)):
        row = X[at : at + 1].tobytes()
        if row not in known:
            known[row] = _answer(says, X[at : at + 1], indices)
        predicted[at] = known[row]
    return predicted


def _answer(says: Says, row: NDArray[Any], indices: dict[str, int]) -> int:
    try:
        return indices.get(str(says(read_only(aligned_copy(row)))[0]), 0)
    except Exception:  # no failure of an estimator on a private row may show
        return 0


def release_trial(door: Stores, session: Session, trial: Trial, counts: Ref, classes: Sequence[str]) -> Ref:
    """Release the noisy counts of a test at the door, or replay them. Returns the released file, JSON.

    counts   the file of `confusion`
    Raises NotVerified if student, counts or key are not those on record.
    """
    counted, size = door.vault.read(counts), len(classes)

    def draw() -> Ints:
        matrix = np.frombuffer(counted, dtype="<i8").reshape(size, size)
        return trial.mechanism.release(matrix, Randomness(door.vault, session.id))

    def published(noisy: Ints) -> Ref:
        right, wrong, *cells = noisy.tolist()
        matrix = [cells[size * at : size * (at + 1)] for at in range(size)]
        found = {"classes": list(classes), "right": right, "wrong": wrong, "matrix": matrix}
        return publish_answer(door, session, "test.json", format=TEST_FORMAT, settings=trial.settings(), **found)

    about = canonical_json(trial.settings()).encode()
    return release_once(door, session, about=about, counted=counted, draw=draw, publish=published)


def release_choice(door: Stores, session: Session, choice: Once[StudentChoice], counts: Ref) -> Ref:
    """Choose once and publish the index, or replay the choice. Returns the released file, JSON.

    counts   the file of `errors_aside`
    Raises NotVerified if candidates, counts or key are not those on record.
    """
    counted = door.vault.read(counts)

    def draw() -> Ints:
        return np.array([choice.mechanism.choose_least(np.frombuffer(counted, dtype="<i8"))])

    def published(answer: Ints) -> Ref:
        found = {"settings": choice.settings(), "chosen": int(answer[0])}
        return publish_answer(door, session, "choice.json", format=CHOICE_FORMAT, **found)

    about = canonical_json(choice.settings()).encode()
    return release_once(door, session, about=about, counted=counted, draw=draw, publish=published)


def with_chosen_student(stores: Stores, learned: Session, plan: Plan) -> Plan | None:
    """The plan with the student that was chosen among its candidates for a session; None if none was chosen yet.

    Raises BudgetRefused if the session has chosen, or began to choose, among other candidates: that would cost again.
    """
    candidates = plan.student.candidates
    if candidates is None:
        return plan
    asked = [candidate.model_dump(mode="json") for candidate in candidates]
    for session in choices_of(stores.ledger.sessions(learned.domain), learned.id):
        if session.mechanism["candidates"] != asked:
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
