"""The universal learner: its exact loss on every pair of small tables, planted bugs caught, and its sizes."""

import math
from functools import cache
from itertools import pairwise, permutations, product

import numpy as np
import pytest

from artifacts.errors import WrongInput
from tasks.mechanisms.dichotomies import Hypotheses
from tasks.mechanisms.exponential import ExponentialMechanism
from tasks.mechanisms.hypotheses import hypothesis_class
from tasks.mechanisms.refusal import Floats
from tasks.mechanisms.sample_sizes import cover_rows, selection_rows, universal_sizes
from tasks.mechanisms.universal import Universal
from tasks.mechanisms.voting import Ints
from tests.privacy.relabel_law import Law, Table, columns, loss, tables, worst_delta, worst_loss

DOMAIN = np.arange(3.0)[:, None]
PUBLIC = [DOMAIN, DOMAIN[[0, 2, 2]], DOMAIN[1:2], DOMAIN[:0]]


def functions(found: Hypotheses, odds: Floats) -> Floats:
    """The law of what the chosen hypothesis says on the whole domain, (8,)."""
    law = np.zeros(8)
    for candidate, chance in enumerate(odds):
        law[found.labels(DOMAIN, candidate) @ [1, 2, 4]] += chance
    return law


def released(epsilon: float, public: Floats | None, name: str = "intervals", *, sharpened: bool = False) -> Law:
    """The law of the chosen hypothesis; its cover is that of `public`, or of the private rows where there is none."""
    kind = hypothesis_class(name, columns=[0])

    @cache
    def law(table: Table) -> Floats:
        X, y = columns(table)
        found = kind.dichotomies(X if public is None else public)
        made = Universal(epsilon=epsilon * max(1, len(table)) if sharpened else epsilon)
        return functions(found, made.choice.probabilities(made.scores(found, X, y)))

    return law


@pytest.mark.parametrize("public", PUBLIC, ids=len)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_a_choice_loses_at_most_epsilon(public: Floats, epsilon: float) -> None:
    law = released(epsilon, public)
    assert worst_loss(law, 3, 4) <= epsilon / 2
    assert changed_loss(law, 3) <= epsilon


def changed_loss(law: Law, most: int) -> float:
    """The largest log-ratio on tables of which one row differs."""
    return max(
        loss(law, tuple(sorted((*rest, one))), tuple(sorted((*rest, other))))
        for rest in tables(3, most - 1)
        for one, other in permutations(product(range(3), (0, 1)), 2)
    )


def test_the_loss_is_reached() -> None:
    heavy = ((1, 0),) * 30
    assert loss(released(1.0, DOMAIN[1:2]), (*heavy, (1, 0)), (*heavy, (1, 1))) > 0.99


@pytest.mark.parametrize("name", ["thresholds", "intervals"])
def test_planted_bug_a_cover_of_private_rows_is_caught(name: str) -> None:
    """A hypothesis that only the new row brings into the cover tells that the row is there."""
    law = released(1.0, None, name)
    assert math.isinf(worst_loss(law, 3, 3))
    assert worst_delta(law, 1.0, 3, 3) > 0.1


def test_planted_bug_counts_taken_for_rates_are_caught() -> None:
    assert worst_loss(released(1.0, DOMAIN, sharpened=True), 3, 4) > 1.5


def test_the_draw_is_of_the_scores_it_is_given() -> None:
    made = Universal(epsilon=40.0)
    X = np.repeat(DOMAIN, 50, axis=0)
    y = (X[:, 0] == 1).astype(np.int64)
    found = hypothesis_class("intervals", columns=[0]).dichotomies(DOMAIN)
    picked = made.choose(made.scores(found, X, y))
    assert found.labels(DOMAIN, picked).tolist() == [0, 1, 0]


