"""Both accounts of the adaptive game against every strategy in exact fractions; planted bugs fall below those."""

import base64
import dataclasses
import math
from bisect import bisect_right
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.plan import parse_plan
from concord.artifacts.privacy import ORDERS
from concord.tasks.mechanisms import adaptive_adversary
from concord.tasks.mechanisms.adaptive_adversary import adaptive_delta
from concord.tasks.mechanisms.mechanism import calibrate
from concord.tasks.mechanisms.stable import StableVoting
from concord.tasks.verify import recompute, recompute_game
from concord.tasks.verify.recompute_game import game_delta
from tests.support.people import tables_of_plan

ORDER = 3.0
SMALL = [
    pytest.param((15, 8, 2), 1, 2, 10, id="one refusal"),
    pytest.param((31, 24, 12), 2, 2, 8, id="two refusals"),
    pytest.param((15, 9), 2, 4, 8, id="two distances"),
    pytest.param((15, 8, 3), 3, 3, 8, id="three refusals"),
]
"""Entries of a table over a power of two, refusals, e^ε, and how many queries an asker of the exact game has."""


def exact(entries: tuple[int, ...], cutoff: int, start: Fraction, queries: int) -> float:
    """δ at ε = ln(start) of the best of all adaptive askers who stop after so many queries, in exact fractions."""
    whole = 1 << max(entries).bit_length()
    table = [Fraction(entry, whole) for entry in entries]
    pairs = [pair for low, high in pairwise(table) for pair in ((low, high), (high, low))]

    @cache
    def gain(refusals: int, left: int, x: Fraction) -> Fraction:
        best = max(Fraction(0), 1 - x)
        if not refusals or not left:
            return best
        for p, q in pairs:
            labelled = (1 - p) * gain(refusals, left - 1, x * (1 - q) / (1 - p))
            best = max(best, p * gain(refusals - 1, left - 1, x * q / p) + labelled)
        return max(best, 1 - table[0] + table[0] * gain(refusals - 1, left - 1, x))

    return float(gain(cutoff, queries, start))


def table_of(entries: tuple[int, ...]) -> Any:
    return np.array([entry * (2**64 >> max(entries).bit_length()) for entry in entries], "<u8")


def settings_of(entries: tuple[int, ...], cutoff: int) -> dict[str, Any]:
    refusal = base64.b64encode(table_of(entries).tobytes()).decode()
    return {"name": "stable", "accountant": "game", "cutoff": cutoff, "order": ORDER, "refusal": refusal}


def second_path(entries: tuple[int, ...], cutoff: int, epsilon: float) -> float:
    recompute_game._played.cache_clear()
    return game_delta(settings_of(entries, cutoff), epsilon)


def first_path(entries: tuple[int, ...], cutoff: int, epsilon: float) -> float:
    return adaptive_delta(table_of(entries).astype(np.uint64), cutoff, epsilon, 1.3, points=40)


PATHS = [pytest.param(first_path, id="claimed"), pytest.param(second_path, id="recomputed")]
Way = Callable[[tuple[int, ...], int, float], float]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(("entries", "cutoff", "start", "queries"), SMALL)
def test_no_strategy_gains_more_and_some_gain_nearly_as_much(
    path: Way, entries: tuple[int, ...], cutoff: int, start: float, queries: int
) -> None:
    reached = exact(entries, cutoff, Fraction(start), queries)
    assert reached <= path(entries, cutoff, math.log(start)) <= 1.03 * reached


