"""Discrete Gaussian noise: one kind of mechanism, and what it costs, exactly.

A unit moves whole numbers, each of which has discrete Gaussian noise of its own: votes, tallies, tables, running sums
and counts of a test are all that. What a unit moves is a list of moves; ρ and the δ of any ε follow from it.

    Assumes      scales and how often they are drawn at are fixed in advance
    Guarantees   `gaussian_delta` is at least the δ of that many discrete Gaussians, each shifted by one, at ε;
                 `gaussians_delta` is of several scales together; `moved_delta` of vectors under any whole shifts. None
                 is rounded down, however small ε and the shifts are
    Ends         nothing is drawn here
    Not covered  releases whose number at a scale is not bounded in advance; in what order they come does not matter

Proof. Let Y_i be discrete Gaussians of scale σ and S the sum of n of them. The privacy loss of n shifts by one is
(n − 2S) / 2σ², a function of S alone, as it is of one continuous Gaussian of scale σ√n shifted by n. S is hardly
anything else: by Poisson summation a sum of e^(−(y − c)²/2v) over integers y is at most √(2πv)·(1 + θ) for every c,
with θ = 2·Σ_j e^(−2π²vj²), and of e^(−y²/2σ²) at least √(2π)σ. Adding one term at a time, v ≥ σ²/2, hence
Pr[S = s] ≤ (1 + θ)^(n−1)·g(s), with g the density of N(0, nσ²) and θ ≤ 2 / (e^(π²σ²) − 1). The hockey-stick sum of a
log-concave function exceeds its integral, the closed form of Balle & Wang (2018), by at most its peak. ∎
Several scales: the loss is that of independent sums S_i of n_i draws of scale σ_i, and Σ F(s) over all lattice points s
is taken one coordinate at a time, F = Π g_i(s_i) · (1 − e^(ε − loss))⁺ being log-concave, its integrals and its maxima
over some coordinates too (Prékopa 1973). So it is at most the sum, over all ways to integrate or maximise each
coordinate, of what comes out. Integrating all is the closed form at μ² = Σ n_i/σ_i². In the others the bracket is at
most e^(λ(loss − ε))·λ^λ/(1 + λ)^(1+λ) for any λ > 0: integrated, coordinate i gives e^(λ(1+λ)n_i/2σ_i²), and maximised
1/(√(2πn_i)·σ_i) times that. ∎
Adaptive askers are covered. Let H(x) = E_P (1 − x·L)⁺ with L = Q/P of all that may still be drawn: convex, and no less
the more may be drawn, since E_P L = 1. With x = e^ε·Q/P of all answers so far, what an asker can still gain is at most
H(x): stopping gains (1 − x)⁺, and an answer is a function of one shift by one (or by nothing), which at most spreads x
by that draw's own ratio, whatever draw it is: its order among the others does not enter H. ∎ (Dominating pairs: Zhu,
Dong & Wang 2022; interleaved mechanisms: Vadhan & Wang 2021.)

Vectors, shifted by any whole v: σ² = s² + t², θ_t = 2·Σ_j e^(−2π²t²j²). Draw x from N(v, s²I), and round each
coordinate to an integer z with odds ∝ e^(−(z − x)²/2t²). By Poisson summation Σ_z of those is √(2π)t·(1 ± θ_t) for
every x; completing the square in x, z has e^(−(z − v)²/2σ²)/(√(2π)σ) over 1 ± θ_t. The discrete Gaussian has that over
1 + θ_σ, so its ratio to the rounded law lies in [(1 − θ_t)/(1 + θ_σ), 1 + θ_t] for each coordinate; those that do not
move are the same on both sides. Rounding x does not look at v, so rounded laws are post-processing of continuous
Gaussians, μ = ‖v‖/s. Hence with m moved coordinates δ(ε) ≤ e^a·δ_μ(ε − a − b), a = m·ln(1 + θ_t) and
b = m·ln((1 + θ_σ)/(1 − θ_t)). Of rounds asked one after another the ratios multiply along every path, so a and b add,
and so does μ², whatever each v is chosen by (Dong, Roth & Su 2022). ∎
Checked by tests/privacy/test_accounting.py, against exact convolution and dp_accounting.

Decimals: in doubles, the difference of two nearly equal tails is lost. H(γ) = ∫ (P − γQ)⁺ is, at γ = e^ε, the least δ
of ε; of two Gaussians of scale 1 that lie μ apart it is δ_μ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) (Balle & Wang 2018).
`delta_above` is never below it: it is computed in decimals, with a bound on their error. Checked by the same, in 120
digits of mpmath.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import ClassVar

import numpy as np

from concord.artifacts.privacy import UP, Cost
from concord.tasks.mechanisms.mechanism import PublicSettings

Move = tuple[int, int, float]
"""What a unit moves among numbers with noise of one scale: its squared norm, how many numbers may move, the scale."""


class Gaussian(PublicSettings, ABC):
    """A mechanism whose noise is discrete Gaussian.

    by_ones   whether each number that a unit moves, moves by one: the law of the sum of their noise is known then, and
              with it a smaller δ than that of any whole vector
    """

    by_ones: ClassVar[bool] = False

    epsilon: float
    delta: float

    @property
    @abstractmethod
    def moves(self) -> Sequence[Move]:
        """What a unit moves at most, in everything that is released."""

    @property
    def rho(self) -> float:
        """ρ of zero-concentrated DP: the sum over moves of squared norm / (2·scale²)."""
        return math.fsum(square / (2 * scale**2) for square, _, scale in self.moves)

    @property
    def cost(self) -> Cost:
        """Zero-concentrated with ρ; also claims (epsilon, delta) if the sharper δ is within it."""
        proved = self.delta_at(self.epsilon) <= self.delta
        return replace(Cost.gaussian(self.rho), claims=((self.epsilon, self.delta),) if proved else ())

    def delta_at(self, epsilon: float) -> float:
        """δ of everything that is released at that ε, rounded up."""
        if not self.by_ones:
            return moved_delta(epsilon, self.moves)
        draws = [(moved, scale) for _, moved, scale in self.moves]
        return gaussian_delta(epsilon, *draws[0]) if len(draws) == 1 else gaussians_delta(epsilon, draws)


EXPONENTS = np.geomspace(1e-4, 1e6, 4001)
"""Values of the proof's λ that are tried."""
BRACKETS = EXPONENTS * np.log(EXPONENTS) - (1 + EXPONENTS) * np.log1p(EXPONENTS)
"""ln λ^λ/(1 + λ)^(1+λ) of each λ: the largest ratio of (1 − e^(−x))⁺ to e^(λx)."""

