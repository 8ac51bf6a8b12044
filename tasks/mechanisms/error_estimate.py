"""A private estimate of how much teachers err, to choose the cutoff by: BTT18, Remark 1.

Bassily, Thakkar & Thakurta (2018) release an error rate of held-out private rows and set T from it (Theorem 3.2). Each
shard holds rows out, trains a teacher on the others, and counts its errors; the rate is rounded to a whole number of
`steps`, and the sum over shards is released with exact discrete Laplace noise.

Assumes      a privacy unit is in one shard; which rows are held out is fixed row by row or inside a shard
Guarantees   (ε, 0)-DP: one shard moves the sum by at most `steps`, and the noise has scale steps/ε. The cutoff that is
             suggested is accurate with probability 1 − β, for rows and queries drawn from one distribution
Ends         after one release
Not covered  the accuracy of a cutoff chosen by it for other data or other teachers. The ledger charges its cost
Checked by tests/privacy/test_error_estimate.py, where the printed cutoff is too small.
"""

import math
from collections.abc import Collection
from typing import ClassVar

import numpy as np

from concord.artifacts.errors import WrongInput
from concord.artifacts.privacy import Cost
from concord.tasks.mechanisms.distance import Ints, RandomSource
from concord.tasks.mechanisms.mechanism import PublicSettings
from concord.tasks.mechanisms.noise import laplace_reach, laplace_scale

RATE_STEPS = 1000
"""Steps of an error rate: rounding moves it by at most a twentieth of a percentage point."""


class ErrorEstimate(PublicSettings):
    """Public settings only; a `share` of the units is set aside."""

    name: ClassVar[str] = "error_estimate"
    proof: ClassVar[str] = (
        "tasks/mechanisms/error_estimate.py: discrete Laplace noise in one sum (Bassily, Thakkar & Thakurta 2018, "
        "Remark 1); pure, δ = 0"
    )
    of_ask: ClassVar[Collection[str]] = ("share",)

    epsilon: float
    shards: int
    steps: int
    scale: float
    share: float = 0.0

    @classmethod
    def calibrate(cls, *, epsilon: float, shards: int, steps: int = RATE_STEPS) -> "ErrorEstimate":
        """Noise of the least scale for epsilon. Raises WrongInput."""
        if not 0 < epsilon < math.inf or shards < 1 or steps < 1:
            raise WrongInput(
                "an error estimate needs 0 < epsilon < inf, at least 1 shard and at least 1 step, "
                f"got {epsilon!r}, {shards!r}, {steps!r}"
            )
        return cls(epsilon=epsilon, shards=shards, steps=steps, scale=laplace_scale(epsilon, steps))

    @property
    def cost(self) -> Cost:
        """Pure ε = steps/scale."""
        return Cost.approximate(self.steps / self.scale)

    def total(self, errors: Ints, tested: Ints) -> int:
        """Sum of the shards' error rates, in steps, from errors (shards,) and tested rows (shards,).

        A shard that tested no row counts as all wrong.
        """
        if errors.shape != (self.shards,) or tested.shape != (self.shards,):
            raise ValueError(f"errors and tested must be ({self.shards},), got {errors.shape} and {tested.shape}")
        rounded = (2 * errors * self.steps + tested) // np.maximum(2 * tested, 1)
        return int(np.where(tested > 0, rounded.clip(0, self.steps), self.steps).sum())

    def release(self, total: int, source: RandomSource) -> int:
        """The noisy sum, which is the only number released."""
        return total + int(source.laplace(self.scale, 1)[0])

    def rate(self, noisy: int) -> float:
        """The mean error rate estimated from a noisy sum, between 0 and 1."""
        return min(1.0, max(0.0, noisy / (self.shards * self.steps)))

    def upper_rate(self, noisy: int, beta: float) -> float:
        """A rate that the mean of all shards exceeds with probability at most β over the noise, rounding included."""
        check_parameters(fractions={"beta": beta}, positive={})
        highest = noisy + laplace_reach(self.scale, beta) + self.shards / 2
        return min(1.0, max(0.0, highest / (self.shards * self.steps)))

    def suggested_cutoff(self, noisy: int, *, queries: int, beta: float) -> int:
        """T of BTT18, Theorem 3.2, for that many queries at the upper rate; β is halved between the two.

        At least 1 and at most `queries`, with which a session cannot halt before its end.
        """
        error = self.upper_rate(noisy, beta / 2)
        if error in (0, 1):
            return queries if error else 1
        return min(queries, exact_cutoff(error=error, queries=queries, beta=beta / 2, teachers=self.shards))


def exact_cutoff(*, error: float, queries: int, beta: float, teachers: int) -> int:
    """T for which Theorem 3.2 holds when a session halts at its T-th refusal: three times a binomial quantile.

    With probability 1 − β none of k teachers, each wrong on Binomial(m, p) rows at most, is wrong on more than B rows;
    then fewer than 3B rows have over k/3 wrong votes (Lemma 3.3), so that the T-th refusal does not come.
    """
    from scipy.stats import binom  # heavy, and rarely asked for

    check_parameters(fractions={"error": error, "beta": beta}, positive={"queries": queries, "teachers": teachers})
    return max(1, 3 * int(binom.isf(beta / teachers, queries, error)))


def check_parameters(*, fractions: dict[str, float], positive: dict[str, float]) -> None:
    """Raises WrongInput naming the first argument that is out of its range."""
    for name, value in fractions.items():
        if not 0 < value < 1:
            raise WrongInput(f"{name} must be between 0 and 1, got {value!r}")
    for name, value in positive.items():
        if not 0 < value < math.inf:
            raise WrongInput(f"{name} must be positive and finite, got {value!r}")
