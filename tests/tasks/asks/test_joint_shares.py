"""The shares of several homes, added: which of them differ from the others by more than noise and chance."""

import numpy as np
import pytest

from concord.tasks.asks.joint import SharesOfRound, differing, units_of
from concord.tasks.asks.share import Answered, Letter
from concord.tasks.data.codes import CodeMatrix
from concord.tasks.mechanisms.contributions import tally
from concord.tasks.mechanisms.distance import Ints
from tests.support.sharing import FIRST
from tests.support.tallied import TALLIES

HOMES = ("north", "south", "east", "west")
QUESTION = FIRST.question
TURN = np.arange(QUESTION.size) % 2 * 2 - 1


def people(rows: int, draw: np.random.Generator) -> CodeMatrix:
    """Codes of made-up rows, alike everywhere."""
    return np.column_stack([draw.integers(0, 3, rows), draw.integers(3, 5, rows)]).astype(np.int32)


def differ(changed: dict[str, Ints], homes: tuple[str, ...] = HOMES) -> list[str]:
    """The homes found to differ, of 2000 people each, whose labels follow the same law; with changes to their sums."""
    draw, found = np.random.default_rng(1), dict[str, Letter[Answered]]()
    scale = TALLIES.rounds[0].scale
    for name in homes:
        rows = people(2000, draw)
        exact = tally(
            QUESTION, rows.astype(np.int32), (draw.random(2000) < 0.2 + 0.2 * (rows[:, 0] == 1)).astype(np.int64)
        )
        noisy = exact + draw.normal(0, scale, len(exact)).astype(np.int64) + changed.get(name, 0)
        found[name] = Letter(b"", Answered.model_construct(sums=tuple(noisy.tolist()), scale=scale))
    of = SharesOfRound(Letter(b"", FIRST), found)
    return differing(of, {name: units_of(name, [of]) for name in homes}, people(400, draw))


def test_alike_homes_do_not_differ() -> None:
    assert differ({}) == []


@pytest.mark.parametrize("by", [1 << 50, -(1 << 50), (1 << 50) * TURN, (1 << 27) * TURN, (1 << 24) * TURN])
def test_one_home_that_differs_is_named_and_no_other(by: Ints) -> None:
    """However large its share: the others are compared without it."""
    for name in HOMES:
        assert differ({name: np.asarray(by) + np.zeros_like(TURN)}) == [name]


def test_several_that_differ_are_named_in_the_plan_s_order() -> None:
    assert differ({"west": (1 << 50) * TURN, "south": (1 << 28) * -TURN}) == ["south", "west"]


def test_of_two_that_differ_nobody_can_tell_which() -> None:
    assert differ({"south": (1 << 27) * TURN}, HOMES[:2]) == ["north", "south"]
    assert differ({}, HOMES[:1]) == []