WHOLE = 2**64
EXACTLY = [
    pytest.param([WHOLE * 15 // 16, WHOLE // 2, WHOLE // 8], 2, 2.0, id="large steps"),
    pytest.param([WHOLE * 15 // 16, WHOLE * 15 // 16 - 2**40, WHOLE // 2], 2, 1.0, id="a small and a large step"),
    pytest.param([WHOLE // 2, 2**44], 2, 2.0, id="hardly ever refused"),
    pytest.param([WHOLE * 9 // 10, WHOLE // 2, 2**24], 1, 2.0, id="least chance of refusal"),
]
"""A table, refusals, and ε."""


@pytest.mark.parametrize(("table", "cutoff", "epsilon"), EXACTLY)
def test_no_query_improves_what_is_found_in_exact_fractions(table: list[int], cutoff: int, epsilon: float) -> None:
    """A double's rounding counts for more, the less a query is refused."""
    steps = [(high, low) for high, low in pairwise(table) if high != low]
    x = recompute_game._grid(steps, cutoff, ORDER, epsilon)
    moves, slip = recompute_game._moves(steps, x), (WHOLE - table[0]) / WHOLE
    value = np.maximum(0.0, 1 - x)
    for _ in range(cutoff):
        before, value = value, recompute_game._level(moves, x, value, slip)
        assert max(gains(table, x.tolist(), before.tolist(), value.tolist())) <= 0


def gains(table: list[int], x: list[float], before: list[float], value: list[float]) -> Iterator[Fraction]:
    """What each query gives more than the value, at every point of the grid but the first, exactly."""
    differ = Fraction(WHOLE - table[0], WHOLE)
    points, sooner, now = ([Fraction(item) for item in items] for items in (x, before, value))

    def chord(values: list[Fraction], at: Fraction) -> Fraction:
        if at >= points[-1]:
            return values[-1]
        low = bisect_right(points, at) - 1
        part = (at - points[low]) / (points[low + 1] - points[low])
        return values[low] + part * (values[low + 1] - values[low])

    for here in range(1, len(points)):
        yield differ + (1 - differ) * sooner[here] - now[here]
        for pair in pairwise(table):
            for p, q in (pair, pair[::-1]):
                P, Q = Fraction(p, WHOLE), Fraction(q, WHOLE)
                refused = P * chord(sooner, points[here] * Q / P)
                yield refused + (1 - P) * chord(now, points[here] * (1 - Q) / (1 - P)) - now[here]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("entries", [(7,), (7, 7, 7)], ids=["one entry", "flat"])
def test_a_table_that_never_falls_gives_what_escapes(path: Way, entries: tuple[int, ...]) -> None:
    """Neighbours then differ in rows whose labels do, alone: of three, one in eight escapes each time."""
    escapes = 1 - (7 / 8) ** 3
    assert escapes <= path(entries, 3, 1.0) <= escapes * (1 + 1e-9)


@pytest.mark.parametrize("fall", [1, 2**20, 2**40])
def test_a_table_that_hardly_falls_is_played_on_a_coarse_grid(fall: int) -> None:
    table = np.array([WHOLE // 8 * 7, WHOLE // 8 * 7 - fall], "<u8")
    settings = {"cutoff": 3, "order": ORDER, "refusal": base64.b64encode(table.tobytes()).decode()}
    escapes = 1 - (7 / 8) ** 3
    for delta in (adaptive_delta(table.astype(np.uint64), 3, 1.0, ORDER), game_delta(settings, 1.0)):
        assert escapes <= delta <= escapes * (1 + 1e-6)


def one_way(steps: Any, x: Any) -> Any:
    (way,) = recompute_game._one_way(steps, x, up=True)
    return way


def rounded_down(steps: Any, x: Any, true: Any = recompute_game._large) -> Any:
    found = true(steps, x)
    whole = found.near_odds + found.far_odds
    return dataclasses.replace(found, near_odds=np.zeros_like(whole), far_odds=whole)


def without_escapes(*given: Any, true: Any = recompute_game._level) -> Any:
    return true(*given[:3], 0.0)


TELLING = (31, 24, 12), 2, 2
SLIPPING = (7, 6), 2, 8


@pytest.mark.parametrize(
    ("name", "bug", "tried"),
    [
        ("_moves", one_way, TELLING),
        ("_large", rounded_down, TELLING),
        ("_level", without_escapes, SLIPPING),
    ],
    ids=["one order of each pair", "rounded down", "labels never differ"],
)
def test_planted_bugs_in_the_second_path_are_rejected(
    name: str, bug: Any, tried: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries, cutoff, start = tried
    reached = exact(entries, cutoff, Fraction(start), 8)
    assert reached <= second_path(entries, cutoff, math.log(start))
    monkeypatch.setattr(recompute_game, name, bug)
    assert second_path(entries, cutoff, math.log(start)) < reached


def landed_down(cells: Any, weight: Any, _: float) -> Any:
    return adaptive_adversary.Landing(np.floor(cells + 1).astype(np.int64), weight, 0 * weight)


def without_labels_that_differ(*given: Any, true: Any = adaptive_adversary.Queries.of) -> Any:
    return dataclasses.replace(true(*given), slip=0.0)


def only_falling(*given: Any, true: Any = adaptive_adversary.Queries.of) -> Any:
    found = true(*given)
    kept = [query for query in range(len(found.refused.offset)) if found.refused.offset[query] <= 0]
    refused, labelled = (
        adaptive_adversary.Landing(*(getattr(item, part)[kept] for part in ("offset", "near", "far")))
        for item in (found.refused, found.labelled)
    )
    return adaptive_adversary.Queries(refused, labelled, found.slip)


@pytest.mark.parametrize(
    ("holder", "name", "bug", "tried"),
    [
        (adaptive_adversary.Landing, "at", landed_down, TELLING),
        (adaptive_adversary.Queries, "of", without_labels_that_differ, SLIPPING),
        (adaptive_adversary.Queries, "of", only_falling, TELLING),
    ],
    ids=["rounded down", "labels never differ", "one order of each pair"],
)
def test_planted_bugs_in_the_first_path_are_rejected(
    holder: Any, name: str, bug: Any, tried: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries, cutoff, start = tried
    reached = exact(entries, cutoff, Fraction(start), 8)
    assert reached <= first_path(entries, cutoff, math.log(start))
    monkeypatch.setattr(holder, name, staticmethod(bug))
    assert first_path(entries, cutoff, math.log(start)) < reached


@pytest.mark.parametrize(
    ("epsilon", "delta", "cutoff"),
    [
        (4.0, 1e-5, 10),
        (2.0, 1e-5, 1),
        (2.0, 1e-9, 4),
        (8.0, 1e-3, 3),
        pytest.param(1.0, 1e-6, 10, marks=pytest.mark.slow),
        pytest.param(0.3, 1e-7, 5, marks=pytest.mark.slow),
        pytest.param(20.0, 1e-4, 7, marks=pytest.mark.slow),
        pytest.param(1.0, 1e-10, 10, marks=pytest.mark.slow),
    ],
)
def test_what_is_calibrated_to_the_game_is_proved_by_the_second_path(epsilon: float, delta: float, cutoff: int) -> None:
    made = StableVoting.calibrate(epsilon=epsilon, delta=delta, cutoff=cutoff, order=4.0, accountant="game")
    settings = {**made.settings(), "accountant": "game"}  # also where the table that answers most is the curve's
    assert 0.6 * made.played_delta < recompute.least_delta(settings, epsilon) <= made.played_delta * (1 + 1e-6)
    assert made.played_delta <= delta
    for order in (2.0, 4.0):
        nats, additive = recompute.charge(settings, order)
        assert nats == pytest.approx(made.cost.renyi[ORDERS.index(order)], rel=1e-6)
        assert additive == pytest.approx(made.cost.delta, rel=1e-6)


def test_a_steeper_table_or_one_more_refusal_is_rejected() -> None:
    made = StableVoting.calibrate(epsilon=4.0, delta=1e-5, cutoff=5, order=4.0, accountant="game")
    assert recompute.least_delta(made.settings(), 4.0) <= 1e-5
    skipping = dataclasses.replace(made, refusal=np.delete(made.refusal, slice(20, 40)))
    halved = dataclasses.replace(made, refusal=made.refusal[::2])
    later = dataclasses.replace(made, cutoff=8)
    for wrong in (skipping, halved, later):
        assert recompute.least_delta(wrong.settings(), 4.0) > 1e-5


@pytest.mark.parametrize(("epsilon", "cutoff"), [(1.0, 2), (4.0, 10)])
def test_the_game_takes_less_epsilon_than_the_curve(epsilon: float, cutoff: int) -> None:
    """The same rows are answered as by a table of 4 to 13 % more ε whose curve proves it."""
    budget: dict[str, Any] = {
        "delta": 1e-5,
        "cutoff": cutoff,
        "queries": 0,
        "classes": 2,
        "teachers": 100,
        "order": 4.0,
    }
    made = calibrate("stable", epsilon=epsilon, accountant="game", **budget)
    dearer = calibrate("stable", epsilon=1.04 * epsilon, **budget)
    assert isinstance(made, StableVoting)
    assert isinstance(dearer, StableVoting)
    assert np.count_nonzero(made.refusal > 2**64 // 100) <= np.count_nonzero(dearer.refusal > 2**64 // 100)
    assert made.cost.renyi[8] > dearer.cost.renyi[8]  # what a domain is charged


@pytest.mark.parametrize(
    ("labeling", "rule"),
    [
        ({"mechanism": "stable", "cutoff": 11}, r"cutoff of at most 10, got 11"),
        ({"mechanism": "sparse_vector", "cutoff": 5}, r"is for mechanism = 'stable', got mechanism = 'sparse_vector'"),
        ({"mechanism": "auto"}, r"is for mechanism = 'stable', got mechanism = 'auto'"),
    ],
)
def test_a_plan_that_cannot_be_played_is_refused(labeling: dict[str, Any], rule: str) -> None:
    with pytest.raises(WrongInput, match=rule):
        parse_plan({**tables_of_plan(Path()), "labeling": {**labeling, "accountant": "game"}})


@pytest.mark.parametrize(
    ("order", "table"),
    [
        (1 + 1e-9, [recompute_game.ALL_DRAWS - 10, 2**63, 2**40]),
        (2.0, [recompute_game.ALL_DRAWS // 3000 * left for left in range(2970, 70, -1)]),
    ],
)
def test_a_game_that_would_take_gigabytes_is_refused(order: float, table: list[int]) -> None:
    """An order near 1 asks for any number of points, and a long table of large steps for any number of moves."""
    refusal = base64.b64encode(np.array(table, "<u8").tobytes()).decode()
    with pytest.raises(NotVerified, match="Concord plays"):
        game_delta({"refusal": refusal, "cutoff": 3, "order": order}, 1.0)
