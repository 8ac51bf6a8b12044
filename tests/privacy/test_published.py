"""Algorithm 2 as printed: its constants, where its guarantee ends, and what our three departures are for."""

import math

import pytest
from scipy.optimize import bisect
from scipy.stats import norm

from tests.privacy.transcripts import Run, Step, adaptive, steps
from tests.world import calibrated_published, noise_scale, printed_cost

SMALL = {"epsilon": 7.0, "delta": 0.02, "cutoff": 1, "queries": 4}


def end_of_the_guarantee(delta: float, cutoff: int, queries: int) -> float:
    """The ε at which what is printed stops being (ε, δ)-DP, to 1e-4."""

    def beyond(epsilon: float) -> float:
        cost = printed_cost(epsilon=epsilon, delta=delta, cutoff=cutoff, queries=queries)
        return min(cost.epsilon(delta), 1e3) - epsilon

    return float(bisect(beyond, 1.0, 20.0, xtol=1e-4))


def gaussian_limit(delta: float) -> float:
    """The same for T → ∞ with η = δ/3: the losses of the epochs become Gaussian, of deviation μ = ε/√(2 ln(2/δ))."""

    def beyond(epsilon: float) -> float:
        mu = epsilon / math.sqrt(2 * math.log(2 / delta))
        there = math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2)
        return float(norm.cdf(-epsilon / mu + mu / 2) - there - 2 / 3 * delta)

    return float(bisect(beyond, 1.0, 20.0, xtol=1e-6))


def test_every_printed_constant() -> None:
    made = calibrated_published(epsilon=0.5, delta=1e-5, cutoff=9, queries=1000, beta=0.1)
    scale = math.sqrt(32 * 9 * math.log(2e5)) / 0.5
    assert made.threshold_scale == noise_scale(0.5, 1e-5, 9) == pytest.approx(scale, rel=1e-15)
    assert made.query_scale == 2 * made.threshold_scale
    assert made.threshold == math.floor(2 * scale * math.log(2 * 1000 / 1e-5))
    assert made.teachers == math.ceil(34 * math.sqrt(2) * scale * math.log(4 * 1000 * 9 / 1e-5))
    assert made.queries == 1000


def test_teachers_required_answer_whatever_two_thirds_agree_on() -> None:
    """Theorem 3.2 (i): with k teachers, k/3 of them wrong, every noise within its 1 − δ range lets the row through."""
    made = calibrated_published(epsilon=1.0, delta=1e-5, cutoff=2, queries=100)
    distance = made.teachers // 6 - 1
    rows = math.log(made.cutoff * made.queries / 1e-5)
    assert distance > made.threshold + rows * (made.threshold_scale + made.query_scale)


@pytest.mark.parametrize(
    ("delta", "end"), [(1e-2, 7.06), (1e-3, 7.70), (1e-5, 8.61), (1e-6, 8.96), (1e-8, 9.54), (1e-10, 10.0)]
)
def test_the_printed_guarantee_ends_where_the_design_says(delta: float, end: float) -> None:
    cutoff = 10_000
    assert gaussian_limit(delta) == pytest.approx(end, rel=2e-3)
    assert end_of_the_guarantee(delta, cutoff, queries=cutoff + 1) == pytest.approx(gaussian_limit(delta), rel=1e-2)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 6.0])
@pytest.mark.parametrize("cutoff", [1, 20, 500])
def test_what_runs_costs_less_than_what_is_printed_and_than_the_budget(epsilon: float, cutoff: int) -> None:
    made = calibrated_published(epsilon=epsilon, delta=1e-6, cutoff=cutoff, queries=1000)
    printed = printed_cost(epsilon=epsilon, delta=1e-6, cutoff=cutoff, queries=1000)
    assert made.cost.epsilon(1e-6) < printed.epsilon(1e-6) <= epsilon
    assert made.cost.delta <= 1e-6 / 3


def test_what_runs_keeps_its_cost_against_the_best_adversary_and_what_is_printed_does_not() -> None:
    """The true distance moves by 1 and one refusal ends it; as printed, 2 and two. Only `printed_cost` covers that."""
    made = calibrated_published(**SMALL)  # type: ignore[arg-type]  # a mapping of ints and floats
    near = [0, made.threshold - 1, made.threshold, made.threshold + 1]
    own, printed = made.cost, printed_cost(**SMALL)  # type: ignore[arg-type]
    spent = made.epoch_epsilon
    assert adaptive(Run.of(made, cutoff=1), steps(near), 3, spent) <= own.delta
    for queries, cutoff in ((steps(near, jump=2), 1), (steps(near), 2), (steps(near, jump=2), 2)):
        as_printed = adaptive(Run.of(made, cutoff=cutoff), queries, 3, spent)
        assert as_printed > 1.1 * own.delta
        assert adaptive(Run.of(made, cutoff=cutoff), queries, 3, 4 * spent) <= printed.delta


def test_an_even_number_of_teachers_is_covered_at_the_printed_distance() -> None:
    made = calibrated_published(**SMALL)  # type: ignore[arg-type]  # a mapping of ints and floats
    differ = [Step(1, 1, split=True)]
    slip = adaptive(Run.of(made, cutoff=2), differ, 2, SMALL["epsilon"])
    assert 2 * made.cost.delta < slip <= printed_cost(**SMALL).delta  # type: ignore[arg-type]
