"""The figures of a private test, from its released counts: shares of right predictions, and the error of a number.

Intervals. Of a right and e wrong units, drawn independently, Clopper & Pearson's interval of the chance p to be right
is [B(β/4; a, e + 1), B(1 − β/4; a + 1, e)], B the quantile of the beta law, and misses p at most β/2 of the time. Its
lower end rises with a and falls with e, and so does its upper end. Noise is beyond q, its quantile at 1 − β/8, at most
β/8 of the time on either side, for each of the two: β/2 in all. Otherwise a ≥ A − q and e ≤ E + q for the noisy A, E,
and the other way round, so [B(β/4; A − q, E + q + 1), B(1 − β/4; A + q + 1, E − q)] holds the exact one. Counts below 0
are 0. A mean of C such chances lies within the means of their ends at level 1 − β/C each, and so does the mean squared
error of a number, Σ (t_b² − t_(b−1)²)·P(place ≥ t_b) over the C places t_1 < t_2 < … above t_0 = 0. If A or E is a sum
of several noisy counts, q is the quantile of the sum of their noise. ∎

Assumes      released counts are those of tasks.mechanisms.private_test, with noise of the scales on record
Guarantees   figures follow from the released file and the record alone; each interval covers as often as it says
Ends         not applicable: nothing is drawn
Not covered  a student that learned from the tested units, or was chosen by tests on them
             Checked by tests/privacy/test_private_test.py: exact coverage of small cases, and planted bugs
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
from scipy.fft import next_fast_len
from scipy.special import betaincinv

from concord.artifacts.measures import LEVEL, AnyTested, ClassTested, Estimate, NumberTested, TestRecord
from concord.artifacts.schemas import Bounds
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.private_test import PLACES

MOST_COUNTS_LISTED = 20
"""Most classes for which a certificate lists all noisy counts of a test; the released file always has them."""
REACH = 14
"""Standard deviations beyond which noise is not summed: its probability is less than 1e-42."""
LARGEST_LAW = 1 << 22
"""Largest size of a noise distribution that is summed; the quantile of a wider one is bounded."""
NoisySum = tuple[int, int]
"""A sum of noisy counts, and how many they are."""


class TestSettings(Protocol):
    """The settings of a private test that its figures follow from: the mechanism's own, or a referee's reading."""

    @property
    def classes(self) -> int: ...
    @property
    def bounds(self) -> Bounds | None: ...
    @property
    def constant(self) -> float: ...
    @property
    def scale(self) -> float: ...
    @property
    def pair_scale(self) -> float: ...
    @property
    def share(self) -> float | None: ...
    @property
    def clean(self) -> bool: ...


def test_figures(test: TestSettings, released: Mapping[str, Any], earlier: int) -> AnyTested:
    """The figures of the released file of a private test with those settings; see `UnitsTested` for `earlier`."""
    if test.bounds is not None:
        return _of_number(test, test.bounds[1] - test.bounds[0], released, earlier)
    right, wrong = int(released["right"]), int(released["wrong"])
    matrix = np.array(released["matrix"], np.int64).reshape(test.classes, test.classes)
    hits, of_class, of_predicted = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)

    def shares(totals: Ints, misses: float) -> list[Estimate]:
        pairs = zip(hits.tolist(), (totals - hits).tolist(), strict=True)
        return [measured_share((a, 1), (e, test.classes - 1), test.scale, misses) for a, e in pairs]

    together = shares(of_class, (1 - LEVEL) / test.classes)
    of_each = zip(released["classes"], shares(of_class, 1 - LEVEL), shares(of_predicted, 1 - LEVEL), strict=True)
    most, units = (getattr(of_class.clip(0), name)() for name in ("max", "sum"))
    return TestRecord(
        **_about(test, earlier),
        rows=max(0, right + wrong),
        accuracy=measured_share((right, 1), (wrong, 1), test.pair_scale, 1 - LEVEL),
        balanced_accuracy=Estimate(
            **{end: float(np.mean([getattr(recall, end) for recall in together])) for end in Estimate.model_fields}
        ),
        majority=float(most / units) if units else None,  # by noisy counts
        matrix=tuple(map(tuple, matrix.tolist())) if len(matrix) <= MOST_COUNTS_LISTED else None,
        classes=tuple(
            ClassTested(name=name, recall=recall, precision=precision) for name, recall, precision in of_each
        ),
    )


def _about(test: TestSettings, earlier: int) -> dict[str, Any]:
    return {"share": test.share, "clean": test.clean, "earlier": earlier, "level": LEVEL}


def _of_number(test: TestSettings, length: float, released: Mapping[str, Any], earlier: int) -> NumberTested:
    """The same of a number whose bounds are that far apart."""

    def error(counts: Sequence[int], scale: float) -> Estimate:
        share = measured_error(counts, scale)
        return Estimate(**{end: length * getattr(share, end) for end in Estimate.model_fields})

    return NumberTested(
        **_about(test, earlier),
        rows=max(0, sum(released["errors"])),
        rmse=error(released["errors"], test.pair_scale),
        constant=test.constant,
        constant_rmse=error(released["constant_errors"], test.scale),
    )


def measured_error(counts: Sequence[int], scale: float, level: float = LEVEL) -> Estimate:
    """The root of the mean squared error from noisy counts by PLACES, as a share of the bounds' length, covered at that
    level. Since shares below 0 count as 0, the estimate leans high if units are few."""
    widths, many = np.diff(np.square(PLACES)), len(PLACES)
    misses = (1 - level) / len(widths)
    sums = (((sum(counts[at:]), many - at), (sum(counts[:at]), at)) for at in range(1, many))
    beyond = [measured_share(above, below, scale, misses) for above, below in sums]
    shares = {end: [getattr(share, end) for share in beyond] for end in Estimate.model_fields}
    return Estimate(**{end: math.sqrt(widths @ of_end) for end, of_end in shares.items()})


def measured_share(right: NoisySum, wrong: NoisySum, scale: float, misses: float) -> Estimate:
    """The share right / (right + wrong) of noisy counts with noise of `scale` in each. If neither sum is positive, the
    share is the middle of its interval."""
    near, far = (quantile(scale, counts, misses / 8) for _, counts in (right, wrong))
    low = _beta(misses / 4, right[0] - near, max(0, wrong[0] + far) + 1)
    high = _beta(1 - misses / 4, max(0, right[0] + near) + 1, wrong[0] - far)
    hits, fails = max(0, right[0]), max(0, wrong[0])
    value = hits / (hits + fails) if hits + fails else (low + high) / 2
    return Estimate(value=value, low=low, high=high)


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
