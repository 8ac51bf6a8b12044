"""Intervals: confidence intervals, at LEVEL, of figures that are measured on a sample of rows.

    a share            Clopper & Pearson (1934): exact, whatever the share is
    a mean of shares   of independent samples, one a class: the distances to their ends, added as squares (Zou & Donner
                       2008, "MOVER")
    AUC                as a share of so many rows as would vary as much, by the variance of DeLong, DeLong &
                       Clarke-Pearson (1988); the share of an effective sample is that of Korn & Graubard (1998)
    average precision  as a share of the rows of its class (Boyd, Eng & Page 2013, "binomial")
    an error of        the delta method on squared errors: RMSE on the scale of logarithms, and R² as a ratio of means
    numbers

Assumes      rows are drawn independently, from what future rows are like, and were not used to choose the student
Guarantees   a share is covered with probability LEVEL or more; a mean of two shares with .92 or more in all cases that
             were tried, and LEVEL or more on average; the others come near LEVEL as rows grow: an AUC of .99, or of
             four rows of a class, with .9. Each interval holds by itself, lies within the range of its figure, and
             contains it. Nothing is drawn
Not covered  a figure chosen as the best of several. Checked by tests/tasks/student/test_intervals.py: exact coverage
             of shares and their means, and simulated coverage of the others
"""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri, stdtrit
from scipy.stats import rankdata

from concord.artifacts.measures import LEVEL, Estimate

Floats = NDArray[np.float64]
REACH = float(ndtri((1 + LEVEL) / 2))
"""Standard deviations on either side of a normal mean that make LEVEL."""


def share(hits: float, rows: float) -> Estimate:
    """The share hits / rows. Counts need not be whole: those of an effective sample are not. Raises ValueError unless
    0 <= hits <= rows and rows > 0."""
    if not 0 <= hits <= rows or not rows:
        raise ValueError(f"a share needs 0 <= hits <= rows and rows > 0, got {hits} of {rows}")
    misses, tail = rows - hits, (1 - LEVEL) / 2
    low = float(betaincinv(hits, misses + 1, tail)) if hits else 0.0
    high = float(betaincinv(hits + 1, misses, 1 - tail)) if misses else 1.0
    return Estimate(value=hits / rows, low=low, high=high)


def mean_of_shares(shares: Sequence[Estimate]) -> Estimate:
    """The mean of shares that were measured on independent samples."""
    value = math.fsum(part.value for part in shares) / len(shares)
    down = math.hypot(*(part.value - part.low for part in shares)) / len(shares)
    up = math.hypot(*(part.high - part.value for part in shares)) / len(shares)
    return Estimate(value=value, low=max(0.0, value - down), high=min(1.0, value + up))


def auc(scores: Floats, of_class: NDArray[np.bool_]) -> Estimate:
    """How often a row of the class, `own` (rows,), has a higher score (rows,) than another row; equal ones count half.
    Raises ValueError unless there are rows of both kinds.

    A variance estimated on few rows is often too small, so it is multiplied by the squared ratio of t's quantile, at
    Welch's degrees of freedom, to the normal one. Pairs without a common row are independent, and there are as many of
    them as the rarer kind has rows. So no AUC varies more than a share of that many rows; if the estimated variance is
    0, that share's is taken.
    """
    many, others = int(of_class.sum()), int((~of_class).sum())
    if not many or not others:
        raise ValueError("an AUC needs rows of the class and others")
    ranks = rankdata(scores)
    # for each row, the share of the other kind that it is beyond
    above = (ranks[of_class] - rankdata(scores[of_class])) / others
    below = 1 - (ranks[~of_class] - rankdata(scores[~of_class])) / many
    value = min(1.0, max(0.0, float(above.mean())))
    seen = [(float(shares.var(ddof=1)) / len(shares), len(shares) - 1) for shares in (above, below) if len(shares) > 1]
    variance, sample = math.fsum(part for part, _ in seen), float(min(many, others))
    if variance and sample > 1:
        freedom = variance**2 / math.fsum(part**2 / of for part, of in seen)
        variance *= (float(stdtrit(freedom, (1 + LEVEL) / 2)) / REACH) ** 2
        sample = max(sample, value * (1 - value) / variance)
    return share(value * sample, sample)


def root_mean_square(errors: Floats) -> Estimate:
    """The root of the mean of squares of errors (rows,)."""
    squares = errors**2
    mean = float(squares.mean())
    if not mean:
        return Estimate(value=0.0, low=0.0, high=0.0)
    factor = math.exp(REACH * float(squares.std()) / math.sqrt(len(squares)) / mean / 2)
    return Estimate(value=math.sqrt(mean), low=math.sqrt(mean) / factor, high=math.sqrt(mean) * factor)


def explained(errors: Floats, deviations: Floats) -> Estimate:
    """R²: the share of squared deviations (rows,) from a mean that errors (rows,) do without; 0 if none deviates."""
    spread = float(np.mean(deviations**2))
    if not spread:
        return Estimate(value=0.0, low=0.0, high=0.0)
    ratio = float(np.mean(errors**2)) / spread
    half_width = REACH * float(np.std(errors**2 - ratio * deviations**2)) / spread / math.sqrt(len(errors))
    return Estimate(value=1 - ratio, low=1 - ratio - half_width, high=min(1.0, 1 - ratio + half_width))
