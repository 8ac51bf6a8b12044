"""The δ of two Gaussians that lie μ apart, in decimals: in doubles, the difference of two nearly equal tails is lost.

H(γ) = ∫ (P − γQ)⁺ is, at γ = e^ε, the least δ of ε; of two Gaussians of scale 1 that lie μ apart it is
δ_μ(ε) = Φ(μ/2 − ε/μ) − e^ε·Φ(−μ/2 − ε/μ) (Balle & Wang 2018).

Statement
    Assumes      nothing is private here: all arguments are public settings
    Guarantees   `delta_above` is never below the exact value: it is computed in decimals, with a bound on their error
    Ends         nothing is kept between calls
    Not covered  discrete Gaussians (noise.py)
Checked by tests/privacy/test_accounting.py, in 120 digits of mpmath.
"""

import math
from decimal import Decimal, localcontext
from functools import lru_cache

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
