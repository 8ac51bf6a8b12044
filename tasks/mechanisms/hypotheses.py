"""Hypothesis classes that are listed whole: stumps and rectangles, and all dichotomies they make of given rows.

Labels are 0 and 1. A class works on chosen columns of a matrix X (rows, width) of floats; NaN counts as 0 and an
infinite number as the largest float, so that no row can stop it. With a `grid`, each number is first rounded down to a
public point (or up to the first one, if it is below it). This is a fixed map of single rows, so rounded rows have a
hypothesis class like any other, and the largest number of candidates follows from the grid alone.

Rectangles: columns are replaced by the ranks of the numbers that occur, a lattice. A dichotomy made by some rectangle
is made by exactly one tight one, each side of which touches a row inside: the bounding box of its rows. Counts in all
boxes at once are differences of running sums along one axis after another.

Stumps: one column against one number, either way round. A stump labels `inside` from some number of its column on and
the other label below. On given rows, a column with m different numbers makes m − 1 splits, and two columns may make
the same one: splits are identified by a digest of the rows above, so each is taken once.

Assumes      columns and grid are public. If rows are private, so is the result of `dichotomies`, its length included
Guarantees   exactly one candidate for each way in which hypotheses of the class label the rows
Ends         not applicable: nothing is drawn
Not covered  how many rows there are: with a grid, time grows in proportion to them
Checked by tests/privacy/test_hypotheses.py, against brute force and Sauer's bound.
"""

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from concord.artifacts.errors import WrongInput
from concord.tasks.mechanisms.distance import Floats, Ints

MOST_CANDIDATES = 2**21
"""Most candidates of a class: their error counts are held in memory and drawn from at once."""

Grid = tuple[tuple[float, ...], ...]
Spans = tuple[Ints, Ints]
"""First and last rank of every interval along one axis."""


@dataclass(frozen=True)
class Box:
    """Label `inside` if low <= number < high in each of `columns`, otherwise the other label; None is an open end."""

    columns: tuple[int, ...]
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]
    inside: int

    def predict(self, X: Floats) -> Ints:
        """Labels (rows,) of X (rows, width)."""
        within = np.ones(len(X), dtype=bool)
        for numbers, low, high in zip(selected(X, self.columns).T, self.low, self.high, strict=True):
            within &= (low is None or numbers >= low) & (high is None or numbers < high)
        return np.where(within, self.inside, 1 - self.inside)

    def describe(self) -> dict[str, Any]:
        """As JSON."""
        return {"kind": "box", **asdict(self)}

    @classmethod
    def rebuilt(cls, fields: dict[str, Any]) -> "Box":
        """The box with these JSON fields."""
        columns, low, high = (tuple(fields[name]) for name in ("columns", "low", "high"))
        return cls(columns=columns, low=low, high=high, inside=int(fields["inside"]))


class Hypotheses(ABC):
    """Candidates of one class, one a dichotomy."""

    @abstractmethod
    def __len__(self) -> int:
        """Number of candidates."""

    @abstractmethod
    def __getitem__(self, candidate: int) -> Box:
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
            raise WrongInput(f"{self.name} need {self.width} features, got {len(self.columns)}")
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

    def __getitem__(self, candidate: int) -> Box:
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


@dataclass(frozen=True, eq=False)
class Boxes(Hypotheses):
    """Candidates as boxes of a lattice: `values` has the numbers of each axis, `chosen` (candidates,) the index of a
    combination of one interval per axis, `inside` (candidates,) the label inside."""

    columns: tuple[int, ...]
    values: tuple[Floats, ...]
    chosen: Ints
    inside: Ints

    def __len__(self) -> int:
        return len(self.chosen)

    def __getitem__(self, candidate: int) -> Box:
        spans = [all_spans(len(values)) for values in self.values]
        at = np.unravel_index(self.chosen[candidate], [len(first) for first, _ in spans])
        ends = [(int(first[i]), int(last[i])) for (first, last), i in zip(spans, at, strict=True)]
        low = [None if first == 0 else float(v[first]) for v, (first, _) in zip(self.values, ends, strict=True)]
        high = [
            None if last + 1 == len(v) else float(v[last + 1]) for v, (_, last) in zip(self.values, ends, strict=True)
        ]
        return Box(self.columns, tuple(low), tuple(high), int(self.inside[candidate]))

    def errors(self, X: Floats, y: Ints) -> Ints:
        cell = lattice_cells(selected(X, self.columns), self.values)
        shape = _shape(self.values)
        within = span_sums(balance(cell, y, math.prod(shape)).reshape(shape))
        return errors_of(self.inside, within.ravel()[self.chosen], y)


