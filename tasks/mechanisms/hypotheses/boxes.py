"""Boxes and stumps: classes whose hypotheses are bounded by numbers of single columns, and all their dichotomies.

Boxes: intervals, axis-aligned rectangles and conjunctions. Columns are replaced by the ranks of the numbers that occur,
a lattice. A dichotomy made by some box is made by exactly one tight box, each side of which touches a row inside: the
bounding box of its rows. Counts in all boxes at once are differences of running sums along one axis after another.
Conjunctions are boxes over two-valued columns.

Stumps and thresholds: one column against one number, either way round. A stump labels `inside` from some number of its
column on and the other label below. On given rows, a column with m different numbers makes m − 1 splits, and two
columns may make the same one: splits are identified by a digest of the rows above, so each is taken once.
Checked by tests/privacy/test_hypotheses.py.
"""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from concord.artifacts.errors import WrongInput
from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.mechanisms.hypotheses.dichotomies import (
    Hypotheses,
    HypothesisClass,
    balance,
    cells,
    errors_of,
    selected,
)

Spans = tuple[Ints, Ints]
"""First and last rank of every interval along one axis."""
HALF = 0.5
"""Least number that counts as true in a conjunction."""


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
    in the class. VC dimension 4."""

    name: ClassVar[str] = "rectangles"
    width: ClassVar[int | None] = 2

    @property
    def dimension(self) -> int:
        return 2 * len(self.columns)

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


class Intervals(HypothesisClass):
    """1 within an interval of one column, or outside it: open ends and the empty interval included. VC dimension 3."""

    name: ClassVar[str] = "intervals"
    width = 1

    @property
    def dimension(self) -> int:
        return 3

    def most_candidates(self, sizes: Sequence[int]) -> int:
        (size,) = sizes
        return size * (size - 1) + 2

    def enumerated(self, points: Floats) -> Boxes:
        values = (np.unique(points),)
        first, _ = all_spans(len(values[0]))
        # A set and its complement split the rows alike; just one of them leaves out the lowest number.
        splits = np.concatenate([[_everything(values)], np.flatnonzero(first > 0)])
        return Boxes(self.columns, values, chosen=np.repeat(splits, 2), inside=np.tile([0, 1], len(splits)))


class Conjunctions(Rectangles):
    """1 if every literal of some set holds; a column is true from HALF on. The contradiction, which is 0 everywhere, is
    in the class; complements are not. VC dimension: the number of columns (2 for a single one)."""

    name: ClassVar[str] = "conjunctions"
    width = None

    def __post_init__(self) -> None:
        if self.grid is not None:
            raise WrongInput(f"{self.name} take no grid: a column is true from {HALF} on")
        super().__post_init__()
        self.check_candidates(self.bound)

    @property
    def bound(self) -> int:
        """Number of candidates: three literals per column (true, false, either), and the contradiction."""
        return self.most_candidates([2] * len(self.columns))

    def rounded(self, X: Floats) -> Floats:
        return np.where(selected(X, self.columns) >= HALF, HALF, 0.0)

    @property
    def dimension(self) -> int:
        return max(2, len(self.columns))


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

    @property
    def dimension(self) -> int:
        """The largest D with 2^D <= 2·(1 + columns·(D − 1)), the most splits that D rows leave: an upper bound."""
        dimension = 2
        while 2 ** (dimension + 1) <= 2 * (1 + len(self.columns) * dimension):
            dimension += 1
        return dimension

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


class Thresholds(Stumps):
    """One column against a threshold, either way round, and the two constants. VC dimension 2."""

    name: ClassVar[str] = "thresholds"
    width = 1
