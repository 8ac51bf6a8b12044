"""Tallies: the exact law of all rounds on tiny universes, against planted bugs; what is paid for, and what leaves."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import sqrt
from typing import Any

import numpy as np
import pytest

from tests import world
from tests.privacy.exact import LEFT_OUT, Shift, gaussian_adaptively, gaussian_exactly
from tests.privacy.small import EPSILON, ROUNDS, STEPS, one_round, tallies
from tests.support.sentences import facts

DELTA = 0.01


def asked(mechanism: world.Tallies, at: int, model: world.IntegerModel | None = None) -> world.RoundQuestion:
    """Of two fields of two codes each, or fewer."""
    fields = mechanism.rounds[at].fields
    return mechanism.question(at, range(fields), [(2 * field, 2 * field + 2) for field in range(fields)], model)


CELLS = np.array(list(product((0, 1), (2, 3))), np.int32)
"""Every row there is."""
PAIRED: world.CodeRows = np.column_stack([CELLS, 2 * CELLS[:, 0] + CELLS[:, 1] + 2])
"""The same, and besides the code of both columns at once."""


def labels_of(classes: int) -> Sequence[int]:
    """Every class; or numbers, between their bounds and beyond."""
    return range(classes) if classes else (0, -5, 3, STEPS // 2, STEPS, 2 * STEPS)


def units(classes: int, *, many: bool) -> list[tuple[world.Ints, world.Ints]]:
    """Every unit of one row; and of two and some of three."""
    rows = list(product(range(len(CELLS)), labels_of(classes)))
    several = [*product(rows, repeat=2), *product(rows[:4], repeat=3)] if many else []
    return [
        (np.array([row[0] for row in unit]), np.array([row[1] for row in unit]))
        for unit in [*[(row,) for row in rows], *several]
    ]


def shifts(mechanism: world.Tallies, question: world.RoundQuestion, cells: world.CodeRows = CELLS) -> set[Shift]:
    """By how much neighbours move the sums: every way there is."""

    def of(unit: tuple[world.Ints, world.Ints], labels: world.Ints | None = None) -> world.Ints:
        places, own = unit
        return world.tally(
            question,
            cells[places],
            own if labels is None else labels,
            np.zeros(len(own), np.int64),
        )

    every = units(mechanism.classes, many=mechanism.many)
    if mechanism.secret == "rows":
        return {tuple(of(unit).tolist()) for unit in every}
    return {
        tuple((of(unit) - of(unit, np.array(labels))).tolist())
        for unit in every
        for labels in product(labels_of(mechanism.classes), repeat=len(unit[1]))
    }


def worst_delta(
    mechanism: world.Tallies,
    scale: float | None = None,
    question: world.RoundQuestion | None = None,
    cells: world.CodeRows = CELLS,
) -> float:
    """Of the first round, over every pair of neighbours, with noise of that scale, or its own."""
    moved = {tuple(sorted(map(abs, shift))) for shift in shifts(mechanism, question or asked(mechanism, 0), cells)}
    return max(gaussian_exactly(EPSILON, (shift, scale or mechanism.rounds[0].scale)) for shift in moved)


ONE_ROUND = [
    pytest.param(tallies(one_round()), id="two classes"),
    pytest.param(tallies(one_round(count=0)), id="two classes, not counted"),
    pytest.param(tallies(one_round(3, count=0), classes=3), id="three classes"),
    pytest.param(tallies(one_round(what="codes", least=0, count=0)), id="codes"),
    pytest.param(tallies(one_round(count=0), secret="labels"), id="labels of two classes"),
    pytest.param(tallies(one_round(3, count=0), classes=3, secret="labels"), id="labels of three classes"),
    pytest.param(tallies(one_round(), many=True), id="units of many rows"),
    pytest.param(tallies(one_round(count=0), secret="labels", many=True), id="labels of units of many rows"),
    pytest.param(tallies(one_round(), classes=0), id="a number"),
    pytest.param(tallies(one_round(count=0), classes=0, secret="labels"), id="numbers alone secret"),
    pytest.param(tallies(one_round(count=0), classes=0, many=True), id="numbers of units of many rows"),
]


@pytest.mark.parametrize("mechanism", ONE_ROUND)
def test_the_claim_holds_exactly_for_every_unit_there_is_and_little_is_wasted(mechanism: world.Tallies) -> None:
    assert mechanism.cost.claims == ((EPSILON, DELTA),)
    assert 0.7 * DELTA < worst_delta(mechanism) + LEFT_OUT <= DELTA


def too_little(mechanism: world.Tallies, factor: float) -> bool:
    return worst_delta(mechanism, mechanism.rounds[0].scale * factor) > DELTA


@pytest.mark.parametrize(
    ("mechanism", "factor"),
    [
        pytest.param(ONE_ROUND[0].values[0], 1 / sqrt(2), id="6: norm not multiplied by the fields"),
        pytest.param(ONE_ROUND[0].values[0], sqrt(512 / 656), id="7: count of units unpaid"),
        pytest.param(ONE_ROUND[2].values[0], 1 / sqrt(1.5), id="8: other classes' columns forgotten"),
        pytest.param(ONE_ROUND[4].values[0], 0.5, id="9: labels priced as rows"),
        pytest.param(ONE_ROUND[5].values[0], 1 / sqrt(2), id="10: a changed label moves two columns"),
        pytest.param(ONE_ROUND[6].values[0], 0.9, id="11: a tenth too little"),
        pytest.param(ONE_ROUND[8].values[0], 1 / sqrt(2), id="17: a number priced for one field"),
        pytest.param(ONE_ROUND[9].values[0], 0.5, id="18: secret numbers priced as rows"),
    ],
)
def test_too_little_noise_is_rejected(mechanism: world.Tallies, factor: float) -> None:
    assert too_little(mechanism, factor)


def test_a_model_where_none_was_paid_for_is_rejected() -> None:
    """Planted bug 12: the first round's price, where a model may be wrong by more than half a vote."""
    mechanism = tallies(one_round(count=0))
    sure = world.IntegerModel(np.zeros((4, 1), np.int64), np.array([9000]))
    assert worst_delta(mechanism, question=asked(mechanism, 0, sure)) <= DELTA
    unheld = replace(asked(mechanism, 0, sure), least=0)
    assert worst_delta(mechanism, question=unheld) > DELTA