class Rectangles(HypothesisClass):
    """1 within an axis-aligned rectangle in two columns, which may be open to any side, or empty; complements are not
    in the class."""

    name: ClassVar[str] = "rectangles"
    width: ClassVar[int | None] = 2

    def most_candidates(self, sizes: Sequence[int]) -> int:
        return math.prod(size * (size + 1) // 2 for size in sizes) + 1

    def enumerated(self, points: Floats) -> Boxes:
        values = tuple(np.unique(column) for column in points.T)
        held = np.bincount(lattice_cells(points, values), minlength=math.prod(_shape(values))).reshape(_shape(values))
        sums = span_sums(held)
        tight = np.ones(sums.shape, dtype=bool)  # boxes that hold a row at the first and at the last rank of every axis
        for axis, count in enumerate(sums.shape):
            first, last = all_spans(math.isqrt(2 * count))
            alone = np.flatnonzero(first == last)  # places of the intervals of one rank
            for end in (first, last):
                tight &= sums.take(alone[end], axis=axis) > 0
        boxes = np.flatnonzero(tight)
        nothing = _everything(values)
        return Boxes(
            self.columns,
            values,
            chosen=np.concatenate([[nothing], boxes]),
            inside=np.concatenate([[0], np.ones(len(boxes), np.int64)]),
        )


def all_spans(size: int) -> Spans:
    """Every interval first … last of ranks below `size`."""
    return np.triu_indices(size)


def span_sums(weights: Ints) -> Ints:
    """Sums of lattice weights (m₁, …, m_d) over every box: (intervals of axis 1, …, intervals of axis d)."""
    for axis, size in enumerate(weights.shape):
        first, last = all_spans(size)
        running = np.insert(weights.cumsum(axis=axis), 0, 0, axis=axis)
        weights = running.take(last + 1, axis=axis) - running.take(first, axis=axis)
    return weights


def lattice_cells(numbers: Floats, values: Sequence[Floats]) -> Ints:
    """The flat lattice cell of each row of numbers (rows, axes): (rows,)."""
    at = [cells(column, points) for column, points in zip(numbers.T, values, strict=True)]
    return np.asarray(np.ravel_multi_index(at, _shape(values)), dtype=np.int64)


def _everything(values: Sequence[Floats]) -> int:
    """Index of the box that is the whole lattice."""
    spans = [all_spans(len(points)) for points in values]
    widest = [int(np.flatnonzero((first == 0) & (last == last.max()))[0]) for first, last in spans]
    return int(np.ravel_multi_index(widest, [len(first) for first, _ in spans]))


def _shape(values: Sequence[Floats]) -> tuple[int, ...]:
    return tuple(len(points) for points in values)


@dataclass(frozen=True, eq=False)
class StumpsOf(Hypotheses):
    """Two candidates per split, 0 and 1 above it: split s is at rank cut[s] of `values`[feature[s]], 0 for no split."""

    columns: tuple[int, ...]
    values: tuple[Floats, ...]
    feature: Ints
    cut: Ints

    def __len__(self) -> int:
        return 2 * len(self.cut)

    def __getitem__(self, candidate: int) -> Box:
        split, inside = divmod(range(len(self))[candidate], 2)
        feature, cut = int(self.feature[split]), int(self.cut[split])
        low = None if cut == 0 else float(self.values[feature][cut])
        return Box((self.columns[feature],), (low,), (None,), inside)

    def errors(self, X: Floats, y: Ints) -> Ints:
        above = np.empty(len(self.cut), dtype=np.int64)
        for feature, values in enumerate(self.values):
            mine = self.feature == feature
            if mine.any():
                numbers = selected(X, self.columns[feature : feature + 1])[:, 0]
                here = balance(cells(numbers, values), y, len(values))
                above[mine] = here[::-1].cumsum()[::-1][self.cut[mine]]
        return errors_of(np.tile([0, 1], len(self.cut)), np.repeat(above, 2), y)


class Stumps(HypothesisClass):
    """One number of one of the columns against a threshold, either way round, and the two constants."""

    name: ClassVar[str] = "stumps"
    linear: ClassVar[bool] = True

    def most_candidates(self, sizes: Sequence[int]) -> int:
        return 2 * (1 + sum(size - 1 for size in sizes))

    def enumerated(self, points: Floats) -> StumpsOf:
        values = tuple(np.unique(column) for column in points.T)
        splits = [(feature, cut) for feature, numbers in enumerate(values) for cut in range(1, len(numbers))]
        if len(values) > 1:  # of splits that divide the rows alike, as a set and its complement do, only the first
            seen: dict[bytes, tuple[int, int]] = {}
            for feature, cut in splits:
                above = points[:, feature] >= values[feature][cut]
                seen.setdefault(hashlib.blake2b(np.packbits(above ^ above[0]).tobytes()).digest(), (feature, cut))
            splits = list(seen.values())
        features, cuts = np.array([(0, 0), *splits], dtype=np.int64).T
        return StumpsOf(self.columns, values, features, cuts)
