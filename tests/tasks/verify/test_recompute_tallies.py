"""The guarantee of tallies by another path: it agrees with what they claim, and rejects settings tampered with."""

import json
import math
from typing import Any, Literal

import numpy as np
import pytest

from tests.support.recomputed import charge, least_delta
from tests.support.sentences import facts
from tests.world import (
    ORDERS,
    Kind,
    NotVerified,
    Round,
    Stream,
    Tallies,
    _squares,
    artifacts_kinds,
    charge_of_refusal,
    moved_delta,
    moved_norm,
    planned_rounds,
    round_fault,
    totals_off,
)

DELTA = 1e-5
Secret = Literal["rows", "labels"]
CASES: list[tuple[float, int, int, Secret, bool]] = [
    (0.1, 2, 1, "rows", False),
    (1.0, 2, 3, "rows", True),
    (2.0, 7, 3, "rows", False),
    (8.0, 2, 3, "rows", False),
    (1.0, 2, 1, "labels", False),
    (1.0, 7, 1, "labels", True),
    (1.0, 0, 1, "rows", False),
    (1.0, 0, 1, "labels", True),
]


def made(epsilon: float, classes: int, rounds: int, secret: Secret, many: bool) -> Tallies:
    asked = planned_rounds(classes=classes, fields=14, codes=450, rounds=rounds, secret=secret)
    return Tallies.calibrate(epsilon=epsilon, delta=DELTA, classes=classes, rounds=asked, secret=secret, many=many)


def settings_of(mechanism: Tallies) -> dict[str, Any]:
    """As the ledger has them."""
    recorded: dict[str, Any] = json.loads(json.dumps(mechanism.settings()))
    return recorded


def sums_of(settings: dict[str, Any]) -> artifacts_kinds.Tallies:
    return Kind.of(settings).only(artifacts_kinds.Tallies)


@pytest.mark.parametrize(("epsilon", "classes", "rounds", "secret", "many"), CASES)
def test_it_proves_what_they_claim_and_is_no_loose_bound(
    epsilon: float, classes: int, rounds: int, secret: Secret, many: bool
) -> None:
    settings = settings_of(made(epsilon, classes, rounds, secret, many))
    assert 0.999 * DELTA < least_delta(settings, epsilon) <= DELTA
    assert least_delta(settings, epsilon * 0.999) > DELTA
    assert least_delta({**settings, "codes": "a digest"}, epsilon) <= DELTA


@pytest.mark.parametrize(("epsilon", "classes", "rounds", "secret", "many"), CASES)
def test_the_charge_is_the_mechanisms_cost(
    epsilon: float, classes: int, rounds: int, secret: Secret, many: bool
) -> None:
    mechanism = made(epsilon, classes, rounds, secret, many)
    settings = settings_of(mechanism)
    kind = sums_of(settings)
    assert [moved_norm(kind, each) for each in kind.rounds] == [n for n, _ in mechanism.squares_by_round]
    for order in (2.0, 4.0, 50.0):
        nats, additive = charge(settings, order)
        cost = mechanism.cost.renyi[ORDERS.index(order)]
        assert cost * (1 - 1e-8) < nats <= cost
        assert additive == 0.0
    assert charge_of_refusal(Kind.of(settings), 2.0) is None


BROKEN = [
    *((at, key, by) for at in range(4) for key, by in (("scale", 0.999), ("fields", 1.1))),
    *((at, "least", 0.5) for at in (1, 2, 3)),
    (1, "count", 2),
]


@pytest.mark.parametrize(("at", "key", "by"), BROKEN)
def test_a_round_that_cost_more_than_it_says_is_found(at: int, key: str, by: float) -> None:
    mechanism = made(1.0, 2, 3, "rows", False)
    settings = settings_of(mechanism)
    each = settings["rounds"][at]
    each[key] = each[key] * by if key == "scale" else math.ceil(each[key] * by)
    assert least_delta(settings, 1.0) > DELTA
    assert charge(settings, 2.0)[0] > mechanism.cost.renyi[ORDERS.index(2.0)]


