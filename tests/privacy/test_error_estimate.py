"""The error estimate: exact loss of the released sum on neighbouring shards, its rounding, and what it suggests."""

from itertools import product

import numpy as np
import pytest
from scipy.stats import binom

from tests import world
from tests.privacy.exact import Silent, laplace_law

SHARDS = [(0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2), (1, 3)]
"""Errors and rows tested of a shard: everything that up to two rows, and one more case, can give."""


def summed(made: world.ErrorEstimate, shards: list[tuple[int, int]]) -> int:
    errors, tested = np.array(shards, dtype=np.int64).T
    return made.total(errors, tested)


def released(made: world.ErrorEstimate, total: int, reach: int) -> world.Floats:
    """The law of the noisy sum on −reach … reach; what lies beyond is left out."""
    values, odds = laplace_law(made.scale)
    law = np.zeros(2 * reach + 1)
    inside = np.abs(values + total) <= reach
    law[values[inside] + total + reach] = odds[inside]
    return law


def loss(made: world.ErrorEstimate) -> float:
    """The largest log-ratio of what is released when one of two shards changes in any way."""
    sums = [(summed(made, [item, two]), summed(made, [item, other])) for item, two, other in product(SHARDS, repeat=3)]
    reach = int(5 * made.scale) + 2 * made.steps
    with np.errstate(divide="ignore"):
        ratios = [np.log(released(made, here, reach)) - np.log(released(made, there, reach)) for here, there in sums]
    return float(max(np.abs(ratio[np.isfinite(ratio)]).max() for ratio in ratios))


@pytest.mark.parametrize("epsilon", [0.2, 1.0])
@pytest.mark.parametrize("steps", [1, 7])
def test_one_shard_loses_at_most_epsilon_and_a_wrong_scale_is_caught(epsilon: float, steps: int) -> None:
    made = world.calibrated_estimate(epsilon=epsilon, shards=2, steps=steps)
    assert 0.999 * epsilon < loss(made) <= epsilon * (1 + 1e-9)
    halved = world.ErrorEstimate(epsilon=epsilon, shards=2, steps=steps, scale=made.scale / 2)  # planted
    assert loss(halved) > 1.9 * epsilon
    assert halved.cost.epsilon(0) == pytest.approx(2 * epsilon)


def test_a_shard_counts_at_most_its_steps_and_all_of_them_where_nothing_was_tested() -> None:
    made = world.calibrated_estimate(epsilon=1.0, shards=1, steps=10)
    found = {shard: summed(made, [shard]) for shard in [(0, 0), (0, 5), (5, 5), (1, 3), (1, 20), (9, 5), (-1, 5)]}
    assert list(found.values()) == [10, 0, 10, 3, 1, 10, 0]


def test_the_sum_leaves_with_noise_of_the_stated_scale() -> None:
    made, source = world.calibrated_estimate(epsilon=0.5, shards=4), Silent()
    assert made.release(1234, source) == 1234
    assert source.asked == [("laplace", made.scale, 1)]


def upper(noisy: world.Ints, made: world.ErrorEstimate, beta: float) -> world.Floats:
    return np.array([world.upper_rate(made, int(sum_), beta) for sum_ in noisy])


@pytest.mark.parametrize("beta", [0.01, 0.2])
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_upper_rate_is_passed_as_seldom_as_it_says(beta: float, epsilon: float) -> None:
    made = world.calibrated_estimate(epsilon=epsilon, shards=50, steps=20)
    rate, (values, odds) = 0.3, laplace_law(made.scale)
    total = round(rate * 50 * 20)
    passed = float(odds[upper(total + values, made, beta) < rate - 0.5 / 20].sum())
    assert passed <= beta
    strict = float(odds[upper(total + values, made, beta) < rate + 0.5 / 20].sum())
    assert 0.5 * beta < strict <= beta  # rounding may have hidden half a step a shard


def test_the_rate_is_held_between_nothing_and_everything() -> None:
    made = world.calibrated_estimate(epsilon=1.0, shards=10, steps=10)
    assert [world.mean_rate(made, noisy) for noisy in (-5, 0, 25, 100, 900)] == [0, 0, 0.25, 1, 1]
    assert world.upper_rate(made, 900, 0.05) == 1
    assert world.upper_rate(made, -900, 0.05) == 0


def test_the_cutoff_is_that_of_the_theorem_at_the_upper_rate() -> None:
    made = world.calibrated_estimate(epsilon=1.0, shards=100)
    error = world.upper_rate(made, 5_000, 0.025)
    wanted = world.exact_cutoff(error=error, queries=2_000, beta=0.025, teachers=100)
    assert world.suggested_cutoff(made, 5_000, queries=2_000, beta=0.05) == wanted < 2_000
    assert world.suggested_cutoff(made, 100_000, queries=2_000, beta=0.05) == 2_000
    assert world.suggested_cutoff(made, 60_000, queries=2_000, beta=0.05) == 2_000
    assert world.suggested_cutoff(made, -100_000, queries=2_000, beta=0.05) == 1


@pytest.mark.parametrize("shape", [(2,), (2, 1), ()])
def test_counts_of_other_shards_are_an_error_of_ours(shape: tuple[int, ...]) -> None:
    made = world.calibrated_estimate(epsilon=1.0, shards=3)
    with pytest.raises(ValueError, match="errors and tested must be"):
        made.total(np.zeros(shape, np.int64), np.ones(3, np.int64))


# The cutoff of an estimate (BTT18, Theorem 3.2) ---------------------------------------------------------------------

TEACHERS, QUERIES, BETA = 1001, 2000, 0.05


def chance_of_more(cutoff: int, error: float) -> float:
    """Union bound on some teacher being wrong on more than a third of `cutoff` rows."""
    return TEACHERS * float(binom.sf(cutoff // 3, QUERIES, error))


@pytest.mark.parametrize("error", [0.001, 0.01, 0.1, 0.4])
def test_the_exact_cutoff_is_the_least_that_fails_with_probability_beta(error: float) -> None:
    cutoff = world.exact_cutoff(error=error, queries=QUERIES, beta=BETA, teachers=TEACHERS)
    assert chance_of_more(cutoff, error) <= BETA < chance_of_more(cutoff - 3, error)
