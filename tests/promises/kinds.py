"""Every kind of release in the smallest home that can ask for it: what a promise about releases is tested on.

A kind has two steps. `prepare` opens its session in a new home and puts its private numbers in the vault; `ask`
releases all that the session is asked, or replays it. With `other`, the private numbers are not those of `prepare`.
Both are functions of a module, since other processes call them by name.
"""

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tests import world
from tests.support.at_door import (
    CLASSES,
    NOISY,
    ROWS,
    STABLE,
    TEACHERS,
    VECTOR,
    counts_of,
    files_of,
    make_case,
    opened,
)
from tests.support.made import answered, keep, made
from tests.support.sums import Rounds, Season, Sketched

VOTES: dict[str, world.Mechanism] = {
    name: world.calibrate(
        name, epsilon=2.0, delta=1e-5, cutoff=4 * ROWS, queries=3 * ROWS, classes=2, teachers=TEACHERS, order=2.0
    )
    for name in world.MECHANISMS
} | {"stable": STABLE, "noisy_votes": NOISY, "sparse_vector": VECTOR}
QUESTIONS = {
    "question": world.QuestionsAsk(world.calibrated_optimal(epsilon=2.0, delta=1e-5), "which shade", TEACHERS),
    "question by noise": world.QuestionsAsk(world.calibrated_laplace(epsilon=2.0, delta=1e-5), "which shade", TEACHERS),
    "questions": world.QuestionsAsk(world.calibrated_stable(epsilon=2.0, delta=1e-5, cutoff=5), None, TEACHERS),
}
NAMED = {"session": "d-0", "share": 0.5, "clean": False}
CANDIDATES = world.hypothesis_class("stumps", columns=[0]).dichotomies(np.arange(400.0).reshape(-1, 1))
HYPOTHESIS = world.HypothesisAsk(world.Universal(epsilon=2.0, secret="rows"), {}, CANDIDATES, CLASSES, ())
ESTIMATE = world.EstimateAsk(world.calibrated_estimate(epsilon=2.0, shards=4), {"share": 0.3})
TESTING = {**NAMED, "student": "digest"}
TEST = world.StudentTestAsk(world.calibrated_test(epsilon=2.0, delta=1e-5, classes=2, secret="rows"), TESTING, CLASSES)


class Ask(Protocol):
    def __call__(self, home: Path, other: bool = False) -> object: ...


@dataclass(frozen=True)
class Kind:
    """A kind of release.

    keyed    whether its draws follow from the session key, so that they are the same whatever is put back
    named    whether what it releases is known by a name, and replayed whatever would be asked now
    """

    name: str
    prepare: Callable[[Path], object]
    ask: Ask
    keyed: bool = False
    named: bool = False


def open_votes(home: Path, name: str) -> None:
    make_case(home, VOTES[name])


def ask_votes(home: Path, other: bool = False, *, name: str) -> None:
    case = make_case(home, VOTES[name])
    if other:
        case.recount(0, counts_of(7))
    case.run()


def open_rounds(home: Path) -> None:
    Rounds.in_home(home)


def ask_rounds(home: Path, other: bool = False) -> None:
    Rounds.in_home(home).all(rows=199 if other else 200)


def open_sketch(home: Path) -> None:
    Sketched.in_home(home)


def ask_sketch(home: Path, other: bool = False) -> None:
    Sketched.in_home(home).all(rows=199 if other else 200)


def open_season(home: Path) -> None:
    Season.in_home(home)


def ask_season(home: Path, other: bool = False) -> None:
    Season.in_home(home).all(other=other)


def open_question(home: Path, name: str, one_in: int = 7) -> None:
    opened(world.Stores.of(home), QUESTIONS[name])
    _answered(home, "which shade", one_in)
    if name == "questions":
        _answered(home, "and now", 5)


def ask_question(home: Path, other: bool = False, *, name: str) -> None:
    door, questions = world.Stores.of(home), QUESTIONS[name]
    if other:
        _answered(home, "which shade", 2)
    for asked in ("which shade", "and now")[: 1 if questions.question else 2]:
        files_of(door, opened(door, questions), questions, asked)


def _answered(home: Path, question: str, one_in: int) -> None:
    answers = ["dark" if at % one_in else "light" for at in range(TEACHERS)]
    answered(world.Stores.of(home).vault, question, answers)


def open_counted(home: Path, name: str) -> None:
    door = world.Stores.of(home)
    opened(door, SINGLE[name].asked)
    _counted(door, "counts/d/counted", SINGLE[name].exact, SINGLE[name].asked)


def _counted(door: world.Stores, path: str, counts: bytes, asked: world.SingleAsk[Any]) -> world.Ref:
    return keep(
        door.vault,
        path,
        counts,
        made(asked.teachers or 1, part=asked.part, form=asked.form, question=getattr(asked.mechanism, "counted", "")),
    )


def ask_once(home: Path, other: bool = False, *, name: str) -> None:
    door, single = world.Stores.of(home), SINGLE[name]
    found = door.vault.find("counts/d/counted")
    assert found is not None
    exact = _counted(door, "counts/d/others", single.others, single.asked) if other else found
    files_of(door, opened(door, single.asked), single.asked, [exact])


def _array(count: int, value: int) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.full(count, value, dtype=np.int64), allow_pickle=False)
    return buffer.getvalue()


@dataclass(frozen=True)
class Single:
    """A question with one answer, with the exact numbers it is answered from, and others."""

    asked: world.SingleAsk[Any]
    exact: bytes
    others: bytes


SINGLE = {
    "hypothesis": Single(HYPOTHESIS, _array(len(CANDIDATES), 0), _array(len(CANDIDATES), 3)),
    "estimate": Single(ESTIMATE, bytes(64), np.arange(8).tobytes()),
    "test": Single(TEST, np.full(4, 500).tobytes(), (500 + np.arange(4)).tobytes()),
}
EXAMPLES: dict[str, Any] = {
    mechanism.name: mechanism
    for mechanism in (
        *VOTES.values(),
        *(ask.mechanism for ask in QUESTIONS.values()),
        *(single.asked.mechanism for single in SINGLE.values()),
    )
}
"""Of each mechanism that does not ask in rounds, one by its name."""
KINDS = (
    *(Kind(name, partial(open_votes, name=name), partial(ask_votes, name=name), VOTES[name].keyed) for name in VOTES),
    Kind("tallies", open_rounds, ask_rounds),
    Kind("sketch", open_sketch, ask_sketch),
    Kind("stream", open_season, ask_season),
    *(
        Kind(name, partial(open_question, name=name), partial(ask_question, name=name), named=True)
        for name in QUESTIONS
    ),
    *(Kind(name, partial(open_counted, name=name), partial(ask_once, name=name)) for name in SINGLE),
)
