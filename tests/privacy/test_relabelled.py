"""Relabelling: its exact law on every pair of small tables stays within the claim, and planted bugs do not.

What is computed is the whole: Poisson subset, dichotomies of the real classes, the real weights, relabelling, and a
mechanism of known cost. Bugs have to lose more than the claim that the real thing keeps.
"""

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from scipy.stats import chisquare

from tests.privacy.relabel_law import (
    Choice,
    Chosen,
    Law,
    Table,
    both_labels,
    chosen,
    columns,
    everywhere,
    geometric,
    leaking,
    noisy,
    ones,
    relabelled,
    sampled,
    tables,
    times,
    worst_delta,
    worst_loss,
)
from tests.world import amplified, boost, choose_hypothesis, hypothesis_class, label_boost

ROUNDING = 1e-9
LEAST_P = 1e-9


def whole(epsilon: float, delta: float, choice_epsilon: float, share: float) -> tuple[float, float]:
    """The claim: what a mechanism of (epsilon, delta) costs on a relabelled subset."""
    return amplified(*label_boost(epsilon, delta, choice_epsilon), share)


# The choice of labels -------------------------------------------------------------------------------------------------


def pattern_loss(choice: Choice, before: Table, row: tuple[int, int]) -> float:
    """The largest log-ratio of the odds of a labelling of `before`, without and with one more row."""
    here = dict(choice(before))
    there = dict.fromkeys(here, 0.0)
    for labels, odds in choice((*before, row)):
        there[labels[:-1]] += odds
    return max(abs(math.log(odds / there[labels])) if there[labels] else math.inf for labels, odds in here.items())


@pytest.mark.parametrize(("name", "of"), [("stumps", (0,)), ("stumps", (0, 1)), ("rectangles", (0, 1))])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_labels_of_the_rows_in_common_lose_at_most_the_boost(name: str, of: tuple[int, ...], epsilon: float) -> None:
    choice = chosen(epsilon, name, of)
    for before in tables(3, 2):
        for row in product(range(3), (0, 1)):
            assert pattern_loss(choice, before, row) <= boost(epsilon) + ROUNDING


@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_the_boost_is_reached(epsilon: float) -> None:
    heavy = ((0, 0),) * 15 + ((2, 0),) * 15
    assert pattern_loss(chosen(epsilon), heavy, (1, 1)) > 0.99 * boost(epsilon)


def test_the_sampler_draws_from_the_law_of_the_proof() -> None:
    table = ((0, 0), (0, 1), (1, 1), (2, 1))
    X, y = columns(table)
    found = hypothesis_class("stumps", columns=[0]).dichotomies(X)
    drawn = np.bincount([choose_hypothesis(found, X, y, 1.5) for _ in range(1000)], minlength=len(found))
    assert chisquare(drawn, 1000 * law_of(1.5, table)).pvalue > LEAST_P
    assert chisquare(drawn, 1000 * law_of(3.0, table)).pvalue < LEAST_P  # planted: the factor 2 forgotten


def law_of(epsilon: float, table: Table) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([odds for _, odds in chosen(epsilon)(table)])


# The whole ------------------------------------------------------------------------------------------------------------

WORLDS = [(1, 6, both_labels), (2, 3, everywhere), (3, 4, ones)]


@pytest.mark.parametrize(("points", "most", "count"), WORLDS)
@pytest.mark.parametrize("share", [1.0, 0.4, 0.05])
@pytest.mark.parametrize(("epsilon", "choice_epsilon"), [(0.3, 1.0), (1.0, 1.0), (3.0, 1.0), (1.0, 3.0)])
def test_the_whole_stays_within_its_claim(
    points: int, most: int, count: Callable[[Table], list[int]], share: float, epsilon: float, choice_epsilon: float
) -> None:
    law = sampled(share, relabelled(chosen(choice_epsilon), noisy(epsilon, count, most)))
    claim, _ = whole(epsilon, 0, choice_epsilon, share)
    assert worst_loss(law, points, most) <= claim + ROUNDING


@pytest.mark.parametrize("share", [1.0, 0.4, 0.05])
@pytest.mark.parametrize("delta", [0.01, 0.2])
def test_an_additive_delta_is_not_multiplied_but_by_the_share(share: float, delta: float) -> None:
    every = tables(2, 3)
    law = sampled(share, relabelled(chosen(1.0), leaking(delta, noisy(1.0, both_labels, 3), every)))
    epsilon, claimed = whole(1.0, delta, 1.0, share)
    assert 0.5 * claimed < worst_delta(law, epsilon, 2, 3) <= claimed + ROUNDING


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_charging_the_inner_mechanism_alone_is_caught(share: float) -> None:
    law = sampled(share, relabelled(chosen(2.0), noisy(3.0, both_labels, 6)))
    assert worst_loss(law, 1, 6) > 1.25 * amplified(3.0, 0, share)[0]


# Planted bugs in the choice -------------------------------------------------------------------------------------------


def reweighted(weigh: Callable[[Table, tuple[int, ...], int], float]) -> Choice:
    """The choice with other odds: `weigh` turns a table, labels and their place in the list into a factor."""
    real = chosen(1.0)

    def law(table: Table) -> Chosen:
        weights = [(labels, odds * weigh(table, labels, at)) for at, (labels, odds) in enumerate(real(table))]
        total = sum(weight for _, weight in weights)
        return [(labels, weight / total) for labels, weight in weights]

    return law