ROUNDED = 2.0
"""t of the proof for vectors: θ_t is 1e-34."""
LEAST_ROUNDED = 3.0
"""Least scale for which that proof is used; below it, zero-concentrated DP loses less."""


def gaussian_delta(epsilon: float, shifts: int, scale: float) -> float:
    """δ at `epsilon` of `shifts` exact discrete Gaussians of `scale`, each shifted by one; rounded up, at most 1."""
    mu = math.sqrt(shifts) / scale
    start = epsilon / mu - mu / 2  # in standard deviations: where the loss exceeds ε
    # a bound on g(s)·(1 − e^−x), x = loss(s) − ε: the bracket is at most x while g falls by e^(−start·x/mu)
    peak = math.exp(-(max(start, 0.0) ** 2) / 2) / math.sqrt(2 * math.pi) / (mu * scale**2)
    if start > 0:
        peak *= min(1.0, mu / (math.e * start))
    return min(1.0, (_smooth(epsilon, mu) + peak) * _ripple(shifts, scale) * UP)


def gaussians_delta(epsilon: float, draws: Sequence[tuple[int, float]]) -> float:
    """δ at `epsilon` of exact discrete Gaussians, each shifted by one, in groups (how many, scale); rounded up."""
    square = math.fsum(shifts / scale**2 for shifts, scale in draws)
    bound = (EXPONENTS * ((1 + EXPONENTS) * square / 2 - epsilon) + BRACKETS).min()
    lattice = math.prod(1 + 1 / (math.sqrt(2 * math.pi * shifts) * scale) for shifts, scale in draws) - 1
    ripple = math.prod(_ripple(shifts, scale) for shifts, scale in draws)
    return min(1.0, (_smooth(epsilon, math.sqrt(square)) + lattice * math.exp(min(0.0, bound))) * ripple * UP)


