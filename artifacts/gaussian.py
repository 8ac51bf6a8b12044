"""Gaussian trade-offs in decimals: the μ of answers, which a Gaussian filter adds up, and the (ε, δ) of a μ.

H(γ) = ∫ (P − γQ)⁺ is, at γ = e^ε, the least δ of ε; H_μ is that of two Gaussians of scale 1 that lie μ apart:
H_μ(e^ε) = δ_μ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) (Balle & Wang 2018). An answer *costs* (μ, δ) if between
neighbours, both ways, H(γ) ≤ H_μ(γ) + δ for every γ > 0; (μ, 0) is μ-Gaussian DP (Dong, Roth & Su 2022, Prop. 2.13).

Statement
    Assumes      nothing is private here: all arguments are public settings and amounts of the ledger
    Guarantees   `mu_of_pure`, `mu_of_range` and `least_epsilon` are never below the exact value, `largest_mu` is never
                 above it: doubles propose, and what is returned was checked in decimals, with a bound on their error
    Ends         nothing is kept between calls
    Not covered  the μ of discrete Gaussians, which is exact and needs no function (tasks/mechanisms/noise.py)

Pure ε. Such an answer has at least the trade-off of ε-randomised response (Kairouz, Oh & Viswanath 2015): two chords,
from (0, 1) and from (1, 0) to the kink (p, p), p = 1/(1 + e^ε). The trade-off Φ(Φ⁻¹(1 − x) − μ) of Gaussians is convex,
passes (0, 1) and (1, 0), and for μ = −2Φ⁻¹(p) the kink: so it lies under both chords, and the answer costs (μ, 0). ∎
Additive δ. An (ε, δ) answer is a choice, with odds 1 − δ, of an ε-pure one, else of a pair that tells everything
(Kairouz, Oh & Viswanath 2015). So H ≤ (1 − δ)·H_μ + δ·1, and it costs (μ, δ). ∎
Bounded range. The likelihood ratio lies in [e^(t − ε), e^t] for a t in [0, ε], so the trade-off lies above the chords
to the kink (q, 1 − p), q = (e^(ε − t) − 1)/(e^ε − 1), p = q·e^t. As above, μ ≥ D(t) = Φ⁻¹(p) − Φ⁻¹(q) is enough.
Let x = Φ⁻¹(p), y = Φ⁻¹(q). Since p'/q' = e^(2t − ε) and q(1 − q)/(p(1 − p)) = e^(ε − 2t), D' ≥ 0 just if g(x) ≤ g(y),
g(z) = z²/2 + ln Φ(z) + ln Φ(−z). For t ≤ ε/2, p + q ≥ 1 and p ≥ q, so |x| ≥ |y|; and g falls in |z|, see below. So D
rises up to ε/2, and D(t) = D(ε − t): the most is D(ε/2) = −2Φ⁻¹(1/(1 + e^(ε/2))) = μ.
  With λ(z) = φ(z)/Φ(−z), −g'(z) = k(z) = λ(z) − λ(−z) − z. k(0) = 0, k'(0) = 4/π − 1 > 0, and k > 0 for large z. If
k = 0, λ' = λ·(λ − z) makes k' = 2λ(z)λ(−z) − 1. Were k negative somewhere, it would fall through 0 at a z₀ > 0 and rise
through it at a z₁ > z₀: λ(z)λ(−z) would be at most ½ at z₀ and at least ½ at z₁. But (ln λ(z)λ(−z))' = k(z) − z < 0
between the two. (To touch 0 from above it would need k'' ≥ 0 there, and k'' = −z.) So g falls. ∎
Checked by tests/privacy/test_gaussian.py: exact trade-offs on both sides of every bound, in 50 digits of mpmath.
"""

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

GUARD = 12
"""Extra digits for rounding errors: every sum here has fewer than 10^8 roundings."""
NEAR = 40
"""Significant digits of the numbers that are compared."""
STEP = 2.0**-40
"""The relative step by which a double is moved to the safe side until the check in decimals holds."""
MU_BISECTIONS = 100
LEAST_EPSILON = 1e-12
"""The least ε that is ever returned, so that a spend never reads as nothing."""
FARTHEST = 60.0
"""Standard deviations beyond which no tail is computed, and the largest μ that is converted to ε."""
SURE = 15.0
"""Standard deviations within which all but 10^-NEAR of a Gaussian lies."""
NEXT_TO_NOTHING = Decimal("1e-700")
"""An upper bound on Φ(−FARTHEST)."""


def mu_of_pure(epsilon: float) -> float:
    """μ of an ε-DP answer: −2Φ⁻¹(1/(1 + e^ε)); rounded up."""
    return _twice_the_quantile(epsilon)


