"""Distance to instability against brute force: every vote vector, and every way in which votes can change."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.privacy.exact import neighbours, vote_rows
from tests.world import distance_to_instability, margin, plurality

Counts = tuple[int, ...]
Measure = Callable[[NDArray[np.int64]], NDArray[np.int64]]
SIZES = [(2, 1), (2, 8), (2, 9), (3, 1), (3, 6), (3, 7), (4, 5), (4, 6)]


def vectors(classes: int, teachers: int) -> list[Counts]:
    """Every way `teachers` can vote."""
    return [tuple(row.tolist()) for row in vote_rows(teachers, classes)]


@cache
def one_changed(counts: Counts) -> list[Counts]:
    """Every way one teacher can change its vote."""
    return [tuple(row.tolist()) for row in neighbours(np.array(counts))]


def sole_winner(counts: Counts) -> int | None:
    top = max(counts)
    return counts.index(top) if counts.count(top) == 1 else None


def brute_force(counts: Counts) -> int:
    """The most votes that may change, in any way, with the winner still alone in front; 0 where it never was."""
    winner, reached, changed = sole_winner(counts), {counts}, 0
    while winner is not None and all(sole_winner(other) == winner for other in reached):
        changed += 1
        reached |= {other for item in reached for other in one_changed(item)}
    return max(0, changed - 1)


def breaches(label: Measure, distance: Measure, classes: int, teachers: int) -> set[str]:
    """Which of the two laws fail on some pair of neighbours."""
    votes = vectors(classes, teachers)
    table = np.array(votes)
    known = dict(zip(votes, zip(label(table).tolist(), distance(table).tolist(), strict=True), strict=True))
    found = set()
    for counts, (f, d) in known.items():
        for other_f, other_d in (known[other] for other in one_changed(counts)):
            found |= {"sensitivity"} if abs(d - other_d) > 1 else set()
            found |= {"label"} if f != other_f and (d or other_d) else set()
    return found


@pytest.mark.parametrize(("classes", "teachers"), SIZES)
def test_the_distance_is_the_brute_force_one(classes: int, teachers: int) -> None:
    votes = vectors(classes, teachers)
    assert distance_to_instability(np.array(votes)).tolist() == [brute_force(counts) for counts in votes]


@pytest.mark.parametrize(("classes", "teachers"), SIZES)
def test_one_vote_moves_it_by_one_and_labels_differ_only_at_zero(classes: int, teachers: int) -> None:
    assert breaches(plurality, distance_to_instability, classes, teachers) == set()


def printed(votes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.maximum(0, margin(votes) - 1).astype(np.int64)


def rounded_up(votes: NDArray[np.int64]) -> NDArray[np.int64]:
    return ((margin(votes) + 1) // 2).astype(np.int64)


def swayed(votes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Near-ties, not ties alone, go to the class with fewer votes."""
    return np.asarray(np.where(margin(votes) <= 3, votes.argmin(axis=1), votes.argmax(axis=1)))


@pytest.mark.parametrize(
    ("label", "distance", "law"),
    [
        (plurality, printed, "sensitivity"),
        (plurality, rounded_up, "label"),
        (swayed, distance_to_instability, "label"),
    ],
)
def test_planted_bugs_break_a_law(label: Measure, distance: Measure, law: str) -> None:
    assert law in breaches(label, distance, 3, 7)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64, np.int32, np.int64])
def test_every_integer_type_gives_signed_answers(dtype: type[np.integer]) -> None:
    votes = np.array(vectors(3, 7))
    for measure in (plurality, distance_to_instability):
        assert measure(votes.astype(dtype)).dtype == np.int64
        assert measure(votes.astype(dtype)).tolist() == measure(votes).tolist()


def test_ties_go_to_the_lowest_class_whatever_their_number() -> None:
    votes = np.array(vectors(4, 6))
    assert plurality(votes).tolist() == votes.argmax(axis=1).tolist()


def test_no_rows_and_one_class() -> None:
    assert plurality(np.zeros((0, 3), int)).shape == distance_to_instability(np.zeros((0, 3), int)).shape == (0,)
    assert distance_to_instability(np.array([[7]])).tolist() == [3]
