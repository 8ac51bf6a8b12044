"""Margins: counts of private units by the cells of each column, estimated from a sketch's noisy one-way tables.

A number's narrow and wide tables, with noise of one scale, are made to agree by least squares. The number of units is
the mean of all tables' totals and of the count, by inverse variances. Counts then have no negative part and add up to
it: the nearest such table, first of wide cells and then within each, where narrow ones are shrunk towards evenness by
as much as noise explains (James & Stein 1961). Positive parts of noise would put people into empty cells far out; so
the tails of a number, of few units for the noise, fall off exponentially instead (`_tail`).

Assumes      the sums are released: post-processing, in floats
Guarantees   any whole numbers give a result, even if all are negative: a session that has paid never gets stuck
Not covered  dependence between columns (tasks.student.synthetic); tails of a number where the least of TAILS is more
             than FEW of all units. Checked by tests/tasks/student/test_synthetic.py
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from concord.tasks.data.codes import Codes, NumberField, coarser
from concord.tasks.mechanisms.distance import Floats, Ints

TAILS, FEW = (10.0, 4.0), 1 / 20
"""Most units in a tail: in standard deviations of a cell's noise, the first that an exponential explains; and as a
share of all, since models learn from larger tails."""
EXPLAINED = 4.5
"""Standard deviations of noise by which a narrow cell, or a run of wide cells, may leave an exponential."""
LONGER = 9.0
"""By how much better, in variances of the noise, an exponential must fit that is longer than the way from the middle to
the tail: long ones fit noise, where nobody is."""
LENGTHS = 96
"""Exponentials that are tried."""


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
    """Narrow cells of a column by least squares: `narrow` (cells,), the wide cell of each of them in `group`, and the
    cuts between them; none if there is no wide view."""

    narrow: Floats
    group: Ints
    variance: float
    cuts: tuple[float, ...] = ()

    def halves(self) -> Iterator[tuple[Ints, Floats]]:
        """The cells above the median's cell, and those below, outwards (half,); and where each begins, and the last one
        ends, away from the far side of the median's cell (half + 1,). Cells at the ends are as wide as the next."""
        widths, counts = np.diff(self.cuts), self.narrow[:-1]  # the last cell is that of missing ones
        edges = np.cumsum([0.0, widths[0], *widths, widths[-1]])
        middle = int(np.argmax(counts.cumsum() >= counts.sum() / 2))
        yield np.arange(middle + 1, len(counts)), edges[middle + 1 :] - edges[middle]
        yield np.arange(middle)[::-1], edges[middle + 1] - edges[middle::-1]


def margins_of(grid: Codes, sums: Ints, *, steps: int, scale: float, count: int) -> Margins:
    """Margins from the released sums of all views of the grid, in order, and of the count.

    steps, scale   steps of a unit in a cell, and the scale of the noise, in steps
    count          steps of a unit in the last sum
    """
    noise = scale / steps
    cells = sums[:-1] / steps
    tables = [cells[grid.span(at)] for at in range(grid.width)]
    columns = [
        _agreed(tables[narrow], tables[wide], field, coarser(field, grid.fields[wide]), noise)
        if wide != narrow and isinstance(field := grid.fields[narrow], NumberField)
        else _Column(tables[narrow], np.arange(len(tables[narrow])), len(tables[narrow]) * noise**2)
        for wide, narrow in zip(grid.coarse, grid.fine, strict=True)
    ]
    totals = np.array([*(column.narrow.sum() for column in columns), sums[-1] / count])
    precision = np.array([*(1 / column.variance for column in columns), (count / scale) ** 2])
    units = max(1.0, float(totals @ precision / precision.sum()))
    return Margins(units, noise, tuple(_settled(column, units, noise) for column in columns))


def _agreed(narrow: Floats, wide: Floats, field: NumberField, group: Ints, noise: float) -> _Column:
    """Both tables as one, by least squares: a wide cell of g narrow ones weighs g to their sum's 1."""
    size = np.bincount(group)
    grouped = np.bincount(group, narrow)
    best = (wide * size + grouped) / (size + 1)
    variance = float((noise**2 * size / (size + 1)).sum())
    return _Column(narrow + ((best - grouped) / size)[group], group, variance, field.cuts)


