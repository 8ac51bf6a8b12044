"""Private test: noisy counts of how often a student is right on private units that were kept out of learning.

Two releases share the budget equally: the confusion matrix, and the numbers of right and wrong predictions. The pair
is separate because a sum over the many noisy cells of the matrix would be much noisier.

Of a number within bounds, two tables as well: units by the student's error, at the scale of right and wrong, and by
that of naming one public constant for each. An error is a share of the bounds' length, at most 1, and is rounded to one
of the two places of PLACES around it, up with the chance (e² − t²)/(u² − t²) of an error e between t and u: its square
is right on average.

Privacy statement
    Assumes      a unit is counted once, by the student's prediction for that row alone; scales are fixed or chosen
                 from released things alone
    Guarantees   (epsilon, delta), and Rényi α·ρ at every order α, ρ = moved / (2·scale²) + moved / (2·pair_scale²)
    Ends         after one release
    Not covered  how the unit came to be in the test part (artifacts.parts). The intervals do not hold for a student
                 that learned from the tested units, or was chosen by tests on them

Proof. If rows are secret, one more unit adds 1 to one cell and 1 to either right or wrong: `moved` = 1. If only labels
are secret, a unit moves from one cell to another and may move between right and wrong: at most two cells and both
numbers of the pair change by 1: `moved` = 2. The same holds of a number's two tables: how errors are rounded follows
from a key and the unit's name. In all cases the privacy loss is that of `moved` discrete Gaussians at each of the two
scales, each shifted by one (noise.py), and Rényi divergences of independent draws add up (Canonne, Kamath & Steinke
2020). ∎

Intervals. Of a right and e wrong units, drawn independently, Clopper & Pearson's interval of the chance p to be right
is [B(β/4; a, e + 1), B(1 − β/4; a + 1, e)], B the quantile of the beta law, and misses p at most β/2 of the time. Its
lower end rises with a and falls with e, and so does its upper end. Noise is beyond q, its quantile at 1 − β/8, at most
β/8 of the time on either side, for each of the two: β/2 in all. Otherwise a ≥ A − q and e ≤ E + q for the noisy A, E,
and the other way round, so [B(β/4; A − q, E + q + 1), B(1 − β/4; A + q + 1, E − q)] holds the exact one. Counts below 0
are 0. A mean of C such chances lies within the means of their ends at level 1 − β/C each, and so does the mean squared
error of a number, Σ (t_b² − t_(b−1)²)·P(place ≥ t_b) over the C places t_1 < t_2 < … above t_0 = 0. If A or E is a sum
of several noisy counts, q is the quantile of the sum of their noise. ∎
Checked by tests/privacy/test_private_test.py: exact δ and exact coverage of small cases, and planted bugs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.fft import next_fast_len
from scipy.special import betaincinv

from concord.artifacts.errors import WrongInput
from concord.artifacts.privacy import UP, Cost
from concord.tasks.mechanisms.distance import Ints, RandomSource
from concord.tasks.mechanisms.mechanism import FieldSettings
from concord.tasks.mechanisms.noise import gaussian_cost, gaussians_delta, least_noise

COUNTS_MOVED = {"rows": 1, "labels": 2}
"""Number of cells, and of numbers of the pair, that a unit moves by one, by what is secret of the unit."""
PAIR_SHARE = 1 / 2
"""Part of ρ that goes to right and wrong."""
LEVEL = 0.95
"""Coverage probability of each interval."""
REACH = 14
"""Standard deviations beyond which noise is not summed: its probability is less than 1e-42."""
LARGEST_LAW = 1 << 22
"""Largest size of a noise distribution that is summed; the quantile of a wider one is bounded."""

PLACES = (0.0, *(2.0**-halvings for halvings in range(6, -1, -1)))
"""Errors to which a unit's error is rounded, as shares of the distance between a number's bounds."""


@dataclass(frozen=True, kw_only=True)
class PrivateTest(FieldSettings):
    """Public settings only. Noise has `scale` in each cell of the matrix and `pair_scale` in right and in wrong; or, if
    `classes` is 0, for a number within bounds, `pair_scale` by its errors and `scale` by the constant's."""

    name: ClassVar[str] = "private_test"
    cutoff: ClassVar[None] = None
    queries: ClassVar[int] = 1
    per_refusal: ClassVar[None] = None
    proof: ClassVar[str] = "tasks/mechanisms/private_test.py: discrete Gaussian counts (Canonne, Kamath & Steinke 2020)"

    epsilon: float
    delta: float
    classes: int
    secret: str
    scale: float
    pair_scale: float

    @classmethod
    def calibrate(
        cls,
        *,
        epsilon: float,
        delta: float,
        classes: int,
        secret: str,
        most: tuple[float, float] | None = None,
    ) -> "PrivateTest":
        """The least noise within (epsilon, delta) and, with `most` = (order, nats), within those nats at that order.

        Raises WrongInput.
        """
        known = (classes == 0 or classes > 1) and secret in COUNTS_MOVED
        if not (0 < epsilon < math.inf and 0 < delta < 1 and known):
            raise WrongInput(
                "a private test needs 0 < epsilon < inf, 0 < delta < 1, at least 2 classes, or 0 for a number, and "
                f"'rows' or 'labels' as what is secret, got {epsilon!r}, {delta!r}, {classes!r}, {secret!r}"
            )

        once = cls(epsilon=epsilon, delta=delta, classes=classes, secret=secret, scale=1.0, pair_scale=1.0)

        def at(unit: float) -> "PrivateTest":
            return replace(once, scale=unit / math.sqrt(1 - PAIR_SHARE), pair_scale=unit / math.sqrt(PAIR_SHARE))

        found = least_noise(at)
        if most is None:
            return found
        order, nats = most
        rho = nats / order / UP**2
        return found if found.rho <= rho else at(math.sqrt(COUNTS_MOVED[secret] / (2 * rho)) * UP)

    @property
    def draws(self) -> tuple[tuple[int, float], ...]:
        """Pairs (number of counts that a unit moves by one, their noise scale)."""
        moved = COUNTS_MOVED[self.secret]
        return (moved, self.scale), (moved, self.pair_scale)

    @property
    def rho(self) -> float:
        """Σ moved / (2·scale²)."""
        return sum(moved / (2 * scale**2) for moved, scale in self.draws)

    @property
    def cost(self) -> Cost:
        """Zero-concentrated with ρ; also claims (epsilon, delta) if the exact δ is within it."""
        return gaussian_cost(self, self.rho)

    def delta_at(self, epsilon: float) -> float:
        """δ of the release at that ε, exact except that it is rounded up."""
        return gaussians_delta(epsilon, self.draws)

    def release(self, counts: Ints, source: RandomSource) -> Ints:
        """Noisy numbers as `Noisy` has them, from exact counts (classes, classes) of units by true and predicted class;
        of a number, from those by errors of the student and of the constant (2, len(PLACES))."""
        if not self.classes:
            noise = [source.gaussian(scale, len(PLACES)) for scale in (self.pair_scale, self.scale)]
            return counts.ravel() + np.concatenate(noise)
        matrix = counts.reshape(self.classes, self.classes)
        right = np.trace(matrix)
        pair = np.array([right, matrix.sum() - right]) + source.gaussian(self.pair_scale, 2)
        return np.concatenate([pair, matrix.ravel() + source.gaussian(self.scale, matrix.size)])


