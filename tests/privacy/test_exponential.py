"""Private choice: exact laws on neighbours, samplers against those laws, and planted bugs."""

from itertools import permutations, product

import numpy as np
import pytest
from scipy.stats import chisquare

from tests.world import Cost, ExponentialMechanism, Floats, Ints

DRAWS = 1000
LEAST_P = 1e-8
"""A sampler is refused when its chi-squared test gives less: once in a hundred million runs by chance."""
SCORES = np.array([7, 9, 4, 9, 6])


class PermuteAndFlip(ExponentialMechanism):
    """Another law of the same weights (McKenna & Sheldon 2020, Algorithm 1): its cost is more than is claimed here."""

    def probabilities(self, scores: Ints) -> Floats:
        """Over every order of the candidates, the first that is accepted with its weight as probability."""
        accept = self.weights(scores)
        chosen = np.zeros(len(scores))
        orders = list(permutations(range(len(scores))))
        for order in orders:
            reached = 1.0
            for candidate in order:
                chosen[candidate] += reached * accept[candidate] / len(orders)
                reached *= 1 - accept[candidate]
        return chosen


def worst_loss(chooser: ExponentialMechanism, reach: int, *, one_way: bool = False) -> float:
    """The largest log-ratio on neighbours whose scores move by up to `reach`; three candidates, 0 to 4 apart."""
    ways = [(0, reach), (0, -reach)] if one_way else [(-reach, 0, reach)]
    moves = [np.array(move) for way in ways for move in product(way, repeat=3)]
    rows = [np.array([0, *others]) for others in product(range(5), repeat=2)]
    return max(
        float(np.log(chooser.probabilities(row) / chooser.probabilities(row + move)).max())
        for row in rows
        for move in moves
    )


def test_the_exponential_mechanism_has_odds_of_half_epsilon_a_point() -> None:
    law = ExponentialMechanism(epsilon=0.8).probabilities(np.array([1, 4, 2]))
    np.testing.assert_allclose(np.log(law / law[1]), [-1.2, 0, -0.8], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0.5, 1), (2.0, 1), (1.0, 2)])
def test_neighbours_lose_at_most_epsilon_and_twice_the_moves_more(epsilon: float, sensitivity: int) -> None:
    chooser = ExponentialMechanism(epsilon=epsilon, sensitivity=sensitivity)
    assert worst_loss(chooser, sensitivity) <= epsilon * (1 + 1e-12)
    assert worst_loss(chooser, 2 * sensitivity) > epsilon * 1.1  # planted: sensitivity halved
    assert chooser.cost.epsilon(0) == pytest.approx(epsilon, rel=1e-8)


@pytest.mark.parametrize("sensitivity", [1, 2])
def test_scores_that_move_one_way_are_weighed_twice_as_sharply(sensitivity: int) -> None:
    chooser = ExponentialMechanism(epsilon=1.0, sensitivity=sensitivity, monotone=True)
    assert chooser.rate == 2 * ExponentialMechanism(epsilon=1.0, sensitivity=sensitivity).rate
    assert worst_loss(chooser, sensitivity, one_way=True) <= 1 + 1e-12
    assert worst_loss(chooser, sensitivity) > 1.1  # planted: scores that do not move one way


def spread(chooser: ExponentialMechanism) -> float:
    """The longest interval of log-ratios on neighbours; three candidates, 0 to 4 apart."""
    rows = [np.array([0, *others]) for others in product(range(5), repeat=2)]
    moves = [np.array(move) for move in product((-1, 0, 1), repeat=3)]
    return max(
        float(np.ptp(np.log(chooser.probabilities(r) / chooser.probabilities(r + m)))) for r in rows for m in moves
    )


def test_losses_of_the_exponential_mechanism_spread_over_epsilon_and_of_permute_and_flip_over_more() -> None:
    """So the first may be charged less than any ε-DP choice: what is charged so must have its law."""
    assert spread(ExponentialMechanism(epsilon=1.0)) == pytest.approx(1, rel=1e-9)
    assert spread(PermuteAndFlip(epsilon=1.0)) > 1.2
    assert ExponentialMechanism(epsilon=1.0).cost == Cost.bounded_range(1.0)


def test_a_forgotten_factor_of_two_is_caught() -> None:
    assert worst_loss(ExponentialMechanism(epsilon=2.0), 1) > 1.1  # weights e^(ε·score) at ε = 1 are those of ε = 2


@pytest.mark.parametrize("monotone", [False, True])
def test_the_sampler_draws_from_its_law_and_a_wrong_scale_is_caught(monotone: bool) -> None:
    chooser = ExponentialMechanism(epsilon=0.5 if monotone else 1.0, monotone=monotone)
    drawn = np.bincount([chooser.choose(SCORES) for _ in range(DRAWS)], minlength=len(SCORES))
    assert fits(drawn, chooser)
    assert not fits(drawn, ExponentialMechanism(epsilon=0.4))
    assert not fits(drawn, ExponentialMechanism(epsilon=2.0))


def fits(drawn: Ints, chooser: ExponentialMechanism) -> bool:
    return bool(chisquare(drawn, DRAWS * chooser.probabilities(SCORES)).pvalue > LEAST_P)
