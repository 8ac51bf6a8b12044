"""Exact laws for privacy tests: whole-number noise enumerated, outcomes of the real code, hockey-stick divergence."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from math import ceil

import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve

from tests.world import Draws, Ints

Floats = NDArray[np.float64]
Pair = tuple[Floats, Floats]
"""Probabilities of the same outcomes on two neighbours."""

Shift = tuple[int, ...]
"""By how much a unit moves each of some numbers."""

LEFT_OUT = 1e-12
"""More than all the probability that lies beyond the noise enumerated below."""


def gaussian_law(scale: float) -> tuple[Ints, Floats]:
    """Discrete Gaussian noise: values and probabilities."""
    values = _around(9 * scale)
    return values, _normalised(np.exp(-(values**2) / (2 * scale**2)))


def laplace_law(scale: float) -> tuple[Ints, Floats]:
    """Discrete Laplace noise: values and probabilities."""
    values = _around(32 * scale)
    return values, _normalised(np.exp(-np.abs(values) / scale))


def _around(reach: float) -> Ints:
    return np.arange(-ceil(reach) - 1, ceil(reach) + 2)


def _normalised(weights: Floats) -> Floats:
    return np.asarray(weights / weights.sum())


def every_noise(law: tuple[Ints, Floats], width: int) -> tuple[Ints, Floats]:
    """All vectors of `width` independent draws (cases, width), and their probabilities (cases,)."""
    values, masses = law
    noise = np.stack(np.meshgrid(*[values] * width, indexing="ij"), axis=-1).reshape(-1, width)
    odds = np.stack(np.meshgrid(*[masses] * width, indexing="ij"), axis=-1).reshape(-1, width)
    return noise, odds.prod(axis=1)


def vote_rows(teachers: int, classes: int) -> list[Ints]:
    """Every row of counts that sums to `teachers`."""
    counts = product(range(teachers + 1), repeat=classes)
    return [np.array(row) for row in counts if sum(row) == teachers]


def neighbours(row: Ints) -> Iterator[Ints]:
    """Every row that one teacher's change of vote leads to."""
    for old, new in product(range(len(row)), repeat=2):
        if old != new and row[old] > 0:
            moved = row.copy()
            moved[old] -= 1
            moved[new] += 1
            yield moved


Answer = Callable[[Ints, Ints], tuple[Ints, Ints]]
"""votes (rows, classes), noise (rows, width) → labels (rows,), counts (rows, classes)."""


def row_pairs(answer: Answer, law: tuple[Ints, Floats], teachers: int, classes: int, width: int) -> list[Pair]:
    """What `answer` makes of one row, on every two neighbouring rows of votes."""
    noise, odds = every_noise(law, width)

    def outcomes(row: Ints) -> Ints:
        labels, counts = answer(np.tile(row, (len(noise), 1)), noise)
        return row_keys(np.column_stack([labels, counts]))

    return [
        aligned((outcomes(row), odds), (outcomes(moved), odds))[1:]
        for row in vote_rows(teachers, classes)
        for moved in neighbours(row)
    ]


def row_keys(columns: Ints) -> Ints:
    """One number for each row of whole numbers between −512 and 511."""
    keys = np.zeros(len(columns), np.int64)
    for column in columns.T:
        keys = keys * 1024 + column + 512
    return keys


def aligned(item: tuple[Ints, Floats], other: tuple[Ints, Floats]) -> tuple[Ints, Floats, Floats]:
    """Two laws over outcome numbers, as the outcomes and the probability of each under either."""
    outcomes, where = np.unique(np.concatenate([item[0], other[0]]), return_inverse=True)
    here, there = where[: len(item[0])], where[len(item[0]) :]
    size = len(outcomes)
    return outcomes, _gathered(here, item[1], size), _gathered(there, other[1], size)


def _gathered(where: Ints, masses: Floats, size: int) -> Floats:
    return np.bincount(where, masses, size).astype(np.float64)


def together(pairs: Sequence[Pair]) -> Pair:
    """Independent rows as one outcome."""
    p, q = np.ones(1), np.ones(1)
    for here, there in pairs:
        p, q = np.outer(p, here).ravel(), np.outer(q, there).ravel()
    return p, q


@cache
def weighed_law(shift: Shift, scale: float) -> tuple[Ints, Floats]:
    """The law of v·Y, Y discrete Gaussian in every coordinate: convolution of lattice laws, right to 1e-15."""
    values, odds = gaussian_law(scale)
    law, reach = np.ones(1), 0
    for moved in [abs(part) for part in shift if part]:
        single = np.zeros(moved * (len(values) - 1) + 1)
        single[::moved] = odds
        law, reach = np.maximum(fftconvolve(law, single), 0), reach + moved * int(values[-1])
    return np.arange(-reach, reach + 1), law


