"""Sparse vector: the noisy threshold calibrated to the budget, with optimal composition and the best split of noise.

What threshold.py proves for any scales is turned round: of all settings that are (epsilon, delta)-DP at the cutoff,
take the one whose refusals fall to 1% at the least distance. Two splits are searched, both public: δ between
composition and labels that escape, and ε₁ between threshold noise and query noise.

Assumes      as threshold.py
Guarantees   (epsilon, delta) at the cutoff for an endless adaptive stream: η + D ≤ δ, recomputed from the very scales
             that run, with rounding towards safety
Ends         at the cutoff-th refusal
Not covered  as threshold.py; and the best mechanism at this budget, which is stable.py

Source: BTT18, Algorithm 2 with its constants replaced; composition Kairouz, Oh & Viswanath 2015. The split of noise
differs from Lyu, Su & Li 2017 (1 : 2^(2/3), least variance): here the far tail counts as well.
Checked by tests/privacy/test_sparse_vector.py, against the best adaptive adversary and planted bugs.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from artifacts.composition import hockey_stick
from artifacts.errors import WrongInput
from tasks.mechanisms.threshold import NoisyThreshold, least_with_tail

REFUSALS = 0.01
"""Calibration minimises the distance at which refusal falls to this."""
LABEL_SHARES = (0.01, 0.03, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97, 0.99, 1.0)
"""Parts of δ tried for labels that escape; the rest pays for optimal composition."""
QUERY_RATIOS = tuple(1 + step / 50 for step in range(-10, 41))
"""Ratios of query scale to threshold scale tried. Far tails want 1, least variance wants 2^(1/3)."""
HEADROOM = 1 - 1e-5
"""Part of each budget that is searched; the rest is for what is rounded up when the settings found are certified."""


@dataclass(frozen=True, kw_only=True)
class SparseVector(NoisyThreshold):
    """The noisy threshold at the best settings for a budget; it may be asked without end."""

    name: ClassVar[str] = "sparse_vector"
    needs: ClassVar[str] = "a cutoff; rows may go on without end"
    proof: ClassVar[str] = (
        "tasks/mechanisms/threshold.py: sparse vector on the distance to instability (Lyu, Su & Li 2017) with optimal "
        "composition (Kairouz, Oh & Viswanath 2015)"
    )
    queries: ClassVar[None] = None

    @classmethod
    def calibrate(cls, *, epsilon: float, delta: float, cutoff: int) -> "SparseVector":
        """The settings that refuse least within (epsilon, delta) at `cutoff` refusals. Raises WrongInput on misuse."""
        return _calibrated(float(epsilon), float(delta), int(cutoff))

    @property
    def reach(self) -> int:
        """The least distance at which a row is refused with probability at most REFUSALS."""
        return self.threshold + least_with_tail(self.threshold_scale, self.query_scale, REFUSALS)


@cache
def _calibrated(epsilon: float, delta: float, cutoff: int) -> SparseVector:
    if not 0 < epsilon < math.inf or not 0 < delta < 1 or cutoff < 1:
        raise WrongInput(
            f"sparse vector needs 0 < epsilon < inf, 0 < delta < 1 and cutoff >= 1, got {epsilon}, {delta}, {cutoff}"
        )
    return min(_candidates(epsilon, delta, cutoff), key=lambda one: (one.reach, one.threshold_scale))


def _candidates(epsilon: float, delta: float, cutoff: int) -> Iterator[SparseVector]:
    for share in LABEL_SHARES:
        epoch = _largest_epoch(epsilon * HEADROOM, delta * (1 - share) * HEADROOM, cutoff)
        for ratio in QUERY_RATIOS:
            threshold_scale = (1 + 2 / ratio) / epoch
            query_scale = ratio * threshold_scale
            escaping = least_with_tail(threshold_scale, query_scale, delta * share * HEADROOM / cutoff)
            yield SparseVector(
                epsilon=epsilon,
                delta=delta,
                cutoff=cutoff,
                threshold=max(0, escaping - 1),
                threshold_scale=threshold_scale,
                query_scale=query_scale,
            )


def _largest_epoch(epsilon: float, delta: float, cutoff: int) -> float:
    """The largest ε₁ whose optimal `cutoff`-fold composition is (epsilon, delta)-DP; at least epsilon / cutoff."""
    low, high = epsilon / cutoff, 2 * epsilon / cutoff
    while hockey_stick(high, cutoff, epsilon) <= delta:
        low, high = high, 2 * high
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if hockey_stick(middle, cutoff, epsilon) <= delta else (low, middle)
    return low


MECHANISM = SparseVector
