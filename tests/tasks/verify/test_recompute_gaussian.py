"""δ of Gaussian counts by another path: never below the exact one, however tiny, and never above what is claimed."""

from collections.abc import Iterator
from decimal import Decimal, localcontext
from functools import cache
from itertools import product
from math import exp, prod
from typing import Any

import pytest

from tests import world
from tests.support.recomputed import least_delta, settings_of

Group = tuple[int, float]
"""A number of draws, and their scale."""
Law = dict[int, Decimal]


@cache
def law_of_sum(count: int, scale: float) -> Law:
    """By adding one draw after another."""
    reach = int(16 * scale + 60 * scale**2) + 8
    single = {y: (-(Decimal(y) ** 2) / (2 * Decimal(scale) ** 2)).exp() for y in range(-reach, reach + 1)}
    whole = sum(single.values())
    law: Law = {0: Decimal(1)}
    for _ in range(count):
        after: Law = {}
        for (s, held), (y, weight) in product(law.items(), single.items()):
            after[s + y] = after.get(s + y, Decimal(0)) + held * weight / whole
        law = after
    return law


def exact(epsilon: float, *groups: Group) -> Decimal:
    """E (1 − e^(ε − L))⁺ over all sums, in 50 digits."""
    with localcontext(prec=50):
        total, level, factor = Decimal(0), Decimal(epsilon), Decimal(epsilon).exp()
        laws = list[list[tuple[Decimal, Decimal, Decimal]]]()  # the loss of each sum, its odds here, and there
        for count, scale in groups:
            losses = [
                ((count - 2 * s) / (2 * Decimal(scale) ** 2), here) for s, here in law_of_sum(count, scale).items()
            ]
            laws.append([(loss, here, here * (-loss).exp()) for loss, here in losses])
        for sums in product(*laws):
            if sum(loss for loss, _, _ in sums) > level:
                total += prod(here for _, here, _ in sums) - factor * prod(there for _, _, there in sums)
    return total


def recomputed(epsilon: float, *groups: Group) -> float:
    return world.by_ones([(count, count, Decimal(scale)) for count, scale in groups], epsilon)


GROUPS: list[tuple[float, tuple[Group, ...]]] = [
    (20.0, ((1, 0.586),)),
    (20.0, ((2, 0.58625169377774),)),  # ε = 20, δ = 1e-12, one row, three classes
    (20.0, ((2, 0.829),)),
    (20.0, ((3, 0.5),)),
    (10.0, ((4, 1.0),)),
    (100.0, ((1, 0.25),)),
    (3.0, ((2, 2.0),)),
    (1.0, ((2, 1.5),)),
    (0.1, ((1, 3.7),)),
    *product((1.0, 8.0, 20.0), (((1, 0.7), (1, 0.5)), ((1, 0.6), (2, 1.0)), ((2, 0.8), (1, 1.2)))),
]


@pytest.mark.parametrize(("epsilon", "groups"), GROUPS)
def test_it_is_at_least_the_exact_delta_and_at_most_what_the_mechanisms_take(
    epsilon: float, groups: tuple[Group, ...]
) -> None:
    taken = world.gaussian_delta(epsilon, *groups[0]) if len(groups) == 1 else world.gaussians_delta(epsilon, groups)
    assert exact(epsilon, *groups) <= recomputed(epsilon, *groups) <= taken


def mechanisms() -> Iterator[Any]:
    """Of every size that a budget may ask for."""
    for epsilon, (delta, classes), queries in product(
        (0.01, 1.0, 20.0), ((1e-3, 2), (1e-5, 2), (1e-5, 3), (1e-12, 2), (1e-100, 2)), (1, 50, 10**7)
    ):
        of_rows: dict[str, Any] = {"epsilon": epsilon, "delta": delta, "queries": queries, "classes": classes}
        yield world.calibrated_votes(world.NoisyVotes, **of_rows)
        yield world.calibrated_confident(**of_rows, teachers=200)
        if queries == 1:
            secret = "rows" if classes == 2 else "labels"
            yield world.calibrated_test(epsilon=epsilon, delta=delta, classes=classes, secret=secret)


def test_what_honest_mechanisms_claim_is_proved_and_no_more() -> None:
    for mechanism in mechanisms():
        shares = least_delta(settings_of(mechanism), mechanism.epsilon) / mechanism.delta
        assert 0.6 < shares <= 1, mechanism
        sooner = least_delta(settings_of(mechanism), 0.95 * mechanism.epsilon)
        assert sooner > mechanism.delta, mechanism


@pytest.mark.parametrize("delta", [0.9999, 0.99998, 0.999999, 1 - 1e-8])
def test_a_delta_next_to_1_is_proved(delta: float) -> None:
    """Where mechanisms claim it by total variation, which the orders next to 1 bound, and not by the law of noise."""
    budget: dict[str, Any] = {"epsilon": 0.1, "delta": delta, "classes": 3}
    for mechanism in (
        world.calibrated_votes(world.NoisyVotes, **budget, queries=1),
        world.calibrated_confident(**budget, queries=2, teachers=200),
        world.calibrated_test(**budget, secret="rows"),
    ):
        settings = settings_of(mechanism)
        assert least_delta(settings, 0.1) <= delta < least_delta({**settings, "scale": mechanism.scale / 2}, 0.1)


def test_a_delta_of_no_size_is_not_taken_for_nothing() -> None:
    votes = settings_of(world.calibrated_votes(world.NoisyVotes, epsilon=1.0, delta=1e-5, queries=1, classes=2))
    assert 1e-150 < least_delta({**votes, "scale": 0.25}, 100.0) < 1e-100
    assert least_delta({**votes, "scale": 40.0}, 1.0) == world.verify_recompute_gaussian.LEAST_DELTA
    assert least_delta({**votes, "scale": 4e6}, 1.0) == world.verify_recompute_gaussian.LEAST_DELTA


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("_log_peak", lambda *_: -1e9),  # as if the noise were continuous
        ("expected_beyond", lambda mu, epsilon: exp(-epsilon / mu) / 1000),
    ],
)
def test_planted_bugs_are_seen(name: str, bug: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.verify_recompute_gaussian, name, bug)
    below = [recomputed(epsilon, *groups) < exact(epsilon, *groups) for epsilon, groups in GROUPS]
    assert any(below)
