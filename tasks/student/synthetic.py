"""Synthetic rows: what plays the public table if there is none, drawn from a sketch's released tables.

    one-way tables ─ margins ─┬─ groups of cells ─ two-way tables ─ mixture ─ cells ─┬─ codes
                              └──────────────────────────────────────────────────────┴─ values

A synthetic row is a narrow cell of the grid in each column. Its codes are looked up as a private row's are, and its
values are drawn within the cells, so that any learner can use the rows. With more than two classes they are drawn after
the first labels, whose sums are two-way tables of column and class.

The mixture is p(x) = Σ_z π_z·Π_f P_f(x_f | z), fitted to all tables. Each P_f(· | z) is the column's margin times e to
a deviation, whose prior is normal with sd SPREAD and correlates neighbouring groups of a number as the decoder's does
(`correlations`). Least squares of all tables together, weighed by their noise, and that prior are minimised by Adam
(Kingma & Ba 2015).

Assumes      the sums are released: post-processing, in floats, whose last bits depend on the machine. Rows are drawn
             from the SHA-256 of the sums, deviations from a fixed seed; neither is privacy noise
Guarantees   total: any whole numbers give groups, codes, a mixture and rows. A value lies in its cell, so its codes are
             the row's
Not covered  dependence of three columns or more, beyond what products have in common. Rows belong to nobody; one that
             equals a person's by chance reveals no more of anyone than (epsilon, delta)
             Checked by tests/tasks/student/test_synthetic.py
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from scipy.special import softmax

from concord.tasks.data.codes import MOST_CODES, CodedField, CodeMatrix, Codes, NumberField, WordField, coarser
from concord.tasks.data.grid import groups_of
from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.student.margins import Margins, drawn, nearest_counts
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
PRODUCTS = 16
"""Number of products; 8 to 64 fit alike."""
SPREAD = 1.5
"""Prior sd of a log-ratio to the margin."""
FIRST_SPREAD = 0.3
MIXTURE_SEED = 5
UPDATES = 600
RATE = 0.1
MOMENTUM, MEMORY = 0.9, 0.99


@dataclass(frozen=True, eq=False)
class TwoWay:
    """Released two-way tables, in units.

    pairs        counts (groups, groups) of all pairs of columns, in order; none if they were not asked
    noise        sd of the noise in these
    labels       by column, counts (groups, classes) from the first round of labels; none before that
    label_noise  sd of the noise in those
    updates      how often the mixture is updated to fit them
    """

    pairs: Sequence[Floats]
    noise: float
    labels: Sequence[Floats] = ()
    label_noise: float = 1.0
    updates: int = UPDATES


@dataclass(frozen=True, eq=False)
class NoisyTables:
    """Released tables.

    units        number of private units
    margins      by column, the estimated count of each group (groups,)
    margin_sd    by column, the sd of the noise in them
    pairs        by two columns, first < second, the counts (groups, groups)
    pair_sd      sd of the noise in each of these
    alike        by column, prior correlations of its groups (groups, groups)
    """

    units: float
    margins: Sequence[Floats]
    margin_sd: Sequence[float]
    pairs: Mapping[tuple[int, int], Floats]
    pair_sd: Mapping[tuple[int, int], float]
    alike: Sequence[Floats]

    @property
    def spans(self) -> list[slice]:
        """For each column, the slice of its groups among all groups."""
        edges = np.cumsum([0, *map(len, self.margins)])
        return [slice(start, stop) for start, stop in pairwise(edges.tolist())]

    @property
    def joint(self) -> tuple[Floats, Floats]:
        """All pairs as one symmetric table (D, D), and the precision of each cell: 0 where nothing was asked."""
        spans = self.spans
        size = spans[-1].stop
        table, precision = np.zeros((size, size)), np.zeros((size, size))
        for (one, other), counts in self.pairs.items():
            table[spans[one], spans[other]] = counts
            table[spans[other], spans[one]] = counts.T
            weight = self.pair_sd[one, other] ** -2
            precision[spans[one], spans[other]] = precision[spans[other], spans[one]] = weight
        return table, precision

    @property
    def smoothed(self) -> list[Floats]:
        """The margins of each column as shares, none of them zero: a group below the noise may exist all the same."""
        raised = [np.maximum(counts, min(self.margin_sd) / 2) for counts in self.margins]
        return [counts / counts.sum() for counts in raised]


@dataclass(frozen=True, eq=False)
class Mixture:
    """weights (PRODUCTS,), and by column the probabilities of its groups in each product (PRODUCTS, groups)."""

    weights: Floats
    parts: tuple[Floats, ...]

    def draw(self, rows: int, source: np.random.Generator) -> Ints:
        """Groups (rows, columns), by systematic sampling."""
        product = drawn(self.weights, rows, source)
        groups = np.empty((rows, len(self.parts)), np.int64)
        for at in range(len(self.weights)):
            rows_of = np.flatnonzero(product == at)
            for column, part in enumerate(self.parts):
                groups[rows_of, column] = drawn(part[at], len(rows_of), source)
        return groups


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
    codes = _label_codes(grid, margins, coarse, bins, finer)
    while sum(codes.fields[at].size for at in codes.fine) > MOST_CODES and finer > 1:
        finer //= 2
        codes = _label_codes(grid, margins, coarse, bins, finer)
    return codes


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
    units = counts[:-1]
    atom = units > ATOM * units.sum()
    others = np.where(atom, 0.0, units)
    middle = 2 * np.cumsum(others) - others
    while True:
        quantile = np.floor(bins * middle / max(1e-9, 2 * others.sum()))
        group = np.where(atom, -1 - np.arange(len(units)), quantile)
        cuts = tuple(np.array(narrow.cuts)[group[1:] != group[:-1]].tolist())
        if len(cuts) < most:
            return cuts
        if bins == 1:
            return cuts[: most - 1]
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
        np.bincount(groups, counts, field.size).astype(np.float64)
        for groups, counts, field in zip(maps, margins.counts, coarse, strict=True)
    ]
    if tables.pairs:
        drawn_groups = _mixture(grid, margins, coarse, grouped, tables).draw(ROWS, source)
    else:
        drawn_groups = np.column_stack([drawn(counts, ROWS, source) for counts in grouped])
    places = [
        _within(groups, counts, drawn_groups[:, column], source)
        for column, (groups, counts) in enumerate(zip(maps, margins.counts, strict=True))
    ]
    return cells_at(grid, np.column_stack(places))


def cells_at(grid: Codes, places: Ints) -> CodeMatrix:
    """Codes (rows, grid's fields) of the narrow cells at these places in each column, from 0 (rows, columns)."""
    cells = np.empty((len(places), grid.width), np.int32, order="F")
    for wide, narrow, place in zip(grid.coarse, grid.fine, places.T, strict=True):
        cells[:, wide] = coarser(grid.fields[narrow], grid.fields[wide])[place] + grid.fields[wide].start
        cells[:, narrow] = place + grid.fields[narrow].start
    return cells


def _mixture(
    grid: Codes, margins: Margins, coarse: Sequence[CodedField], grouped: Sequence[Floats], tables: TwoWay
) -> Mixture:
    """The mixture of the columns' groups; and of the label, as one more column, if its tables are there."""
    columns = [*combinations(range(len(coarse)), 2)]
    two_views = [wide != narrow for wide, narrow in zip(grid.coarse, grid.fine, strict=True)]
    counts, pairs, noise = (
        list(grouped),
        dict(zip(columns, tables.pairs, strict=True)),
        dict.fromkeys(columns, tables.noise),
    )
    deviations = [margins.noise * 3**0.5 if wide else margins.noise for wide in two_views]
    alike = [correlations(field) for field in coarse]
    if tables.labels:
        precision = np.array([1 / len(table) for table in tables.labels])
        totals = precision @ np.array([table.sum(axis=0) for table in tables.labels]) / precision.sum()
        counts.append(nearest_counts(np.maximum(totals, margins.units / LEAST_CLASS), margins.units))
        deviations.append(tables.label_noise / precision.sum() ** 0.5)
        alike.append(np.eye(len(totals)))
        pairs |= {(at, len(coarse)): table for at, table in enumerate(tables.labels)}
        noise |= {(at, len(coarse)): tables.label_noise for at in range(len(coarse))}
    return fitted_mixture(NoisyTables(margins.units, counts, deviations, pairs, noise, alike), tables.updates)


def _within(groups: Ints, counts: Floats, drawn_groups: Ints, source: np.random.Generator) -> Ints:
    """A narrow cell within each drawn group, by settled counts."""
    cells_of = np.empty(len(drawn_groups), np.int64)
    for group in np.unique(drawn_groups):
        rows, cells = np.flatnonzero(drawn_groups == group), np.flatnonzero(groups == group)
        if not len(cells):  # other words, of which there are none: only noise draws them
            cells = np.arange(len(counts))
        cells_of[rows] = cells[drawn(counts[cells], len(rows), source)]
    return cells_of


def fitted_mixture(tables: NoisyTables, updates: int) -> Mixture:
    """The mixture that fits the tables best."""
    spans, (table, precision), units = tables.spans, tables.joint, tables.units
    base = np.log(np.concatenate(tables.smoothed))
    roots = [np.linalg.cholesky(alike) for alike in tables.alike]
    counts = np.concatenate(list(tables.margins))
    weight = np.repeat(np.array(tables.margin_sd) ** -2.0, [len(counts) for counts in tables.margins])
    source = np.random.default_rng(MIXTURE_SEED)
    deviations, logits = source.normal(0, FIRST_SPREAD, (PRODUCTS, len(base))), np.zeros(PRODUCTS)
    descents = _Adam(deviations, updates), _Adam(logits, updates)

    def parts() -> list[Floats]:
        return [
            softmax(base[span] + deviations[:, span] @ root.T, axis=1) for span, root in zip(spans, roots, strict=True)
        ]

    for at in range(updates):
        p, by_column = softmax(logits), parts()
        every = np.hstack(by_column)
        off = precision * (units * (every.T * p) @ every - table)
        margin_off = weight * (units * p @ every - counts)
        pull = every @ off  # a symmetric table has each pair twice, at half its weight
        along = units * p[:, None] * (pull + margin_off)
        slope = np.empty_like(deviations)
        for span, root, part in zip(spans, roots, by_column, strict=True):
            here = along[:, span]
            slope[:, span] = part * (here - (here * part).sum(axis=1, keepdims=True)) @ root
        gain = units * ((pull * every).sum(axis=1) / 2 + every @ margin_off)
        descents[0].step(at, slope + deviations / SPREAD**2)
        descents[1].step(at, p * (gain - p @ gain) + logits)
    return Mixture(softmax(logits), tuple(parts()))


class _Adam:
    """Descent of `place`, in place, by slopes; its rate falls to a fiftieth."""

    def __init__(self, place: Floats, updates: int) -> None:
        self.place, self.updates = place, updates
        self.mean, self.square = np.zeros_like(place), np.zeros_like(place)

    def step(self, at: int, slope: Floats) -> None:
        self.mean = MOMENTUM * self.mean + (1 - MOMENTUM) * slope
        self.square = MEMORY * self.square + (1 - MEMORY) * slope**2
        rate = RATE * min(1, 2 * (1 - (at + 1) / self.updates) + 0.02)
        unbiased = self.mean / (1 - MOMENTUM ** (at + 1))
        self.place -= rate * unbiased / (np.sqrt(self.square / (1 - MEMORY ** (at + 1))) + 1e-12)
