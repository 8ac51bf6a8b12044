"""The guarantee by another path: it agrees with every mechanism's own claim, and rejects settings tampered with."""

import base64
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tests.promises.kinds import EXAMPLES
from tests.support.recomputed import charge, least_delta
from tests.tasks.verify.planted_changes import leaves
from tests.world import (
    FORMS,
    MECHANISMS,
    ORDERS,
    ErrorEstimate,
    Mechanism,
    NotVerified,
    Relabelled,
    Relabelling,
    SingleRelease,
    Universal,
    calibrate,
    calibrate_relabelled,
    verify_recompute,
)

DELTA = 1e-5
LOOSE = {"published"}
"""It charges more than its settings cost, as the paper does."""
TIGHT = [name for name in MECHANISMS if name not in LOOSE]
CASES: list[tuple[str, float, int, int]] = [
    *((name, 1.0, 20, classes) for name in MECHANISMS for classes in (2, 3)),
    ("stable", 0.5, 3, 2),
    ("noisy_votes", 4.0, 1, 10),
    ("laplace_votes", 2.0, 1, 3),
]
FREE = {"epsilon", "delta", "order", "classes"}
"""Settings that a claim states, or that CASES vary."""
FREE_OF = {"confident": {"threshold"}}
"""Settings by which nothing is charged."""
FACTORS = {"queries": 1.02, "answers": 1.02, "threshold": 0.98, "test_scale": 0.9, "scale": 0.99}
"""By how much a setting is tampered with; any other scale by 0.95, and what is not a scale by 1.05."""


def made(name: str, epsilon: float = 1.0, cutoff: int = 20, classes: int = 2) -> Mechanism:
    return calibrate(
        name, epsilon=epsilon, delta=DELTA, cutoff=cutoff, queries=1000, classes=classes, teachers=200, order=2.0
    )


def settings_of(mechanism: Mechanism) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(json.dumps(mechanism.settings()))
    return settings


@pytest.mark.parametrize(("name", "epsilon", "cutoff", "classes"), CASES)
def test_it_proves_what_each_mechanism_claims(name: str, epsilon: float, cutoff: int, classes: int) -> None:
    settings = settings_of(made(name, epsilon, cutoff, classes))
    assert least_delta(settings, epsilon) <= DELTA


def test_noise_that_is_summed_in_parts_comes_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = settings_of(made("sparse_vector"))
    whole = least_delta(settings, 1.0)
    monkeypatch.setattr(verify_recompute, "AT_ONCE", 101)
    assert least_delta(settings, 1.0) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize(("name", "epsilon", "cutoff", "classes"), [case for case in CASES if case[0] in TIGHT])
def test_it_is_no_loose_bound(name: str, epsilon: float, cutoff: int, classes: int) -> None:
    settings = settings_of(made(name, epsilon, cutoff, classes))
    assert least_delta(settings, epsilon) > 0.9 * DELTA
    assert least_delta(settings, epsilon * 0.97) > DELTA


def test_what_is_loose_or_free_is_so() -> None:
    """So that neither table keeps a mechanism out of the tests of what it is charged."""
    assert all(least_delta(settings_of(made(name)), 1.0) < 0.9 * DELTA for name in LOOSE)
    for name, keys in FREE_OF.items():
        settings = settings_of(made(name))
        assert least_delta(settings | dict.fromkeys(keys, 1), 1.0) == least_delta(settings, 1.0)


@pytest.mark.parametrize(("name", "epsilon", "cutoff", "classes"), CASES)
def test_the_charge_is_the_mechanisms_cost(name: str, epsilon: float, cutoff: int, classes: int) -> None:
    mechanism = made(name, epsilon, cutoff, classes)
    for order in (2.0, 4.0):
        nats, additive = charge(settings_of(mechanism), order)
        cost = mechanism.cost
        assert nats == pytest.approx(cost.renyi[ORDERS.index(order)], rel=1e-6)
        assert nats <= cost.renyi[ORDERS.index(order)] * (1 + 1e-12)
        assert additive == pytest.approx(cost.delta, rel=1e-6)


def planted() -> list[tuple[str, str]]:
    """Every number that a mechanism is charged by."""
    settings = ((name, key, value) for name in TIGHT for key, value in settings_of(made(name)).items())
    numbers = ((name, key) for name, key, value in settings if type(value) in (int, float))
    return [(name, key) for name, key in numbers if key not in FREE | FREE_OF.get(name, set())]


@pytest.mark.parametrize(("name", "field"), planted())
def test_planted_settings_are_rejected(name: str, field: str) -> None:
    settings, factor = settings_of(made(name)), FACTORS.get(field, 0.95 if field.endswith("scale") else 1.05)
    changed = settings[field] * factor
    tampered = {**settings, field: round(changed) if isinstance(settings[field], int) else changed}
    assert least_delta(settings, 1.0) <= DELTA < least_delta(tampered, 1.0)


