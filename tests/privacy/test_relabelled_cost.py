"""What relabelling costs: the maps and their inverses, and the mechanism that states them."""

import math

import numpy as np
import pytest

from tests.privacy.exact import Silent
from tests.support.recomputed import relabelled, settings_of, space, votes
from tests.world import Mechanism, Relabelled, WrongInput, amplified, inner_budget, recorded, share_for

BUDGETS = [(0.1, 1e-6), (1.0, 1e-5), (4.0, 1e-9), (20.0, 1e-3)]


# The maps -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("choice_epsilon", [0.5, 1.0, 2.0])
def test_what_is_left_for_the_inner_mechanism_costs_the_whole_again(
    epsilon: float, delta: float, choice_epsilon: float
) -> None:
    for inner_epsilon in (0.5, 1.0, 3.0):
        share = share_for(epsilon, choice_epsilon, inner_epsilon)
        left = inner_budget(epsilon, delta, share, choice_epsilon)
        spent = space(share, choice_epsilon).whole(*left)
        assert left[0] == pytest.approx(inner_epsilon, rel=1e-6) or share == 1
        assert 1 - 1e-7 < spent[0] / epsilon <= 1
        assert 1 - 1e-7 < spent[1] / delta <= 1


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_too_large_a_share_says_what_would_do(epsilon: float, delta: float) -> None:
    most = math.expm1(epsilon) / math.exp(0.5)
    if most >= 1:
        assert inner_budget(epsilon, delta, 1.0, 1.0)[0] > 0
        return
    with pytest.raises(WrongInput, match=f"it must be above .*, or the share below {most:.4g}"):
        inner_budget(epsilon, delta, min(1, 1.01 * most), 1.0)
    with pytest.raises(WrongInput, match=f"above {math.log1p(0.9 * math.exp(0.5)):.4g}"):
        inner_budget(epsilon, delta, 0.9, 1.0)
    assert inner_budget(epsilon, delta, 0.99 * most, 1.0)[0] > 0
    assert inner_budget(1.0001 * math.log1p(0.9 * math.exp(0.5)), delta, 0.9, 1.0)[0] > 0


def test_amplification_is_that_of_randomised_response_on_a_poisson_subset() -> None:
    """One row, present with odds q, answered by randomised response: the two probabilities by hand."""
    share, epsilon = 0.3, 1.7
    result, lied = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    with_row = share * result + (1 - share) * lied
    assert amplified(epsilon, 1e-3, share) == pytest.approx((math.log(with_row / lied), 3e-4))
    assert amplified(epsilon, 0, 1.0)[0] == pytest.approx(epsilon)
    assert amplified(1000.0, 0, 0.5)[0] == pytest.approx(1000 + math.log(0.5))


# The mechanism --------------------------------------------------------------------------------------------------------


def test_it_runs_as_the_inner_mechanism_and_is_charged_whole() -> None:
    made: Mechanism = relabelled("stable")
    epsilon, delta = inner_budget(1.0, 1e-5, 0.25, 1.0)
    counts = np.random.default_rng(1).multinomial(900, [0.9, 0.1], size=50)
    answers = [
        each.release(counts, Silent(), 0, 3).labels.tolist() for each in (made, votes("stable", epsilon, delta=delta))
    ]
    assert answers[0] == answers[1]
    assert (made.name, made.keyed, made.cutoff, made.queries, made.per_refusal) == ("stable", True, 20, None, None)


def test_a_dearer_inner_mechanism_makes_the_whole_dearer() -> None:
    """The cost is that of what runs, whatever budget is written beside it."""
    made: Relabelled = relabelled("stable")
    dearer = made.with_(inner=votes("stable", 4.0, delta=4e-5))
    assert dearer.cost.epsilon(1e-5) > 2 > 1 >= made.cost.epsilon(1e-5)


def test_settings_are_json_and_tell_the_relabelling() -> None:
    made = relabelled("noisy_votes")
    settings = settings_of(made)
    assert settings["name"] == "noisy_votes"
    assert (settings["relabel"]["epsilon"], settings["relabel"]["delta"]) == (1.0, 1e-5)
    assert recorded(settings) == made
