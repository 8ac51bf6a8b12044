"""What every hypothesis class is: a public map of numbers to cells, and all dichotomies of the class on given rows.

Labels are 0 and 1. A class works on chosen columns of a matrix X (rows, width) of floats; a cell that is no number
counts as 0 and an infinite one as the largest float, so that no row can stop it. With a `grid`, each number is first
rounded down to a public point (up to the first, if it is below): a fixed map of single rows, so that the class of
rounded rows is a class like any other, and how many candidates it can have follows from the grid alone.

Assumes      columns and grid are public. If rows are private, so is what `dichotomies` gives, its number included
Guarantees   exactly one candidate for each way in which hypotheses of the class label the rows
Not covered  how many rows there are: with a grid, time grows in proportion to them
Checked by tests/privacy/test_hypotheses.py, against brute force and Sauer's bound.
"""

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Protocol

import numpy as np

from concord.artifacts.errors import WrongInput
from concord.tasks.mechanisms.distance import Floats, Ints

MOST_CANDIDATES = 2**21
"""Candidates beyond which a class is refused: their error counts are held and drawn from at once."""

Grid = tuple[tuple[float, ...], ...]


class Hypothesis(Protocol):
    """One classifier of a class."""

    def predict(self, X: Floats) -> Ints:
        """Labels 0 or 1, (rows,), of X (rows, width)."""

    def describe(self) -> dict[str, Any]:
        """The hypothesis as JSON; `hypotheses.from_description` rebuilds it."""


class Hypotheses(ABC):
    """Candidates of one class, one a dichotomy."""

    @abstractmethod
    def __len__(self) -> int:
        """How many candidates there are."""

    @abstractmethod
    def __getitem__(self, candidate: int) -> Hypothesis:
        """The classifier that a candidate is."""

    @abstractmethod
    def errors(self, X: Floats, y: Ints) -> Ints:
        """How many rows each candidate labels otherwise than y (rows,) of 0 and 1: exact, (candidates,)."""

    def labels(self, X: Floats, candidate: int) -> Ints:
        """What a candidate says of X (rows, width): (rows,)."""
        return self[candidate].predict(X)

    def describe(self, candidate: int) -> dict[str, Any]:
        """A candidate as JSON."""
        return self[candidate].describe()


@dataclass(frozen=True)
class HypothesisClass(ABC):
    """A class over `columns` of X, its numbers rounded to `grid` (points in rising order, one tuple a column)."""

    name: ClassVar[str]
    linear: ClassVar[bool] = False
    """Whether dichotomies grow no faster than rows, so that public rows need no grid. Private ones do: see `bound`."""

    columns: tuple[int, ...]
    grid: Grid | None = None

    def __post_init__(self) -> None:
        if not self.columns or len(set(self.columns)) < len(self.columns) or min(self.columns) < 0:
            raise WrongInput(f"{self.name}: columns must be one or more different ones, got {self.columns!r}")
        if self.grid is not None:
            _check_grid(self.name, self.columns, self.grid)
            self.check_candidates(self.most_candidates([len(points) for points in self.grid]))

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Its VC dimension; for stumps an upper bound."""

    @abstractmethod
    def most_candidates(self, sizes: Sequence[int]) -> int:
        """Dichotomies at most on rows with so many different numbers a column."""

    @abstractmethod
    def enumerated(self, points: Floats) -> Hypotheses:
        """One candidate a dichotomy of distinct rows (rows, columns), already rounded; the first says 0 of all."""

    @property
    def bound(self) -> int | None:
        """Candidates at most, whatever the rows; None if only they tell, so that private rows could fail."""
        return None if self.grid is None else self.most_candidates([len(points) for points in self.grid])

    @property
    def digest(self) -> str:
        """Of name, columns and grid: all that tells one class from another; public."""
        return hashlib.sha256(json.dumps([self.name, self.columns, self.grid]).encode()).hexdigest()

    def dichotomies(self, X: Floats) -> Hypotheses:
        """One candidate a dichotomy of the class on X (rows, width): one alone, saying 0, if there are no rows.

        Raises WrongInput if there are more than MOST_CANDIDATES, which a grid rules out.
        """
        points = np.unique(self.rounded(X), axis=0)
        if not len(points):
            return FirstOf(self.enumerated(np.zeros((1, len(self.columns)))))
        self.check_candidates(self.most_candidates([len(np.unique(column)) for column in points.T]))
        return self.enumerated(points)

    def rounded(self, X: Floats) -> Floats:
        """The chosen columns of X (rows, width), rounded: (rows, columns)."""
        chosen = selected(X, self.columns)
        if self.grid is not None:
            for at, points in enumerate(self.grid):
                chosen[:, at] = np.take(points, cells(chosen[:, at], np.array(points)))
        return chosen

    def check_candidates(self, count: int) -> None:
        """Raise WrongInput if there are too many candidates to be weighed."""
        if count > MOST_CANDIDATES:
            raise WrongInput(
                f"{self.name}: up to {count:,} dichotomies are more than the {MOST_CANDIDATES:,} that can be weighed; "
                "use a coarser grid or fewer features"
            )


@dataclass(frozen=True)
class FirstOf(Hypotheses):
    """The first candidate alone: no rows have one dichotomy."""

    whole: Hypotheses

    def __len__(self) -> int:
        return 1

    def __getitem__(self, candidate: int) -> Hypothesis:
        return self.whole[range(1)[candidate]]

    def errors(self, X: Floats, y: Ints) -> Ints:
        return self.whole.errors(X, y)[:1]


def selected(X: Floats, columns: Sequence[int]) -> Floats:
    """A copy of some columns of X (rows, width), every number finite."""
    return np.asarray(np.nan_to_num(np.asarray(X, dtype=np.float64)[:, list(columns)]))


def cells(numbers: Floats, points: Floats) -> Ints:
    """Which of the rising `points` each number is rounded to: the last at or below it, or the first: (rows,)."""
    return np.asarray(np.maximum(np.searchsorted(points, numbers, side="right") - 1, 0), dtype=np.int64)


def balance(cell: Ints, y: Ints, size: int) -> Ints:
    """In each of `size` cells, rows labelled 1 less rows labelled 0: (size,)."""
    return np.asarray(np.bincount(cell[y == 1], minlength=size) - np.bincount(cell[y != 1], minlength=size))


def errors_of(inside: Ints, within: Ints, y: Ints) -> Ints:
    """Errors of candidates that say `inside` (candidates,) of a set of rows whose balance is `within`, else the other.

    Saying 1 inside: every 1 is an error but those within, and every 0 within; saying 0, the same of the other label.
    """
    ones = np.count_nonzero(y == 1)
    return np.where(inside == 1, ones - within, len(y) - ones + within)


def _check_grid(name: str, columns: tuple[int, ...], grid: Grid) -> None:
    if len(grid) != len(columns):
        raise WrongInput(f"{name}: grid must hold one row of points for each of {len(columns)} columns")
    for points in grid:
        if not points or not all(map(math.isfinite, points)) or any(b <= a for a, b in pairwise(points)):
            raise WrongInput(f"{name}: the points of a grid must be finite numbers in rising order")