@pytest.mark.parametrize("name", EXAMPLES)
def test_settings_below_0_are_not_computed(name: str) -> None:
    """A negative number of refusals or rows would cost less than nothing."""
    settings = json.loads(json.dumps(EXAMPLES[name].settings()))
    for place in leaves(settings):
        part = settings
        for step in place[:-1]:
            part = part[step]
        value = part[place[-1]]
        if type(value) in (int, float):
            for wrong in (-1.0 * value - 1, math.nan) if type(value) is float else (-value - 1,):
                part[place[-1]] = wrong
                with pytest.raises(NotVerified, match=f"{place[-1]} is .*below 0|recomputed by another path"):
                    charge(settings, 2.0)
            part[place[-1]] = value


def relabelled(name: str) -> Relabelled:
    settings = Relabelling(
        hypotheses="stumps",
        features=("age",),
        grid="0" * 64,
        share=0.25,
    )
    stream: dict[str, Any] = {"cutoff": 20, "queries": 1000, "classes": 2, "teachers": 200, "order": 2.0}
    return calibrate_relabelled(
        settings, epsilon=1.0, delta=DELTA, make=lambda e, d: calibrate(name, epsilon=e, delta=d, **stream)
    )


@pytest.mark.parametrize("name", TIGHT)
def test_it_proves_what_a_relabelled_session_claims(name: str) -> None:
    mechanism = relabelled(name)
    settings = settings_of(mechanism)
    assert 0.85 * DELTA < least_delta(settings, 1.0) <= DELTA < least_delta(settings, 0.97)
    nats, additive = charge(settings, 4.0)
    assert nats == pytest.approx(mechanism.cost.renyi[ORDERS.index(4.0)], rel=1e-6)
    assert additive == mechanism.cost.delta == DELTA


@pytest.mark.parametrize(
    ("part", "factor"),
    [("share", 1.02), ("choice_epsilon", 1.05), ("epsilon", None), ("scale", 0.99)],
)
def test_planted_settings_of_a_relabelling_are_rejected(part: str, factor: float | None) -> None:
    """Also the mechanism at the door as if it were charged without LabelBoost: with all of the ε of the subset."""
    settings = settings_of(relabelled("noisy_votes"))
    if factor is None:
        inner = calibrate(
            "noisy_votes",
            epsilon=math.log1p(math.expm1(1.0) / 0.25),
            delta=DELTA / 0.25,
            cutoff=0,
            queries=1000,
            classes=2,
            teachers=9,
            order=2,
        )
        tampered = {**inner.settings(), "relabel": settings["relabel"]}
    elif part == "scale":
        tampered = {**settings, part: settings[part] * factor}
    else:
        tampered = {**settings, "relabel": {**settings["relabel"], part: settings["relabel"][part] * factor}}
    assert least_delta(settings, 1.0) <= DELTA < least_delta(tampered, 1.0)


def test_a_steeper_table_is_rejected() -> None:
    settings = settings_of(made("stable"))
    table = np.frombuffer(base64.b64decode(settings["refusal"]), "<u8").copy()
    for at in (1, len(table) // 2):
        steeper = np.concatenate([table[:at], table[at + 1 :]])
        tampered = {**settings, "refusal": base64.b64encode(steeper.tobytes()).decode()}
        assert least_delta(tampered, 1.0) > DELTA


def test_a_table_of_one_step_by_rational_arithmetic() -> None:
    table = np.array([2**64 - 2**44, 2**63], dtype="<u8")
    text = base64.b64encode(table.tobytes()).decode()
    settings = settings_of(made("stable")) | {"cutoff": 3, "order": 2.0, "refusal": text}
    p, q = (Fraction(int(entry), 2**64) for entry in table)
    assert (1 - q) ** 2 > 1 - p  # one way round, the moment that κ bounds has no bound
    assert charge(settings, 2.0)[0] == math.inf
    gentle = np.array([6 * 2**61, 5 * 2**61], dtype="<u8")
    settings["refusal"] = base64.b64encode(gentle.tobytes()).decode()
    p, q = (Fraction(int(entry), 2**64) for entry in gentle)
    ratios = [a**2 / b / (1 - (1 - a) ** 2 / (1 - b)) for a, b in ((p, q), (q, p))]
    nats, additive = charge(settings, 2.0)
    assert nats == pytest.approx(3 * math.log(max(ratios)), rel=1e-12)
    assert additive == pytest.approx(float(3 * (1 - p) / p), rel=1e-12)


def test_one_gaussian_and_one_response_by_hand() -> None:
    settings = settings_of(made("noisy_votes")) | {"queries": 1, "scale": 1.5}
    law = {k: math.exp(-(k**2) / 4.5) for k in range(-60, 61)}
    whole = sum(law.values())
    by_hand = sum(max(0.0, law[k] - math.e**0.3 * law.get(k - 1, 0.0)) for k in law) / whole
    assert least_delta(settings, 0.3) == pytest.approx(by_hand, rel=2e-9)
    settings = settings_of(made("laplace_votes")) | {"queries": 1, "scale": 2.0}
    kept = 1 / (1 + math.exp(-0.5))
    assert least_delta(settings, 0.2) == pytest.approx(kept - math.exp(0.2) * (1 - kept), rel=1e-9)
    assert least_delta(settings, 0.5) == pytest.approx(0, abs=1e-15)


def test_large_sums_meet_the_convolved_ones() -> None:
    grid = settings_of(made("noisy_votes")) | {"queries": 900, "scale": 110.0}
    large = {**grid, "queries": 900 * 10**8, "scale": 110.0 * 10**4}
    assert least_delta(large, 1.0) == pytest.approx(least_delta(grid, 1.0), rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 4.0])
