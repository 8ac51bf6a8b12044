"""The crash matrix of single draws: a hypothesis for relabelling, a chosen student, an estimate of the error, a test of
a student, and the answer to a question.

A durable draw is final: whatever fails afterwards, the next process uses it, and publishes the same. A draw that was
not durable was seen by nobody, and is made again.
"""

import io
import json
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from concord.artifacts.home.vault import Vault
from concord.artifacts.home.whole import TOKEN
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Session
from concord.tasks.asking.answers import canonical
from concord.tasks.asking.questions import Question
from concord.tasks.asking.relabel import from_description, hypothesis_class
from concord.tasks.data.cells import LABEL
from concord.tasks.data.encode import encode, read_frame
from concord.tasks.door.admit import Charged
from concord.tasks.door.choose import HeldOut, UniversalChoice, choose, release_estimate
from concord.tasks.door.questions import Questions, keep_answers, release_question
from concord.tasks.door.release import Stores
from concord.tasks.door.trial import Trial, release_choice, release_trial
from concord.tasks.mechanisms.error_estimate import ErrorEstimate
from concord.tasks.mechanisms.exponential import Universal
from concord.tasks.mechanisms.mechanism import Once
from concord.tasks.mechanisms.private_test import PrivateTest
from concord.tasks.mechanisms.queries import OptimalRelease
from concord.tasks.mechanisms.student_choice import StudentChoice
from tests.promises import crashes
from tests.promises.crashes import HOWS, Walk
from tests.promises.faults import How
from tests.support.at_door import CLASSES, TEACHERS, opened
from tests.support.people import people
from tests.support.relabelling import Small

EVERY = 19
CANDIDATES = hypothesis_class("thresholds", columns=[0]).dichotomies(np.arange(400.0).reshape(-1, 1))
CHOICE = UniversalChoice(Universal(epsilon=2.0, secret="rows"), {}, CANDIDATES)
ESTIMATE = HeldOut(ErrorEstimate.calibrate(epsilon=2.0, shards=4), {"share": 0.3})
NAMED = {"session": "d-0", "student": "", "students": [], "candidates": [], "share": 0.5, "clean": True}
ONE_OF = Once(StudentChoice(epsilon=2.0, secret="rows"), NAMED)
TRIAL = Trial(PrivateTest.calibrate(epsilon=2.0, delta=1e-5, classes=2, secret="rows"), NAMED)
QUESTIONS = Questions(OptimalRelease(epsilon=2.0, delta=1e-5), "which shade")
COUNTED = "counts/d/counted"
ANSWER = re.compile(r"/answer(-\d+)?\.npz$")


def choosing(home: Path) -> None:
    """The choice of a universal student among equal candidates."""
    door = Stores.of(home)
    choose(door, opened(door, CHOICE), CHOICE, [], found(door.vault, COUNTED), CLASSES)


def estimating(home: Path) -> None:
    """The release of an estimate of the teachers' error."""
    door = Stores.of(home)
    release_estimate(door, opened(door, ESTIMATE), ESTIMATE, [found(door.vault, COUNTED)])


def choosing_of_some(home: Path) -> None:
    """The choice among students with equal errors."""
    door = Stores.of(home)
    release_choice(door, opened(door, ONE_OF), ONE_OF, found(door.vault, COUNTED))


def trying(home: Path) -> None:
    """The release of a student's test on units set aside."""
    door = Stores.of(home)
    release_trial(door, opened(door, TRIAL), TRIAL, found(door.vault, COUNTED), CLASSES)


def questioning(home: Path) -> None:
    """The answer to a question."""
    door = Stores.of(home)
    release_question(door, opened(door, QUESTIONS), QUESTIONS, "which shade")


def relabelling(home: Path) -> None:
    """The subset, the choice of ĥ, and the rows relabelled by it: all in the vault."""
    small(home).relabelled()


def with_answers(base: Path) -> None:
    """A session that is open for one question, with the shards' answers."""
    door = Stores.of(base)
    opened(door, QUESTIONS)
    answers = [canonical("dark" if at % 7 else "light") for at in range(TEACHERS)]
    keep_answers(door.vault, "d-1", Question("which shade", str), answers)


def with_counts(base: Path, counts: bytes, mechanism: Charged) -> None:
    """A session that is open for one answer, with the counts it is made from."""
    door = Stores.of(base)
    with door.vault.create(COUNTED) as sink:
        sink.write(counts)
    opened(door, mechanism)


def with_rows(base: Path) -> None:
    """The stages before those of the walk, with settings by which two choices are hardly ever equal."""
    small = Small(base, people(80, 1), form="tight", epsilon=0.01)
    (base.parent / "small").write_bytes(pickle.dumps(small))


def small(home: Path) -> Small:
    small: Small = pickle.loads((home.parent / "small").read_bytes())
    small.vault = Vault(home / "vault")
    return small