def test_it_draws_at_what_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[float, int]] = []

    def sample(_: Ints, *, epsilon: float, sensitivity: int) -> int:
        drawn.append((epsilon, sensitivity))
        return 0

    monkeypatch.setattr("tasks.mechanisms.noise.sample_by_weight", sample)
    made = Universal(epsilon=2.0)
    made.choose(np.zeros(3, np.int64))
    ((epsilon, sensitivity),) = drawn
    assert sensitivity == 1
    assert 1 - 1e-8 < epsilon / made.cost.epsilon(0) <= 1


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 9.0])
def test_the_cost_is_pure_and_within_what_was_asked(epsilon: float) -> None:
    made = Universal(epsilon=epsilon)
    assert 1 - 1e-8 < made.cost.epsilon(0) / epsilon <= 1
    assert made.cost.delta == 0
    assert Universal.from_settings(made.settings()) == made
    assert made.choice == ExponentialMechanism(epsilon=made.choice.epsilon)


@pytest.mark.parametrize("epsilon", [0.0, math.inf])
def test_an_epsilon_that_is_none_is_refused(epsilon: float) -> None:
    with pytest.raises(WrongInput, match="universal: epsilon must be positive and finite"):
        Universal(epsilon=epsilon)


# Sizes ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dimension", "alpha", "beta"), [(1, 0.1, 0.1), (3, 0.05, 0.01), (20, 0.3, 0.5)])
def test_cover_rows_are_the_least_that_meet_the_bound(dimension: int, alpha: float, beta: float) -> None:
    def odds(rows: int) -> float:
        return float(2 * (2 * math.e * rows / dimension) ** (2 * dimension) * 2.0 ** (-alpha * rows / 2))

    rows = cover_rows(dimension=dimension, alpha=alpha, beta=beta)
    assert odds(rows) <= beta < odds(rows - 1)


@pytest.mark.parametrize(("candidates", "alpha", "epsilon"), [(1, 0.1, 1.0), (500, 0.05, 0.1), (10**6, 0.2, 4.0)])
def test_selection_rows_are_the_least_that_meet_the_bound(candidates: int, alpha: float, epsilon: float) -> None:
    def excess(rows: int) -> float:
        sampling = 2 * math.sqrt(math.log(4 * candidates / 0.05) / (2 * rows))
        return float(sampling + 2 * math.log(2 * candidates / 0.05) / (epsilon * rows))

    rows: int = selection_rows(candidates=candidates, alpha=alpha, beta=0.05, epsilon=epsilon)
    assert excess(rows) <= alpha < excess(rows - 1)


def test_the_learner_keeps_what_its_sizes_promise() -> None:
    """Intervals on a line, a fifth of the labels flipped: thirty runs at β = 0.1, of which at most three may fail."""
    random, (alpha, beta, epsilon) = np.random.default_rng(7), (0.25, 0.1, 1.0)
    sizes = universal_sizes(dimension=3, alpha=alpha, beta=beta, epsilon=epsilon)
    kind = hypothesis_class("intervals", columns=[0], grid=[np.linspace(0, 1, 101).tolist()])
    fails = 0
    for _ in range(30):
        found = kind.dichotomies(random.uniform(size=(int(sizes.public), 1)))
        X = random.uniform(size=(int(sizes.private), 1))
        truth = (X[:, 0] > 0.3) & (X[:, 0] < 0.7)
        y = (truth ^ (random.uniform(size=len(X)) < 0.2)).astype(np.int64)
        made = Universal(epsilon=epsilon)
        said = found.labels(X, made.choose(made.scores(found, X, y)))
        fails += int(np.count_nonzero(said != truth) * 0.6 / len(X) > alpha)
    assert fails <= 3


def test_more_is_needed_for_less_error() -> None:
    sizes = [universal_sizes(dimension=2, alpha=alpha, beta=0.1, epsilon=1.0) for alpha in (0.2, 0.1, 0.05)]
    assert all(2 < tighter.public / wider.public < 4 for wider, tighter in pairwise(sizes))
    assert all(3 < tighter.private / wider.private < 5 for wider, tighter in pairwise(sizes))
