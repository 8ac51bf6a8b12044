"""δ of Gaussian counts by another path: never below the exact one, however tiny, and never above what is claimed."""

from decimal import Decimal, localcontext
from functools import cache
from itertools import product
from math import prod

import pytest

from tests.world import (
    ConfidentGNMax,
    Group,
    NoisyVotes,
    NotVerified,
    gaussian_delta,
    gaussians_delta,
    sums_delta,
    verify_recompute_gaussian,
)

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


NOISY_VOTES = [
    (20.0, (1, 0.586)),
    (20.0, (2, 0.58625169377774)),  # ε = 20, δ = 1e-12, one row, three classes
    (20.0, (2, 0.829)),
    (20.0, (1, 0.3)),
    (20.0, (3, 0.5)),
    (10.0, (4, 1.0)),
    (100.0, (1, 0.25)),
    (3.0, (2, 2.0)),
    (1.0, (2, 1.5)),
    (0.1, (1, 3.7)),
]


@pytest.mark.parametrize(("epsilon", "group"), NOISY_VOTES)
def test_it_is_the_exact_delta_to_what_it_adds(epsilon: float, group: Group) -> None:
    found, delta = sums_delta(epsilon, group), exact(epsilon, group)
    assert delta <= found <= delta * Decimal(1 + 2e-9)
    assert found <= 1.01 * gaussian_delta(epsilon, *group)


@pytest.mark.parametrize("epsilon", [1.0, 8.0, 20.0])
@pytest.mark.parametrize("groups", [((1, 0.7), (1, 0.5)), ((1, 0.6), (2, 1.0)), ((2, 0.8), (1, 1.2))])
def test_of_two_scales_too(groups: tuple[Group, Group], epsilon: float) -> None:
    found, delta = sums_delta(epsilon, *groups), exact(epsilon, *groups)
    assert delta <= found <= delta * Decimal(1 + 2e-9)
    assert found <= 1.01 * gaussians_delta(epsilon, groups)


def test_a_delta_of_no_size_is_refused_and_not_taken_for_nothing() -> None:
    assert 0 < sums_delta(100.0, (1, 0.25)) < 1e-120
    with pytest.raises(NotVerified, match="too small to be recomputed"):
        sums_delta(1.0, (1, 40.0))
    with pytest.raises(NotVerified, match="too small to be recomputed"):
        sums_delta(1.0, (10**9, 4e6), (10**9, 4e6))


BUDGETS = [
    (20.0, 1e-12, 1),
    (1.0, 1e-40, 1),
    (8.0, 1e-100, 50),
    (1.0, 1e-5, 1000),
    (1.0, 1e-5, 10**7),
    (0.1, 1e-30, 10**9),
]


@pytest.mark.parametrize(("epsilon", "delta", "queries"), BUDGETS)
def test_what_honest_mechanisms_claim_is_proved(epsilon: float, delta: float, queries: int) -> None:
    votes = NoisyVotes.calibrate(epsilon=epsilon, delta=delta, queries=queries, classes=3)
    confident = ConfidentGNMax.calibrate(epsilon=epsilon, delta=delta, queries=queries, classes=3, teachers=200)
    assert 0 < sums_delta(epsilon, (2 * queries, votes.scale)) <= delta
    assert 0 < sums_delta(epsilon, *[(moved, scale) for _, moved, scale in confident.moves]) <= delta


@pytest.mark.parametrize("groups", [((300, 40.0),), ((300, 40.0), (200, 3.0)), ((300, 40.0), (400, 50.0))])
def test_laws_taken_for_continuous_are_no_less_than_the_computed_ones(
    groups: tuple[Group, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for epsilon in (0.5, 2.0, 12.0):
        monkeypatch.setattr(verify_recompute_gaussian, "MOST_PLACES", 1 << 20)
        computed = sums_delta(epsilon, *groups)
        for largest in (1, 1000):
            monkeypatch.setattr(verify_recompute_gaussian, "MOST_PLACES", largest)
            assert computed <= sums_delta(epsilon, *groups) <= 1.2 * computed


@pytest.mark.parametrize(("name", "bug"), [("_tilt", lambda *_: 0.0), ("COARSE", 0.0)])
def test_planted_bugs_are_seen(name: str, bug: object, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not tilted; or small scales taken for smooth."""
    verify_recompute_gaussian._law.cache_clear()
    monkeypatch.setattr(verify_recompute_gaussian, name, bug)
    found = []
    for epsilon, group in NOISY_VOTES:
        delta = exact(epsilon, group)
        try:
            found.append(delta <= sums_delta(epsilon, group) <= delta * Decimal(1 + 2e-9))
        except NotVerified:
            found.append(False)
    verify_recompute_gaussian._law.cache_clear()
    assert not all(found)