def mu_of_range(epsilon: float) -> float:
    """μ of an answer of ε-bounded range: −2Φ⁻¹(1/(1 + e^(ε/2))); rounded up."""
    return _twice_the_quantile(epsilon / 2)


@lru_cache(maxsize=4096)
def _twice_the_quantile(epsilon: float) -> float:
    if not epsilon > 0:
        return 0.0
    proposed = _guess(epsilon)
    places = _places(proposed / 2) + 2 * max(0, math.ceil(-math.log10(epsilon)))
    with localcontext(prec=places):
        odds = 1 / (1 + Decimal(epsilon).exp()) * (1 - _error(places))
    return _first(proposed, STEP, lambda mu: _beyond(Decimal(mu) / 2, places)[1] <= odds)


def _guess(epsilon: float) -> float:
    """−2Φ⁻¹(1/(1 + e^ε)) in doubles."""
    if epsilon < 1e-6:
        return epsilon * math.sqrt(math.pi / 2)
    wanted = -epsilon - math.log1p(math.exp(-epsilon))
    return 2 * _bisected(lambda x: _log_beyond(x) <= wanted, 0.0, 2 * FARTHEST)


@lru_cache(maxsize=256)
def largest_mu(epsilon: float, delta: Fraction) -> float:
    """The largest μ for which δ_μ(epsilon) ≤ delta; rounded down. 0 if there is none in doubles."""
    found = _bisected(lambda mu: _delta(mu, epsilon) > delta, 0.0, FARTHEST)
    return _first(found, -STEP, lambda mu: delta_above(mu, epsilon) <= delta) if found > 0 else 0.0


@lru_cache(maxsize=4096)
def least_epsilon(mu: float, delta: Fraction) -> float:
    """The least ε at which δ_μ(ε) ≤ delta, and at least LEAST_EPSILON; rounded up. +inf if there is none."""
    if delta <= 0 or mu > FARTHEST:
        return math.inf
    most = mu * (mu / 2 + FARTHEST)
    found = _bisected(lambda epsilon: _delta(mu, epsilon) <= delta, LEAST_EPSILON, max(most, 1.0))
    return _first(found, STEP, lambda epsilon: delta_above(mu, epsilon) <= delta)


def _bisected(beyond: Callable[[float], bool], low: float, high: float) -> float:
    """The point, in doubles, at which `beyond` begins to hold."""
    for _ in range(MU_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if beyond(middle) else (middle, high)
    return (low + high) / 2


def _first(proposed: float, step: float, holds: Callable[[float], bool]) -> float:
    """The proposal, moved by `step` of itself, twice that, and so on, until it `holds`."""
    while not holds(proposed):
        proposed *= 1 + step
        step = max(2 * step, -0.5) if step < 0 else 2 * step
    return proposed


def _log_beyond(x: float) -> float:
    """ln Φ(−x) in doubles."""
    if x < 30:
        return math.log(math.erfc(x / math.sqrt(2)) / 2)
    return -x * x / 2 - math.log(x * math.sqrt(2 * math.pi)) + math.log1p(-1 / x**2 + 3 / x**4)


def _delta(mu: float, epsilon: float) -> float:
    """δ_μ(ε) in doubles, as a proposal."""
    inner = _log_beyond(epsilon / mu - mu / 2)
    return -math.exp(inner) * math.expm1(min(0.0, epsilon + _log_beyond(epsilon / mu + mu / 2) - inner))


def delta_above(mu: float, epsilon: float) -> Decimal:
    """An upper bound on δ_μ(ε), hardly above the exact value, for μ > 0."""
    far = epsilon / mu + mu / 2
    if far - mu > FARTHEST:
        return NEXT_TO_NOTHING
    if far - mu < -SURE:
        return Decimal(1)
    places = _places(far) + math.ceil(epsilon / math.log(10))
    with localcontext(prec=places):
        shift, half = Decimal(epsilon) / Decimal(mu), Decimal(mu) / 2
        outer = Decimal(epsilon).exp() * (1 - _error(places)) * _beyond(shift + half, places)[0]
        return _beyond(shift - half, places)[1] - outer + _error(places)


def _places(x: float) -> int:
    """The number of digits in which to sum Φ(−x), so that NEAR of them are significant."""
    return NEAR + 2 * GUARD + math.ceil(x * x / (2 * math.log(10)))


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
        found = Decimal("0.5") - total * (-square / 2).exp() / (2 * _pi(places)).sqrt()
        return max(Decimal(0), found - _error(places)), max(Decimal(0), found) + _error(places)


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


def squared(mu: float, quantum: Decimal, *, up: bool) -> Decimal:
    """μ² as an exact decimal, rounded to the quantum."""
    with localcontext(prec=80):
        return (Decimal(mu) ** 2).quantize(quantum, rounding=ROUND_CEILING if up else ROUND_FLOOR)
