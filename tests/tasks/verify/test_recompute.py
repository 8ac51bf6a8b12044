"""The guarantee by another path: of every kind it proves claim and charge, and rejects settings tampered with."""

import base64
import json
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from tests import world
from tests.promises.kinds import EXAMPLES
from tests.support.edited import leaves
from tests.support.recomputed import (
    BUDGET,
    DELTA,
    charge,
    least_delta,
    relabelled,
    season,
    settings_of,
    sums,
    tables,
    votes,
)


@dataclass(frozen=True)
class Case:
    """A mechanism; the least part of its δ that its settings come to; and a part of its ε at which they pass δ."""

    mechanism: Any
    least: float = 0.9
    sooner: float = 0.97

    @property
    def settings(self) -> dict[str, Any]:
        return settings_of(self.mechanism)

    @property
    def claim(self) -> tuple[float, float]:
        return self.mechanism.epsilon, getattr(self.mechanism, "delta", 0.0)


TIGHT = [name for name in world.MECHANISMS if name != "published"]
"""The other charges more than its settings cost, as the paper does."""
BILLION = world.Round(fields=14, cells=10**9, least=0, share=1.0)
exact = partial(Case, least=0.999, sooner=0.999)
CASES: dict[str, Case] = {
    **{f"{name}, {classes} classes": Case(votes(name, classes=classes)) for name in TIGHT for classes in (2, 3)},
    **{f"relabelled {name}": Case(relabelled(name), least=0.85) for name in TIGHT},
    "few refusals": Case(votes("stable", 0.5, 3)),
    "one query of ten classes": Case(votes("noisy_votes", 4.0, 1, 10)),
    "one query of three": Case(votes("laplace_votes", 2.0, 1, 3)),
    "hardly any δ": Case(votes("laplace_votes", delta=1e-200)),
    "published": Case(votes("published"), least=0.0, sooner=0.05),
    "published, and hardly a label escapes": Case(votes("published", 8.0, 3, delta=1e-9), least=0.0, sooner=0.05),
    "hardly a label escapes": Case(votes("sparse_vector", 8.0, 1, delta=1e-12), least=0.8),
    "tallies of little": exact(sums(0.1, rounds=1)),
    "tallies of many rows": exact(sums(1.0, many=True)),
    "tallies of seven classes": exact(sums(2.0, classes=7)),
    "tallies of much": exact(sums(8.0)),
    "tallies of labels": exact(sums(1.0, rounds=1, secret="labels")),
    "tallies of labels of many rows": exact(sums(1.0, classes=7, rounds=1, secret="labels", many=True)),
    "tallies of a number": exact(sums(1.0, classes=0, rounds=1)),
    "tallies of numbers of many rows": exact(sums(1.0, classes=0, rounds=1, secret="labels", many=True)),
    "tallies of a billion cells": exact(
        world.calibrated_sums(world.Tallies, epsilon=0.01, delta=DELTA, classes=2, rounds=[BILLION])
    ),
    "a sketch of little": exact(tables(0.1)),
    "a sketch of many rows": exact(tables(1.0, many=True)),
    "a sketch of seven classes": exact(tables(1.0, classes=7)),
    "a sketch of a number": exact(tables(1.0, classes=0)),
    "a sketch without pairs": exact(tables(8.0, narrow=(1000,))),
    **{
        f"a season of {releases} at {epsilon}": exact(season(epsilon, releases, bits=bits))
        for epsilon, releases, bits in ((0.1, 52, 8), (1.0, 52, 8), (1.0, 7, 3), (2.0, 520, 8))
    },
    **{
        f"{kind} at {epsilon}": Case(made(epsilon=epsilon), sooner=0.99)
        for kind, made in (
            ("universal", partial(world.Universal, secret="rows")),
            ("of labels", partial(world.Universal, secret="labels")),
            ("error_estimate", partial(world.calibrated_estimate, shards=60)),
        )
        for epsilon in (0.01, 0.1, 1.0, 4.0, 600.0)
    },
    **{
        f"{name} at {epsilon}": Case(form.calibrate(epsilon=epsilon, delta=delta), least=0.0, sooner=0.5)
        for name, form in world.FORMS.items()
        for epsilon, delta in ((0.1, 1e-6), (1.0, 1e-5), (8.0, 0.1), (20.0, math.exp(-20) * (1 + 1e-9)))
    },
}


