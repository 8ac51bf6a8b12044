"""Margins: counts of private units by the cells of each column, estimated from a sketch's noisy one-way tables.

A number's narrow and wide tables, with noise of one scale, are made to agree by least squares. The number of units is
the mean of all tables' totals and of the count, by inverse variances. Counts then have no negative part and add up to
it: the nearest such table, first of wide cells and then within each, where narrow ones are shrunk towards evenness by
as much as noise explains (James & Stein 1961).

Assumes      the sums are released: post-processing, in floats
Guarantees   any whole numbers give a result, even if all are negative: a session that has paid never gets stuck
Not covered  dependence between columns (tasks.student.synthetic). Checked by tests/tasks/student/test_margins.py
"""

from dataclasses import dataclass

import numpy as np

from concord.tasks.data.codes import Codes, coarser
from concord.tasks.mechanisms.distance import Floats, Ints


@dataclass(frozen=True, eq=False)
class Margins:
    """Estimated counts.

    units    number of private units, at least 1
    noise    sd of the noise in a released cell, in units
    counts   by column, of each narrow cell (cells,): none is negative, and each column's add up to `units`
    """

    units: float
    noise: float
    counts: tuple[Floats, ...]


@dataclass(frozen=True, eq=False)
class _Column:
    """Narrow cells of a column by least squares: `narrow` (cells,), and the wide cell of each of them in `group`."""

    narrow: Floats
    group: Ints
    variance: float

    @property
    def wide(self) -> Floats:
        """Counts of the wide cells."""
        found: Floats = np.bincount(self.group, self.narrow).astype(np.float64)
        return found


def margins_of(grid: Codes, sums: Ints, *, steps: int, scale: float, count: int) -> Margins:
    """Margins from the released sums of all views of the grid, in order, and of the count.

    steps, scale   steps of a unit in a cell, and the scale of the noise, in steps
    count          steps of a unit in the last sum
    """
    noise = scale / steps
    cells = sums[:-1] / steps
    tables = [cells[grid.span(at)] for at in range(grid.width)]
    columns = [
        _agreed(tables[narrow], tables[wide], coarser(grid.fields[narrow], grid.fields[wide]), noise)
        if wide != narrow
        else _Column(tables[narrow], np.arange(len(tables[narrow])), len(tables[narrow]) * noise**2)
        for wide, narrow in zip(grid.coarse, grid.fine, strict=True)
    ]
    totals = np.array([*(column.narrow.sum() for column in columns), sums[-1] / count])
    precision = np.array([*(1 / column.variance for column in columns), (count / scale) ** 2])
    units = max(1.0, float(totals @ precision / precision.sum()))
    return Margins(units, noise, tuple(_settled(column, units, noise) for column in columns))


def _agreed(narrow: Floats, wide: Floats, group: Ints, noise: float) -> _Column:
    """Both tables as one, by least squares: a wide cell of g narrow ones weighs g to their sum's 1."""
    size = np.bincount(group)
    own = np.bincount(group, narrow)
    best = (wide * size + own) / (size + 1)
    return _Column(narrow + ((best - own) / size)[group], group, float((noise**2 * size / (size + 1)).sum()))


def _settled(column: _Column, units: float, noise: float) -> Floats:
    """Counts without a negative part that add up to `units`."""
    wide = nearest(column.wide, units)
    found = np.empty(len(column.narrow))
    for at, total in enumerate(wide):
        own = column.group == at
        parts = column.narrow[own]
        apart = parts - parts.mean()
        explained = (len(parts) - 1) * noise**2 / max(1e-9, float(apart @ apart))
        found[own] = nearest(total / len(parts) + max(0.0, 1 - explained) * apart, total)
    return found


def nearest(counts: Floats, total: float) -> Floats:
    """The nearest non-negative counts that add up to `total` (Held, Wolfe & Crowder 1974)."""
    falling = np.sort(counts)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(counts) + 1)
    kept = int(np.flatnonzero(falling >= excess)[-1])
    found = np.maximum(counts - excess[kept], 0.0)
    return np.asarray(found * (total / found.sum())) if found.sum() > 0 else np.full(len(counts), total / len(counts))


def drawn(weights: Floats, size: int, source: np.random.Generator) -> Ints:
    """`size` places in proportion to `weights`, in random order, each as often as its share to within one; even if all
    weights are zero."""
    edges = np.cumsum(weights if weights.sum() > 0 else np.ones(len(weights)))
    points = source.permutation((np.arange(size) + source.random()) / size)
    return np.minimum(np.searchsorted(edges / edges[-1], points, side="right"), len(weights) - 1)
