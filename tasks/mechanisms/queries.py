"""Stable questions: release the answer most shards give to any question, and refuse if they disagree.

`ask` uses any mechanism that pays by refusal, for a stream of questions. `OptimalRelease` and `LaplaceRelease` are
A_stab for a single question: its optimal form, and the papers' form.

Each shard answers each question with a hashable value: the name of its most telling feature, a threshold, a rule.

    answers = [[most_telling(shard) for shard in shards]]        # questions × shards
    ask(mechanism, answers, source)                              # ["income"], or [None] if refused

Statement of `ask`
    Assumes      each privacy unit is in one shard, hence reaches one answer a question; every shard answers every
                 question, by a fixed rule if it cannot; answers that are equal, of one type and one repr look the same
                 to readers
    Guarantees   that of the mechanism, though nobody declared which answers there are
    Ends         with the mechanism: at its cutoff, or after its one question

Why `ask` may release an answer nobody declared. The proofs of stable.py and sparse_vector.py, and those below, use two
facts of distance.py, and both hold for answers out of any set: one vote moves the lead of the first answer over the
second by at most 2; if the first answers differ, the distance is 0 on both sides, and such an answer escapes only with
the probability that is already charged as additive δ. Which answers trail, or exist, is never used.
Why noisy counts may not. A count exists because some shard gave its answer: an answer only one shard knows has
probability above 0 on one side and 0 on the other, whatever the noise, and no δ was charged for that.
Source: BTT18, section 1 ("any sequence of online queries that satisfy certain stability properties").
Checked by tests/privacy/test_queries.py, with the most predictive feature by shard as its example.

Statement of one release
    Assumes      each privacy unit reaches one shard; noise is exact discrete Laplace of scale `scale`, draws are
                 uniform over 2^64, and each is used once
    Guarantees   one question is (epsilon, delta)-DP, with the δ of `cost`, never above the one asked for
    Ends         after the question; asking again is another release
    Not covered  many questions at the price of the refused ones (stable.py); running time

LaplaceRelease: BTT18, Algorithm 1 (Smith & Thakurta 2013, Prop. 3). Answer if distance + Y > Γ = ln(1/δ)/ε.
Proof of Theorem 2.4. Answers equal: the distance moves by at most 1, so either outcome changes by at most e^ε. Answers
differ: the distance is 0 on both, ⊥ has one law and an answer escapes with probability Pr[Y > Γ] = p^(⌊Γ⌋+1)/(1+p) ≤ δ,
p = e^(−1/scale). Theorem 2.5: at distance (ln(1/δ) + ln(1/β))/ε it answers with probability at least 1 − β.

OptimalRelease: the largest answer probability at every distance at once (Desfontaines et al. 2022, Theorem 1):
    a₀ = δ,   aᵢ₊₁ = min{ e^ε·aᵢ + δ,  1 − e^(−ε)·(1 − aᵢ − δ),  1 }
Proof. (ε, δ)-DP between equal answers at distances i and i + 1 is those lines and their mirror images, which hold as a
never falls; between differing answers it is a₀ ≤ δ. Each entry is the most that the one before allows, so no rule
answers more often at any distance; entries are whole numbers over 2^64, rounded down, so the lines hold exactly. ∎
Checked by tests/privacy/test_queries.py, in rational arithmetic.
"""

import math
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar, Protocol, TypeVar

import numpy as np

from concord.artifacts.errors import WrongInput
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
    plurality,
)
from concord.tasks.mechanisms.mechanism import PublicSettings
from concord.tasks.mechanisms.noise import Scale

COMMON = "an answer that most parts of the private rows have in common, or a refusal"


class LaplaceRelease(PublicSettings):
    """Algorithm 1. Public settings only: the ε and δ asked for, scale and threshold Γ of the noise in votes, and the
    name of the question."""

    name: ClassVar[str] = "laplace_release"
    forms: ClassVar[Collection[str]] = ("answers",)
    counts: ClassVar[bool] = False
    cutoff: ClassVar[None] = None
    queries: ClassVar[int] = 1
    per_refusal: ClassVar[None] = None
    proof: ClassVar[str] = (
        "tasks/mechanisms/queries.py: A_stab (Bassily, Thakkar & Thakurta 2018, Theorem 2.4; Smith & Thakurta 2013)"
    )

    releases: ClassVar[str] = COMMON
    of_ask: ClassVar[Collection[str]] = ("question",)

    epsilon: float
    delta: float
    scale: Scale
    threshold: float
    question: str = ""

    @property
    def cost(self) -> Cost:
        """(ε, δ) of one question, δ being the exact tail of the noise beyond Γ; rounded up."""
        epsilon = max(self.epsilon, 1 / self.scale)  # the former, unless the scale is none of `calibrate`
        return Cost.approximate(epsilon, self._tail(math.floor(self.threshold) + 1) * UP)

    def answer(self, votes: Ints, noise: Ints) -> Ints:
        """Labels (rows,), REFUSED if refused, of votes (rows, classes) given noise (rows,) of `scale`."""
        answered = distance_to_instability(votes) + noise > self.threshold
        return np.where(answered, plurality(votes), REFUSED)

    def release(self, votes: Ints, source: RandomSource, first: int, refused: int) -> Answers:  # noqa: ARG002
        """Answer the question, votes (1, classes). Its noise is drawn once and kept."""
        return Answers(self.answer(votes, source.once("noise", lambda: source.laplace(self.scale, len(votes)))))

    def _tail(self, least: int) -> float:
        """Pr[Y ≥ least] of the noise."""
        ratio = math.exp(-1 / self.scale)
        return ratio**least / (1 + ratio) if least > 0 else 1 - ratio ** (1 - least) / (1 + ratio)


