"""A private estimate of how much teachers err: BTT18, Remark 1.

Bassily, Thakkar & Thakurta (2018) release an error rate of held-out private rows. Each
shard holds rows out, trains a teacher on the others, and counts its errors; the rate is rounded to a whole number of
`steps`, and the sum over shards is released with exact discrete Laplace noise.

Assumes      a privacy unit is in one shard; which rows are held out is fixed row by row or inside a shard
Guarantees   (ε, 0)-DP: one shard moves the sum by at most `steps`, and the noise has scale steps/ε
Ends         after one release
Not covered  what is read from it (tasks.asks.estimate). The ledger charges its cost
Checked by tests/privacy/test_error_estimate.py
"""

from collections.abc import Collection
from typing import ClassVar

import numpy as np
from pydantic import PositiveInt

from concord.artifacts.privacy import Cost
from concord.tasks.mechanisms.distance import Ints, RandomSource
from concord.tasks.mechanisms.mechanism import PublicSettings
from concord.tasks.mechanisms.noise import Scale


class ErrorEstimate(PublicSettings):
    """Public settings only; a `share` of the units is set aside."""

    name: ClassVar[str] = "error_estimate"
    proof: ClassVar[str] = (
        "tasks/mechanisms/error_estimate.py: discrete Laplace noise in one sum (Bassily, Thakkar & Thakurta 2018, "
        "Remark 1); pure, δ = 0"
    )
    releases: ClassVar[str] = ""
    command: ClassVar[str] = "concord estimate PLAN"
    delta: ClassVar[float] = 0.0
    cutoff: ClassVar[None] = None
    queries: ClassVar[int] = 1
    per_refusal: ClassVar[None] = None
    of_ask: ClassVar[Collection[str]] = ("share",)
    forms: ClassVar[Collection[str]] = ("errors",)

    epsilon: float
    shards: PositiveInt
    steps: PositiveInt
    scale: Scale
    share: float = 0.0

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
