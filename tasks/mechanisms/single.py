"""One release of a stable answer (A_stab): in the papers' Laplace form, and in its optimal form.

Every row is a release of its own: `cost` is that of one row.

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
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from artifacts.errors import WrongInput
from artifacts.privacy import UP, Cost
from tasks.mechanisms.distance import distance_to_instability, plurality
from tasks.mechanisms.refusal import WHOLE, Table
from tasks.mechanisms.voting import REFUSED, Draws, Ints

LARGEST = 500_000
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
        if 2 / self.epsilon * math.log1p(math.expm1(self.epsilon) / (2 * self.delta)) > LARGEST:
            raise WrongInput(
                f"the optimal release would refuse beyond distance {LARGEST} at epsilon = {self.epsilon:g} and delta = "
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
