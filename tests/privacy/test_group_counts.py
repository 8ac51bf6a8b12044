"""Counts of groups: the exact loss of released counts on neighbouring tables, and how far they are from the truth."""

import math
from dataclasses import replace

import numpy as np
import pytest

from concord.artifacts.errors import WrongInput
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.group_counts import GroupCounts
from tests.privacy.exact import Silent, laplace_law


def loss(made: GroupCounts, moved: Ints) -> float:
    """The largest log-ratio of the law of noisy counts and that of counts that differ by `moved`."""
    values, odds = laplace_law(made.scale)
    law = dict(zip(values.tolist(), odds.tolist(), strict=True))
    inside = [value for value in law if abs(value) < 4 * made.scale]
    return sum(max(abs(math.log(law[value] / law[value - step])) for value in inside) for step in moved.tolist())


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_one_unit_loses_at_most_epsilon_and_planted_bugs_are_caught(epsilon: float) -> None:
    made = GroupCounts.calibrate(epsilon=epsilon)
    one = np.array([0, 1, 0])
    assert 0.999 * epsilon < loss(made, one) <= epsilon * (1 + 1e-9)
    assert loss(replace(made, scale=made.scale / 2), one) > 1.9 * epsilon  # noise that is too narrow
    assert loss(made, np.array([0, 2, 0])) > 1.9 * epsilon  # a unit that counts by each of its rows
    assert loss(made, np.array([1, 1, 0])) > 1.9 * epsilon  # a unit in two groups
    assert replace(made, scale=made.scale / 2).cost.epsilon(0) == pytest.approx(2 * epsilon)
    assert made.cost.epsilon(0) <= epsilon


def test_each_count_has_noise_of_its_own() -> None:
    made, source = GroupCounts.calibrate(epsilon=0.5), Silent()
    assert made.release(np.array([5, 6, 7]), source).tolist() == [5, 6, 7]
    assert source.asked == [("laplace", made.scale, 3)]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_a_count_is_as_near_as_is_said(epsilon: float) -> None:
    made = GroupCounts.calibrate(epsilon=epsilon)
    values, odds = laplace_law(made.scale)
    far = made.within(0.95)
    assert odds[np.abs(values) <= far].sum() >= 0.95 - 1e-9
    assert far == 0 or odds[np.abs(values) <= far - 1].sum() < 0.95


def test_a_very_large_epsilon_has_exact_counts() -> None:
    assert GroupCounts.calibrate(epsilon=1e4).within(0.95) == 0


def test_an_epsilon_that_no_noise_meets_is_refused_before_anything_is_paid() -> None:
    with pytest.raises(WrongInput, match="epsilon must be larger"):
        GroupCounts.calibrate(epsilon=1e-13)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_an_epsilon_that_is_none_is_refused(epsilon: float) -> None:
    with pytest.raises(WrongInput, match="epsilon must be positive and finite"):
        GroupCounts.calibrate(epsilon=epsilon)
