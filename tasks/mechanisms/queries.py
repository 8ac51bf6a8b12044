"""Stable queries: ask teachers anything, not only for a class label; and the release of one stable answer by itself.

`ask` releases what most teachers answer, by any mechanism that pays by refusal. `LaplaceRelease` and `OptimalRelease`
are A_stab, of which every row is a release of its own: in the papers' Laplace form, and in its optimal form.

Each teacher answers each query with a hashable value: the name of its most predictive feature, a threshold, a rule.

    answers = [[most_predictive(shard) for shard in shards]]        # queries × teachers
    ask(mechanism, answers, source)                                 # ["income"], or [None] if refused

Statement of `ask` and `count_answers`
    Assumes      each privacy unit is in one shard, hence reaches one answer a query; every teacher answers every query,
                 by a fixed rule if it cannot; answers that are equal, of one type and one repr look the same to readers
    Guarantees   `ask`: that of the mechanism, though nobody declared which answers there are. `count_answers`: votes
                 for declared answers, for any mechanism
    Ends         with the mechanism: at its cutoff
    Not covered  `count_answers` of answers that were found in private data, not declared

Why `ask` may release an answer nobody declared. The proofs of stable.py and sparse_vector.py use two facts of
distance.py, and both hold for answers out of any set: one vote moves the lead of the first answer over the second by at
most 2; if the first answers differ, the distance is 0 on both sides, and such an answer escapes only with the
probability that is already charged as additive δ. Which answers trail, or exist, is never looked at.
Why noisy counts may not. A count exists because some teacher gave its answer: an answer only one teacher knows has
probability above 0 on one side and 0 on the other, whatever the noise, and no δ was charged for that.
Source: BTT18, section 1 ("any sequence of online queries that satisfy certain stability properties").
Checked by tests/privacy/test_queries.py, with the most predictive feature by shard as its example.

Statement of one release, whose `cost` is that of one row
    Assumes      each privacy unit reaches one teacher; noise is exact discrete Laplace of scale 1/epsilon, draws are
                 uniform over 2^64, and each is used once
    Guarantees   one row is (epsilon, delta)-DP, with the δ of `cost`, never above the one asked for
    Ends         after the row; asking again is another release
    Not covered  many rows at the price of the refused ones (sparse_vector.py, stable.py); running time

LaplaceRelease: BTT18, Algorithm 1 (Smith & Thakurta 2013, Prop. 3). Answer if distance + Y > Γ = ln(1/δ)/ε.
Proof of Theorem 2.4. Labels equal: the distance moves by at most 1, so either outcome changes by at most e^ε. Labels
differ: the distance is 0 on both, ⊥ has one law and a label escapes with probability Pr[Y > Γ] = p^(⌊Γ⌋+1)/(1+p) ≤ δ,
p = e^(−ε). Theorem 2.5: at distance (ln(1/δ) + ln(1/β))/ε it answers with probability at least 1 − β.

OptimalRelease: the largest answer probability at every distance at once (Desfontaines et al. 2022, Theorem 1):
    a₀ = δ,   aᵢ₊₁ = min{ e^ε·aᵢ + δ,  1 − e^(−ε)·(1 − aᵢ − δ),  1 }
Proof. (ε, δ)-DP between equal labels at distances i and i + 1 is those lines and their mirror images, which hold as a
never falls; between differing labels it is a₀ ≤ δ. Each entry is the most that the one before allows, so no rule
answers more often at any distance; entries are whole numbers over 2^64, rounded down, so the lines hold exactly. ∎
Checked by tests/privacy/test_single.py, in rational arithmetic.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from concord.artifacts.errors import WrongInput
from concord.artifacts.privacy import UP, Cost
from concord.tasks.mechanisms.distance import (
    REFUSED,
    WHOLE,
    Draws,
    Ints,
    RandomSource,
    Table,
    distance_to_instability,
    plurality,
)
from concord.tasks.mechanisms.mechanism import Mechanism

LONGEST = 500_000
"""Optimal tables longer than this are refused: no ensemble could use them."""


@dataclass(frozen=True, kw_only=True)
class LaplaceRelease:
    """Algorithm 1. Public settings only: epsilon and the δ it was asked for."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        _check(self.epsilon, self.delta)

    @property
    def threshold(self) -> float:
        """Γ = ln(1/δ)/ε, in votes."""
        return math.log(1 / self.delta) / self.epsilon

    @property
    def cost(self) -> Cost:
        """(ε, δ) of one row, δ being the exact tail of the noise beyond Γ; rounded up."""
        tail = math.exp(-self.epsilon * (math.floor(self.threshold) + 1)) / (1 + math.exp(-self.epsilon))
        return Cost.approximate(self.epsilon, tail * UP)

    def stability_required(self, beta: float) -> float:
        """The distance at which a row is answered with probability at least 1 − beta (Theorem 2.5), in votes."""
        return (math.log(1 / self.delta) + math.log(1 / beta)) / self.epsilon

    def answer(self, votes: Ints, noise: Ints) -> Ints:
        """Labels, REFUSED where refused: votes (rows, classes), noise (rows,) of scale 1/epsilon."""
        return _labels(votes, distance_to_instability(votes) + noise > self.threshold)