PAIRS = [pytest.param(2, False), pytest.param(3, False), pytest.param(2, True, id="units of many rows")]


def of_pairs(classes: int, many: bool) -> tuple[world.Tallies, world.RoundQuestion]:
    """A round that paid for two fields, and a question about three: two columns, and both at once."""
    mechanism = tallies(one_round(classes, count=0), classes=classes, many=many)
    return mechanism, mechanism.question(0, range(3), [(0, 2), (2, 4), (4, 8)])


@pytest.mark.parametrize(("classes", "many"), PAIRS)
def test_pairs_of_columns_cost_what_the_round_paid_for_and_little_is_wasted(classes: int, many: bool) -> None:
    mechanism, question = of_pairs(classes, many)
    assert question.steps < STEPS
    norms = {sum(part**2 for part in shift) for shift in shifts(mechanism, question, PAIRED)}
    ((bound, _),) = mechanism.squares_by_round
    assert 0.75 * bound <= max(norms) <= bound  # of 32 steps, a third is not many
    assert worst_delta(mechanism, question=question, cells=PAIRED) + LEFT_OUT <= DELTA


@pytest.mark.parametrize(("classes", "many"), PAIRS)
def test_pairs_that_the_norm_forgets_are_rejected(classes: int, many: bool) -> None:
    """Planted bug 19: as many steps a vote as if columns alone were asked."""
    mechanism, question = of_pairs(classes, many)
    forgotten = replace(question, steps=STEPS, least=mechanism.rounds[0].least)
    assert worst_delta(mechanism, question=forgotten, cells=PAIRED) > DELTA
    with pytest.raises(ValueError, match="paid for 2 fields of 32 steps a vote"):
        mechanism.check(0, forgotten)


@pytest.mark.parametrize("classes", [2, 3, 7])
@pytest.mark.parametrize("fields", [1, 2, 6, 8, 45, 276])
def test_any_number_of_fields_has_a_grid_whose_norm_was_paid_for(classes: int, fields: int) -> None:
    rounds = world.planned_rounds(classes=classes, fields=24, codes=900, pairs=True)
    mechanism = world.calibrated_sums(world.Tallies, epsilon=1.0, delta=1e-5, classes=classes, rounds=rounds)
    question = mechanism.question(2, range(fields), [(25 * field, 25 * field + 25) for field in range(fields)])
    square = fields * world.row_square(classes, question.steps, "labels", question.least)
    paid, _ = mechanism.squares_by_round[2]
    assert 0.999 * paid < square <= paid
    assert question.least * mechanism.steps == pytest.approx(mechanism.rounds[2].least * question.steps, rel=1e-3)