@pytest.mark.parametrize("name", CASES)
def test_it_proves_the_claim_and_the_charge_of_every_kind_and_is_no_loose_bound(name: str) -> None:
    case = CASES[name]
    settings, cost, (epsilon, delta) = case.settings, case.mechanism.cost, case.claim
    assert case.least * delta <= least_delta(settings, epsilon) <= delta < least_delta(settings, case.sooner * epsilon)
    for order in (2.0, 4.0, 50.0):
        nats, additive = charge(settings, order)
        reserved = cost.renyi[world.ORDERS.index(order)]
        assert (1 - 1e-6) * reserved <= nats <= (1 + 1e-12) * reserved
        assert (1 - 1e-6) * cost.delta <= additive <= (1 + 1e-12) * cost.delta
    if rounds := getattr(case.mechanism, "rounds", None):
        kind: Any = world.read_settings(settings)
        assert additive == 0.0
        assert world.charge_of_refusal(kind, 2.0) is None
        if not isinstance(case.mechanism, world.Stream):
            assert [world.moved_norm(kind, each) for each in kind.rounds] == [
                n for n, _ in case.mechanism.squares_by_round
            ]
        assert len(kind.rounds) == len(rounds)


FREE = {"epsilon", "delta", "order", "classes"}
"""Settings that a claim states, or that cases vary."""
FREE_OF = {"confident": {"threshold"}}
"""Settings by which nothing is charged."""
FACTORS = {"queries": 1.02, "answers": 1.02, "threshold": 0.98, "test_scale": 0.9, "scale": 0.99}
"""By how much a setting is tampered with; any other scale by 0.95, and what is not a scale by 1.05."""
OF_ROUND = {"scale": 0.999, "fields": 1.1, "least": 0.5, "count": 2.0}
"""By how much a setting of a round is, if it is not nothing."""


