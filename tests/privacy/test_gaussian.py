"""The δ of two Gaussians, against the exact one in 120 digits."""

import mpmath as mp
import pytest

from tests.world import delta_above


def exact_delta(mu: float, epsilon: float) -> mp.mpf:
    """δ_μ(ε), Balle & Wang 2018."""
    m, e = mp.mpf(mu), mp.mpf(epsilon)
    return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


@pytest.mark.parametrize(("mu", "epsilon"), [(0.3, 1.0), (1.0, 0.0), (2.0, 30.0), (20.0, 3.0)])
def test_the_delta_that_decides_is_above_the_exact_one_by_less_than_doubles_can_tell(mu: float, epsilon: float) -> None:
    with mp.workdps(120):
        found, exact = mp.mpf(str(delta_above(mu, epsilon))), exact_delta(mu, epsilon)
        assert exact <= found <= exact * (1 + mp.mpf("1e-25"))
