"""What every mechanism is charged, over all kinds, budgets and sizes: within what was asked, nearly all of it, no less.

And how every one that answers rows is asked: batches of a stream are answered as the whole is, under one noise.
"""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests import world
from tests.privacy.exact import Silent, Steady
from tests.support.recomputed import relabelled
from tests.support.recorded import ASKED, DRAWN

BUDGETS = ((0.1, 1e-5), (1.0, 1e-6), (4.0, 1e-9), (8.0, 1e-3), (0.5, VAST := 0.9))
LIMITED = tuple({"cutoff": cutoff, "queries": 2000} for cutoff in (1, 20, 1000))
COUNTED = tuple(
    {"queries": queries, "classes": classes, "teachers": 250}
    for queries, classes in ((1, 2), (1_000, 2), (2_000, 10), (10_000, 10), (10**9, 3))
)
SECRET = ({"secret": "rows"}, {"secret": "labels"})
SUMS = tuple(
    {**secret, "classes": classes, "rounds": world.planned_rounds(classes=classes, fields=14, codes=450, **secret)}  # type: ignore[arg-type]
    for classes, secret in product((0, 2, 7), SECRET)
)
TABLES = tuple(
    {"classes": classes, "rounds": world.sketch_rounds(classes=classes, narrow=[1000, 70, 12, 5], wide=[33, 33])}
    for classes in (0, 2, 7)
)
SEASON = world.planned_rounds(classes=2, fields=14, codes=450, rounds=1)
SIZES: dict[str, tuple[dict[str, Any], ...]] = {
    **dict.fromkeys(("stable", "sparse_vector", "published"), LIMITED),
    **dict.fromkeys(("noisy_votes", "laplace_votes", "confident"), COUNTED),
    **dict.fromkeys(("laplace", "optimal"), ({},)),
    "tallies": SUMS,
    "sketch": TABLES,
    "stream": tuple({"rounds": SEASON, "season": season, "many": True} for season in (1, 52, 520)),
    "universal": SECRET,
    "private_test": tuple({**secret, "classes": classes} for secret, classes in product(SECRET, (0, 2, 3))),
    "error_estimate": ({"shards": 30},),
}
PURE = ("universal", "error_estimate")
USED = {"sparse_vector": 0.99, "published": 0.0, "laplace": 0.0, "optimal": 0.0}
"""The part of ε that is used at least, where it is not nearly all: these are charged by a proof that leaves more."""


def made(name: str) -> Iterator[tuple[Any, float, float]]:
    """The mechanism at every budget and size, with its ε and δ."""
    make, given = ASKED[name]
    for (epsilon, delta), size in product(BUDGETS, SIZES[name]):
        budget = {"epsilon": epsilon} if name in PURE else {"epsilon": epsilon, "delta": delta}
        yield make(**{**given, **size, **budget}), epsilon, 0.0 if name in PURE else delta


def thinner(mechanism: Any) -> Any:
    """The planted fault: all noise of a ten-thousandth too small a scale."""
    scales = {key: value * 0.9999 for key, value in vars(mechanism).items() if key.endswith("scale")}
    if rounds := getattr(mechanism, "rounds", ()):
        scales["rounds"] = tuple(each.with_(scale=each.scale * 0.9999) for each in rounds)
    return mechanism.with_(**scales)


def test_every_kind_is_among_them() -> None:
    assert ASKED.keys() == SIZES.keys()


@pytest.mark.parametrize("name", ASKED)
def test_the_cost_is_within_what_was_asked_and_uses_it(name: str) -> None:
    for mechanism, epsilon, delta in made(name):
        cost = mechanism.cost
        assert cost.epsilon(delta) <= epsilon * (1 + 1e-8 * (name in world.FORMS)), mechanism
        assert cost.epsilon(delta) > USED.get(name, 0.9999) * epsilon or delta == VAST, mechanism
        assert cost.delta <= delta


@pytest.mark.parametrize("name", ["noisy_votes", "laplace_votes", "confident", "tallies", "sketch", "stream"])
def test_noise_that_is_hardly_thinner_costs_more_than_was_asked(name: str) -> None:
    for mechanism, epsilon, delta in made(name):
        assert thinner(mechanism).cost.epsilon(delta) > epsilon