def tampered() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Every number that a mechanism is charged by: what it is, the settings, and those with another in its place."""
    for name in TIGHT:
        settings = settings_of(votes(name))
        for key, value in settings.items():
            if type(value) in (int, float) and key not in FREE | FREE_OF.get(name, set()):
                other = value * FACTORS.get(key, 0.95 if key.endswith("scale") else 1.05)
                yield f"{name} {key}", settings, {**settings, key: round(other) if type(value) is int else other}
    for mechanism in (sums(1.0), tables(1.0), season(1.0, 52)):
        settings = settings_of(mechanism)
        for at, each in enumerate(settings["rounds"]):
            for key, factor in OF_ROUND.items():
                if each[key]:
                    changed = each[key] * factor if key == "scale" else math.ceil(each[key] * factor)
                    others = [*settings["rounds"][:at], {**each, key: changed}, *settings["rounds"][at + 1 :]]
                    yield f"{mechanism.name} round {at} {key}", settings, {**settings, "rounds": others}
    twice = settings_of(tables(1.0))
    yield "a step asked twice", twice, {**twice, "rounds": [*twice["rounds"][:2], *twice["rounds"][1:]]}
    once, short, often = settings_of(sums(1.0, rounds=1)), settings_of(season(1.0, 1)), settings_of(season(1.0, 52))
    for key, other in (("steps", 1 << 17), ("secret", "labels"), ("classes", 3)):
        yield f"tallies {key}", once, {**once, key: other}
    for key, other in (("season", 53), ("bits", 9)):
        yield f"stream {key}", often, {**often, key: other}
    yield "the charge of one release for all", short, {**short, "season": 52}
    estimate = settings_of(world.calibrated_estimate(epsilon=1.0, shards=60))
    yield "a quieter estimate", estimate, {**estimate, "scale": estimate["scale"] * 0.99}
    yield "more shards", estimate, {**estimate, "steps": estimate["steps"] + 10}
    choice, boosted = settings_of(CASES["universal at 1.0"].mechanism), settings_of(relabelled("noisy_votes"))
    yield "a dearer choice", choice, {**choice, "epsilon": 1.01}
    for key, factor in (("share", 1.02), ("choice_epsilon", 1.05)):
        relabel = boosted["relabel"] | {key: boosted["relabel"][key] * factor}
        yield f"relabelled {key}", boosted, {**boosted, "relabel": relabel}
    yield "relabelled scale", boosted, {**boosted, "scale": boosted["scale"] * 0.99}
    inner = votes("noisy_votes", math.log1p(math.expm1(1.0) / 0.25), delta=DELTA / 0.25)  # all of the subset's ε
    yield "without LabelBoost", boosted, {**settings_of(inner), "relabel": boosted["relabel"]}
    table = settings_of(votes("stable"))
    entries = base64.b64decode(table["refusal"])
    for at in (1, len(entries) // 16):
        yield f"steeper at {at}", table, {**table, "refusal": encoded(entries[: 8 * at] + entries[8 * at + 8 :])}
    optimal, laplace = (settings_of(form.calibrate(**BUDGET)) for form in world.FORMS.values())
    answers = base64.b64decode(optimal["refusal"])
    yield "an entry short", optimal, {**optimal, "refusal": encoded(answers[8:])}
    yield "an entry skipped", optimal, {**optimal, "refusal": encoded(answers[:8] + answers[16:])}
    yield "a threshold one lower", laplace, {**laplace, "threshold": laplace["threshold"] - 1}
    yield "less noise", laplace, {**laplace, "scale": laplace["scale"] * 0.9}


def dearest(table: list[int], order: float) -> Decimal:
    """The cost of the dearest step, every one of which is computed in decimals."""
    with localcontext(prec=40):
        alpha, logs = Decimal(order), [[(Decimal(of) / 2**64).ln() for of in (p, 2**64 - p)] for p in table]
        steps = [pair[::way] for pair in pairwise(logs) if pair[0] != pair[1] for way in (1, -1)]
        paid = [1 - (alpha * p[1] + (1 - alpha) * q[1]).exp() for p, q in steps]
        costs = [alpha * p[0] + (1 - alpha) * q[0] for p, q in steps]
        return max(cost - due.ln() if due > 0 else Decimal("inf") for cost, due in zip(costs, paid, strict=True))


@pytest.mark.parametrize("order", [1.25, 2.0, 27.0, 1024.0])
def test_no_step_that_may_be_the_dearest_is_left_to_doubles(order: float) -> None:
    rng, stable = random.Random(7), settings_of(votes("stable"))
    whole = np.frombuffer(base64.b64decode(stable["refusal"]), "<u8").tolist()
    near = [2**63 + 3**39 - 5 * at for at in range(60)]
    falling = [sorted((int(2 ** rng.uniform(0, 64)) for _ in range(20)), reverse=True) for _ in range(60)]
    for table in (whole, near, near[::-1], *falling, *([2**64 - entry for entry in some] for some in falling)):
        settings = {**stable, "cutoff": 1, "refusal": encoded(np.array(table, "<u8").tobytes())}
        assert charge(settings, order)[0] == float(dearest(table, order) / (Decimal(order) - 1))


def encoded(table: bytes) -> str:
    return base64.b64encode(table).decode()


@pytest.mark.parametrize(("settings", "other"), [pytest.param(*of, id=name) for name, *of in tampered()])
def test_settings_tampered_with_are_rejected(settings: dict[str, Any], other: dict[str, Any]) -> None:
    delta = DELTA if "delta" in settings else 0.0
    assert least_delta(settings, 1.0) <= delta < least_delta(other, 1.0)


def test_what_is_loose_or_free_is_so() -> None:
    """So that neither table keeps a mechanism out of the tests of what it is charged."""
    assert least_delta(settings_of(votes("published")), 1.0) < 0.9 * DELTA
    for name, keys in FREE_OF.items():
        settings = settings_of(votes(name))
        assert least_delta(settings | dict.fromkeys(keys, 1), 1.0) == least_delta(settings, 1.0)


@pytest.mark.parametrize("name", [*EXAMPLES, "tallies", "sketch", "stream"])
def test_settings_below_0_are_not_computed(name: str) -> None:
    """A negative number of refusals or rows would cost less than nothing."""
    rounds: dict[str, Any] = {"tallies": sums, "sketch": tables, "stream": partial(season, releases=7)}
    settings = settings_of(rounds[name](1.0) if name in rounds else EXAMPLES[name])
    for place in leaves(settings):
        part: Any = settings
        for step in place[:-1]:
            part = part[step]
        value = part[place[-1]]
        if type(value) in (int, float):
            for wrong in (-1.0 * value - 1, math.nan) if type(value) is float else (-value - 1,):
                part[place[-1]] = wrong
                with pytest.raises(world.NotVerified, match="by another path: "):
                    charge(settings, 2.0)
            part[place[-1]] = value


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"name": "trust me"}, "another path"),
        (settings_of(season(1.0, 4)) | {"matrix": "binary tree"}, "matrix: Input should be 'square root'"),
        ({"name": "universal", "epsilon": 1.0, "secret": "nothing"}, "secret: Input should be 'rows' or 'labels'"),
    ],
)
def test_what_has_no_other_path_is_refused(other: dict[str, Any], said: str) -> None:
    with pytest.raises(world.NotVerified, match=said):
        charge(other, 5.0)


# Rounds ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.8, 2.5])
def test_small_scales_are_priced_by_the_curve(scale: float) -> None:
    each = world.Round(fields=1, cells=1, least=1, share=1.0, scale=scale)
    mechanism = world.Tallies(epsilon=30.0, delta=DELTA, classes=2, steps=2, secret="rows", many=False, rounds=(each,))
    epsilon = mechanism.cost.epsilon(DELTA)
    assert world.moved_delta(epsilon, [(1.0, 1, scale)]) == 1.0
    assert 0.9 * DELTA < least_delta(settings_of(mechanism), epsilon) <= DELTA


def asked_of(mechanism: world.Tallies, fields: int) -> dict[str, Any]:
    """The last round as it is released, about so many fields of 25 codes."""
    spans = [(25 * field, 25 * field + 25) for field in range(fields)]
    number = len(mechanism.rounds) - 1
    question = mechanism.question(number, range(fields), spans)
    own = {"round": number, "scale": mechanism.rounds[number].scale, "question": question.record()}
    head = {"session": "d-1", "epsilon": 1.0, "delta": DELTA, "format": "concord round 2"}
    after = {"decoded": None, "next": None, "sums": [0] * question.size}
    return json.loads(json.dumps({**head, **own, **after}))  # type: ignore[no-any-return]


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("fields", [1, 7, 91])
def test_a_round_that_moves_further_or_asks_a_cell_twice_is_found(classes: int, fields: int) -> None:
    """By several fields together. Single ones: test_every_field.py."""
    rounds = world.planned_rounds(classes=classes, fields=14, codes=450, pairs=True)
    mechanism = world.calibrated_sums(world.Tallies, epsilon=1.0, delta=DELTA, classes=classes, rounds=rounds)
    kind = world.read_settings(settings_of(mechanism)).only(world.TalliesSettings)
    asked = asked_of(mechanism, fields)
    question = asked["question"]
    world.check_round(kind, 3, world.RoundForm.model_validate(asked))
    changes: dict[str, dict[str, Any]] = {
        "further than was paid for": {"steps": question["steps"] + 40, "least": question["least"] + 1},
        "a unit moves": {"steps": 2**40, "least": 2**39},
        "asks for a cell twice": {"spans": [question["spans"][0]] * (fields + 1)},
        "twice, or for none": {"spans": [span[::-1] for span in question["spans"]]},
        "has another size": {"fields": [question["fields"][0]] * (fields + (fields == 1))},
    }
    for fault, change in changes.items():
        with pytest.raises(world.NotVerified, match=fault):
            world.check_round(kind, 3, world.RoundForm.model_validate({**asked, "question": question | change}))