@pytest.mark.parametrize("name", ["universal", "error_estimate"])
def test_one_pure_answer_costs_what_it_claims(name: str, epsilon: float) -> None:
    estimate = ErrorEstimate.calibrate(epsilon=epsilon, shards=60)
    mechanism = Universal(epsilon=epsilon, secret="rows") if name == "universal" else estimate
    settings = json.loads(json.dumps(mechanism.settings()))
    assert least_delta(settings, epsilon) == 0
    assert least_delta(settings, epsilon * 0.99) > 0
    for order in (2.0, 5.75):
        nats, additive = charge(settings, order)
        reserved = mechanism.cost.renyi[ORDERS.index(order)]
        assert reserved * (1 - 1e-8) <= nats <= reserved
        assert additive == 0


@pytest.mark.parametrize("order", [1.25, 5.0, 1024.0])
def test_a_choice_costs_its_range(order: float) -> None:
    mechanism = Universal(epsilon=1.0, secret="labels")
    reserved = mechanism.cost.renyi[ORDERS.index(order)]
    assert reserved * (1 - 1e-8) <= charge(settings_of_choice(mechanism), order)[0] <= reserved
    with pytest.raises(NotVerified, match="must say what is secret"):
        charge({**settings_of_choice(mechanism), "secret": "nothing"}, order)


def settings_of_choice(mechanism: Universal) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(json.dumps(mechanism.settings()))
    return settings


def test_a_dearer_choice_and_a_quieter_estimate_are_rejected() -> None:
    assert least_delta({"name": "universal", "epsilon": 1.01, "secret": "rows"}, 1.0) > 0
    settings = ErrorEstimate.calibrate(epsilon=1.0, shards=60).settings()
    assert least_delta({**settings, "scale": settings["scale"] * 0.99}, 1.0) > 0
    assert least_delta({**settings, "steps": settings["steps"] + 10}, 1.0) > 0


RELEASES = [
    form.calibrate(epsilon=epsilon, delta=delta)
    for form in FORMS.values()
    for epsilon, delta in ((0.1, 1e-6), (1.0, 1e-5), (8.0, 0.1))
]


@pytest.mark.parametrize("release", RELEASES, ids=lambda release: f"{release.name} {release.epsilon}")
def test_one_question_costs_what_it_claims(release: SingleRelease) -> None:
    settings = json.loads(json.dumps(release.settings()))
    assert 0 < least_delta(settings, release.epsilon) <= release.delta
    assert least_delta(settings, release.epsilon * 0.99) > least_delta(settings, release.epsilon)
    for order in (2.0, 5.75):
        nats, additive = charge(settings, order)
        reserved = release.cost.renyi[ORDERS.index(order)]
        assert reserved * (1 - 1e-8) <= nats <= reserved
        assert release.cost.delta * (1 - 1e-8) <= additive <= release.cost.delta


def test_a_question_that_answers_more_is_rejected() -> None:
    """A table one entry short, a threshold one lower, less noise."""
    optimal, laplace = (form.calibrate(epsilon=1.0, delta=1e-5) for form in FORMS.values())
    table = base64.b64decode(optimal.settings()["refusal"])
    sooner = {**optimal.settings(), "refusal": base64.b64encode(table[8:]).decode()}
    skipped = {**optimal.settings(), "refusal": base64.b64encode(table[:8] + table[16:]).decode()}
    lower = {**laplace.settings(), "threshold": laplace.settings()["threshold"] - 1}
    quieter = {**laplace.settings(), "scale": laplace.settings()["scale"] * 0.9}
    for settings in (sooner, skipped, lower, quieter):
        assert least_delta(settings, 1.0) > 1.1e-5


def test_what_has_no_other_path_is_refused() -> None:
    with pytest.raises(NotVerified, match="another path"):
        least_delta({"name": "trust me"}, 1.0)
