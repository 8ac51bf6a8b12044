"""Rounds of sums by another path: how far a unit moves them, and whether a released round is one that was paid for."""

import json
import math
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.support.recomputed import DELTA, least_delta, season, settings_of, sums
from tests.world import (
    KindSettings,
    NotVerified,
    Round,
    RoundForm,
    Tallies,
    _squares,
    check_round,
    moved_delta,
    moved_norm,
    planned_rounds,
    totals_off,
    verify_kinds,
)


def kind_of(settings: dict[str, Any]) -> verify_kinds.TalliesSettings:
    return KindSettings.of(settings).only(verify_kinds.TalliesSettings)


def test_labels_of_units_of_many_rows_cost_more() -> None:
    settings = settings_of(sums(1.0, classes=7, rounds=1, secret="labels"))
    once, often = (kind_of({**settings, "many": many}) for many in (False, True))
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
    head = {
        "session": "d-1",
        "epsilon": 1.0,
        "delta": DELTA,
        "format": "concord round 2",
        "decoded": None,
        "next": None,
    }
    return json.loads(json.dumps({**head, **own, "sums": [0] * question.size}))  # type: ignore[no-any-return]


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("fields", [1, 7, 91])
def test_a_released_round_is_what_was_paid_for_and_another_is_found(classes: int, fields: int) -> None:
    rounds = planned_rounds(classes=classes, fields=14, codes=450, pairs=True)
    mechanism = Tallies.calibrate(epsilon=1.0, delta=DELTA, classes=classes, rounds=rounds)
    kind, asked = kind_of(settings_of(mechanism)), asked_of(mechanism, fields)
    question = asked["question"]

    def refusal(number: int = 3, before: dict[str, Any] | None = None, **changes: Any) -> str:
        try:
            form = RoundForm.model_validate({**asked, **changes})
            announced = before and RoundForm.model_validate({**asked, "next": before})
            check_round(kind, number, form, announced or None)
        except (NotVerified, ValidationError) as wrong:
            return str(wrong)
        return ""

    assert refusal() == ""
    changes: dict[str, dict[str, Any]] = {
        "further than was paid for": {"steps": question["steps"] + 40, "least": question["least"] + 1},
        "further than": {"least": question["least"] - 40},
        "a unit moves": {"steps": 2**40, "least": 2**39},
        "another question": {"what": "codes"},
        "another": {"count": 1},
        "another size": {"spans": question["spans"][1:]},
        "size than was paid for": {"fields": question["fields"] * 2},
        "finite number": {"least": math.inf, "steps": math.inf},
        "valid integer": {"steps": question["steps"] - 0.5},
        "asks for a cell twice": {"spans": [question["spans"][0]] * (fields + 1)},
        "twice, or for none": {"spans": [span[::-1] for span in question["spans"]]},
        "has another size": {"fields": [question["fields"][0]] * (fields + (fields == 1))},
        "valid tuple": {"spans": None},
    }
    for fault, change in changes.items():
        assert fault in refusal(question=question | change)
    assert "other noise" in refusal(scale=asked["scale"] * 0.99)
    assert "another size" in refusal(sums=asked["sums"][1:])
    assert "another question" in refusal(2)
    announced = {"fields": question["fields"], "model": question["model"]}
    assert refusal(before=announced) == ""
    for other in ({"fields": [*question["fields"], fields]}, {"model": {"columns": 1, "weights": ""}}):
        assert "before announced" in refusal(before=announced | other)
    assert refusal(7, round=7) == "round 7 is not what tallies release"


@pytest.mark.parametrize(("releases", "bits"), [(1, 8), (9, 3), (52, 8)])
def test_running_totals_follow_from_releases_by_another_path_and_others_do_not(releases: int, bits: int) -> None:
    mechanism, rng = season(1.0, 52, bits=bits), np.random.default_rng(5)
    released = [rng.integers(-(2**45), 2**45, 30) for _ in range(releases)]
    totals, kind = mechanism.totals(released), KindSettings.of(settings_of(mechanism)).only(verify_kinds.StreamSettings)
    assert totals_off(kind, released, totals) <= 0
    moved = totals + 2**20 * (np.arange(30) == 7)
    assert totals_off(kind, released, moved) > 2**19
    if releases > 1:
        assert totals_off(kind, released[::-1], totals) > 0
