"""Gaussian trade-offs: every bound against the exact curve, in 50 digits, from both sides."""

import math
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest

from concord.artifacts.domains import GaussianFilter
from concord.artifacts.gaussian import delta_above, largest_mu, least_epsilon, mu_of_pure, mu_of_range
from concord.artifacts.privacy import Charge, Cost
from concord.tasks.mechanisms.noise import ROUNDED, with_moves
from tests.privacy.exact import Floats

EPSILONS = (1e-6, 1e-3, 0.1, 0.5, 1.0, 2.5, 6.0, 20.0)
TIGHT = 1e-9


@pytest.fixture(autouse=True)
def fifty_digits() -> Iterator[None]:
    with mp.workdps(50):
        yield


def exact_delta(mu: float, epsilon: float) -> mp.mpf:
    """δ_μ(ε), Balle & Wang 2018."""
    m, e = mp.mpf(mu), mp.mpf(epsilon)
    return mp.ncdf(m / 2 - e / m) - mp.exp(e) * mp.ncdf(-m / 2 - e / m)


def of_two_points(p: mp.mpf, q: mp.mpf, gamma: mp.mpf) -> mp.mpf:
    """H(γ) of a mechanism that says yes with probability p on one side and q on the other."""
    return max(p - gamma * q, 0) + max(1 - p - gamma * (1 - q), 0)


def dominated(p: mp.mpf, q: mp.mpf, mu: float) -> bool:
    """Whether H(γ) ≤ H_μ(γ) both ways, where that could fail: at the ratios of the outcomes, and between."""
    ratios = [p / q, (1 - p) / (1 - q), q / p, (1 - q) / (1 - p)]
    gammas = [ratio**power for ratio in ratios for power in (0, mp.mpf("0.05"), mp.mpf("0.5"), mp.mpf("0.95"), 1)]
    return all(
        of_two_points(a, b, gamma) <= exact_delta(mu, mp.log(gamma))
        for gamma in gammas
        for a, b in ((p, q), (q, p), (1 - p, 1 - q), (1 - q, 1 - p))
    )


def kink(x: mp.mpf, y: mp.mpf) -> mp.mpf:
    """The μ whose trade-off passes (x, y)."""
    return -mp.sqrt(2) * (mp.erfinv(2 * x - 1) + mp.erfinv(2 * y - 1))


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_a_pure_answer_has_the_trade_off_through_the_kink_rounded_up(epsilon: float) -> None:
    p = 1 / (1 + mp.exp(epsilon))
    assert kink(p, p) <= mu_of_pure(epsilon) <= kink(p, p) * (1 + TIGHT)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_randomised_response_lies_above_it_at_every_ratio_and_not_above_a_smaller_one(epsilon: float) -> None:
    p = 1 / (1 + mp.exp(-mp.mpf(epsilon)))
    assert dominated(p, 1 - p, mu_of_pure(epsilon))
    assert not dominated(p, 1 - p, mu_of_pure(epsilon) * (1 - 1e-6))


@pytest.mark.parametrize("epsilon", [0.05, 0.8, 3.0])
def test_no_answer_of_bounded_range_lies_lower_and_the_middle_one_as_low(epsilon: float) -> None:
    """Two outcomes with ratios e^t and e^(t − ε), t from end to end."""
    mu, found = mu_of_range(epsilon), []
    for part in range(1, 40):
        t = mp.mpf(epsilon) * part / 40
        q = (mp.exp(epsilon - t) - 1) / (mp.exp(epsilon) - 1)
        found.append(kink(q, 1 - q * mp.exp(t)))
        if part % 6 == 2:
            assert dominated(q * mp.exp(t), q, mu)
    assert found == sorted(found[:20]) + sorted(found[20:], reverse=True)
    assert found[19] <= mu <= found[19] * (1 + TIGHT)