@pytest.mark.parametrize(("key", "value"), [("steps", 1 << 17), ("secret", "labels"), ("classes", 3)])
def test_another_grid_or_neighbours_are_found(key: str, value: Any) -> None:
    settings = settings_of(made(1.0, 2, 1, "rows", False))
    assert least_delta({**settings, key: value}, 1.0) > DELTA


def test_labels_of_units_of_many_rows_cost_more() -> None:
    settings = settings_of(made(1.0, 7, 1, "labels", False))
    once, often = (sums_of({**settings, "many": many}) for many in (False, True))
    assert moved_norm(often, *often.rounds) > moved_norm(once, *once.rounds) == 2 * 14 * (1 << 32)


@pytest.mark.parametrize("scale", [0.8, 2.5])
def test_small_scales_are_priced_by_the_curve(scale: float) -> None:
    each = Round(fields=1, cells=1, least=1, share=1.0, scale=scale)
    mechanism = Tallies(epsilon=30.0, delta=DELTA, classes=2, steps=2, secret="rows", many=False, rounds=(each,))
    epsilon = mechanism.cost.epsilon(DELTA)
    assert moved_delta(epsilon, [(1.0, 1, scale)]) == 1.0
    assert 0.9 * DELTA < least_delta(settings_of(mechanism), epsilon) <= DELTA


@pytest.mark.parametrize(("classes", "least"), [(3, 0), (4, 7), (5, 20)])
def test_the_largest_residual_is_found_among_all_that_may_be_expected(classes: int, least: int) -> None:
    """Of one class expected and any label, as of every class: a thousand classes take no longer than a few."""
    steps, rest = 100, 100 - classes * least
    corners = [[least + (rest if at == given else 0) for at in range(classes)] for given in range(classes + 1)]
    every = {
        sum((steps * (at == label) - part) ** 2 for at, part in enumerate(corner))
        for corner in corners
        for label in range(classes)
    }
    assert set(_squares(classes, steps, "residuals", least)) == every
    assert len(_squares(1000, 1 << 20, "residuals", 1)) == 4


def asked_of(mechanism: Tallies, fields: int) -> dict[str, Any]:
    """The last round as it is released, about so many fields of 25 codes."""
    spans = [(25 * field, 25 * field + 25) for field in range(fields)]
    number = len(mechanism.rounds) - 1
    question = mechanism.question(number, range(fields), spans)
    own = {"round": number, "scale": mechanism.rounds[number].scale, "question": question.record()}
    return json.loads(json.dumps({**own, "sums": [0] * question.size}))  # type: ignore[no-any-return]


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("fields", [1, 7, 91])
def test_a_released_round_is_what_was_paid_for_and_another_is_found(classes: int, fields: int) -> None:
    rounds = planned_rounds(classes=classes, fields=14, codes=450, pairs=True)
    mechanism = Tallies.calibrate(epsilon=1.0, delta=DELTA, classes=classes, rounds=rounds)
    kind, found = sums_of(settings_of(mechanism)), asked_of(mechanism, fields)
    question = found["question"]
    assert round_fault(kind, 3, found) == ""
    changes: dict[str, dict[str, Any]] = {
        "further than was paid for": {"steps": question["steps"] + 40, "least": question["least"] + 1},
        "further than": {"least": question["least"] - 40},
        "a unit moves": {"steps": 2**40, "least": 2**39},
        "another question": {"what": "codes"},
        "another": {"count": 1},
        "another size": {"spans": question["spans"][1:]},
        "size than was paid for": {"fields": question["fields"] * 2},
        "round 3 holds something else than whole numbers": {"least": math.inf, "steps": math.inf},
        "holds something else": {"steps": question["steps"] - 0.5},
        "asks for a cell twice": {"spans": [question["spans"][0]] * (fields + 1)},
        "twice, or for none": {"spans": [span[::-1] for span in question["spans"]]},
        "has another size": {"fields": [question["fields"][0]] * (fields + (fields == 1))},
        "not what tallies release": {"spans": None},
    }
    for fault, change in changes.items():
        assert fault in round_fault(kind, 3, {**found, "question": question | change})
    assert "other noise" in round_fault(kind, 3, {**found, "scale": found["scale"] * 0.99})
    assert "another size" in round_fault(kind, 3, {**found, "sums": found["sums"][1:]})
    assert "something else" in round_fault(kind, 3, {**found, "sums": ["0"] * len(found["sums"])})
    assert "another question" in round_fault(kind, 2, found)
    announced = {"fields": question["fields"], "model": question["model"]}
    assert round_fault(kind, 3, found, {"next": announced}) == ""
    for other in ({"fields": [*question["fields"], fields]}, {"model": {"columns": 1, "weights": ""}}):
        assert "before announced" in round_fault(kind, 3, found, {"next": announced | other})
    assert round_fault(kind, 7, found) == "round 7 is not what tallies release"


