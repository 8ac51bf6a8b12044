"""Base classes of hypothesis classes: a public map of numbers to cells, and all dichotomies of given rows.

Labels are 0 and 1. A class works on chosen columns of a matrix X (rows, width) of floats; NaN counts as 0 and an
infinite number as the largest float, so that no row can stop it. With a `grid`, each number is first rounded down to a
public point (or up to the first one, if it is below it). This is a fixed map of single rows, so rounded rows have a
hypothesis class like any other, and the largest number of candidates follows from the grid alone.

Assumes      columns and grid are public. If rows are private, so is the result of `dichotomies`, its length included
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
"""Most candidates of a class: their error counts are held in memory and drawn from at once."""

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
        """Number of candidates."""

    @abstractmethod
    def __getitem__(self, candidate: int) -> Hypothesis:
        """The classifier of a candidate."""

    @abstractmethod
    def errors(self, X: Floats, y: Ints) -> Ints:
        """Number of rows that each candidate labels differently from y (rows,) of 0 and 1: exact, (candidates,)."""

    def labels(self, X: Floats, candidate: int) -> Ints:
        """Labels (rows,) of X (rows, width) by a candidate."""
        return self[candidate].predict(X)

    def describe(self, candidate: int) -> dict[str, Any]:
        """A candidate as JSON."""
        return self[candidate].describe()


@dataclass(frozen=True)
class HypothesisClass(ABC):
    """A class over `columns` of X, its numbers rounded to `grid` (points in rising order, one tuple a column)."""

    name: ClassVar[str]
    linear: ClassVar[bool] = False
    """Whether the number of dichotomies grows at most linearly with the rows, so that public rows need no grid. Private
    rows do: see `bound`."""

    width: ClassVar[int | None] = None
    """Number of columns that it takes; None for any."""

    columns: tuple[int, ...]
    grid: Grid | None = None

    def __post_init__(self) -> None:
        if self.width is not None and len(self.columns) != self.width:
            features = "feature" if self.width == 1 else "features"
            raise WrongInput(f"{self.name} need {self.width} {features}, got {len(self.columns)}")
        if not self.columns or len(set(self.columns)) < len(self.columns) or min(self.columns) < 0:
            raise WrongInput(f"{self.name}: columns must be one or more different ones, got {self.columns!r}")
        if self.grid is not None:
            if len(self.grid) != len(self.columns):
                raise WrongInput(
                    f"{self.name}: grid must hold one row of points for each of {len(self.columns)} columns"
                )
            for points in self.grid:
                if not points or not all(map(math.isfinite, points)) or any(b <= a for a, b in pairwise(points)):
                    raise WrongInput(f"{self.name}: the points of a grid must be finite numbers in rising order")
            self.check_candidates(self.most_candidates([len(points) for points in self.grid]))

    @property
    @abstractmethod
    def dimension(self) -> int:
        """Its VC dimension; for stumps an upper bound."""

    @abstractmethod
    def most_candidates(self, sizes: Sequence[int]) -> int:
        """Largest number of dichotomies on rows with `sizes` different numbers in the columns."""

    @abstractmethod
    def enumerated(self, points: Floats) -> Hypotheses:
        """One candidate per dichotomy of distinct, rounded rows (rows, columns); the first labels every row 0."""

    @property
    def bound(self) -> int | None:
        """Largest number of candidates for any rows; None if it depends on the rows, so private rows could fail."""
        return None if self.grid is None else self.most_candidates([len(points) for points in self.grid])

    @property
    def digest(self) -> str:
        """Public SHA-256 of name, columns and grid, which identify the class."""
        return hashlib.sha256(json.dumps([self.name, self.columns, self.grid]).encode()).hexdigest()

    def dichotomies(self, X: Floats) -> Hypotheses:
        """One candidate per dichotomy of the class on X (rows, width); if there are no rows, a single one labelling 0.

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
                "use fewer features"
            )


@dataclass(frozen=True)
class FirstOf(Hypotheses):
    """The first candidate only, for no rows: they have a single dichotomy."""

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
    """Index (rows,) of the point each number is rounded to: the last of the rising `points` at or below it, or the
    first."""
    return np.asarray(np.maximum(np.searchsorted(points, numbers, side="right") - 1, 0), dtype=np.int64)


def balance(cell: Ints, y: Ints, size: int) -> Ints:
    """Rows labelled 1 minus rows labelled 0 in each of `size` cells, (size,)."""
    return np.asarray(np.bincount(cell[y == 1], minlength=size) - np.bincount(cell[y != 1], minlength=size))


def errors_of(inside: Ints, within: Ints, y: Ints) -> Ints:
    """Errors of candidates that give the label `inside` to rows of balance `within`, and the other label to the rest.

    If the label inside is 1, errors are the 1s outside and the 0s inside; if it is 0, the other way round.
    """
    ones = np.count_nonzero(y == 1)
    return np.where(inside == 1, ones - within, len(y) - ones + within)
