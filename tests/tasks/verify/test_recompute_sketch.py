"""The guarantee of a sketch by another path: it agrees with what is claimed, and rejects settings tampered with."""

import json
import math
from typing import Any

import pytest

from tests.world import (
    ORDERS,
    Kind,
    Sketch,
    TalliesKind,
    charge,
    charge_of_refusal,
    least_delta,
    moved_norm,
    sketch_rounds,
)

DELTA = 1e-5


def made(epsilon: float, classes: int = 2, narrow: tuple[int, ...] = (1000, 70, 12, 5), **settings: Any) -> Sketch:
    rounds = sketch_rounds(classes=classes, narrow=narrow, wide=[33] * sum(cells > 64 for cells in narrow))
    return Sketch.calibrate(epsilon=epsilon, delta=DELTA, classes=classes, rounds=rounds, **settings)


def settings_of(mechanism: Sketch) -> dict[str, Any]:
    """As the ledger has them."""
    recorded: dict[str, Any] = json.loads(json.dumps(mechanism.settings()))
    return recorded


def kind_of(settings: dict[str, Any]) -> TalliesKind:
    return Kind.of(settings).only(TalliesKind)


CASES = [
    pytest.param(made(0.1), id="little"),
    pytest.param(made(1.0, many=True), id="units of many rows"),
    pytest.param(made(1.0, classes=7), id="seven classes"),
    pytest.param(made(1.0, classes=0), id="a number"),
    pytest.param(made(8.0, narrow=(1000,)), id="no pairs"),
]


@pytest.mark.parametrize("mechanism", CASES)
def test_it_proves_what_is_claimed_and_is_no_loose_bound(mechanism: Sketch) -> None:
    kind = kind_of(settings_of(mechanism))
    assert 0.999 * DELTA < least_delta(kind, mechanism.epsilon) <= DELTA
    assert least_delta(kind, mechanism.epsilon * 0.999) > DELTA


@pytest.mark.parametrize("mechanism", CASES)
def test_the_charge_is_the_mechanisms_cost(mechanism: Sketch) -> None:
    kind = kind_of(settings_of(mechanism))
    assert [moved_norm(kind, each) for each in kind.rounds] == [n for n, _ in mechanism.squares_by_round]
    for order in (2.0, 4.0, 50.0):
        nats, additive = charge(kind, order)
        cost = mechanism.cost.renyi[ORDERS.index(order)]
        assert cost * (1 - 1e-8) < nats <= cost
        assert additive == 0.0
    assert charge_of_refusal(kind, 2.0) is None


BROKEN = [
    *((at, key, by) for at in range(5) for key, by in (("scale", 0.999), ("fields", 1.1))),
    *((at, "least", 0.5) for at in (2, 3, 4)),
    (0, "count", 1.2),
]


@pytest.mark.parametrize(("at", "key", "by"), BROKEN)
def test_a_step_that_cost_more_than_it_says_is_found(at: int, key: str, by: float) -> None:
    mechanism = made(1.0)
    settings = settings_of(mechanism)
    each = settings["rounds"][at]
    each[key] = each[key] * by if key == "scale" else math.ceil(each[key] * by)
    assert least_delta(kind_of(settings), 1.0) > DELTA
    assert charge(kind_of(settings), 2.0)[0] > mechanism.cost.renyi[ORDERS.index(2.0)]


def test_a_step_that_is_left_out_is_found() -> None:
    """Pairs that were asked twice, or a sketch of which a step is not on record, cost more than its claim."""
    settings = settings_of(made(1.0))
    again = {**settings, "rounds": [*settings["rounds"][:2], *settings["rounds"][1:]]}
    assert least_delta(kind_of(again), 1.0) > DELTA
