"""Laplace votes: exact δ equals the composition of randomised responses; planted bugs; what leaves the door."""

import math
from dataclasses import replace

import pytest
from scipy.optimize import brentq

from tests.privacy.exact import LEFT_OUT, laplace_law, row_pairs, worst
from tests.world import Cost, Filter, LaplaceVotes, hockey_stick, noises, randomised_response, shifts

TEACHERS = 2
EPSILON, DELTA = 3.0, 0.02
SMALL = [(1, 2), (2, 2), (1, 3)]


def calibrated(queries: int, classes: int) -> LaplaceVotes:
    return LaplaceVotes.calibrate(epsilon=EPSILON, delta=DELTA, queries=queries, classes=classes)


def exact_delta(mechanism: LaplaceVotes, scale: float, epsilon: float = EPSILON) -> float:
    width = noises(mechanism.classes)
    pairs = row_pairs(mechanism.answer, laplace_law(scale), TEACHERS, mechanism.classes, width)
    return worst(pairs, mechanism.queries, epsilon)


@pytest.mark.parametrize(("queries", "classes"), SMALL)
def test_the_claim_holds_exactly_and_nothing_is_wasted(queries: int, classes: int) -> None:
    mechanism = calibrated(queries, classes)
    assert mechanism.cost.epsilon(DELTA) <= EPSILON
    assert 0.999 * DELTA < exact_delta(mechanism, mechanism.scale) + LEFT_OUT <= DELTA


@pytest.mark.parametrize(("queries", "classes"), SMALL)
@pytest.mark.parametrize("epsilon", [0.3, 1.1, 2.0])
def test_its_cost_is_that_of_randomised_responses_with_equality(queries: int, classes: int, epsilon: float) -> None:
    mechanism = replace(calibrated(queries, classes), scale=0.8)
    moved = queries * shifts(classes)
    assert exact_delta(mechanism, 0.8, epsilon) == pytest.approx(hockey_stick(1 / 0.8, moved, epsilon), abs=LEFT_OUT)


@pytest.mark.parametrize(
    ("queries", "classes", "factor"),
    [
        pytest.param(1, 2, 0.5, id="sensitivity halved"),
        pytest.param(1, 3, 0.5, id="one of two moving counts forgotten"),
        pytest.param(2, 2, 0.5, id="noise unscaled by queries"),
        pytest.param(2, 2, 0.95, id="a twentieth too little"),
    ],
)
def test_too_little_noise_is_rejected(queries: int, classes: int, factor: float) -> None:
    mechanism = calibrated(queries, classes)
    assert exact_delta(mechanism, mechanism.scale * factor) > DELTA


def test_it_beats_charging_a_row_as_one_release_of_double_epsilon() -> None:
    mechanism = LaplaceVotes.calibrate(epsilon=1.0, delta=1e-5, queries=1_000, classes=10)
    whole = replace(mechanism, scale=mechanism.scale / 2, queries=500).cost  # 1,000 responses of 2/scale
    assert mechanism.cost.epsilon(1e-5) < 0.75 * whole.epsilon(1e-5)


@pytest.mark.parametrize(
    ("epsilon", "ratio"), [(0.1, 1.72), (0.5, 1.56), (1.0, 1.55), (2.0, 1.34), (4.0, 1.09), (8.0, 0.46)]
)
def test_noise_of_equal_charge_has_more_variance_than_gaussian_up_to_epsilon_four(epsilon: float, ratio: float) -> None:
    """At the order of a domain of four times the budget, for a unit that moves one number by one."""
    rho, order = rho_of(epsilon, 1e-5), Filter.freeze(4 * epsilon, 4e-5).order
    scale = 1 / brentq(lambda each: randomised_response(each, order) - order * rho, 1e-4, 50)
    variance = 1 / (2 * math.sinh(1 / (2 * scale)) ** 2)
    assert variance * 2 * rho == pytest.approx(ratio, rel=0.03)


def rho_of(epsilon: float, delta: float) -> float:
    """The ρ whose zero-concentrated DP is (ε, δ)."""
    return float(brentq(lambda rho: Cost.gaussian(rho).epsilon(delta) - epsilon, 1e-6, 200))
