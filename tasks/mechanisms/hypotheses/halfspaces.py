"""Halfplanes in two columns, and every dichotomy they make of given rows.

Numbers become whole coordinates, multiples of a power of two near a millionth of the public range, so that the side of
a line on which a point lies is decided exactly. Each split of u points by a line, but the trivial one, is made by
slightly turning some line through two neighbouring points of it: the points on one side, and on the line up to the
first of two.
A half-turn of the plane meets each split once (its directions are one arc), so with both labels there are
2 + 2·Σ_lines (points on it − 1) dichotomies, at most u² − u + 2.

A candidate labels `inside` left of a directed line and on it up to a point: on any finite set a halfplane's dichotomy.
Checked by tests/privacy/test_hypotheses.py, against linear programming.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from concord.artifacts.errors import WrongInput
from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.mechanisms.hypotheses.dichotomies import (
    Grid,
    Hypotheses,
    HypothesisClass,
    balance,
    cells,
    errors_of,
    selected,
)

BITS = 20
"""Coordinates are whole numbers up to 2^BITS: products of two differences stay within 64 bits."""
ROW = 2 ** (BITS + 1)
"""A point as one number is x·ROW + y."""


@dataclass(frozen=True)
class Plane:
    """The public map of two columns to whole coordinates: round down to `grid`, clip, count units from `origin`."""

    columns: tuple[int, ...]
    grid: Grid | None
    origin: tuple[float, ...]
    top: tuple[float, ...]

    def coordinates(self, X: Floats) -> Ints:
        """Whole coordinates (rows, 2) of X (rows, width)."""
        numbers = selected(X, self.columns)
        for axis, (low, high) in enumerate(zip(self.origin, self.top, strict=True)):
            column = numbers[:, axis]
            if self.grid is not None:
                column = np.take(self.grid[axis], cells(column, np.array(self.grid[axis])))
            numbers[:, axis] = np.rint((np.clip(column, low, high) - low) / _unit(low, high))
        return numbers.astype(np.int64)


@dataclass(frozen=True)
class HalfPlane:
    """Label `inside` left of the line from `through` along `direction` and on it up to `through`; else the other."""

    plane: Plane
    through: tuple[int, ...]
    direction: tuple[int, ...]
    inside: int

    def predict(self, X: Floats) -> Ints:
        """Labels (rows,) of X (rows, width)."""
        separate = self.plane.coordinates(X) - np.array(self.through)
        (along, across), (dx, dy) = separate.T, self.direction
        left = dx * across - dy * along
        within = (left > 0) | ((left == 0) & (dx * along + dy * across <= 0))
        return np.where(within, self.inside, 1 - self.inside)

    def describe(self) -> dict[str, Any]:
        """As JSON."""
        return {"kind": "halfplane", **asdict(self)}

    @classmethod
    def rebuilt(cls, fields: dict[str, Any]) -> "HalfPlane":
        """The half-plane with these JSON fields."""
        plane = fields["plane"]
        grid = None if plane["grid"] is None else tuple(map(tuple, plane["grid"]))
        columns, origin, top = (tuple(plane[name]) for name in ("columns", "origin", "top"))
        through, direction = tuple(fields["through"]), tuple(fields["direction"])
        return cls(Plane(columns, grid, origin, top), through, direction, int(fields["inside"]))


@dataclass(frozen=True, eq=False)
class HalfPlanes(Hypotheses):
    """Two candidates per split, 0 and 1 inside: all points, then each line from `start` to `end` (splits − 1, 2)."""

    plane: Plane
    start: Ints
    end: Ints

    def __len__(self) -> int:
        return 2 * (len(self.start) + 1)

    def __getitem__(self, candidate: int) -> HalfPlane:
        split, inside = divmod(range(len(self))[candidate], 2)
        if split == 0:
            # Everything is left of a line that passes below the lowest coordinates.
            return HalfPlane(self.plane, (0, -1), (1, 0), inside)
        start, end = self.start[split - 1], self.end[split - 1]
        x, y = (end - start).tolist()
        return HalfPlane(self.plane, tuple(start.tolist()), (x, y), inside)

    def errors(self, X: Floats, y: Ints) -> Ints:
        spots, cell = np.unique(self.plane.coordinates(X) @ [ROW, 1], return_inverse=True)
        points = np.column_stack(np.divmod(spots, ROW))
        weights = balance(cell, y, len(points))
        within = np.empty(len(self.start) + 1, dtype=np.int64)
        within[0] = weights.sum()
        # Lines are grouped by where they start: one sort of the points by angle serves a whole group.
        starts, group = np.unique(self.start, axis=0, return_inverse=True)
        order = np.argsort(group.ravel(), kind="stable")
        ends = np.searchsorted(group.ravel()[order], np.arange(len(starts) + 1))
        for at, pivot in enumerate(starts):
            mine = order[ends[at] : ends[at + 1]]
            within[1 + mine] = _left_of(pivot, self.end[mine] - pivot, points, weights)
        return errors_of(np.tile([0, 1], len(within)), np.repeat(within, 2), y)


class Halfspaces(HypothesisClass):
    """1 on one side of a line in the plane of two columns, and the two constants. VC dimension 3."""

    name: ClassVar[str] = "halfspaces"

    def __post_init__(self) -> None:
        if len(self.columns) != 2:
            raise WrongInput(
                f"{self.name} can be enumerated in 2 features, got {len(self.columns)}: with more, their number of "
                "dichotomies and the work to find them grow too fast"
            )
        super().__post_init__()

    @property
    def dimension(self) -> int:
        return 3

    def most_candidates(self, sizes: Sequence[int]) -> int:
        points = math.prod(sizes)
        return points * (points - 1) + 2

    def enumerated(self, points: Floats) -> HalfPlanes:
        ends = [(column[0], column[-1]) for column in self.grid or np.sort(points, axis=0).T]
        origin, top = (tuple(map(float, corner)) for corner in zip(*ends, strict=True))
        plane = Plane(tuple(range(2)), None, origin, top)
        spots = np.unique(plane.coordinates(points), axis=0)
        lines = [np.column_stack(pair) for pair in _lines(spots)]
        found = np.concatenate([np.empty((0, 4), np.int64), *lines])
        return HalfPlanes(Plane(self.columns, self.grid, origin, top), found[:, :2], found[:, 2:])


def _lines(points: Ints) -> Iterator[tuple[Ints, Ints]]:
    """For each of the sorted points, pairs of it and the next point on each line to later ones, (lines, 2) each."""
    for at, pivot in enumerate(points[:-1]):
        later = points[at + 1 :]
        # Points are sorted, so the first of one direction is the nearest.
        _, first = np.unique(_angle(later - pivot), return_index=True)
        yield np.tile(pivot, (len(first), 1)), later[first]


def _left_of(pivot: Ints, directions: Ints, points: Ints, weights: Ints) -> Ints:
    """Weight (lines,) of the points left of each line from the pivot (lines, 2), or on it up to the pivot.

    Left of a line at angle φ in (−π/2, π/2] are later points at a greater angle, and earlier ones, turned about the
    pivot, at a smaller; earlier ones at φ itself are on the line before the pivot.
    """
    separate = points - pivot
    later = (separate[:, 0] > 0) | ((separate[:, 0] == 0) & (separate[:, 1] > 0))
    itself = (separate == 0).all(axis=1)
    earlier = ~later & ~itself
    at = _angle(directions)
    return np.asarray(
        weights[itself].sum()
        + weights[later].sum()
        - _up_to(at, _angle(separate[later]), weights[later])
        + _up_to(at, _angle(-separate[earlier]), weights[earlier])
    )


def _up_to(at: Floats, angles: Floats, weights: Ints) -> Ints:
    """Weight of all angles that are at most `at` (lines,)."""
    order = np.argsort(angles)
    running = np.concatenate([[0], weights[order].cumsum()])
    return np.asarray(running[np.searchsorted(angles[order], at, side="right")])


def _angle(directions: Ints) -> Floats:
    """One number for each direction (n, 2), rising with its angle. Directions are reduced first, so equal ones give the
    same number; others differ by at least 2^(−2·BITS − 1), far more than a double rounds."""
    x, y = (directions // np.maximum(np.gcd(*directions.T), 1)[:, None]).T
    return np.asarray(np.arctan2(y, x))


def _unit(low: float, high: float) -> float:
    """The least power of two that fits into the range at most 2^BITS times."""
    return float(2.0 ** (math.ceil(math.log2(high - low)) - BITS)) if high > low else 1.0
