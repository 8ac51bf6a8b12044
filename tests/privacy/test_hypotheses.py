"""Hypothesis classes: all dichotomies against brute force, error counts row by row, and bounds that hold.

Brute force takes no line of the classes: every stump and rectangle is tried on every row.
"""

import json
import math
from collections.abc import Callable
from itertools import combinations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.world import CLASSES, Box, Floats, HypothesisClass, hypothesis_class

Patterns = set[tuple[int, ...]]
Bools = NDArray[np.bool_]
Case = tuple[str, tuple[int, ...]]
"""A class and its columns."""
CASES: tuple[Case, ...] = (("stumps", (1,)), ("stumps", (0, 1, 2)), ("rectangles", (0, 2)))
GRID = (0.0, 1.0, 2.5)
LINE = np.array([[0.0, 0, 0], [1, 0, 1], [2, 0, 2], [3, 0, 3], [1, 1, 2]])
LATTICE = np.array([[float(x), x > y, float(y)] for x, y in product(range(3), repeat=2)])[[0, 1, 2, 3, 4, 5, 8]]


def some_rows() -> list[Floats]:
    """Small sets with ties, duplicates and rows on one line; the empty set and single rows too."""
    random = np.random.default_rng(1)
    drawn = [random.integers(0, 4, (random.integers(0, 7), 3)).astype(float) for _ in range(25)]
    return [np.empty((0, 3)), np.ones((1, 3)), *drawn, random.normal(size=(6, 3)), LINE, LATTICE]


ROWS = some_rows()


def build(case: Case, *, gridded: bool = False) -> HypothesisClass:
    name, columns = case
    return hypothesis_class(name, columns=columns, grid=[GRID] * len(columns) if gridded else None)


def as_patterns(labels: list[Bools]) -> Patterns:
    return {tuple(int(label) for label in row) for row in labels}


def cuts(numbers: Floats) -> list[float]:
    return [*numbers, np.inf]


def intervals(numbers: Floats) -> list[Bools]:
    return [(numbers >= low) & (numbers < high) for low, high in product(cuts(numbers), repeat=2)]


def stumps(points: Floats) -> Patterns:
    ones = [numbers >= cut for numbers in points.T for cut in cuts(numbers)]
    return as_patterns(ones + [~above for above in ones])


def rectangles(points: Floats) -> Patterns:
    return as_patterns([a & b for a, b in product(*map(intervals, points.T))])


BRUTE: dict[str, Callable[[Floats], Patterns]] = {"stumps": stumps, "rectangles": rectangles}


def test_every_class_is_among_the_cases() -> None:
    assert {name for name, _ in CASES} == BRUTE.keys() == CLASSES.keys()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("gridded", [False, True])
def test_there_is_one_candidate_for_every_dichotomy_and_no_other(case: Case, gridded: bool) -> None:
    kind = build(case, gridded=gridded)
    for X in ROWS:
        found = kind.dichotomies(X)
        labels = [tuple(found.labels(X, candidate).tolist()) for candidate in range(len(found))]
        assert len(set(labels)) == len(labels)
        if len(X):
            distinct, copies = np.unique(kind.rounded(X), axis=0, return_inverse=True)
            assert set(labels) == {tuple(pattern[at] for at in copies.ravel()) for pattern in BRUTE[case[0]](distinct)}
        else:
            assert labels == [()]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("gridded", [False, True])
def test_there_are_never_more_than_sauer_and_the_grid_allow(case: Case, gridded: bool) -> None:
    kind = build(case, gridded=gridded)
    for X in ROWS:
        count = len(kind.dichotomies(X))
        rows = len(np.unique(kind.rounded(X), axis=0))
        assert count <= sum(math.comb(rows, size) for size in range(dimension(kind) + 1))  # Sauer's lemma
        assert kind.bound is None or count <= kind.bound


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("gridded", [False, True])
def test_errors_are_counted_exactly_on_any_rows(case: Case, gridded: bool) -> None:
    random = np.random.default_rng(2)
    others = random.normal(1.5, 2, size=(40, 3))
    others[:3] = np.nan, np.inf, -np.inf
    for X in ROWS:
        found = build(case, gridded=gridded).dichotomies(X)
        for rows in (X, others):
            y = random.integers(0, 2, len(rows))
            by_row = [np.count_nonzero(found.labels(rows, candidate) != y) for candidate in range(len(found))]
            assert found.errors(rows, y).tolist() == by_row


@pytest.mark.parametrize("case", CASES)
def test_a_hypothesis_comes_back_from_its_json(case: Case) -> None:
    found = build(case, gridded=True).dichotomies(LINE)
    others = np.random.default_rng(3).normal(1.5, 2, size=(40, 3))
    for candidate in range(len(found)):
        again = Box.rebuilt(json.loads(json.dumps(found.describe(candidate), allow_nan=False)))
        assert again == found[candidate]
        assert again.predict(others).tolist() == found.labels(others, candidate).tolist()


def dimension(kind: HypothesisClass) -> int:
    """Its VC dimension; of stumps the largest D with 2^D <= 2·(1 + columns·(D − 1)), the most splits that D rows leave:
    an upper bound."""
    if kind.name != "stumps":
        return 2 * len(kind.columns)
    return max(most for most in range(2, 20) if 2**most <= 2 * (1 + len(kind.columns) * (most - 1)))


def shattered(kind: HypothesisClass, size: int, lattice: Floats) -> bool:
    return any(len(kind.dichotomies(np.array(rows))) == 2**size for rows in combinations(lattice, size))


@pytest.mark.parametrize(("name", "columns"), [("stumps", (0,)), ("rectangles", (0, 1))])
def test_the_dimension_is_the_most_rows_that_are_shattered(name: str, columns: tuple[int, ...]) -> None:
    lattice = np.array(list(product((0, 1, 2), repeat=2)), dtype=float)
    kind = hypothesis_class(name, columns=columns)
    assert shattered(kind, dimension(kind), lattice)
    assert not shattered(kind, dimension(kind) + 1, lattice)


def test_numbers_are_rounded_down_to_the_grid_and_up_to_its_first_point() -> None:
    kind = hypothesis_class("stumps", columns=[1], grid=[(0.0, 1.0, 2.5)])
    X = np.array([[9, number] for number in (-7, 0, 0.9, 1, 2.4, 2.5, 99, np.nan, np.inf, -np.inf)])
    assert kind.rounded(X).ravel().tolist() == [0, 0, 0, 1, 1, 2.5, 2.5, 0, 2.5, 0]
