"""Sketch: the exact law of tables and labels on a tiny universe, against an adversary, and planted bugs.

The universe has two columns, of three and of two cells, and two classes. The adversary has the unit's row be another
one, the cells be grouped otherwise and the model be another one after each release.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import isqrt

import numpy as np
import pytest

from tests import world
from tests.privacy.exact import LEFT_OUT, Shift, gaussian_adaptively
from tests.privacy.small import EPSILON, LABELS, PAIRS, TABLES, sketch

DELTA, STEPS = 0.01, 2
GRID = world.Codes(
    fields=(world.WordField(name="a", start=0, words=("x",)), world.WordField(name="b", start=3, words=())),
    coarse=(0, 1),
    fine=(0, 1),
)
"""Three cells, and two: a word, other words, and missing."""
ROWS = np.array(list(product(range(3), (3, 4))), np.int32)
"""Every row there is."""
MECHANISM = sketch()


def partitions(cells: int) -> Iterator[world.Ints]:
    """Every way to group cells."""
    for groups in product(range(cells), repeat=cells):
        if all(group <= max(groups[:at], default=-1) + 1 for at, group in enumerate(groups)):
            yield np.array(groups)


GROUPED = [world.with_tables(GRID, both) for both in product(partitions(3), partitions(2))]
SURE = [world.IntegerModel(np.zeros((5, 1), np.int64), np.array([logit])) for logit in (-9000, 0, 9000)]


@dataclass(frozen=True)
class Move:
    """What a step asks of the unit, whose row is then this one."""

    question: world.RoundQuestion
    codes: world.Codes = GRID
    row: int = 0
    label: int = 0

    @property
    def shift(self) -> tuple[int, ...]:
        """By how much the unit moves the sums."""
        codes = world.recoded(ROWS[[self.row]], GRID, self.codes)
        return tuple(world.tally(self.question, codes, np.array([self.label])).tolist())


def spans(codes: world.Codes, fields: Sequence[int]) -> list[tuple[int, int]]:
    return [(codes.span(at).start, codes.span(at).stop) for at in fields]


def moves(mechanism: world.Sketch, number: int) -> Iterator[Move]:
    """All that an adversary may ask in a step."""
    if number == 0:
        question = mechanism.question(0, GRID.coarse, spans(GRID, GRID.coarse))
        yield from (Move(question, row=row) for row in range(len(ROWS)))
    elif mechanism.rounds[number].what == "codes":
        for codes in GROUPED:
            question = mechanism.question(number, list(codes.pairs), spans(codes, list(codes.pairs)))
            yield from (Move(question, codes, row) for row in range(len(ROWS)))
    else:
        for model in SURE:
            question = mechanism.question(number, GRID.fine, spans(GRID, GRID.fine), model)
            yield from (Move(question, row=row, label=label) for row in range(len(ROWS)) for label in (0, 1))


def square(shift: Shift) -> int:
    return sum(part**2 for part in shift)


def longest(mechanism: world.Sketch) -> list[Shift]:
    return [max((move.shift for move in moves(mechanism, at)), key=square) for at in range(len(mechanism.rounds))]


def shortest(mechanism: world.Sketch) -> list[Shift]:
    return [min((move.shift for move in moves(mechanism, at)), key=square) for at in range(len(mechanism.rounds))]


def scales_of(mechanism: world.Sketch) -> list[float]:
    return [each.scale for each in mechanism.rounds]


NO_PAIRS = sketch(TABLES, LABELS.with_(share=0.75))
BOTH = pytest.mark.parametrize("mechanism", [MECHANISM, NO_PAIRS], ids=["pairs", "no pairs"])


@BOTH
def test_every_row_moves_every_table_by_its_norm_whatever_the_groups_and_labels_by_no_more(
    mechanism: world.Sketch,
) -> None:
    for number, (bound, each) in enumerate(mechanism.squares_by_round):
        norms = {square(move.shift) for move in moves(mechanism, number)}
        assert max(norms) == bound
        assert len(norms) == 1 or each.what == "labels"


@BOTH
def test_the_claim_holds_exactly_against_an_adversary_and_little_is_wasted(mechanism: world.Sketch) -> None:
    assert mechanism.cost.claims == ((EPSILON, DELTA),)
    long, short, scales = longest(mechanism), shortest(mechanism), scales_of(mechanism)
    assert 0.7 * DELTA < gaussian_adaptively(EPSILON, long, scales) + LEFT_OUT <= DELTA
    for moves, otherwise in ((long, short), (short, long)):
        assert gaussian_adaptively(EPSILON, moves, scales, otherwise) + LEFT_OUT <= DELTA


def test_a_count_that_is_not_paid_for_is_rejected() -> None:
    """Planted bug 1."""
    counted = sketch(TABLES.with_(count=3 * STEPS), PAIRS, LABELS)
    uncounted = sketch(TABLES.with_(count=1), PAIRS, LABELS)
    assert gaussian_adaptively(EPSILON, longest(counted), scales_of(counted)) <= DELTA
    assert gaussian_adaptively(EPSILON, longest(counted), scales_of(uncounted)) > DELTA


def test_pairs_that_are_asked_twice_are_rejected() -> None:
    """Planted bug 2: other groups of the same columns, at the price of one step."""
    (totals, pairs, labels), scales = longest(MECHANISM), scales_of(MECHANISM)
    assert (
        gaussian_adaptively(EPSILON, [totals, pairs, pairs, labels], [scales[0], scales[1], scales[1], scales[2]])
        > DELTA
    )


def test_a_row_in_two_cells_of_a_table_is_rejected() -> None:
    """Planted bug 3: groups that overlap."""
    totals, _, labels = longest(MECHANISM)
    assert gaussian_adaptively(EPSILON, [totals, (STEPS, STEPS), labels], scales_of(MECHANISM)) > DELTA


def test_groups_that_move_the_norm_are_rejected() -> None:
    """Planted bug 4: a column is cut twice, which makes two tables, at the price of one. The door checks that."""
    finest, coarser = GROUPED[-1], GROUPED[0]
    both = spans(finest, list(finest.pairs))
    asked = (*both, (both[0][1], both[0][1] + coarser.size))
    question = world.RoundQuestion(
        classes=2, steps=STEPS, what="codes", least=0, count=0, fields=(2, 3), spans=asked, model=None
    )
    totals, pairs, labels = longest(MECHANISM)
    assert gaussian_adaptively(EPSILON, [totals, (*pairs, STEPS), labels], scales_of(MECHANISM)) > DELTA
    with pytest.raises(ValueError, match="paid for 1 fields of 2 steps a vote"):
        MECHANISM.check(1, question)


def test_wide_tables_that_are_not_paid_for_are_rejected() -> None:
    """Planted bug 5: a second view of a number is a table more."""
    totals, *others = longest(MECHANISM)
    assert gaussian_adaptively(EPSILON, [(*totals, STEPS, STEPS), *others], scales_of(MECHANISM)) > DELTA


def test_groups_that_follow_from_exact_counts_are_rejected() -> None:
    """Planted bug 6: the question is published, so what it follows from is released."""

    def published(exact: world.Ints, noise: world.Ints, *, of_exact: bool) -> tuple[bytes, bytes]:
        released = exact + noise
        seen = exact if of_exact else released
        return (seen[:3] >= 2 * STEPS).tobytes(), released.tobytes()

    here = world.tally(next(moves(MECHANISM, 0)).question, ROWS[[0, 0]], np.zeros(2, np.int64))
    there = world.tally(next(moves(MECHANISM, 0)).question, ROWS[[0]], np.zeros(1, np.int64))
    reached = np.zeros((1, len(here)), np.int64) + np.arange(-3 * STEPS, 3 * STEPS + 1)[:, None]
    for of_exact in (True, False):
        one, other = (
            {published(sums, noise - sums + here, of_exact=of_exact) for noise in reached} for sums in (here, there)
        )
        assert bool(one & other) is not of_exact  # disjoint outcomes: δ = 1


def test_planned_steps_are_those_of_the_design() -> None:
    totals, pairs, *labels = world.sketch_rounds(classes=2, narrow=[1000, 70, 12, 5], wide=[33, 33], steps=1024)
    assert (totals.fields, totals.cells, totals.count) == (6, 1000 + 70 + 12 + 5 + 66 + 1, isqrt(6 * 1024**2) // 2)
    assert (pairs.fields, pairs.cells) == (6, 34 * 34 + 2 * 34 * 12 + 2 * 34 * 5 + 12 * 5)
    assert [each.fields for each in labels] == [4, 4, 4]
    assert [each.least for each in labels] == [512, 256, 51]
    assert world.most_groups([1000] * 60) == 24
    assert world.MOST_PAIR_CELLS < 6**2 * 250 * 249 // 2
    without = world.sketch_rounds(classes=2, narrow=[1000] * 250)
    assert [each.what for each in without] == ["codes", "labels", "labels", "labels"]
    assert [each.share for each in without] == pytest.approx([0.1, 0.18, 0.27, 0.45])
    assert [each.share for each in world.sketch_rounds(classes=3, narrow=[5])] == pytest.approx([0.1, 0.36, 0.27, 0.27])
    assert world.sketch_rounds(classes=0, narrow=[5, 9]) == world.sketch_rounds(classes=2, narrow=[5, 9])
    assert [each.what for each in world.sketch_rounds(classes=2, narrow=[5])][:2] == ["codes", "labels"]
