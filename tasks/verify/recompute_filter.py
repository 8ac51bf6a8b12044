"""Recompute the filter `gaussian`: the charge of a session's settings, and the μ² that a cap covers.

Written from the theorems that artifacts/gaussian.py and tasks/mechanisms/noise.py prove, but with other methods:
quantiles are SciPy's, while they sum series in decimals; δ is an integral over the law of the privacy loss, while they
have its closed form; the δ of rounding to integers is summed to 60 digits.

Assumes      settings are those that ran
Guarantees   `gaussian_charge` is the μ² and additive δ that the settings are proved to cost, lower by at most a share
             QUANTILES; `largest_mu_squared` is the cap's μ², higher by at most a share QUANTILES
Not covered  mechanisms without a route here: refused. Checked by tests/tasks/verify/test_recompute_filter.py
"""

import math
from decimal import Decimal, localcontext
from functools import lru_cache

from scipy.special import erfinv, ndtri_exp

from concord.tasks.verify import recompute
from concord.tasks.verify.recompute_gaussian import PublicSettings, expected_beyond, root, theta

QUANTILES = 1e-9
"""Largest relative error of quantiles and integrals in doubles."""
LEAST_SCALE = 3
"""Least scale of a discrete Gaussian that is treated as a continuous one of variance σ² − LATTICE²."""
LATTICE = Decimal(2)
FILTER_DIGITS = 60


def gaussian_charge(settings: PublicSettings, step: int | None = None) -> tuple[float, float]:
    """μ² and the additive δ that the settings cost, or one of their steps alone. Raises NotVerified if they cannot be
    recomputed."""
    square, delta = _charge(settings, step)
    return square * (1 - QUANTILES), delta


@lru_cache(maxsize=64)
def largest_mu_squared(epsilon: float, delta: float) -> float:
    """The largest μ² at which δ is at most `delta` at `epsilon`."""

    def beyond(mu: float) -> float:
        return expected_beyond(mu, epsilon) - delta

    high = 1e-3
    while beyond(high) < 0:
        high *= 2
    return root(beyond, high / 1e6, high) ** 2 * (1 + QUANTILES)


def _charge(settings: PublicSettings, step: int | None) -> tuple[float, float]:
    moves = recompute.moves(settings, step)
    if moves and min(scale for _, _, scale in moves) >= LEAST_SCALE:
        return _moved(moves)
    each, times, besides = recompute.as_answers(settings)
    return times * _pure(each), besides


def _pure(epsilon: float) -> float:
    """μ² with Φ(−μ/2) = 1/(1 + e^ε), which is erf(μ/√8) = tanh(ε/2)."""
    if epsilon < 1:
        return 8 * float(erfinv(math.tanh(epsilon / 2))) ** 2
    return 4 * float(ndtri_exp(-epsilon - math.log1p(math.exp(-epsilon)))) ** 2


def _moved(moves: recompute.Moves) -> tuple[float, float]:
    """Σ N/(σ² − t²), and e^a + e^b − 2 for the rounding to integers."""
    with localcontext(prec=FILTER_DIGITS):
        square = sum((Decimal(norm) / (Decimal(scale) ** 2 - LATTICE**2) for norm, _, scale in moves), Decimal(0))
        near = theta(LATTICE)
        above = sum((cells * (1 + near).ln() for _, cells, _ in moves), Decimal(0))
        below = sum((cells * ((1 + theta(Decimal(s))) / (1 - near)).ln() for _, cells, s in moves), Decimal(0))
        return float(square), float(above.exp() + below.exp() - 2)