def moves(mechanism: world.Tallies, wrong: bool) -> list[Shift]:
    """By how much a unit moves each of two rounds over one cell; the second's model is as wrong of it as it may be, or
    as right."""
    model = world.IntegerModel(np.zeros((1, 1), np.int64), np.array([-9000 if wrong else 9000]))
    questions = mechanism.question(0, [0], [(0, 1)]), mechanism.question(1, [0], [(0, 1)], model)
    return [tuple(world.tally(each, np.array([[0]], np.int32), np.array([1])).tolist()) for each in questions]


def scales_of(mechanism: world.Tallies) -> list[float]:
    return [each.scale for each in mechanism.rounds]


def test_rounds_together_hold_the_claim_whatever_the_first_one_leads_to() -> None:
    mechanism = tallies(*ROUNDS)
    for wrong in product((True, False), repeat=2):
        models = (moves(mechanism, each) for each in wrong)
        assert gaussian_adaptively(EPSILON, next(models), scales_of(mechanism), next(models)) + LEFT_OUT <= DELTA
    assert gaussian_adaptively(EPSILON, moves(mechanism, wrong=True), scales_of(mechanism)) > 0.8 * DELTA


@pytest.mark.parametrize(
    "scales",
    [
        pytest.param(
            [tallies(each.with_(share=1.0)).rounds[0].scale for each in ROUNDS],
            id="13: norm not divided over rounds",
        ),
        pytest.param([tallies(*ROUNDS).rounds[0].scale] * 2, id="14: later rounds priced as the first"),
        pytest.param([scale * 2**-0.5 for scale in scales_of(tallies(*ROUNDS))], id="15: shares taken twice"),
    ],
)
def test_rounds_with_too_little_noise_are_rejected(scales: list[float]) -> None:
    assert gaussian_adaptively(EPSILON, moves(tallies(*ROUNDS), wrong=True), scales) > DELTA


def test_planned_rounds_are_those_of_the_design() -> None:
    totals, first, second, third = world.planned_rounds(classes=2, fields=14, codes=450, steps=1024)
    assert (totals.what, totals.cells, totals.share) == ("codes", 450, 0.1)
    assert [each.least for each in (first, second, third)] == [512, 256, 51]
    assert [each.fields for each in (first, second, third)] == [14, 7, 7]
    assert [each.share for each in (first, second, third)] == pytest.approx([0.27, 0.27, 0.36])
    assert (first.count, first.cells, third.count) == (191, 451, 0)
    *_, second, third = world.planned_rounds(classes=3, fields=14, codes=450, pairs=True)
    assert (second.cells, third.cells, second.fields) == (3 * 91 * 25, 3 * 91 * 25, 7)
    (single,) = world.planned_rounds(classes=7, fields=54, codes=600, secret="labels", steps=1024)
    assert (single.least, single.count, single.cells) == (1024 // 7, 0, 4200)


def test_a_question_beyond_what_its_round_paid_for_is_refused() -> None:
    mechanism = tallies(one_round(cells=4))
    for fields, spans in (((0, 1, 2), ((0, 1), (1, 2), (2, 4))), ((0, 1), ((0, 2), (2, 4)))):
        with pytest.raises(ValueError, match=facts("2 fields", "32 steps", "4 numbers")):
            mechanism.question(0, fields, spans)


@pytest.mark.parametrize("changed", [{"least": 0}, {"count": 13}, {"steps": 64}, {"what": "codes"}, {"classes": 3}])
def test_a_question_on_another_grid_than_its_rounds_is_refused(changed: dict[str, Any]) -> None:
    mechanism = tallies(one_round(count=0))
    question = replace(asked(mechanism, 0), **{"least": 0, "steps": STEPS} | changed)
    mechanism.check(0, asked(mechanism, 0))
    with pytest.raises(ValueError, match="paid for"):
        mechanism.check(0, question)
    number = tallies(one_round(0, count=0), classes=0)
    with pytest.raises(ValueError, match="another constant or grid"):
        number.check(0, replace(asked(number, 0), steps=STEPS // 2, least=STEPS // 4))
