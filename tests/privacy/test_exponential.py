"""Private choice: exact laws on neighbours, samplers against those laws, and planted bugs."""

from itertools import permutations, product

import numpy as np
import pytest
from scipy.stats import chisquare

from concord.artifacts.errors import WrongInput
from concord.artifacts.privacy import Cost
from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.mechanisms.exponential import Choice, ExponentialMechanism, PermuteAndFlip

Chooser = ExponentialMechanism | PermuteAndFlip
DRAWS = 1000
LEAST_P = 1e-8
"""A sampler is refused when its chi-squared test gives less: once in a hundred million runs by chance."""
SCORES = np.array([7, 9, 4, 9, 6])


def by_hand(chooser: PermuteAndFlip, scores: Ints) -> Floats:
    """McKenna & Sheldon's Algorithm 1, over every order of the candidates."""
    accept = chooser.weights(scores)
    chosen = np.zeros(len(scores))
    orders = list(permutations(range(len(scores))))
    for order in orders:
        reached = 1.0
        for candidate in order:
            chosen[candidate] += reached * accept[candidate] / len(orders)
            reached *= 1 - accept[candidate]
    return chosen


def worst_loss(chooser: Chooser, reach: int, *, one_way: bool = False) -> float:
    """The largest log-ratio on neighbours whose scores move by up to `reach`; three candidates, 0 to 4 apart."""
    ways = [(0, reach), (0, -reach)] if one_way else [(-reach, 0, reach)]
    moves = [np.array(move) for way in ways for move in product(way, repeat=3)]
    rows = [np.array([0, *others]) for others in product(range(5), repeat=2)]
    return max(
        float(np.log(chooser.probabilities(row) / chooser.probabilities(row + move)).max())
        for row in rows
        for move in moves
    )


@pytest.mark.parametrize("scores", [[3], [0, 0], [5, 1, 2], [2, 2, 2, 1], [0, 9, 4, 9, 6, 1]])
def test_permute_and_flip_has_the_law_of_its_algorithm(scores: list[int]) -> None:
    chooser = PermuteAndFlip(epsilon=1.3, sensitivity=2)
    law = chooser.probabilities(np.array(scores))
    np.testing.assert_allclose(law, by_hand(chooser, np.array(scores)), rtol=1e-12)
    assert law.sum() == pytest.approx(1, rel=1e-12)


def test_the_exponential_mechanism_has_odds_of_half_epsilon_a_point() -> None:
    law = ExponentialMechanism(epsilon=0.8).probabilities(np.array([1, 4, 2]))
    np.testing.assert_allclose(np.log(law / law[1]), [-1.2, 0, -0.8], rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip])
@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0.5, 1), (2.0, 1), (1.0, 2)])
def test_neighbours_lose_at_most_epsilon_and_twice_the_moves_more(
    kind: type[Chooser], epsilon: float, sensitivity: int
) -> None:
    chooser = kind(epsilon=epsilon, sensitivity=sensitivity)
    assert worst_loss(chooser, sensitivity) <= epsilon * (1 + 1e-12)
    assert worst_loss(chooser, 2 * sensitivity) > epsilon * 1.1  # planted: sensitivity halved
    assert chooser.cost.epsilon(0) == pytest.approx(epsilon, rel=1e-8)


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip])
@pytest.mark.parametrize("sensitivity", [1, 2])
def test_scores_that_move_one_way_are_weighed_twice_as_sharply(kind: type[Chooser], sensitivity: int) -> None:
    chooser = kind(epsilon=1.0, sensitivity=sensitivity, monotone=True)
    assert chooser.rate == 2 * kind(epsilon=1.0, sensitivity=sensitivity).rate
    assert worst_loss(chooser, sensitivity, one_way=True) <= 1 + 1e-12
    assert worst_loss(chooser, sensitivity) > 1.1  # planted: scores that do not move one way


def spread(chooser: Chooser) -> float:
    """The longest interval of log-ratios on neighbours; three candidates, 0 to 4 apart."""
    rows = [np.array([0, *others]) for others in product(range(5), repeat=2)]
    moves = [np.array(move) for move in product((-1, 0, 1), repeat=3)]
    return max(
        float(np.ptp(np.log(chooser.probabilities(r) / chooser.probabilities(r + m)))) for r in rows for m in moves
    )


def test_losses_of_the_exponential_mechanism_spread_over_epsilon_and_of_permute_and_flip_over_more() -> None:
    """So the second is charged as any ε-DP choice is, the first less."""
    assert spread(ExponentialMechanism(epsilon=1.0)) == pytest.approx(1, rel=1e-9)
    assert spread(PermuteAndFlip(epsilon=1.0)) > 1.2
    assert ExponentialMechanism(epsilon=1.0).cost == Cost.bounded_range(1.0)
    assert PermuteAndFlip(epsilon=1.0).cost == Cost.approximate(1.0)


@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip])
def test_a_forgotten_factor_of_two_is_caught(kind: type[Chooser]) -> None:
    assert worst_loss(kind(epsilon=2.0), 1) > 1.1  # weights e^(ε·score) at ε = 1 are those of ε = 2


@pytest.mark.parametrize("scores", list(product(range(4), repeat=3)))
def test_permute_and_flip_is_never_further_from_the_best(scores: tuple[int, ...]) -> None:
    row = np.array(scores)
    flipped, drawn = (kind(epsilon=1.0).probabilities(row) @ row for kind in (PermuteAndFlip, ExponentialMechanism))
    assert flipped >= drawn - 1e-12


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("kind", [ExponentialMechanism, PermuteAndFlip])
def test_the_sampler_draws_from_its_law_and_a_wrong_scale_is_caught(kind: type[Chooser], monotone: bool) -> None:
    chooser = kind(epsilon=0.5 if monotone else 1.0, monotone=monotone)
    drawn = np.bincount([chooser.choose(SCORES) for _ in range(DRAWS)], minlength=len(SCORES))
    assert fits(drawn, chooser)
    assert not fits(drawn, kind(epsilon=0.4))
    assert not fits(drawn, kind(epsilon=2.0))


def fits(drawn: Ints, chooser: Chooser) -> bool:
    return bool(chisquare(drawn, DRAWS * chooser.probabilities(SCORES)).pvalue > LEAST_P)


@pytest.mark.parametrize("wrong", [{"epsilon": 0.0}, {"epsilon": float("inf")}, {"sensitivity": 0}])
def test_wrong_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(WrongInput):
        Choice(**{"epsilon": 1.0, "sensitivity": 1, **wrong})  # type: ignore[arg-type]  # a mapping of both kinds