def _settled(column: _Column, units: float, noise: float) -> Floats:
    """Counts without a negative part that add up to `units`."""
    settled = np.full(len(column.narrow), np.nan)
    for cells, edges in column.halves() if column.cuts else ():
        settled[cells] = _tail(column.narrow[cells], column.group[cells], edges, units * FEW, noise)
    settled *= units / max(units, np.nansum(settled))
    tails, body = np.nan_to_num(settled), np.flatnonzero(np.isnan(settled))
    totals: Floats = np.bincount(column.group, column.narrow - tails).astype(np.float64)
    places, group = np.unique(column.group[body], return_inverse=True)
    wide = nearest_counts(totals[places], max(0.0, units - float(tails.sum())))
    for at, total in enumerate(wide):
        members = body[group == at]
        parts = column.narrow[members]
        deviations = parts - parts.mean()
        explained = (len(parts) - 1) * noise**2 / max(1e-9, float(deviations @ deviations))
        settled[members] = nearest_counts(total / len(parts) + max(0.0, 1 - explained) * deviations, total)
    return settled


def _tail(counts: Floats, group: Ints, edges: Floats, most: float, noise: float) -> Floats:
    """The tail of half a column (half,), NaN before it; no tail if none is exponential within the noise.

    It begins where fewer than TAILS of units are left, and is the exponential of least squares of its narrow and wide
    cells. What stands out, such as many equal numbers, is so left as it is.

    counts, group, edges   outwards: of `_Column.halves`
    most                   most units of a tail
    """
    beyond = counts[::-1].cumsum()[::-1]
    for few in noise * np.array(TAILS):
        if few > most or beyond.min(initial=few) >= few:
            continue
        first = int(np.argmax(beyond < few))
        narrow, distances = counts[first:], edges[first:] - edges[first]
        starts = np.flatnonzero(np.diff(group[first:])) + 1  # not of the wide cell that the tail begins in
        lengths = np.geomspace(distances[1] / 8, distances[-1], LENGTHS)
        shares = -np.diff(np.exp(-distances / lengths[:, None]), axis=1)
        shares = np.hstack([shares, np.add.reduceat(shares, starts, axis=1)])
        observed = np.append(narrow, np.add.reduceat(narrow, starts))
        sizes = np.maximum(shares @ observed, 0) / np.square(shares).sum(axis=1)
        residuals = observed - sizes[:, None] * shares
        penalty = LONGER * noise**2 * (lengths > max(edges[first], distances[1]))
        best = int(np.argmin(np.square(residuals).sum(axis=1) + penalty))
        sums = np.append(0, residuals[best, len(narrow) :].cumsum())
        cells = np.subtract.outer(np.arange(len(sums)), np.arange(len(sums)))
        fits = np.square(np.subtract.outer(sums, sums)) <= (EXPLAINED * noise) ** 2 * abs(cells)
        if fits.all() and np.abs(residuals[best, : len(narrow)]).max() <= EXPLAINED * noise:
            return np.append(np.full(first, np.nan), sizes[best] * shares[best, : len(narrow)])
    return np.full(len(counts), np.nan)


def nearest_counts(counts: Floats, total: float) -> Floats:
    """The nearest non-negative counts that add up to `total` (Held, Wolfe & Crowder 1974)."""
    falling = np.sort(counts)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(counts) + 1)
    kept = int(np.flatnonzero(falling >= excess)[-1])
    positive = np.maximum(counts - excess[kept], 0.0)
    even = np.full(len(counts), total / len(counts))
    return positive * (total / positive.sum()) if positive.sum() > 0 else even


def drawn(weights: Floats, size: int, source: np.random.Generator) -> Ints:
    """`size` places in proportion to `weights`, in random order, each as often as its share to within one; even if all
    weights are zero."""
    edges = np.cumsum(weights if weights.sum() > 0 else np.ones(len(weights)))
    points = source.permutation((np.arange(size) + source.random()) / size)
    return np.minimum(np.searchsorted(edges / edges[-1], points, side="right"), len(weights) - 1)