class OptimalRelease(PublicSettings):
    """The optimal form. Public settings only.

    refusal   (L + 1,) uint64, probability × 2^64 by distance; its last entry, 0, repeats
    question  its name
    """

    name: ClassVar[str] = "optimal_release"
    forms: ClassVar[Collection[str]] = ("answers",)
    counts: ClassVar[bool] = False
    cutoff: ClassVar[None] = None
    queries: ClassVar[int] = 1
    per_refusal: ClassVar[None] = None
    proof: ClassVar[str] = (
        "tasks/mechanisms/queries.py: A_stab in its optimal form "
        "(Desfontaines, Voss, Gipson & Mandayam 2022, Theorem 1)"
    )
    calibrated: ClassVar[Collection[str]] = ("refusal",)

    releases: ClassVar[str] = COMMON
    of_ask: ClassVar[Collection[str]] = ("question",)

    epsilon: float
    delta: float
    refusal: RefusalTable
    question: str = ""

    @property
    def cost(self) -> Cost:
        """(ε, δ) of one question, if each entry is one that the entry before allows; else infinite."""
        grows, slip = growth(self.epsilon), math.floor(Fraction(self.delta) * WHOLE)
        answered = [WHOLE - entry for entry in self.refusal.tolist()]
        steps = pairwise(answered)  # of two neighbours either may be the nearer: no answer is rarer further away
        proved = answered[0] <= slip and all(now <= then <= most_after(now, grows, slip) for now, then in steps)
        return Cost.approximate(self.epsilon, self.delta) if proved else Cost(renyi=(math.inf,) * len(ORDERS))

    def answer(self, votes: Ints, draws: Draws) -> Ints:
        """Labels (rows,) of votes (rows, classes) given draws (rows,); REFUSED if a draw is below the table's entry."""
        refusal = self.refusal.take(distance_to_instability(votes), mode="clip")
        return np.where(draws >= refusal, plurality(votes), REFUSED)

    def release(self, votes: Ints, source: RandomSource, first: int, refused: int) -> Answers:  # noqa: ARG002
        """Answer the question, votes (1, classes), with the session's keyed draw."""
        return Answers(self.answer(votes, source.uniform(first, len(votes))))


def growth(epsilon: float) -> Fraction:
    """Just below e^ε, and at least 1: `exp` is off by less than two units in its last place."""
    return max(Fraction(1), Fraction(math.exp(epsilon) * (1 - 1e-15)))


def most_after(answered: int, grows: Fraction, slip: int) -> int:
    """aᵢ₊₁ of the proof, over 2^64 and rounded down, for aᵢ and δ likewise."""
    fall = WHOLE - math.ceil(max(0, WHOLE - answered - slip) / grows)
    return min(math.floor(answered * grows) + slip, fall)


SingleRelease = LaplaceRelease | OptimalRelease
FORMS: dict[str, type[LaplaceRelease] | type[OptimalRelease]] = {"optimal": OptimalRelease, "laplace": LaplaceRelease}
"""A_stab by the name of its form: the form that answers most, and the papers' form."""


class Refusing(Protocol):
    """The part of a mechanism that `ask` uses: from two counts it releases the first answer, or refuses."""

    @property
    def name(self) -> str: ...
    @property
    def counts(self) -> bool: ...
    @property
    def release(self) -> Callable[[Ints, RandomSource, int, int], Answers]: ...


AnswerT = TypeVar("AnswerT", bound=Hashable)


def release_answers(
    mechanism: Refusing,
    answers: Iterable[Sequence[AnswerT]],
    source: RandomSource,
    first: int = 0,
    refused: int = 0,
) -> list[AnswerT | None]:
    """The answer most shards give to each question, None if refused; shorter than the questions at the cutoff.

    answers (questions, shards); `first` and `refused` count the session's questions and refusals before these. Raises
    WrongInput if the mechanism releases more than the plurality, or if there are no shards.
    """
    if mechanism.counts:
        raise WrongInput(f"undeclared answers can only be released by refusing, which {mechanism.name!r} does not")
    leads = [leaders(row) for row in answers]
    votes = np.array([counts for _, counts in leads], dtype=np.int64).reshape(-1, 2)
    labels = mechanism.release(votes, source, first, refused).labels
    return [None if label == REFUSED else winner for label, (winner, _) in zip(labels.tolist(), leads, strict=False)]


def leaders(answers: Sequence[AnswerT]) -> tuple[AnswerT, tuple[int, int]]:
    """The most frequent answer (ties go to the earliest shard), and the counts of it and of the runner-up."""
    if not answers:
        raise WrongInput("a question needs at least one shard's answer")
    # 1, 1.0 and True are equal, but a reader can tell them apart: they are different answers.
    ranked = Counter((answer, type(answer), repr(answer)) for answer in answers).most_common(2)
    (winner, _, _), top = ranked[0]
    return winner, (top, ranked[1][1] if len(ranked) > 1 else 0)