@dataclass(frozen=True)
class Noisy:
    """Released numbers.

    pair    right and wrong (2,)
    matrix  by true and predicted class (classes, classes)
    """

    pair: Ints
    matrix: Ints

    @classmethod
    def of(cls, mechanism: PrivateTest, numbers: Sequence[int]) -> "Noisy":
        """The counts that `PrivateTest.release` draws, from `numbers` in its order."""
        pair, table = np.split(np.asarray(numbers, dtype=np.int64), [2])
        return cls(pair, table.reshape(mechanism.classes, mechanism.classes))


NoisySum = tuple[int, int]
"""A sum of noisy counts, and how many they are."""


@dataclass(frozen=True)
class Measured:
    """A share of right predictions, and the interval that covers it at LEVEL."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Measures:
    """Measures of a student from noisy counts, each covered at LEVEL by itself; `rows` is the noisy number of units."""

    rows: int
    accuracy: Measured
    balanced_accuracy: Measured
    recall: tuple[Measured, ...]
    precision: tuple[Measured, ...]

    @classmethod
    def of(cls, mechanism: PrivateTest, noisy: Noisy, level: float = LEVEL) -> "Measures":
        """The measures computed from the released numbers."""
        matrix, pair, others, misses = noisy.matrix, noisy.pair, mechanism.classes - 1, 1 - level
        hits, of_class, of_predicted = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)

        def shares(totals: Ints, misses: float) -> tuple[Measured, ...]:
            pairs = zip(hits.tolist(), (totals - hits).tolist(), strict=True)
            return tuple(measured_share((a, 1), (e, others), mechanism.scale, misses) for a, e in pairs)

        recall, together = shares(of_class, misses), shares(of_class, misses / mechanism.classes)
        return cls(
            rows=max(0, int(pair.sum())),
            accuracy=measured_share((int(pair[0]), 1), (int(pair[1]), 1), mechanism.pair_scale, misses),
            balanced_accuracy=Measured(*(float(np.mean([getattr(r, of) for r in together])) for of in ENDS)),
            recall=recall,
            precision=shares(of_predicted, misses),
        )


ENDS = ("value", "low", "high")


def placed(errors: NDArray[np.float64], chances: NDArray[np.float64]) -> Ints:
    """The index in PLACES (rows,) to which each error is rounded, up if `chances`, uniform from 0 to 1, are small.

    Errors are shares of what lies between the bounds, of either sign; one beyond 1, or NaN, counts as 1.
    """
    square, places = np.fmin(np.abs(errors), 1.0) ** 2, np.square(PLACES)
    below: Ints = np.searchsorted(places[:-1], square, side="right") - 1
    up: Ints = (chances < (square - places[below]) / (places[below + 1] - places[below])).astype(np.int64)
    return below + up


def measured_error(counts: Sequence[int], scale: float, level: float = LEVEL) -> Measured:
    """The root of the mean squared error from noisy counts by PLACES, as a share of the bounds' length, covered at that
    level. Since shares below 0 count as 0, the estimate leans high if units are few."""
    widths, many = np.diff(np.square(PLACES)), len(PLACES)
    misses = (1 - level) / len(widths)
    sums = (((sum(counts[at:]), many - at), (sum(counts[:at]), at)) for at in range(1, many))
    beyond = [measured_share(above, below, scale, misses) for above, below in sums]
    return Measured(*(math.sqrt(widths @ [getattr(share, of) for share in beyond]) for of in ENDS))


def measured_share(right: NoisySum, wrong: NoisySum, scale: float, misses: float) -> Measured:
    """The share right / (right + wrong) of noisy counts with noise of `scale` in each. If neither sum is positive, the
    share is the middle of its interval."""
    near, far = (quantile(scale, counts, misses / 8) for _, counts in (right, wrong))
    low = _beta(misses / 4, right[0] - near, max(0, wrong[0] + far) + 1)
    high = _beta(1 - misses / 4, max(0, right[0] + near) + 1, wrong[0] - far)
    hits, fails = max(0, right[0]), max(0, wrong[0])
    return Measured(hits / (hits + fails) if hits + fails else (low + high) / 2, low, high)


def _beta(chance: float, first: int, second: int) -> float:
    """A quantile of the beta law; 0 or 1 if a parameter is not positive."""
    if first <= 0:
        return 0.0
    return 1.0 if second <= 0 else float(betaincinv(first, second, chance))


@lru_cache(maxsize=64)
def quantile(scale: float, count: int, tail: float) -> int:
    """The least q that the sum of `count` discrete Gaussians exceeds with probability at most `tail`. If that law is
    too wide to sum, an upper bound: each is sub-Gaussian with variance scale² (Canonne et al., Cor. 17). Raises
    ValueError if `tail` is below what sums of doubles can tell.
    """
    size = next_fast_len(2 * math.ceil(REACH * (scale + 1) * math.sqrt(count)) + 1, real=True)
    if size > LARGEST_LAW:
        return math.ceil(scale * math.sqrt(2 * count * math.log(1 / tail)))
    reach = min((size - 1) // 2, math.ceil(REACH * (scale + 1)))
    places = np.arange(-reach, reach + 1)
    single = np.zeros(size)
    single[places % size] = np.exp(-(places**2) / (2 * scale**2))
    law = np.fft.irfft(np.fft.rfft(single / single.sum()) ** count, size)
    beyond = np.cumsum(np.roll(law, size // 2)[::-1])[::-1]  # [i]: at least i − size // 2
    middle = size // 2
    within = beyond[middle + 1 :] <= tail
    if not within.any():
        raise ValueError(f"tail must be at least {beyond[middle + 1 :].min():.3g}, got {tail:.3g}")
    return int(np.argmax(within))