@pytest.mark.parametrize("name", ["tallies", "sketch", "stream"])
def test_rounds_are_charged_by_their_norm_and_share_the_charge_as_planned(name: str) -> None:
    for mechanism, _, _ in made(name):
        weight = sum(q * q for q in getattr(mechanism, "coefficients", (1,)))
        parts = np.array([weight * square / (2 * each.scale**2) for square, each in mechanism.squares_by_round])
        assert mechanism.cost.renyi[world.ORDERS.index(2.0)] == pytest.approx(2 * parts.sum())
        assert mechanism.cost.renyi[world.ORDERS.index(2.0)] >= 2 * parts.sum()
        assert parts / parts.sum() == pytest.approx([each.share for each in mechanism.rounds])


@pytest.mark.parametrize("name", ["stable", "sparse_vector", "noisy_votes", "laplace_votes"])
def test_a_relabelled_mechanism_is_charged_the_whole_and_no_more(name: str) -> None:
    mechanism: world.Relabelled = relabelled(name)
    cost, whole = mechanism.cost, mechanism.relabelling
    assert 0.99 * whole.epsilon < cost.epsilon(whole.delta) <= whole.epsilon
    assert 0.999 * whole.delta < cost.delta <= whole.delta
    assert cost.epsilon(0.99 * whole.delta) == np.inf


# What is drawn --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["tallies", "sketch", "stream"])
def test_sums_leave_under_noise_of_their_rounds_scale_and_none_that_was_not_paid_for(name: str) -> None:
    mechanism, source = DRAWN[name], Silent()
    for number in range(len(mechanism.rounds) * getattr(mechanism, "season", 1)):
        each, exact = mechanism.rounds[number % len(mechanism.rounds)], np.arange(3)
        assert mechanism.release(number, exact, source).tolist() == exact.tolist()
        assert source.asked.pop() == ("gaussian", each.scale, 3)
        for wrong in (np.zeros(each.cells + 1, np.int64), np.zeros(1, np.float64), np.zeros(1, np.int32)):
            with pytest.raises(ValueError, match="whole numbers at most"):
                mechanism.release(number, wrong, source)
    assert not source.asked


@pytest.mark.parametrize("name", world.MECHANISMS)
def test_a_session_that_ends_early_has_spent_less_and_at_its_end_the_whole(name: str) -> None:
    mechanism = DRAWN[name]
    if mechanism.cutoff is not None:
        ends = [(1000, refused) for refused in (0, 1, 5, mechanism.cutoff)]
    else:
        ends = [(asked, 0) for asked in sorted({1, mechanism.queries // 2, mechanism.queries})]
    spent = [world.epsilon_if_ended(mechanism, *at) for at in ends]
    assert spent == sorted(set(spent))
    assert spent[-1] == pytest.approx(mechanism.cost.epsilon(mechanism.delta))


# A stream in batches --------------------------------------------------------------------------------------------------


def answered(mechanism: Any, votes: world.Ints, size: int) -> tuple[list[int], dict[float, int]]:
    """The labels of a stream in batches of that size, and how much noise of each scale was drawn."""
    source, labels = Steady(), list[int]()
    _: world.RandomSource = source
    for first in range(0, len(votes), size):
        labels += mechanism.release(
            votes[first : first + size], source, first, labels.count(world.REFUSED)
        ).labels.tolist()
    return labels, source.drawn


@pytest.mark.parametrize("name", world.MECHANISMS)
def test_batches_are_answered_as_one_stream_that_ends_where_it_was_paid_for(name: str) -> None:
    mechanism, leads = DRAWN[name], np.random.default_rng(7).integers(-6000, 6000, 4000)
    votes = np.column_stack([10_000 + leads, 10_000 - leads])
    whole, drawn = answered(mechanism, votes, len(votes))
    labels, drawn_in_parts = answered(mechanism, votes, 7)
    assert labels == whole
    if mechanism.cutoff is None:
        assert len(whole) == mechanism.queries == 1000
        assert drawn_in_parts == drawn
    else:
        assert whole.count(world.REFUSED) == mechanism.cutoff
        assert whole[-1] == world.REFUSED
        thresholds = getattr(mechanism, "threshold_scale", 0.0)
        assert drawn_in_parts.get(thresholds) == drawn.get(thresholds)
    released = len(whole) - whole.count(world.REFUSED)
    of_row = {"confident": {"test_scale": 1000, "scale": released}, "stable": {}}
    limited = {"threshold_scale": mechanism.cutoff, "query_scale": len(votes)}
    scales = of_row.get(name, {"scale": 1000} if mechanism.cutoff is None else limited)
    assert drawn == {getattr(mechanism, scale): draws for scale, draws in scales.items()}
