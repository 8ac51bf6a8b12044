"""Stable voting: answer with the plurality label or refuse, with a probability read from a table by distance.

For each query draw u uniform in [0, 2^64): refuse if u < P[min(d, L)], else answer the plurality label; halt at the
T-th refusal. No threshold, no noise, no floating point. No bound on the number of queries is needed.

Assumes      each privacy unit is in one shard, hence reaches one teacher (add or remove one unit); draws are uniform,
             independent and used once; rows, table and T are fixed or chosen from released things alone
Guarantees   with P and Q the laws of all answers on neighbours, against any adaptive asker: Rényi divergence of order α
             at most T·κ(α)/(α−1), up to an additive δ_label = T·π/(1−π), π = 1 − P[0]/2^64
Ends         at the T-th refusal, which is the last answer; a new session is a new cost
Not covered  tables relabelled across shards; replacing one unit by another (two steps); running time

Proof. p, q are the refusal probabilities of a query on D and D', κ the maximum over adjacent entries, either way round,
of F_α(p, q) = ln [p^α q^(1−α) / (1 − (1−p)^α (1−q)^(1−α))]. (i) If the labels differ, d = d' = 0
(distance.py), so the query is refused but for π; at most T/(1−π) such queries are expected, so a label escapes on one
with probability at most δ_label. (ii) Otherwise let ℓ be the log-likelihood ratio and N the refusals so far: one query
multiplies E_D exp((α−1)ℓ − κN) by p^α q^(1−α) e^−κ + (1−p)^α (1−q)^(1−α) ≤ 1, so this is a supermartingale from 1
and at the halt E exp((α−1)ℓ) ≤ e^(κT). Both orders of D, D' are covered since κ takes both. ∎
Stopped after N < T refusals, the same argument gives N·κ(α)/(α−1) in a filter kept at one order.
Kin: optimal partition selection (Desfontaines et al. 2022), target charging (Cohen & Lyu 2023).
What is claimed is computed from the table's integers, however they were chosen (refusal_tables.py).
Checked by tests/privacy/test_stable.py and, against the best adaptive adversary, tests/privacy/test_stable_game.py.
"""

from collections.abc import Collection
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from concord.artifacts.privacy import ORDERS, UP, Cost
from concord.tasks.mechanisms.distance import (
    REFUSED,
    WHOLE,
    Answers,
    Draws,
    Ints,
    RandomSource,
    RefusalTable,
    distance_to_instability,
    per_refusal,
    plurality,
)
from concord.tasks.mechanisms.mechanism import PublicSettings

ROWS_TOGETHER = 16_384
"""Rows answered at a time: temporaries stay in the processor's cache."""


class StableVoting(PublicSettings):
    """Public settings only.

    refusal   (L + 1,) uint64, probability × 2^64 by distance; its last entry repeats
    """

    name: ClassVar[str] = "stable"
    forms: ClassVar[Collection[str]] = ("votes", "answers")
    keyed: ClassVar[bool] = True
    counts: ClassVar[bool] = False
    queries: ClassVar[None] = None
    calibrated: ClassVar[Collection[str]] = ("order", "refusal")
    proof: ClassVar[str] = (
        "tasks/mechanisms/stable.py: stable voting, a supermartingale over refusals; kin to optimal partition "
        "selection (Desfontaines, Voss, Gipson & Mandayam 2022) and target charging (Cohen & Lyu 2023)"
    )
    pays_for: ClassVar[str] = "each refusal; the number of rows is unlimited"
    take_if: ClassVar[str] = "teachers mostly agree"

    epsilon: float
    delta: float
    cutoff: int
    order: float
    refusal: RefusalTable

    def model_post_init(self, context: Any) -> None:
        """Raises ValueError if the table is none that is proved, or if nothing may be refused."""
        super().model_post_init(context)
        table = self.refusal
        if not len(table) or table[-1] == 0:
            raise ValueError("refusal must be a row of positive 64-bit integers")
        if (table[:-1] < table[1:]).any() or self.cutoff < 1:
            raise ValueError("refusal must not rise with distance and cutoff must be at least 1")

    @cached_property
    def per_refusal(self) -> Cost:
        """Cost of one refusal: κ(α)/(α−1) at each of ORDERS, and π/(1−π)."""
        curve, refused = tuple(per_refusal(self.refusal, order) / (order - 1) for order in ORDERS), int(self.refusal[0])
        return Cost(renyi=curve, delta=(WHOLE - refused) / refused * UP)

    @cached_property
    def cost(self) -> Cost:
        """Cost at the cutoff, computed from the integers of the table that runs."""
        curve = tuple(self.cutoff * r for r in self.per_refusal.renyi)
        return Cost(renyi=curve, delta=self.cutoff * self.per_refusal.delta)

    def answer(self, votes: Ints, draws: Draws, refused: int = 0) -> Ints:
        """Label each row of votes (rows, classes) from draws (rows,) and the number of refusals so far, or REFUSED.

        Shorter than the votes if the cutoff is reached: the last label is then the last refusal.
        """
        if votes.ndim != 2 or draws.shape != votes.shape[:1] or draws.dtype != np.uint64:
            raise ValueError("votes must be (rows, classes) and draws uint64 (rows,)")
        labels = np.empty(len(votes), np.int64)
        for start in range(0, len(votes), ROWS_TOGETHER):
            rows = slice(start, start + ROWS_TOGETHER)
            threshold = self.refusal.take(distance_to_instability(votes[rows]), mode="clip")
            labels[rows] = plurality(votes[rows])
            np.copyto(labels[rows], REFUSED, where=draws[rows] < threshold)
        left, refusals = self.cutoff - refused, np.flatnonzero(labels == REFUSED)
        if left <= 0:
            return labels[:0]
        return labels if len(refusals) < left else labels[: refusals[left - 1] + 1]

    def release(self, votes: Ints, source: RandomSource, first: int, refused: int) -> Answers:
        """Answer a batch with the session's keyed draws: a retry gives the same labels."""
        return Answers(self.answer(votes, source.uniform(first, len(votes)), refused))
