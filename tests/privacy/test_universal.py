"""The universal learner: its exact loss on every pair of small tables, and planted bugs caught.

And the exponential mechanism alone, by which it chooses. Losses are computed for both orders of each pair, as the
largest log-ratio and as Rényi divergences.
"""

import math
from collections.abc import Iterable
from functools import cache, partial
from itertools import permutations, product
from typing import Literal

import numpy as np
import pytest
from scipy.stats import chisquare

from tests import world
from tests.privacy.relabel_law import Law, Table, columns, loss, pairs, tables, worst_delta, worst_loss

Secret = Literal["rows", "labels"]
DOMAIN = np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]])
"""Rows on which stumps over both columns make every dichotomy."""
PUBLIC = [DOMAIN, DOMAIN[[0, 2, 2]], DOMAIN[1:2], DOMAIN[:0]]


def functions(found: world.Hypotheses, odds: world.Floats) -> world.Floats:
    """The law of what the chosen hypothesis says on the whole domain, (8,)."""
    law = np.zeros(8)
    for candidate, chance in enumerate(odds):
        law[found.labels(DOMAIN, candidate) @ [1, 2, 4]] += chance
    return law


def released(
    epsilon: float,
    public: world.Floats | None,
    of: tuple[int, ...] = (0, 1),
    *,
    secret: Secret = "rows",
    sharpened: bool = False,
) -> Law:
    """The law of the chosen hypothesis; its cover is that of `public`, or of the private rows where there is none."""
    kind = world.hypothesis_class("stumps", columns=of)

    @cache
    def law(table: Table) -> world.Floats:
        X, y = columns(table)
        found = kind.dichotomies(X if public is None else public)
        made = world.Universal(epsilon=epsilon * max(1, len(table)) if sharpened else epsilon, secret=secret)
        return functions(found, made.choice.probabilities(-found.errors(X, y)))

    return law


def changed(most: int) -> Iterable[tuple[Table, Table]]:
    """Tables of which one row differs: where labels are secret, and more."""
    for rest in tables(3, most - 1):
        for item, other in permutations(product(range(3), (0, 1)), 2):
            yield tuple(sorted((*rest, item))), tuple(sorted((*rest, other)))


NEIGHBOURS = {"rows": list(pairs(3, 4)), "labels": list(changed(3))}
SECRETS: tuple[Secret, ...] = ("rows", "labels")


def renyi(law: Law, here: Table, there: Table, order: float) -> float:
    """Exact Rényi divergence of what is released on two tables, the larger of both ways round."""
    p, q = (law(table)[law(table) > 0] for table in (here, there))
    return max(float(np.log((a**order * b ** (1 - order)).sum()) / (order - 1)) for a, b in ((p, q), (q, p)))


def excess(law: Law, secret: Secret, cost: world.Cost) -> float:
    """By what factor the worst pair of neighbours diverges more than `cost` says, at the worst of some orders."""
    charged = {order: cost.renyi[world.ORDERS.index(order)] for order in (1.25, 2.0, 5.0, 33.0)}
    return max(renyi(law, *both, order) / most for both in NEIGHBOURS[secret] for order, most in charged.items())


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("public", PUBLIC, ids=len)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_a_choice_loses_at_most_what_it_costs(public: world.Floats, epsilon: float, secret: Secret) -> None:
    law, made = released(epsilon, public, secret=secret), world.Universal(epsilon=epsilon, secret=secret)
    assert max(partial(loss, law)(*both) for both in NEIGHBOURS[secret]) <= made.cost.epsilon(0) <= epsilon
    assert excess(law, secret, made.cost) <= 1


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("order", [2.0, 5.0, 33.0])
def test_the_cost_is_reached(order: float, secret: Secret) -> None:
    """Nothing is charged twice: two candidates, and tables on which one is better by more and more."""
    law, cost = released(1.0, DOMAIN[1:2], secret=secret), world.Universal(epsilon=1.0, secret=secret).cost
    fewer = [((1, 0),) * zeros + ((1, 1),) * ones for zeros in range(12) for ones in range(2)]
    both = (
        [(item, (*item, (1, 1))) for item in fewer]
        if secret == "rows"
        else [(item, flipped(item)) for item in fewer[2:]]
    )
    assert max(loss(law, *item) for item in both) > 0.99
    assert 0.95 < max(renyi(law, *item, order) for item in both) / cost.renyi[world.ORDERS.index(order)] <= 1


def flipped(table: Table) -> Table:
    return ((1, 1), *table[1:])


@pytest.mark.parametrize("public", PUBLIC[:3], ids=len)
def test_planted_bug_full_weights_where_labels_are_secret_are_caught(public: world.Floats) -> None:
    law, cost = released(1.0, public, secret="rows"), world.Universal(epsilon=1.0, secret="labels").cost
    assert max(loss(law, *both) for both in NEIGHBOURS["labels"]) > 1.4
    assert excess(law, "labels", cost) > 1.5


@pytest.mark.parametrize("secret", SECRETS)
def test_planted_bug_a_range_taken_for_half_is_caught(secret: Secret) -> None:
    assert excess(released(1.0, DOMAIN, secret=secret), secret, world.Cost.bounded_range(0.5)) > 2


@pytest.mark.parametrize("of", [(0,), (0, 1)])
def test_planted_bug_a_cover_of_private_rows_is_caught(of: tuple[int, ...]) -> None:
    """A hypothesis that only the new row brings into the cover tells that the row is there."""
    law = released(1.0, None, of)
    assert math.isinf(worst_loss(law, 3, 3))
    assert worst_delta(law, 1.0, 3, 3) > 0.1