PREPARED: dict[Walk, Callable[[Path], None]] = {
    relabelling: with_rows,
    choosing: lambda base: with_counts(base, _zeros(len(CANDIDATES)), CHOICE),
    estimating: lambda base: with_counts(base, bytes(64), ESTIMATE),
    choosing_of_some: lambda base: with_counts(base, bytes(8 * 400), ONE_OF),
    trying: lambda base: with_counts(base, bytes(8 * 4), TRIAL),
    questioning: with_answers,
}
ALIKE = (estimating, choosing_of_some, trying, questioning)
"""Walks that pass the door like a choice: for each, fewer points are tested."""


def redrawing(home: Path, walk: Walk) -> None:
    """The planted bug: kept files are made again at every attempt."""

    def keep(vault: Vault, path: str, make: Callable[[], bytes]) -> Ref:
        with vault.create(path) as sink:
            sink.write(make())
        return sink.ref

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Vault, "keep", keep)
        walk(home)


def found(vault: Vault, path: str) -> Ref:
    return vault.find(path) or pytest.fail(f"{path} is gone")


@dataclass(frozen=True)
class Left:
    """The visible state of a home: the draw, the files made from it, released files, and the ledger's state."""

    drawn: dict[str, bytes]
    made: dict[str, bytes]
    released: dict[str, bytes]
    session: Session | None

    @classmethod
    def by(cls, home: Path) -> "Left":
        ledger = Ledger.of(home)
        ledger.verify()
        kept = crashes.files(home / "vault")
        drawn = {path: kept[path] for path in kept if path.startswith("choices/") or ANSWER.search(path)}
        made = {path: kept[path] for path in kept if path.startswith(("shards/", "relabelled/"))}
        return cls(drawn, made, crashes.files(home / "released"), next(iter(ledger.sessions("d")), None))

    @property
    def paid_for(self) -> bool:
        """Whether the ledger recorded the release before it happened."""
        return not self.released or (self.session is not None and self.session.batches == 1)


class Matrix(crashes.Matrix[Left]):
    """One draw, from a home with the same keys and private numbers."""

    def holds(self, crashed: Left, resumed: Left) -> dict[str, bool]:
        return {
            "another draw": crashed.drawn.items() <= resumed.drawn.items(),
            "another release": crashed.released.items() <= resumed.released.items(),
            "released before it was paid for": crashed.paid_for and resumed.paid_for,
            "other rows": crashed.made.items() <= resumed.made.items(),
            "another subset": _subset(resumed) == _subset(self.undisturbed),
            "another end": resumed.session == self.undisturbed.session,
            "a draw too many": len(resumed.drawn) == len(self.undisturbed.drawn) == 1,
        }


def matrix_of(folder: Path, draw: Walk, walk: Walk) -> Matrix:
    PREPARED[draw](folder / "base")
    return Matrix(folder, walk, Left.by)


def _subset(left: Left) -> dict[str, bytes]:
    return {path: rows for path, rows in left.made.items() if path.startswith("shards/")}


def _zeros(count: int) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(count, dtype=np.int64), allow_pickle=False)
    return buffer.getvalue()


@pytest.fixture(scope="module", params=PREPARED, ids=lambda draw: draw.__name__)
def matrix(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    return matrix_of(tmp_path_factory.mktemp(request.param.__name__), request.param, request.param)


def test_a_draw_outlives_what_fails_after_it(matrix: Matrix) -> None:
    assert matrix.sample(EVERY) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_every_point_of_a_draw(matrix: Matrix, how: How) -> None:
    assert matrix.fails(how, 2 * len(HOWS) if matrix.walk in ALIKE else 1) == []


def test_labels_are_those_of_the_one_draw(tmp_path: Path) -> None:
    """So if the draw and the rows are the same, the relabelling is the same."""
    with_rows(tmp_path / "home")
    relabelling(tmp_path / "home")
    stages, left = small(tmp_path / "home"), Left.by(tmp_path / "home")
    (drawn,) = left.drawn
    hypothesis = from_description(json.loads(stages.vault.read(found(stages.vault, drawn))))
    for path in left.made.keys() - _subset(left).keys():
        rows = read_frame(found(stages.vault, path), stages.vault)
        assert rows[LABEL].to_list() == hypothesis.predict(encode(rows, stages.encoding).astype(float)).tolist()


@pytest.mark.parametrize(
    "draw",
    [choosing, *(pytest.param(draw, marks=pytest.mark.slow) for draw in (relabelling, trying, choosing_of_some))],
)
def test_a_draw_made_again_would_be_found(tmp_path: Path, draw: Walk) -> None:
    """The planted bug, at two points after the draw is durable, repeated until it shows.

    The smallest draw here, one of 32 equal candidates, is the same eight times with probability 1e-12.
    """
    matrix = matrix_of(tmp_path, draw, partial(redrawing, walk=draw))
    drawn = max(at for at, point in enumerate(matrix.points) if re.fullmatch(rf"os\.rename .+\.{TOKEN}", point))
    assert any("another draw" in wrong for at in 4 * (drawn, drawn + 1) for wrong in matrix.fails_at(at, "kill"))
