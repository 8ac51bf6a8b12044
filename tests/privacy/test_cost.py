"""Laws of privacy costs: composition, closed forms against oracles; nothing rounds the wrong way."""

import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal, localcontext
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import binom, norm

from tests import world

DELTAS = [1e-3, 1e-5, 1e-9]
COSTS = {
    "gaussian": world.Cost.gaussian(0.004),
    "response": world.Cost.approximate(0.07),
    "response and δ": world.Cost.approximate(0.07, 1e-9),
    "many responses": world.Cost.approximate(0.01, 2e-9, times=30),
}


def same(cost: world.Cost, other: world.Cost) -> None:
    """Equal but for the order of additions in double arithmetic."""
    assert cost.renyi == pytest.approx(other.renyi, rel=1e-12)
    assert cost.delta == pytest.approx(other.delta, rel=1e-12)
    for delta in DELTAS:
        assert cost.epsilon(delta) == pytest.approx(other.epsilon(delta), rel=1e-6)


@pytest.mark.parametrize("order", [1.25, 2.0, 5.0, 60.0])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 3.0])
def test_no_law_of_that_range_diverges_more_and_one_does_so_much(epsilon: float, order: float) -> None:
    """Likelihood ratios of many values within the range, drawn at random, and of two, over a grid."""
    random, bound = np.random.default_rng(11), world.bounded_range(epsilon, order)
    for values in (2, 3, 9):
        ratio = np.exp(epsilon * np.c_[np.zeros(400), random.uniform(size=(400, values - 2)), np.ones(400)])
        odds = random.dirichlet(np.full(values, 0.5), 400)
        ratio /= (odds * ratio).sum(axis=1, keepdims=True)
        assert (np.log((odds * ratio**order).sum(axis=1)) / (order - 1)).max() <= bound
    top = np.linspace(1e-6, 1 - 1e-6, 3001) * epsilon
    odds = -np.expm1(top - epsilon) / (np.exp(top) - np.exp(top - epsilon))
    moment = odds * np.exp(order * top) + (1 - odds) * np.exp(order * (top - epsilon))
    assert (np.log(moment) / (order - 1)).max() == pytest.approx(bound, rel=1e-4)


@pytest.mark.parametrize("epsilon", [1e-12, 1e-7, 1e-4, 0.02, 1.0, 30.0, 1000.0])
def test_a_range_costs_less_than_randomised_response_and_than_its_concentrated_bound(epsilon: float) -> None:
    for order in world.ORDERS:
        bound = world.bounded_range(epsilon, order)
        assert 0 < bound <= min(world.randomised_response(epsilon, order), order * epsilon**2 / 8 * (1 + 2e-9))
        assert bound <= epsilon * (1 + 1e-8)
    curve = world.Cost.bounded_range(epsilon).renyi
    assert all(low <= high for low, high in pairwise(curve))


AT_ONCE: dict[str, Callable[[int], world.Cost]] = {
    "gaussian": lambda count: world.Cost.gaussian(0.004 * count),
    "response": lambda count: world.Cost.approximate(0.07, times=count),
}


@pytest.mark.parametrize("count", [1, 2, 17])
@pytest.mark.parametrize("name", COSTS)
def test_n_together_cost_n_times_one_and_what_n_at_once_do(name: str, count: int) -> None:
    cost, many = COSTS[name], world.compose([COSTS[name]] * count)
    assert many.renyi == pytest.approx([count * r for r in cost.renyi], rel=1e-12)
    assert many.delta == pytest.approx(count * cost.delta, rel=1e-12)
    if name in AT_ONCE:
        same(many, AT_ONCE[name](count))


def test_nothing_costs_nothing_and_adds_nothing() -> None:
    nothing = world.compose([])
    assert nothing.epsilon(1e-9) == nothing.epsilon(0.0) == 0.0
    same(world.compose([nothing, COSTS["response"]]), COSTS["response"])


@pytest.mark.parametrize("sigma", [0.4, 1.0, 20.0])
@pytest.mark.parametrize("order", [1.25, 2.0, 5.75, 40.0])
def test_the_gaussian_curve_covers_the_discrete_gaussian(sigma: float, order: float) -> None:
    """By its definition: ln Σ p(z)^α p(z − 1)^(1−α) / (α − 1). A curve half as high must fail."""
    z = np.arange(-600, 661)
    p, moved = -(z**2) / (2 * sigma**2), -((z - 1) ** 2) / (2 * sigma**2)
    exact = (logsumexp(order * p + (1 - order) * moved) - logsumexp(p)) / (order - 1)
    curve = world.Cost.gaussian(1 / (2 * sigma**2)).renyi[world.ORDERS.index(order)]
    assert curve / 2 < exact <= curve * (1 + 1e-9)


def response_divergence(epsilon: float, order: float) -> Decimal:
    """Rényi divergence of randomised response by its definition, in 80 digits."""
    with localcontext(prec=80):
        a, odds = Decimal(order), Decimal(epsilon).exp()
        p, q = odds / (1 + odds), 1 / (1 + odds)
        return (p**a * q ** (1 - a) + q**a * p ** (1 - a)).ln() / (a - 1)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-4, 0.3, 1.0, 30.0, 800.0])