def test_the_inequality_of_the_proof_for_bounded_range_holds() -> None:
    """k(z) = λ(z) − λ(−z) − z > 0, and where it would be 0 it could not come back: k' = 2λ(z)λ(−z) − 1 there."""
    for z in (mp.mpf(step) / 20 for step in range(1, 200)):
        hazard, other = mp.npdf(z) / mp.ncdf(-z), mp.npdf(z) / mp.ncdf(z)
        assert hazard - other - z > 0


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_an_additive_delta_is_added_and_cannot_be_left_out(epsilon: float) -> None:
    """The worst (ε, δ) answer: with odds δ it tells everything."""
    delta, mu, high = mp.mpf("0.01"), mu_of_pure(epsilon), 1 / (1 + mp.exp(-mp.mpf(epsilon)))

    def most(gamma: mp.mpf) -> mp.mpf:
        return delta + (1 - delta) * of_two_points(high, 1 - high, gamma)

    gammas = [mp.exp(mp.mpf(step) / 5) for step in range(-20, 21)]
    assert all(most(gamma) <= exact_delta(mu, mp.log(gamma)) + delta for gamma in gammas)
    assert any(most(gamma) > exact_delta(mu, mp.log(gamma)) for gamma in gammas)


def lattice(scale: float) -> tuple[Floats, Floats]:
    places = np.arange(-math.ceil(12 * scale), math.ceil(12 * scale) + 1).astype(float)
    weights = np.exp(-(places**2) / (2 * scale**2))
    return places, weights / weights.sum()


def exceeds(scale: float, step: int, square: float) -> float:
    """By how much, of itself, H(γ) of a discrete Gaussian moved by `step` is above H_μ(γ), at most; in doubles."""
    places, law = lattice(scale)
    losses = (step**2 - 2 * step * places) / (2 * scale**2)
    worst = -math.inf
    for epsilon in np.linspace(0.0, 4 * step / scale, 60):
        found = float(np.sum(law * -np.expm1(np.minimum(epsilon - losses, 0.0))))
        worst = max(worst, found / float(exact_delta(math.sqrt(square), epsilon)) - 1)
    return worst


@pytest.mark.parametrize(("scale", "step"), [(3.0, 1), (3.3, 2), (5.0, 1), (9.7, 30)])
def test_discrete_gaussians_cost_the_mu_of_a_narrower_continuous_one(scale: float, step: int) -> None:
    (part,) = with_moves(Cost.gaussian(0.0), (1.0, 1e-5), [(step**2, 1, scale)]).parts or ()
    charged = GaussianFilter.freeze(4.0, 4e-5).charge(Cost(renyi=Cost.gaussian(0.0).renyi, parts=(part,)))
    assert charged.mu_squared >= Decimal(step**2 / (scale**2 - ROUNDED**2)) * (1 - Decimal("1e-12"))
    assert exceeds(scale, step, float(charged.mu_squared)) <= 1e-9
    assert 0 < charged.delta < 1e-30


@pytest.mark.parametrize(("scale", "step"), [(3.0, 1), (5.0, 1)])
def test_and_not_that_of_one_as_wide(scale: float, step: int) -> None:
    assert exceeds(scale, step, step**2 / scale**2) > 0.01


def test_noise_too_narrow_for_that_is_charged_whole() -> None:
    cost = Cost(renyi=Cost.gaussian(0.05).renyi, claims=((1.0, 1e-5),))
    charged = GaussianFilter.freeze(20.0, 1e-3).charge(with_moves(cost, (1.0, 1e-5), [(1, 1, 2.9)]))
    assert charged == GaussianFilter.freeze(20.0, 1e-3).charge(Cost.approximate(1.0, 1e-5))


@pytest.mark.parametrize(("epsilon", "delta"), [(4.0, 4e-5), (1.0, 1e-5), (0.01, 1e-9), (40.0, 1e-12), (0.0, 1e-3)])
def test_the_largest_mu_is_rounded_down_by_a_hair(epsilon: float, delta: float) -> None:
    mu = largest_mu(epsilon, Fraction(delta))
    assert exact_delta(mu, epsilon) <= delta < exact_delta(mu * (1 + TIGHT), epsilon)