def moved_delta(epsilon: float, moves: Sequence[tuple[float, int, float]]) -> float:
    """δ at `epsilon` of vectors of exact discrete Gaussians, each shifted by whole numbers, one after another: (squared
    norm of the shift, coordinates it may move, scale). Rounded up, at most 1; 1 for a scale below LEAST_ROUNDED."""
    if min(scale for _, _, scale in moves) < LEAST_ROUNDED:
        return 1.0
    mu = math.sqrt(math.fsum(square / (scale**2 - ROUNDED**2) for square, _, scale in moves))
    theta = _theta(ROUNDED)  # and a and b of the proof, over all moves
    above = math.fsum(moved * math.log1p(theta) for _, moved, _ in moves)
    below = math.fsum(moved * (math.log1p(_theta(scale)) - math.log1p(-theta)) for _, moved, scale in moves)
    return min(1.0, math.exp(above) * _smooth(epsilon - above - below, mu) * UP)


def _theta(scale: float) -> float:
    """Bound on 2·Σ_j e^(−2π²·scale²·j²), with j for j²."""
    return 2 / math.expm1(min(700.0, 2 * (math.pi * scale) ** 2))


def _smooth(epsilon: float, mu: float) -> float:
    """δ of one continuous Gaussian of scale 1 shifted by mu; rounded up, in decimals: in doubles, the difference of two
    nearly equal tails would be too small for a tiny mu."""
    return math.nextafter(float(delta_above(mu, epsilon)), math.inf)


def _ripple(shifts: int, scale: float) -> float:
    """Bound on (1 + θ)^(shifts − 1)."""
    return math.exp(min(700.0, 2 * (shifts - 1) / math.expm1(min(700.0, (math.pi * scale) ** 2))))


GUARD = 12
"""Extra digits for rounding errors: every sum here has fewer than 10^8 roundings."""
NEAR = 40
"""Significant digits of the numbers that are compared."""
FARTHEST = 60.0
"""Standard deviations beyond which no tail is computed."""
SURE = 15.0
"""Standard deviations within which all but 10^-NEAR of a Gaussian lies."""
NEXT_TO_NOTHING = Decimal("1e-700")
"""An upper bound on Φ(−FARTHEST)."""


def delta_above(mu: float, epsilon: float) -> Decimal:
    """An upper bound on δ_μ(ε), hardly above the exact value, for μ > 0."""
    far = epsilon / mu + mu / 2
    if far - mu > FARTHEST:
        return NEXT_TO_NOTHING
    if far - mu < -SURE:
        return Decimal(1)
    # digits in which to sum Φ(−far), so that NEAR of them are significant, and those that e^ε takes
    places = NEAR + 2 * GUARD + math.ceil(far * far / (2 * math.log(10))) + math.ceil(epsilon / math.log(10))
    with localcontext(prec=places):
        shift, half = Decimal(epsilon) / Decimal(mu), Decimal(mu) / 2
        outer = Decimal(epsilon).exp() * (1 - _error(places)) * _beyond(shift + half, places)[0]
        return _beyond(shift - half, places)[1] - outer + _error(places)


def _error(places: int) -> Decimal:
    """A bound on the sum of all rounding errors of one result in that many digits."""
    return Decimal(10) ** (GUARD - places)


def _beyond(x: Decimal, places: int) -> tuple[Decimal, Decimal]:
    """Bounds on Φ(−x). Φ(−x) = ½ − φ(x)·Σ x^(2k+1)/(1·3·…·(2k+1)) for x ≥ 0: terms are positive, the sum is at most
    1/(2φ), and once a term is less than half the one before, what is left out is less than that term."""
    if x < 0:
        low, high = _beyond(-x, places)
        return 1 - high, 1 - low
    with localcontext(prec=places):
        term = total = x
        square, odd = x * x, 1
        while term > total.scaleb(-places) or square > (odd + 2) / 2:
            odd += 2
            term = term * square / odd
            total += term
        tail = Decimal("0.5") - total * (-square / 2).exp() / (2 * _pi(places)).sqrt()
        return max(Decimal(0), tail - _error(places)), max(Decimal(0), tail) + _error(places)


@lru_cache(maxsize=64)
def _pi(places: int) -> Decimal:
    """π, by Machin: 16·arctan(1/5) − 4·arctan(1/239)."""
    with localcontext(prec=places + GUARD):
        return 16 * _arctan_of_one_over(5, places) - 4 * _arctan_of_one_over(239, places)


def _arctan_of_one_over(whole: int, places: int) -> Decimal:
    power, total, odd, sign = Decimal(1) / whole, Decimal(0), 1, 1
    while power > Decimal(10) ** -(places + GUARD):
        total += sign * power / odd
        power, odd, sign = power / whole**2, odd + 2, -sign
    return total