@pytest.mark.parametrize("order", [1.25, 2.0, 5.75, 1024.0])
def test_the_curve_of_randomised_response_is_its_divergence_rounded_up(epsilon: float, order: float) -> None:
    exact = response_divergence(epsilon, order)
    assert exact <= Decimal(world.randomised_response(epsilon, order)) <= exact * Decimal(1 + 1e-8)


def least_epsilon(epsilon: float, times: int, delta: float) -> float:
    """Optimal composition by its definition: the largest over events {J ≤ j} of ln((P − δ) / Q)."""
    flips = np.arange(times + 1)
    here = binom.cdf(flips, times, 1 / (1 + math.exp(epsilon)))
    there = binom.cdf(flips, times, 1 / (1 + math.exp(-epsilon)))
    useful = (here > delta) & (there > 0)
    return float(np.log((here[useful] - delta) / there[useful]).max())


COMPOSED = [(0.1, 100), (0.0123, 10_000), (0.00037, 1_000_000), (1.0, 20), (5.0, 3), (3.0, 40)]


@pytest.mark.parametrize(("epsilon", "times"), COMPOSED)
@pytest.mark.parametrize("delta", DELTAS)
def test_optimal_composition_is_its_definition_rounded_up(epsilon: float, times: int, delta: float) -> None:
    exact = least_epsilon(epsilon, times, delta)
    assert exact * (1 - 1e-12) <= world.optimal_composition([(epsilon, times)], delta) <= exact * (1 + 1e-4)


@pytest.mark.parametrize(("epsilon", "times"), [(0.1, 3), (0.7, 6), (4.0, 5)])
@pytest.mark.parametrize("total", [0.0, 0.05, 1.3, 3.9])
def test_the_hockey_stick_is_the_sum_over_all_answers(epsilon: float, times: int, total: float) -> None:
    p = 1 / (1 + math.exp(-epsilon))
    flips = [bin(answers).count("1") for answers in range(2**times)]
    here = np.array([p ** (times - j) * (1 - p) ** j for j in flips])
    exact = np.maximum(here - math.exp(total) * here[::-1], 0).sum()
    assert world.hockey_stick(epsilon, times, total) == pytest.approx(exact, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("parts", [[(0.3, 4), (0.013, 7)], [(0.3, 4), (0.0004, 7)], [(2.0, 1), (0.7, 3), (0.1, 6)]])
def test_composition_of_unequal_parts_covers_the_exact_one(parts: list[tuple[float, int]]) -> None:
    exact = [(1.0, 1.0)]
    for epsilon, times in parts:
        p = 1 / (1 + math.exp(-epsilon))
        for _ in range(times):
            exact = [(a * x, b * y) for a, b in exact for x, y in ((p, 1 - p), (1 - p, p))]
    here, there = np.array(exact).T
    for delta in (1e-2, 1e-5):
        claimed = world.optimal_composition(parts, delta)
        assert np.maximum(here - math.exp(claimed) * there, 0).sum() <= delta
        assert np.maximum(here - math.exp(claimed * 0.999) * there, 0).sum() > delta


def test_where_the_fourier_transform_is_not_to_be_trusted_parts_add_up() -> None:
    assert world.optimal_composition([(0.3, 4), (0.2, 1)], world.FFT_ERROR) == pytest.approx(1.4)


@pytest.mark.parametrize("delta", [0.5, 1e-3, 1e-9])
@pytest.mark.parametrize("rho", [1e-4, 0.02, 1.0])
def test_the_curve_never_claims_less_than_the_gaussian_mechanism_needs(rho: float, delta: float) -> None:
    mu = math.sqrt(2 * rho)
    claimed = world.Cost.gaussian(rho).epsilon(delta)
    exact = norm.cdf(mu / 2 - claimed / mu) - math.exp(claimed) * norm.cdf(-mu / 2 - claimed / mu)
    assert exact <= delta


def test_additive_delta_is_taken_before_anything_else() -> None:
    plain, slipped = world.Cost.approximate(0.1, times=9), world.Cost.approximate(0.1, 1e-6, times=9)
    assert slipped.epsilon(3e-6) == pytest.approx(plain.epsilon(2e-6))
    assert slipped.epsilon(1e-6) == pytest.approx(0.9)
    assert slipped.epsilon(9e-7) == math.inf
    assert world.Cost.gaussian(0.1).epsilon(0.0) == math.inf


def test_a_claim_holds_at_its_delta_and_above_and_is_forgotten_in_company() -> None:
    cost = replace(world.Cost.gaussian(0.1), claims=((0.5, 1e-5),))
    assert cost.epsilon(1e-5) == cost.epsilon(2e-5) == 0.5
    assert cost.epsilon(9e-6) == world.Cost.gaussian(0.1).epsilon(9e-6) > 0.5
    assert world.compose([cost, world.compose([])]).claims == ()
    assert world.compose([cost]) == cost
