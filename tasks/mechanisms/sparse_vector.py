"""Sparse vector: distance against a noisy threshold, calibrated with optimal composition and the best split of noise.

`NoisyThreshold` is the algorithm that `published` and `sparse_vector` share, at any scales; `SparseVector` has the
settings that answer most within (epsilon, delta). An epoch is the run of answers up to and including a refusal. Each
epoch draws one threshold noise X and each row a query noise Y, all integers: answer the plurality label if
distance + Y > threshold + X, otherwise refuse; halt at the T-th refusal.

Privacy statement
    Assumes      X and Y are exact discrete Laplace of the scales b₁ (threshold) and b₂ (query), used once; each privacy
                 unit reaches one teacher; rows are fixed or chosen from released things alone
    Guarantees   the whole answer sequence, however long and adaptive, is (ε, η + D)-DP for every ε, where D is the
                 optimal T-fold composition of ε₁ = 1/b₁ + 2/b₂ at ε, η = T·Pr[Y − X > threshold]. Its cost is that,
                 computed from the scales that run, with rounding towards safety
    Ends         at the T-th refusal, which is the last answer; a new session is a new cost
    Not covered  replacing one unit by another (two steps of distance); running time; the noisy distance, never
                 released; the best mechanism at this budget, which is stable.py

Proof. Within an epoch every answer before the refusal is the plurality label, so the rows asked follow one fixed path.
(i) Labels equal on D and D': X → X − 1 keeps every answer, since no distance falls by more than 1; Y → Y − 2 keeps the
refusal that ends the epoch. Both are bijections of the integers, and cost e^(1/b₁) and e^(2/b₂). (ii) Labels differ:
the distance is 0 on both (distance.py), so a refusal has one law; a label is the bad event, and since the path is fixed
and the first such row ends the epoch or is bad, it has probability at most η/T an epoch. So an epoch is (ε₁, η/T)-DP
both ways; X is redrawn, so T epochs compose by Kairouz, Oh & Viswanath 2015, Theorem 3.3: δ ≤ η + D. ∎
Kin: Lyu, Su & Li 2017; BTT18, Algorithm 2. Not redrawing X would cost less at δ = 0, but then epochs are not
independent and D does not cover them.

Source: BTT18, Algorithm 2 with its constants replaced; composition Kairouz, Oh & Viswanath 2015.
Checked by tests/privacy/test_sparse_vector.py, against the best adaptive adversary and planted bugs, and by
tests/privacy/test_published.py.
"""

import math
from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from concord.artifacts.errors import WrongInput
from concord.artifacts.privacy import UP, Cost
from concord.tasks.mechanisms.distance import (
    REFUSED,
    Answers,
    Ints,
    RandomSource,
    distance_to_instability,
    plurality,
)
from concord.tasks.mechanisms.mechanism import PublicSettings
from concord.tasks.mechanisms.noise import Scale


