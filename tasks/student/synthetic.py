"""Synthetic rows: what plays the public table if there is none, drawn from a sketch's released tables.

    one-way tables ─ margins ─┬─ groups of cells ─ two-way tables ─ mixture ─ cells ─┬─ codes
                              └──────────────────────────────────────────────────────┴─ values

A synthetic row is a narrow cell of the grid in each column. Its codes are looked up as a private row's are, and its
values are drawn within the cells, so that any learner can use the rows. With more than two classes they are drawn after
the first labels, whose sums are two-way tables of column and class.

Assumes      the sums are released: post-processing. The generator's seed is the SHA-256 of the sums, no privacy noise
Guarantees   total: any whole numbers give groups, codes and rows. A value lies in its cell, so its codes are the row's
Not covered  rows belong to nobody; one that equals a person's by chance reveals no more of anyone than (epsilon, delta)
             Checked by tests/tasks/student/test_synthetic.py
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from concord.tasks.data.codes import MOST_CODES, CodedField, CodeMatrix, Codes, NumberField, WordField
from concord.tasks.data.grid import groups_of
from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.student.margins import Margins, drawn, nearest
from concord.tasks.student.mixture import Mixture, NoisyTables, fitted_mixture
from concord.tasks.student.prior import correlations

ROWS = 10_000
"""Number of synthetic rows."""
ATOM = 0.1
"""Least share of units at which a cell is a group of its own."""
FEWEST_BINS, MOST_BINS = 4, 32
"""Quantiles of a number in two-way tables."""
FINER_FROM = 12
"""Least number of quantiles at which later rounds ask for twice as many; with fewer, finer dependence would be lost."""
LEAST_CLASS = 1000
"""The mixture gives each class at least one unit in this many."""
FREQUENT = 1 / 128
"""Least share of units at which a word gets a code of its own."""


@dataclass(frozen=True, eq=False)
class TwoWay:
    """Released two-way tables, in units.

    pairs        counts (groups, groups) of all pairs of columns, in order; none if they were not asked
    noise        sd of the noise in these
    labels       by column, counts (groups, classes) from the first round of labels; none before that
    label_noise  sd of the noise in those
    """

    pairs: Sequence[Floats]
    noise: float
    labels: Sequence[Floats] = ()
    label_noise: float = 1.0


def bins_of(margins: Margins, pair_noise: float) -> int:
    """k: quantiles in two-way tables, so many that a cell of n/k² units is as large as its noise; finer tables would be
    noisier, not richer."""
    return int(np.clip(round((margins.units / pair_noise) ** 0.5), FEWEST_BINS, MOST_BINS))


def table_codes(grid: Codes, margins: Margins, bins: int, most: int) -> tuple[CodedField, ...]:
    """For each column, the groups of its cells in two-way tables: at most `most`, missing and other words among
    them."""
    return tuple(
        _field(grid.fields[at], counts, margins, bins, most)
        for at, counts in zip(grid.fine, margins.counts, strict=True)
    )


def label_codes(grid: Codes, margins: Margins, coarse: Sequence[CodedField], bins: int) -> Codes:
    """The codes of label rounds: of a number the groups of two-way tables, and finer ones that nest in them."""
    finer = min(MOST_BINS, 2 * bins) if bins >= FINER_FROM else bins
    found = _label_codes(grid, margins, coarse, bins, finer)
    while sum(found.fields[at].size for at in found.fine) > MOST_CODES and finer > 1:
        finer //= 2
        found = _label_codes(grid, margins, coarse, bins, finer)
    return found


def _label_codes(grid: Codes, margins: Margins, coarse: Sequence[CodedField], bins: int, finer: int) -> Codes:
    fields, views = list[CodedField](), list[tuple[int, int]]()
    for at, group, counts in zip(grid.fine, coarse, margins.counts, strict=True):
        narrow, first = grid.fields[at], len(fields)
        fields.append(group if isinstance(group, NumberField) else _field(narrow, counts, margins, bins, narrow.size))
        if isinstance(group, NumberField) and isinstance(narrow, NumberField):
            cuts = sorted({*group.cuts, *_cuts(narrow, counts, finer, narrow.size)})
            fields.append(group.model_copy(update={"cuts": tuple(cuts)}))
        views.append((first, len(fields) - 1))
    start = 0
    for number, field in enumerate(fields):
        fields[number] = field.model_copy(update={"start": start})
        start += field.size
    return Codes(fields=tuple(fields), coarse=tuple(a for a, _ in views), fine=tuple(b for _, b in views))


def _field(narrow: CodedField, counts: Floats, margins: Margins, bins: int, most: int) -> CodedField:
    if isinstance(narrow, NumberField):
        return narrow.model_copy(update={"start": 0, "cuts": _cuts(narrow, counts, bins, most - 1)})
    if not isinstance(narrow, WordField):
        raise TypeError(f"a sketch has numbers and words, not {narrow.name!r}")
    least = max(margins.units * FREQUENT, 2 * margins.noise)
    order = np.argsort(-counts[:-2], kind="stable")
    kept = [at for at in order if counts[at] >= least] or [order[0]]
    return narrow.model_copy(update={"start": 0, "words": tuple(narrow.words[at] for at in kept[: max(1, most - 2)])})


def _cuts(narrow: NumberField, counts: Floats, bins: int, most: int) -> tuple[float, ...]:
    """The least value of every group but the first, at most `most` groups: cells of more than ATOM of the units alone,
    and quantiles of the others; fewer of them until groups are few enough."""
    own = counts[:-1]
    atom = own > ATOM * own.sum()
    others = np.where(atom, 0.0, own)
    middle = 2 * np.cumsum(others) - others
    while True:
        quantile = np.floor(bins * middle / max(1e-9, 2 * others.sum()))
        group = np.where(atom, -1 - np.arange(len(own)), quantile)
        found = tuple(np.array(narrow.cuts)[group[1:] != group[:-1]].tolist())
        if len(found) < most:
            return found
        if bins == 1:
            return found[: most - 1]
        bins -= 1


def synthetic_cells(
    grid: Codes, margins: Margins, coarse: Sequence[CodedField], tables: TwoWay, seed: bytes
) -> CodeMatrix:
    """Synthetic rows as cells (ROWS, grid's fields), from margins and two-way tables.

    coarse   `table_codes`
    seed     the released sums
    """
    source = np.random.default_rng(list(hashlib.sha256(seed).digest()))
    maps = [groups_of(grid.fields[at], field) for at, field in zip(grid.fine, coarse, strict=True)]
    grouped: list[Floats] = [
        np.bincount(own, counts, field.size).astype(np.float64)
        for own, counts, field in zip(maps, margins.counts, coarse, strict=True)
    ]
    if tables.pairs:
        drawn_groups = _mixture(grid, margins, coarse, grouped, tables).draw(ROWS, source)
    else:
        drawn_groups = np.column_stack([drawn(own, ROWS, source) for own in grouped])
    found = np.empty((ROWS, grid.width), np.int32, order="F")
    for column, (wide, narrow) in enumerate(zip(grid.coarse, grid.fine, strict=True)):
        cells = _within(maps[column], margins.counts[column], drawn_groups[:, column], source)
        found[:, narrow] = cells + grid.fields[narrow].start
        if wide != narrow:
            found[:, wide] = groups_of(grid.fields[narrow], grid.fields[wide])[cells] + grid.fields[wide].start
    return found


def _mixture(
    grid: Codes, margins: Margins, coarse: Sequence[CodedField], grouped: Sequence[Floats], tables: TwoWay
) -> Mixture:
    """The mixture of the columns' groups; and of the label, as one more column, if its tables are there."""
    each = [(one, other) for one in range(len(coarse)) for other in range(one + 1, len(coarse))]
    two_views = [wide != narrow for wide, narrow in zip(grid.coarse, grid.fine, strict=True)]
    counts, pairs, noise = list(grouped), dict(zip(each, tables.pairs, strict=True)), dict.fromkeys(each, tables.noise)
    deviations = [margins.noise * 3**0.5 if wide else margins.noise for wide in two_views]
    alike = [correlations(field) for field in coarse]
    if tables.labels:
        precision = np.array([1 / len(own) for own in tables.labels])
        totals = precision @ np.array([own.sum(axis=0) for own in tables.labels]) / precision.sum()
        counts.append(nearest(np.maximum(totals, margins.units / LEAST_CLASS), margins.units))
        deviations.append(tables.label_noise / precision.sum() ** 0.5)
        alike.append(np.eye(len(totals)))
        pairs |= {(at, len(coarse)): own for at, own in enumerate(tables.labels)}
        noise |= {(at, len(coarse)): tables.label_noise for at in range(len(coarse))}
    return fitted_mixture(NoisyTables(margins.units, counts, deviations, pairs, noise, alike))


def _within(groups: Ints, counts: Floats, drawn_groups: Ints, source: np.random.Generator) -> Ints:
    """A narrow cell within each drawn group, by settled counts."""
    found = np.empty(len(drawn_groups), np.int64)
    for group in np.unique(drawn_groups):
        rows, cells = np.flatnonzero(drawn_groups == group), np.flatnonzero(groups == group)
        found[rows] = cells[drawn(counts[cells], len(rows), source)]
    return found