def errors(table: Table, labels: tuple[int, ...]) -> int:
    return sum(label != result for (_, label), result in zip(table, labels, strict=True))


def least(table: Table) -> int:
    return min(errors(table, labels) for labels, _ in chosen(1.0)(table))


BROKEN: dict[str, Choice] = {
    "only hypotheses that fit best": reweighted(lambda table, labels, _: errors(table, labels) == least(table)),
    "the best fit is listed fifty times": reweighted(
        lambda table, labels, _: 50 if errors(table, labels) == least(table) else 1
    ),
    "one dichotomy is missing": reweighted(lambda table, _, at: at > 0 or len(table) == 0),
    "the list is cut after three": reweighted(lambda _table, _labels, at: at < 3),
    "counts taken for rates": lambda table: chosen(1.0 * max(1, len(table)))(table),
}


@pytest.mark.parametrize("bug", BROKEN)
def test_another_list_or_another_scale_is_caught(bug: str) -> None:
    mechanism, claim = noisy(1.0, both_labels, 4), label_boost(1.0, 0, 1.0)[0]
    assert worst_loss(relabelled(chosen(1.0), mechanism), 3, 4) <= claim
    assert worst_loss(relabelled(BROKEN[bug], mechanism), 3, 4) > 1.4 * claim


@pytest.mark.parametrize("bug", list(BROKEN)[:3])
def test_a_secret_subset_does_not_hide_another_list(bug: str) -> None:
    law = sampled(0.5, relabelled(BROKEN[bug], noisy(2.0, both_labels, 4)))
    assert worst_loss(law, 2, 4) > 1.2 * whole(2.0, 0, 1.0, 0.5)[0]


@pytest.mark.parametrize("share", [1.0, 0.2])
def test_releasing_the_hypothesis_itself_is_caught(share: float) -> None:
    everywhere_it_could = np.arange(3.0)[:, None]

    def released(table: Table) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        X, _ = columns(table)
        found = hypothesis_class("stumps", columns=[0]).dichotomies(X)
        law = np.zeros(8)
        for candidate, odds in enumerate(law_of(1.0, table)):
            law[found.labels(everywhere_it_could, candidate) @ [1, 2, 4]] += odds
        return law

    claim = whole(5.0, 0.01, 1.0, share)
    assert worst_delta(sampled(share, released), claim[0], 3, 3) > 5 * claim[1]


# Planted bugs in amplification ----------------------------------------------------------------------------------------


def test_two_mechanisms_on_one_subset_amplified_each_alone_are_caught() -> None:
    epsilon, share, claim = 3.0, 0.05, 2 * whole(3.0, 0, 1.0, 0.05)[0]
    single = noisy(epsilon, both_labels, 2)
    one_choice, two_choices = relabelled(chosen(1.0), times(2, single)), times(2, relabelled(chosen(1.0), single))
    assert worst_loss(times(2, sampled(share, relabelled(chosen(1.0), single))), 1, 2) <= claim
    assert worst_loss(sampled(share, one_choice), 1, 2) > 1.2 * claim
    assert worst_loss(sampled(share, two_choices), 1, 2) > 1.2 * claim


@pytest.mark.parametrize("what", ["the subset", "the hypothesis"])
def test_a_second_draw_charged_once_is_caught(what: str) -> None:
    """A mechanism of ε answers four batches, a quarter of ε each; every batch draws again."""
    epsilon, choice_epsilon, share = 6.0, 2.0, 0.8
    quarter = relabelled(chosen(choice_epsilon), noisy(epsilon / 4, both_labels, 4))
    law = times(4, sampled(share, quarter)) if what == "the subset" else sampled(share, times(4, quarter))
    drawn_once = sampled(share, relabelled(chosen(choice_epsilon), times(4, noisy(epsilon / 4, both_labels, 4))))
    claim, _ = whole(epsilon, 0, choice_epsilon, share)
    assert worst_loss(drawn_once, 1, 4) <= claim
    assert worst_loss(law, 1, 4) > 1.05 * claim


# Resampling -----------------------------------------------------------------------------------------------------------


def resampled_shards(epsilon: float, shards: int) -> Law:
    """Rows go to shards by x, each shard draws as many rows as it has with replacement, its teacher is their majority;
    the number of teachers that say 1 is released with geometric noise."""

    def says_one(labels: list[int]) -> float:
        if not labels:
            return 0.0
        draws = list(product(labels, repeat=len(labels)))
        return sum(2 * sum(draw) > len(draw) for draw in draws) / len(draws)

    def law(table: Table) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        odds = [says_one([label for x, label in table if x % shards == shard]) for shard in range(shards)]
        whole = np.zeros(shards + 1)
        for vote in product((0, 1), repeat=shards):
            chance = math.prod(p if result else 1 - p for p, result in zip(odds, vote, strict=True))
            whole += chance * geometric(epsilon, sum(vote), shards)
        return whole

    return law


@pytest.mark.parametrize("share", [1.0, 0.3])
def test_resampling_inside_a_shard_is_free(share: float) -> None:
    law = sampled(share, relabelled(chosen(1.0), resampled_shards(1.0, 2)))
    claim, _ = whole(1.0, 0, 1.0, share)
    assert 0.2 * claim < worst_loss(law, 3, 4) <= claim + ROUNDING