@dataclass(frozen=True, kw_only=True)
class OptimalRelease:
    """The optimal form. Public settings only; `refusal` follows from them."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        _check(self.epsilon, self.delta)
        if 2 / self.epsilon * math.log1p(math.expm1(self.epsilon) / (2 * self.delta)) > LONGEST:
            raise WrongInput(
                f"the optimal release would refuse beyond distance {LONGEST} at epsilon = {self.epsilon:g} and delta = "
                f"{self.delta:g}"
            )

    @cached_property
    def refusal(self) -> Table:
        """Refusal probability × 2^64 by distance, (L + 1,); its last entry, 0, repeats."""
        grows, slip = _lower_exponential(self.epsilon), math.floor(Fraction(self.delta) * WHOLE)
        answered = [slip]
        while answered[-1] < WHOLE:
            rise = math.floor(answered[-1] * grows) + slip
            fall = WHOLE - math.ceil(max(0, WHOLE - answered[-1] - slip) / grows)
            answered.append(min(rise, fall))
        return np.array([WHOLE - count for count in answered], np.uint64)

    @property
    def cost(self) -> Cost:
        """(ε, δ) of one row."""
        return Cost.approximate(self.epsilon, self.delta)

    def answer(self, votes: Ints, draws: Draws) -> Ints:
        """Labels, REFUSED where draw < entry: votes (rows, classes), draws (rows,)."""
        refusal = self.refusal.take(distance_to_instability(votes), mode="clip")
        return _labels(votes, draws >= refusal)


def _labels(votes: Ints, answered: NDArray[np.bool_]) -> Ints:
    return np.where(answered, plurality(votes), REFUSED)


def _lower_exponential(epsilon: float) -> Fraction:
    """A rational just below e^epsilon, and at least 1: `exp` is off by less than two units in its last place."""
    return max(Fraction(1), Fraction(math.exp(epsilon) * (1 - 1e-15)))


def _check(epsilon: float, delta: float) -> None:
    if not 0 < epsilon <= 600 or not 2.0**-60 <= delta < 1:
        raise WrongInput(f"a single release needs 0 < epsilon <= 600 and 2^-60 <= delta < 1, got {epsilon} and {delta}")


Answer = TypeVar("Answer", bound=Hashable)


def ask(
    mechanism: Mechanism,
    answers: Iterable[Sequence[Answer]],
    source: RandomSource,
    first: int = 0,
    refused: int = 0,
) -> list[Answer | None]:
    """The answer most teachers give to each query, None where refused; shorter once the cutoff was reached.

    answers (queries, teachers); `first` and `refused` are the session's queries and refusals before these. Raises
    WrongInput for a mechanism that releases more than the plurality, or where there are no teachers.
    """
    if mechanism.counts:
        raise WrongInput(f"undeclared answers can only be released by refusing, which {mechanism.name!r} does not")
    leads = [leaders(row) for row in answers]
    votes = np.array([counts for _, counts in leads], dtype=np.int64).reshape(-1, 2)
    labels = mechanism.release(votes, source, first, refused).labels
    return [None if label == REFUSED else winner for label, (winner, _) in zip(labels.tolist(), leads, strict=False)]


def leaders(answers: Sequence[Answer]) -> tuple[Answer, tuple[int, int]]:
    """The answer given most, ties to the earliest teacher, and how often it and the runner-up were given."""
    if not answers:
        raise WrongInput("a query needs at least one teacher's answer")
    # 1, 1.0 and True are equal, but whoever reads one of them can tell which: they are different answers.
    ranked = Counter((answer, type(answer), repr(answer)) for answer in answers).most_common(2)
    (winner, _, _), top = ranked[0]
    return winner, (top, ranked[1][1] if len(ranked) > 1 else 0)


def count_answers(answers: Iterable[Sequence[Answer]], declared: Sequence[Answer]) -> Ints:
    """Votes (queries, declared answers) for any mechanism; what was not declared counts for the first of them."""
    column = {answer: index for index, answer in enumerate(declared)}
    if len(column) != len(declared) or not declared:
        raise WrongInput("declared answers must be at least one and differ from one another")
    chosen = [np.array([column.get(answer, 0) for answer in row], dtype=np.int64) for row in answers]
    votes = [np.bincount(row, minlength=len(declared)) for row in chosen]
    return np.array(votes, dtype=np.int64).reshape(-1, len(declared))