def test_planted_bug_counts_taken_for_rates_are_caught() -> None:
    assert worst_loss(released(1.0, DOMAIN, sharpened=True), 3, 4) > 1.5


def test_the_draw_is_of_the_scores_it_is_given() -> None:
    made = world.Universal(epsilon=40.0, secret="rows")
    X = np.repeat(DOMAIN, 50, axis=0)
    y = (X[:, 0] == 1).astype(np.int64)
    found = world.hypothesis_class("stumps", columns=[0, 1]).dichotomies(DOMAIN)
    picked = made.choose(-found.errors(X, y))
    assert found.labels(DOMAIN, picked).tolist() == [0, 1, 0]


@pytest.mark.parametrize("secret", SECRETS)
def test_it_draws_at_what_it_costs(secret: Secret, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[float, int, bool]] = []

    def sample(_: world.Ints, *, epsilon: float, sensitivity: int, monotone: bool) -> int:
        drawn.append((epsilon, sensitivity, monotone))
        return 0

    monkeypatch.setattr(world.mechanisms_noise, "sample_by_weight", sample)
    made = world.Universal(epsilon=2.0, secret=secret)
    made.choose(np.zeros(3, np.int64))
    ((epsilon, sensitivity, monotone),) = drawn
    assert (sensitivity, monotone) == (1, secret == "rows")
    assert 1 - 1e-8 < epsilon / made.cost.epsilon(0) <= 1


# The choice alone: laws on neighbouring scores, its sampler, and another law of the same weights ------------------

DRAWS = 1000
LEAST_P = 1e-8
"""A sampler is refused when its chi-squared test gives less: once in a hundred million runs by chance."""
SCORES = np.array([7, 9, 4, 9, 6])


class PermuteAndFlip(world.ExponentialMechanism):
    """Another law of the same weights (McKenna & Sheldon 2020, Algorithm 1): its cost is more than is claimed here."""

    def probabilities(self, scores: world.Ints) -> world.Floats:
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


def losses(chooser: world.ExponentialMechanism, reach: int, *, one_way: bool = False) -> list[world.Floats]:
    """The log-ratios on all neighbours whose scores move by up to `reach`; three candidates, 0 to 4 apart."""
    ways = [(0, reach), (0, -reach)] if one_way else [(-reach, 0, reach)]
    moves = [np.array(move) for way in ways for move in product(way, repeat=3)]
    rows = [np.array([0, *others]) for others in product(range(5), repeat=2)]
    laws = ((chooser.probabilities(row), chooser.probabilities(row + move)) for row in rows for move in moves)
    return [np.log(here / there) for here, there in laws]


def moved_loss(chooser: world.ExponentialMechanism, reach: int, *, one_way: bool = False) -> float:
    """The largest of them."""
    return float(np.max(losses(chooser, reach, one_way=one_way)))


@pytest.mark.parametrize(("epsilon", "sensitivity"), [(0.5, 1), (2.0, 1), (1.0, 2)])
def test_neighbours_lose_at_most_epsilon_and_twice_the_moves_more(epsilon: float, sensitivity: int) -> None:
    chooser = world.ExponentialMechanism(epsilon=epsilon, sensitivity=sensitivity)
    assert moved_loss(chooser, sensitivity) <= epsilon * (1 + 1e-12)
    assert moved_loss(chooser, 2 * sensitivity) > epsilon * 1.1  # planted: sensitivity halved
    assert chooser.cost.epsilon(0) == pytest.approx(epsilon, rel=1e-8)


@pytest.mark.parametrize("sensitivity", [1, 2])
def test_scores_that_move_one_way_are_weighed_twice_as_sharply(sensitivity: int) -> None:
    chooser = world.ExponentialMechanism(epsilon=1.0, sensitivity=sensitivity, monotone=True)
    assert chooser.rate == 2 * world.ExponentialMechanism(epsilon=1.0, sensitivity=sensitivity).rate
    assert moved_loss(chooser, sensitivity, one_way=True) <= 1 + 1e-12
    assert moved_loss(chooser, sensitivity) > 1.1  # planted: scores that do not move one way


def spread(chooser: world.ExponentialMechanism) -> float:
    """The longest interval of log-ratios on neighbours."""
    return float(np.ptp(losses(chooser, 1), axis=1).max())


def test_losses_of_the_exponential_mechanism_spread_over_epsilon_and_of_permute_and_flip_over_more() -> None:
    """So the first may be charged less than any ε-DP choice: what is charged so must have its law."""
    assert spread(world.ExponentialMechanism(epsilon=1.0)) == pytest.approx(1, rel=1e-9)
    assert spread(PermuteAndFlip(epsilon=1.0)) > 1.2
    assert world.ExponentialMechanism(epsilon=1.0).cost == world.Cost.bounded_range(1.0)


@pytest.mark.parametrize("monotone", [False, True])
def test_the_sampler_draws_from_its_law_and_a_wrong_scale_is_caught(monotone: bool) -> None:
    chooser = world.ExponentialMechanism(epsilon=0.5 if monotone else 1.0, monotone=monotone)
    drawn = np.bincount([chooser.choose(SCORES) for _ in range(DRAWS)], minlength=len(SCORES))
    assert fits(drawn, chooser)
    assert not fits(drawn, world.ExponentialMechanism(epsilon=0.4))
    assert not fits(drawn, world.ExponentialMechanism(epsilon=2.0))


def fits(drawn: world.Ints, chooser: world.ExponentialMechanism) -> bool:
    return bool(chisquare(drawn, DRAWS * chooser.probabilities(SCORES)).pvalue > LEAST_P)