def season(epsilon: float, releases: int, **changed: Any) -> Stream:
    asked = planned_rounds(classes=2, fields=14, codes=450, rounds=1)
    return Stream.calibrate(
        epsilon=epsilon, delta=DELTA, classes=2, rounds=asked, season=releases, many=True, **changed
    )


@pytest.mark.parametrize(("epsilon", "releases", "bits"), [(0.1, 52, 8), (1.0, 52, 8), (1.0, 7, 3), (2.0, 520, 8)])
def test_a_season_costs_what_it_claims_by_coefficients_found_another_way(
    epsilon: float, releases: int, bits: int
) -> None:
    mechanism = season(epsilon, releases, bits=bits)
    settings = settings_of(mechanism)
    assert 0.999 * DELTA < least_delta(settings, epsilon) <= DELTA
    nats, additive = charge(settings, 4.0)
    cost = mechanism.cost.renyi[ORDERS.index(4.0)]
    assert cost * (1 - 1e-8) < nats <= cost
    assert (additive, charge_of_refusal(Kind.of(settings), 2.0)) == (0.0, None)


@pytest.mark.parametrize("changed", [{"season": 53}, {"bits": 9}, {"rounds": 0.999}, {"season": 1}])
def test_a_season_that_cost_more_than_it_says_is_found(changed: dict[str, Any]) -> None:
    settings = settings_of(season(1.0, 52))
    if "rounds" in changed:
        changed = {"rounds": [{**each, "scale": each["scale"] * 0.999} for each in settings["rounds"]]}
    if changed == {"season": 1}:  # the charge of one release only, for all of them
        settings, changed = settings_of(season(1.0, 1)), {"season": 52}
    assert least_delta({**settings, **changed}, 1.0) > DELTA


@pytest.mark.parametrize("name", ["steps", "classes", "season", "bits"])
def test_settings_below_0_are_not_computed(name: str) -> None:
    settings = {**settings_of(season(1.0, 7)), name: -1}
    with pytest.raises(NotVerified, match=f"{name} is -1, below 0"):
        least_delta(settings, 1.0)
    with pytest.raises(NotVerified, match=f"{name} is -1, below 0"):
        charge(settings, 5.0)


@pytest.mark.parametrize("least", [-(10**15), 10**15])
def test_neither_is_a_vote_of_fewer_steps_than_none(least: int) -> None:
    settings = settings_of(made(1.0, 2, 1, "rows", False))
    settings["rounds"][0]["least"] = least
    with pytest.raises(NotVerified, match=r"the least of a vote's steps|least is .* below 0"):
        least_delta(settings, 1.0)


def test_another_matrix_is_not_known() -> None:
    with pytest.raises(NotVerified, match=facts("'binary tree'", "recomputed")):
        least_delta({**settings_of(season(1.0, 4)), "matrix": "binary tree"}, 1.0)


@pytest.mark.parametrize(("releases", "bits"), [(1, 8), (9, 3), (52, 8)])
def test_running_totals_follow_from_releases_by_another_path_and_others_do_not(releases: int, bits: int) -> None:
    mechanism, rng = season(1.0, 52, bits=bits), np.random.default_rng(5)
    released = [rng.integers(-(2**45), 2**45, 30) for _ in range(releases)]
    totals, kind = mechanism.totals(released), Kind.of(settings_of(mechanism)).only(artifacts_kinds.Stream)
    assert totals_off(kind, released, totals) <= 0
    moved = totals + 2**20 * (np.arange(30) == 7)
    assert totals_off(kind, released, moved) > 2**19
    if releases > 1:
        assert totals_off(kind, released[::-1], totals) > 0