class NoisyThreshold(PublicSettings):
    """Public settings only: the budget (epsilon, delta), refusals until it halts, threshold in votes, noise scales."""

    keyed: ClassVar[bool] = False
    counts: ClassVar[bool] = False
    per_refusal: ClassVar[None] = None
    calibrated: ClassVar[Collection[str]] = ("threshold", "threshold_scale", "query_scale", "teachers")

    if TYPE_CHECKING:  # a field of `published` and none of `sparse_vector`

        @property
        def queries(self) -> int | None:
            """Largest number of rows it may answer; None if the stream may be endless."""

    epsilon: float
    delta: float
    cutoff: int
    threshold: int
    threshold_scale: Scale
    query_scale: Scale

    def model_post_init(self, context: Any) -> None:
        """Raises WrongInput if a setting is out of its range."""
        super().model_post_init(context)
        if not min(self.epsilon, self.delta) > 0 or self.cutoff < 1 or self.threshold < 0:
            raise WrongInput(f"{self.name} needs a positive budget, cutoff >= 1 and threshold >= 0, got {self!r}")

    @property
    def epoch_epsilon(self) -> float:
        """ε₁, the cost of one epoch if labels agree; rounded up."""
        return (1 / self.threshold_scale + 2 / self.query_scale) * UP

    @property
    def slip(self) -> float:
        """η: the probability that a label escapes on a row where labels differ, over all epochs. Rounded up."""
        return self.cutoff * sum_tail(self.threshold_scale, self.query_scale, self.threshold + 1)

    @cached_property
    def cost(self) -> Cost:
        """Cost at the cutoff, computed from the settings that run."""
        return Cost.approximate(self.epoch_epsilon, self.slip, times=self.cutoff)

    def answer(self, votes: Ints, query_noise: Ints, threshold_noise: Ints, refused: int = 0) -> Ints:
        """Labels, REFUSED if refused, up to the row that reaches the cutoff.

        votes (rows, classes); query_noise (rows,) of `query_scale`; threshold_noise (cutoff,) of `threshold_scale`,
        one per epoch; `refused` counts the refusals before this batch.
        """
        labels = plurality(votes)
        noisy = distance_to_instability(votes) + query_noise
        epochs = (threshold_noise + self.threshold)[refused:].tolist()
        if not epochs:
            return labels[:0]
        # Only these rows can be refused, whichever epoch they fall in: the loop walks over them alone.
        for row in np.flatnonzero(noisy <= max(epochs)).tolist():
            if noisy[row] > epochs[0]:
                continue
            labels[row] = REFUSED
            del epochs[0]
            if not epochs:
                return labels[: row + 1]
        return labels

    def release(self, votes: Ints, source: RandomSource, first: int, refused: int) -> Answers:  # noqa: ARG002
        """Answer a batch. Threshold noise is drawn once per session. Query noise is fresh, so the caller must keep the
        answers."""
        thresholds = source.once("thresholds", lambda: source.laplace(self.threshold_scale, self.cutoff))
        return Answers(self.answer(votes, source.laplace(self.query_scale, len(votes)), thresholds, refused))


def sum_tail(first_scale: float, second_scale: float, least: int) -> float:
    """Pr[X + Y ≥ least] of independent discrete Laplace X, Y, for least ≥ 0; rounded up. X − Y has the same law.

    With p ≤ q the two e^(−1/scale), t = least and c = (1−p)(1−q) / ((1+p)(1+q)), summing c·p^|x|·q^|s−x| over x and
    s ≥ t: c·{ pq/(1−pq)·[q^t/(1−q) + p^t/(1−p)] + q^t/((1−q)(1−p))·[q + (1−q)·(1−(p/q)^(t+1))/(1−p/q)] }. No term is
    negative, so nothing cancels, however near the scales are.
    """
    fast, slow = sorted((1 / first_scale, 1 / second_scale), reverse=True)
    not_p, not_q, not_pq = -math.expm1(-fast), -math.expm1(-slow), -math.expm1(-fast - slow)
    p_tail, q_tail = math.exp(-fast * least), math.exp(-slow * least)
    log_ratio, terms = slow - fast, least + 1  # Σ (p/q)^i for i ≤ t
    between = math.expm1(log_ratio * terms) / math.expm1(log_ratio) if log_ratio * terms < 0 else float(terms)
    outside = (1 - not_pq) / not_pq * (q_tail / not_q + p_tail / not_p)
    inside = q_tail / (not_q * not_p) * (1 - not_q + not_q * between)
    return not_p * not_q / ((2 - not_p) * (2 - not_q)) * (outside + inside) * UP


class SparseVector(NoisyThreshold):
    """The noisy threshold at the best settings for a budget; the stream may be endless."""

    name: ClassVar[str] = "sparse_vector"
    proof: ClassVar[str] = (
        "tasks/mechanisms/sparse_vector.py: sparse vector on the distance to instability (Lyu, Su & Li 2017) with "
        "optimal composition (Kairouz, Oh & Viswanath 2015)"
    )
    pays_for: ClassVar[str] = "each refusal"
    take_if: ClassVar[str] = "a handful of refusals is enough"
    queries: ClassVar[None] = None