def gaussian_losses(shift: Shift, scale: float) -> tuple[Floats, Floats]:
    """The privacy losses of discrete Gaussians under that shift, (‖v‖² − 2·v·Y)/2σ², and their probabilities."""
    sums, law = weighed_law(shift, scale)
    return (sum(part**2 for part in shift) - 2 * sums) / (2 * scale**2), law


def gaussian_exactly(epsilon: float, *moves: tuple[Shift, float]) -> float:
    """The least δ at ε of vectors of discrete Gaussians, each under a shift and of a scale: their losses add."""
    losses, odds = np.zeros(1), np.ones(1)
    for shift, scale in moves:
        own, law = gaussian_losses(shift, scale)
        losses, odds = np.add.outer(losses, own).ravel(), np.outer(odds, law).ravel()
    return float(odds @ -np.expm1(np.minimum(epsilon - losses, 0)))


def gaussian_adaptively(
    epsilon: float, moves: Sequence[Shift], scales: Sequence[float], otherwise: Sequence[Shift] = ()
) -> float:
    """δ at ε of discrete Gaussians one after another, against an adversary who has the unit move each by its shift of
    `moves` if what was released so far speaks for the unit, and by that of `otherwise` if not.

    All that an adversary can go by is the loss so far; it is rounded upwards to a ten-thousandth, which can only raise
    δ."""
    losses, odds = np.zeros(1), np.ones(1)
    for *shifts, scale in zip(moves, otherwise or moves, scales, strict=True):
        parts = []
        for shift, those in zip(shifts, (losses > 0, losses <= 0), strict=True):
            own, law = gaussian_losses(shift, scale)
            parts.append((np.add.outer(losses[those], own).ravel(), np.outer(odds[those], law).ravel()))
        gained, chances = (np.concatenate(each) for each in zip(*parts, strict=True))
        places = np.ceil(gained * 1e4 - 1e-9).astype(np.int64)
        binned = np.bincount(places - places.min(), chances).astype(np.float64)
        kept = np.flatnonzero(binned > 1e-19)
        losses, odds = (kept + places.min()) / 1e4, binned[kept]
    return float(odds @ -np.expm1(np.minimum(epsilon - losses, 0)))


def hockey_stick(pair: Pair, epsilon: float) -> float:
    """The least δ with which the two are (ε, δ)-indistinguishable, in either order."""
    p, q = pair
    factor = np.exp(epsilon)
    return float(max(np.maximum(p - factor * q, 0).sum(), np.maximum(q - factor * p, 0).sum()))


def worst(pairs: list[Pair], rows: int, epsilon: float) -> float:
    """The largest δ at ε over every choice of neighbours for each of `rows` rows."""
    return max(hockey_stick(together(choice), epsilon) for choice in product(pairs, repeat=rows))


class Silent:
    """A source whose noise is zero and whose draws are zero; it remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, float, int]] = []

    def uniform(self, first: int, rows: int) -> Draws:
        self.asked.append(("uniform", first, rows))
        return np.zeros(rows, np.uint64)

    def laplace(self, scale: float, size: int) -> Ints:
        self.asked.append(("laplace", scale, size))
        return np.zeros(size, np.int64)

    def gaussian(self, scale: float, size: int) -> Ints:
        self.asked.append(("gaussian", scale, size))
        return np.zeros(size, np.int64)

    def once(self, name: str, draw: Callable[[], Ints]) -> Ints:
        self.asked.append((name, 0, 0))
        return draw()


@dataclass
class Steady:
    """A source whose draws follow from the row, and whose noise from how much of its scale was drawn before."""

    drawn: dict[float, int] = field(default_factory=dict)
    kept: dict[str, Ints] = field(default_factory=dict)

    def uniform(self, first: int, rows: int) -> Draws:
        return np.random.default_rng(11).integers(0, 2**64, first + rows, dtype=np.uint64)[first:]

    def laplace(self, scale: float, size: int) -> Ints:
        before = self.drawn.get(scale, 0)
        self.drawn[scale] = before + size
        return np.rint(np.random.default_rng(12).laplace(0, scale, before + size)[before:]).astype(np.int64)

    gaussian = laplace

    def once(self, name: str, draw: Callable[[], Ints]) -> Ints:
        if name not in self.kept:
            self.kept[name] = draw()
        return self.kept[name]
