"""Trial: a student tried out on private units that took no part in learning, and what noisy counts say of it.

The units of the test part (tasks.data.parts) are counted by their class and what the student says of them, one row a
unit, and the counts are released once, through the door, in a session of their own (tasks.mechanisms.private_test). It
costs no more than learning reserved, and where both sessions name their parts, no unit pays for both (artifacts.parts).
Where learning was refused little and settled for less, the test part is the larger one, and the domain pays that.

Assumes      what a student says of a row follows from that row alone: it is asked about one at a time
Guarantees   (ε, δ) for the released counts; the counts, and how many units there are, stay in the vault
Ends         with its one release
Not covered  a student that was chosen by earlier tests on the same units: its intervals are optimistic, and the
             certificate says how many there were. Checked by tests/tasks/door/test_trial.py and
             tests/flows/test_trial_run.py
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from concord.artifacts.home.vault import Vault
from concord.artifacts.parts import LEARNING, TEST
from concord.artifacts.plan import Plan
from concord.artifacts.privacy import Charge, Cost
from concord.artifacts.schemas import Encoding, Ref, canonical_json
from concord.artifacts.sessions import Domain, Session
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
from concord.tasks.mechanisms.private_test import PrivateTest

TEST_FORMAT = "concord private test 1"
Says = Callable[[NDArray[Any]], NDArray[Any]]
"""What a student says of rows as it reads them (rows, width): class names (rows,)."""


@dataclass(frozen=True)
class Trial:
    """A test as a session is opened for it; `about` is public: the student, whose it is, and whether it is clean."""

    mechanism: PrivateTest
    about: dict[str, Any]

    cutoff: ClassVar[None] = None
    queries: ClassVar[int] = 1
    per_refusal: ClassVar[None] = None

    @property
    def cost(self) -> Cost:
        """As the mechanism's."""
        return self.mechanism.cost

    def settings(self) -> dict[str, Any]:
        """As JSON."""
        return {**self.mechanism.settings(), **self.about}

    @property
    def epsilon(self) -> float:
        """ε of its claim."""
        return self.mechanism.epsilon


def planned_test(plan: Plan, domain: Domain, learning: Charge, epsilon: float) -> PrivateTest:
    """The test that costs no more than learning reserved: at most its ε, and at most that in Rényi nats.

    learning   what the session that the student learns from was charged when it was opened
    """
    return PrivateTest.calibrate(
        epsilon=epsilon,
        delta=plan.privacy.delta,
        classes=len(plan.data.classes),
        secret=plan.privacy.secret,
        most=(domain.filter.order, float(learning.renyi)),
    )


def trial_of(plan: Plan, mechanism: PrivateTest, learned: Session, student: Ref, vault: Vault) -> Trial:
    """The test of a student that learned from a session.

    It is clean if that session named the learning part, by the very division whose test part is tried now.
    """
    division = division_of(plan, vault)
    clean = division is not None and (learned.part, learned.division) == (LEARNING, division.commitment)
    share = None if plan.test is None else plan.test.share
    about = {"session": learned.id, "student": student.digest, "share": share, "clean": clean}
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
    """Units of the test part by their class and what the student says: (classes, classes), in a file of the vault.

    codes   of a student that reads those, its fine ones alone, and not encoded rows
    """
    matrix = np.zeros((len(encoding.classes),) * 2, dtype=np.int64)
    with silenced():
        for rows in one_row_a_unit(plan, encoding, vault, folder, key, erased, part=TEST):
            X = encode(rows, encoding) if codes is None else codes.of(rows)[:, list(codes.fine)]
            predicted = answers(says, X, encoding.classes)
            np.add.at(matrix, (rows[LABEL].to_numpy().astype(np.int64), predicted), 1)
    with vault.create(f"{folder}/confusion") as sink:
        sink.write(matrix.astype("<i8").tobytes())
    return sink.ref


def answers(says: Says, X: NDArray[Any], classes: Sequence[str]) -> Ints:
    """The class (rows,) that a student gives each row (rows, width), asked about each by itself.

    In company, what it says of a row could change with the others: matrix products round by position, and any estimator
    may look at all rows at once. A row it fails on, or gives no declared class, counts as given the first.
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
    except Exception:  # whatever an estimator fails with on a private row must not show
        return 0


def release_trial(door: Stores, session: Session, trial: Trial, counts: Ref, classes: Sequence[str]) -> Ref:
    """The door of a test: release the noisy counts, or replay them. Returns the released file, JSON.

    counts   the file of `confusion`
    Raises NotVerified where student, counts or key are not those on record.
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
