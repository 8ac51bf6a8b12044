"""Mixture: a distribution of rows, p(x) = Σ_z π_z·Π_f P_f(x_f | z), fitted to noisy tables of one and of two columns.

Each P_f(· | z) is the column's margin times e to a deviation, whose prior is normal with sd SPREAD and correlates
neighbouring groups of a number as the decoder's does (`correlations`). Least squares of all tables together, weighed by
their noise, and that prior are minimised by Adam (Kingma & Ba 2015).

Assumes      tables and margins are released: post-processing, in floats, whose last bits depend on the machine
Guarantees   any numbers give a distribution. Deviations begin at draws of a fixed seed, which is no privacy noise
Not covered  dependence of three columns or more, beyond what products have in common
             Checked by tests/tasks/student/test_mixture.py
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import softmax

from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.student.margins import drawn

PRODUCTS = 16
"""Number of products; 8 to 64 fit alike."""
SPREAD = 1.5
"""Prior sd of a log-ratio to the margin."""
FIRST_SPREAD = 0.3
SEED = 5
UPDATES = 600
RATE = 0.1
MOMENTUM, MEMORY = 0.9, 0.99


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
        raised = [np.maximum(own, min(self.margin_sd) / 2) for own in self.margins]
        return [own / own.sum() for own in raised]


@dataclass(frozen=True, eq=False)
class Mixture:
    """weights (PRODUCTS,), and by column the probabilities of its groups in each product (PRODUCTS, groups)."""

    weights: Floats
    parts: tuple[Floats, ...]

    def draw(self, rows: int, source: np.random.Generator) -> Ints:
        """Groups (rows, columns), by systematic sampling."""
        product = drawn(self.weights, rows, source)
        found = np.empty((rows, len(self.parts)), np.int64)
        for at in range(len(self.weights)):
            own = np.flatnonzero(product == at)
            for column, part in enumerate(self.parts):
                found[own, column] = drawn(part[at], len(own), source)
        return found


def fitted_mixture(tables: NoisyTables, updates: int = UPDATES) -> Mixture:
    """The mixture that fits the tables best."""
    spans, (table, precision), units = tables.spans, tables.joint, tables.units
    base = np.log(np.concatenate(tables.smoothed))
    roots = [np.linalg.cholesky(alike) for alike in tables.alike]
    counts = np.concatenate(list(tables.margins))
    weight = np.repeat(np.array(tables.margin_sd) ** -2.0, [len(own) for own in tables.margins])
    source = np.random.default_rng(SEED)
    deviations, logits = source.normal(0, FIRST_SPREAD, (PRODUCTS, len(base))), np.zeros(PRODUCTS)
    descents = _Adam(deviations, updates), _Adam(logits, updates)

    def parts() -> list[Floats]:
        return [
            softmax(base[own] + deviations[:, own] @ root.T, axis=1) for own, root in zip(spans, roots, strict=True)
        ]

    for at in range(updates):
        p, each = softmax(logits), parts()
        every = np.hstack(each)
        off = precision * (units * (every.T * p) @ every - table)
        margin_off = weight * (units * p @ every - counts)
        pull = every @ off  # a symmetric table has each pair twice, at half its weight
        along = units * p[:, None] * (pull + margin_off)
        slope = np.empty_like(deviations)
        for own, root, part in zip(spans, roots, each, strict=True):
            here = along[:, own]
            slope[:, own] = part * (here - (here * part).sum(axis=1, keepdims=True)) @ root
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
