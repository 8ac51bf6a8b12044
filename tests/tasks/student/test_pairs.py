"""Pairs of columns: which are asked follows from released sums, and what they say together is decoded."""

from typing import Any

import numpy as np
import pytest

from tests import world
from tests.support.rounds import all_rounds, under_noise
from tests.support.sentences import facts

WIDE = 9
"""Codes of each number, the last of a missing cell."""
CODES = world.Codes(
    fields=(
        *(
            world.NumberField(kind="numeric", name=name, start=WIDE * at, cuts=tuple(np.arange(1.0, 8.0)))
            for at, name in enumerate("abc")
        ),
        world.WordField(name="w", start=3 * WIDE, words=("x", "y", "z", "u", "v")),
    ),
    coarse=(0, 1, 2, 3),
    fine=(0, 1, 2, 3),
)
CELLS = (world.GROUPS + 1) ** 2


def rows_of(rows: int, seed: int) -> world.CodeMatrix:
    """Codes (rows, 4), all equally likely, no cell missing."""
    draw = np.random.default_rng(seed)
    return (draw.integers(0, [8, 8, 8, 6], (rows, 4)) + WIDE * np.arange(4)).astype(np.int32)


PUBLIC, PRIVATE = rows_of(2_000, 1), rows_of(6_000, 2)
NUMBERS, OTHERS = PRIVATE[:, 0] % WIDE, PRIVATE[:, 1] % WIDE
AGREE = ((NUMBERS >= 4) == (OTHERS >= 4)).astype(np.int64)
"""Labels of which single columns say nothing."""
ROUNDS = world.planned_rounds(classes=2, fields=4, codes=CODES.size, pairs=True)
MECHANISM = world.calibrated_sums(world.Tallies, epsilon=4.0, delta=1e-5, classes=2, rounds=ROUNDS)


def released(labels: world.Ints, *, pairs: bool = True) -> list[dict[str, Any]]:
    """All rounds, under noise from a fixed seed."""
    planner = world.RoundPlanner(MECHANISM, CODES, PUBLIC, pairs=pairs)
    return all_rounds(
        planner, under_noise(lambda asked, codes: world.tally(asked, codes.completed(PRIVATE), labels), 3)
    )


def names_after(of_round: dict[str, Any]) -> list[str]:
    codes = (of_round["next"] or {}).get("codes", {"fields": []})
    return [field["name"] for field in codes["fields"] if field["kind"] == "pair"]


def right(rounds: list[dict[str, Any]], labels: world.Ints) -> float:
    asked = world.RoundPlanner(MECHANISM, CODES, PUBLIC, pairs=True).codes_after(rounds[:-1])
    found = world.scores(world.Decoded.from_record(rounds[-1]["decoded"]), asked.completed(PRIVATE))
    return float(np.mean(found.argmax(axis=1) == labels))


def test_a_pair_that_says_all_is_found_and_no_other() -> None:
    rounds = released(AGREE)
    asked = ["a × b", "a × c", "a × w", "b × c", "b × w", "c × w"]
    assert [names_after(each) for each in rounds] == [[], asked, ["a × b"], []]
    assert rounds[2]["question"]["steps"] < MECHANISM.steps < rounds[3]["question"]["steps"]
    assert rounds[2]["decoded"] == rounds[1]["decoded"]
    assert right(rounds, AGREE) > 0.97
    assert right(released(AGREE, pairs=False), AGREE) < 0.6


@pytest.mark.parametrize(
    ("labels", "asked"),
    [
        pytest.param((NUMBERS >= 3).astype(np.int64), 0, id="a column says it"),
        pytest.param(np.random.default_rng(5).integers(0, 2, len(PRIVATE)), 6, id="nothing says it"),
    ],
)
def test_pairs_are_not_asked_for_nothing(labels: world.Ints, asked: int) -> None:
    rounds = released(labels)
    assert [len(names_after(each)) for each in rounds] == [0, asked, 0, 0]
    assert max(rounds[-1]["question"]["fields"]) < CODES.width  # the last round asks columns
    assert (rounds == released(labels, pairs=False)) == (not asked)


@pytest.mark.parametrize("groups", [world.GROUPS, world.FINER])
def test_a_pairs_code_is_that_of_both_groups(groups: int) -> None:
    codes = world.with_pairs(CODES, PUBLIC, groups, [(0, 3)])
    ((at, field),) = codes.pairs.items()
    missing = np.array([[8, WIDE + 8, 2 * WIDE + 8, 3 * WIDE + 6]], np.int32)
    for row in (*PUBLIC[:50], *missing):
        number, word = row[0], row[3] - 3 * WIDE
        by_hand = field.left[number] * (max(field.right) + 1) + field.right[word]
        assert codes.completed(row[None])[0].tolist() == [*row, codes.fields[at].start + by_hand]
    assert codes.completed(PUBLIC)[:50].tolist() == [codes.completed(row[None])[0].tolist() for row in PUBLIC[:50]]
    assert field.left == ((0, 0, 1, 1, 2, 2, 3, 3, 4) if groups == world.GROUPS else tuple(range(9)))
    assert field.right == ((0, 1, 2, 3, 3, 3, 4) if groups == world.GROUPS else tuple(range(7)))
    assert field.size <= (groups + 1) ** 2


def test_groups_of_other_fields_are_refused() -> None:
    codes = world.with_pairs(CODES, PUBLIC, world.GROUPS)
    assert codes.size == CODES.size + 6 * CELLS
    *singles, last = codes.fields
    with pytest.raises(ValueError, match=facts("'c × w'", "fine fields")):
        world.Codes(fields=(*singles, last.model_copy(update={"both": (0, 1)})), coarse=codes.coarse, fine=codes.fine)