@pytest.mark.parametrize(("mu", "delta"), [(0.27, 4e-5), (0.97, 1e-5), (5.0, 1e-9), (0.01, 1e-12)])
def test_the_epsilon_that_is_read_is_rounded_up_by_a_hair(mu: float, delta: float) -> None:
    epsilon = least_epsilon(mu, Fraction(delta))
    assert exact_delta(mu, epsilon) <= delta < exact_delta(mu, epsilon * (1 - TIGHT))


def test_a_spend_never_reads_as_nothing() -> None:
    assert least_epsilon(1e-9, Fraction(1, 100)) > 0
    assert least_epsilon(0.5, Fraction(0)) == math.inf


@pytest.mark.parametrize(("mu", "epsilon"), [(0.3, 1.0), (1.0, 0.0), (2.0, 30.0), (20.0, 3.0)])
def test_the_delta_that_decides_is_above_the_exact_one_by_less_than_doubles_can_tell(mu: float, epsilon: float) -> None:
    with mp.workdps(120):
        found, exact = mp.mpf(str(delta_above(mu, epsilon))), exact_delta(mu, epsilon)
    assert exact <= found <= exact * (1 + mp.mpf("1e-25"))


CAP = GaussianFilter.freeze(4.0, 4e-5)


def test_a_hair_over_the_cap_is_refused() -> None:
    hair, additive = Decimal("1e-18"), Decimal(CAP.delta_additive)
    assert CAP.admits(Charge(mu_squared=CAP.budget, delta=additive))
    assert not CAP.admits(Charge(mu_squared=CAP.budget + hair, delta=additive))
    assert not CAP.admits(Charge(mu_squared=CAP.budget, delta=additive + hair))
    assert not CAP.admits(Charge(renyi=hair))
    epsilon, delta = CAP.spent(Charge(mu_squared=CAP.budget, delta=additive))
    assert CAP.epsilon * (1 - TIGHT) <= epsilon <= CAP.epsilon
    assert delta == CAP.delta


def test_what_is_refused_reads_as_more_than_the_cap() -> None:
    """Also if Σδ leaves room that μ² may not take, and the other way round."""
    more = CAP.spent(Charge(mu_squared=CAP.budget * Decimal("1.001")))
    assert more[0] > CAP.epsilon
    telling = CAP.spent(Charge(delta=Decimal(CAP.delta_additive) * Decimal("1.001")))
    assert telling[1] > CAP.delta


@pytest.mark.parametrize("amount", [1e-300, 1e-40, 1e-19, 1e-3])
def test_a_positive_spend_never_rounds_to_nothing(amount: float) -> None:
    charged = CAP.charge(Cost.approximate(amount, amount))
    assert charged.mu_squared > 0
    assert charged.delta >= Decimal(amount)


SPENDS: dict[str, Callable[[], Cost]] = {
    "pure": lambda: Cost.approximate(0.3, times=4),
    "of bounded range": lambda: Cost.bounded_range(0.3),
    "with δ": lambda: Cost.approximate(0.3, 1e-7),
}


@pytest.mark.parametrize("spend", SPENDS)
def test_a_charge_is_the_square_and_times_add(spend: str) -> None:
    charged = CAP.charge(SPENDS[spend]())
    mu = {"pure": mu_of_pure(0.3), "of bounded range": mu_of_range(0.3), "with δ": mu_of_pure(0.3)}[spend]
    times = 4 if spend == "pure" else 1
    assert float(charged.mu_squared) == pytest.approx(times * mu**2, rel=1e-12)
    assert charged.renyi == 0


def test_a_curve_of_which_no_part_is_proved_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing is proved of it that a Gaussian filter could add up"):
        CAP.charge(Cost(renyi=Cost.gaussian(0.01).renyi))
