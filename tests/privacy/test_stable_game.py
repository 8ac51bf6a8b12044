"""Stable voting against the best adaptive adversary: nothing it can ask reaches more than the claimed δ.

Two ways to one number: `best_attack` finds strategies and rounds what they gain down, `adaptive_delta` (game.py) rounds
up. They must lie close together, and the attack must rise above δ for every planted bug. The tables that run leave the
adversary a factor of two to five, so bugs are planted in steeper ones, which bring him near δ.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import pairwise, product

import numpy as np
import pytest

from tests import world
from tests.privacy.game import adaptive_delta

PAGE = [
    (1.0, 0.01, 1, 6.0, 0.0010),
    (1.0, 0.01, 2, 6.0, 0.0014),
    (1.0, 0.01, 3, 6.0, 0.0019),
    (2.0, 0.02, 5, 4.0, 0.0032),
]
"""ε, δ, cutoff, order of the table, and what the best adversary reaches (STABLE_VOTING)."""
SHARP = [(4.0, 0.01, 2), (3.0, 0.001, 2), (4.0, 1e-4, 3)]
STEEPER = {2: 3.0, 3: 2.0}
"""By cutoff, how many times the cost of a refusal that runs a steeper table has."""


def table_at(order: float, epsilon: float, delta: float, cutoff: int) -> world.RefusalTable:
    """The Rényi table of one order: a tenth of δ for labels, the rest for the conversion."""
    slip = delta / 10 / (cutoff + delta / 10)
    conversion = math.log1p(-1 / order) - (math.log(0.9 * delta) + math.log(order)) / (order - 1)
    return world.greedy_table(slip, order, (epsilon - conversion) * (order - 1) / cutoff)


def sharp(epsilon: float, delta: float, cutoff: int) -> tuple[float, world.RefusalTable]:
    """The order, and a table steeper than the one that runs, of the same slip, that brings the adversary near δ."""
    made = world.calibrated_stable(epsilon=epsilon, delta=delta, cutoff=cutoff)
    slip, kappa = float(world.table_probabilities(made.refusal)[1][0]), world.per_refusal(made.refusal, made.order)
    return made.order, world.greedy_table(slip, made.order, STEEPER[cutoff] * kappa)


def best_attack(table: world.RefusalTable, cutoff: int, epsilon: float, jump: int = 1) -> float:
    """δ of the best strategy found by value iteration on a grid of log x, each landing rounded against the adversary.

    Neighbours differ by `jump` in distance. Every sweep is the gain of an actual strategy, so any number of them is a
    lower bound; queries that are hardly ever refused are left out.
    """
    width, below, above = epsilon / 400, 600, 800
    p, not_p = world.table_probabilities(table)
    pairs = [(d, d + jump) for d in range(len(p) - jump) if p[d] > 0.02]
    queries = [(p[a], p[b], not_p[a], not_p[b]) for low, high in pairs for a, b in ((low, high), (high, low))]
    value = np.maximum(0.0, -np.expm1(width * np.arange(-below, above)))
    for _ in range(cutoff):
        moves = [
            (here * _landed(value, math.log(there / here) / width), label, math.log(other / label) / width)
            for here, there, label, other in queries
        ]
        value = _swept(not_p[0] + p[0] * value, moves)
    return float(value[below + 400])


def _swept(value: world.Floats, moves: list[tuple[world.Floats, float, float]]) -> world.Floats:
    before = np.zeros_like(value)
    while (value - before).max() > 1e-9:
        before = value
        for refused, label, shift in moves:
            value = np.maximum(value, refused + label * _landed(value, shift))
    return value


def _landed(value: world.Floats, shift: float) -> world.Floats:
    """`value` that many cells on, at the next grid point of larger x, where it is not larger; 0 beyond the grid."""
    cells = math.ceil(shift - 1e-9)
    if cells >= 0:
        return np.concatenate([value[cells:], np.zeros(min(cells, len(value)))])
    return np.concatenate([np.full(min(-cells, len(value)), value[0]), value[:cells]])


@pytest.mark.parametrize(("epsilon", "delta", "cutoff", "order", "reached"), PAGE)
def test_the_published_values_lie_between_attack_and_bound(
    epsilon: float, delta: float, cutoff: int, order: float, reached: float
) -> None:
    table = table_at(order, epsilon, delta, cutoff)
    attack, bound = best_attack(table, cutoff, epsilon), adaptive_delta(table, cutoff, epsilon, order, points=80)
    assert attack <= bound <= 1.07 * attack
    assert attack - 1e-5 <= reached <= bound + 1e-5
    assert bound <= delta


@pytest.mark.parametrize(("epsilon", "delta", "cutoff"), SHARP)
def test_a_steeper_table_brings_the_adversary_near_delta(epsilon: float, delta: float, cutoff: int) -> None:
    order, table = sharp(epsilon, delta, cutoff)
    assert delta / 2 < best_attack(table, cutoff, epsilon) <= adaptive_delta(table, cutoff, epsilon, order) <= delta


@pytest.mark.parametrize(("epsilon", "delta", "cutoff"), SHARP)
def test_the_table_that_runs_keeps_its_delta(epsilon: float, delta: float, cutoff: int) -> None:
    made = world.calibrated_stable(epsilon=epsilon, delta=delta, cutoff=cutoff)
    attack, bound = (
        best_attack(made.refusal, cutoff, epsilon),
        adaptive_delta(made.refusal, cutoff, epsilon, made.order),
    )
    assert attack <= bound <= delta


SMALL = [
    pytest.param((15, 8, 2), 1, 2, 10, id="one refusal"),
    pytest.param((31, 24, 12), 2, 2, 8, id="two refusals"),
    pytest.param((15, 9), 2, 4, 8, id="two distances"),
    pytest.param((15, 8, 3), 3, 3, 8, id="three refusals"),
]
"""Entries of a table over a power of two, refusals, e^ε, and how many queries an asker of the exact game has."""


@pytest.mark.parametrize(("entries", "cutoff", "start", "queries"), SMALL)
def test_no_strategy_gains_more_and_some_gain_nearly_as_much(
    entries: tuple[int, ...], cutoff: int, start: float, queries: int
) -> None:
    whole = 1 << max(entries).bit_length()
    table = np.array([entry * (world.WHOLE // whole) for entry in entries], np.uint64)
    reached = exact([Fraction(entry, whole) for entry in entries], cutoff, Fraction(start), queries)
    assert reached <= adaptive_delta(table, cutoff, math.log(start), 1.3, points=40) <= 1.03 * reached


def exact(table: list[Fraction], cutoff: int, start: Fraction, queries: int) -> float:
    """δ at ε = ln(start) of the best of all adaptive askers who stop after so many queries, in exact fractions."""
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


@pytest.mark.parametrize(("epsilon", "delta", "cutoff"), SHARP)
def test_planted_bugs_let_the_adversary_past_delta(epsilon: float, delta: float, cutoff: int) -> None:
    _, table = sharp(epsilon, delta, cutoff)
    one_more_refusal = best_attack(table, cutoff + 1, epsilon)
    shifted_by_one = best_attack(table[1:], cutoff, epsilon)
    sensitivity_two = best_attack(table, cutoff, epsilon, jump=2)
    assert min(one_more_refusal, shifted_by_one, sensitivity_two) > delta


def test_planted_bug_a_slip_of_delta_at_each_refusal() -> None:
    table = world.greedy_table(0.01, 6.0, 0.5)
    assert best_attack(table, 3, 1.0) > 0.029


def test_planted_bug_a_table_built_in_one_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    order, steep = sharp(4.0, 0.01, 2)
    kappa, slip = world.per_refusal(steep, order), float(world.table_probabilities(steep)[1][0])
    for room in (world.mechanisms_distance, world.mechanisms_refusal_tables):
        monkeypatch.setattr(
            room, "both_ways", lambda a, p, n, gap: world.mechanisms_distance.renyi(a, p[0], p[1], n[1], gap)
        )
    table = world.greedy_table(slip, order, kappa)
    assert best_attack(table, 2, 4.0) > 0.01


# Short sessions: every outcome of the draws through the real code, and so the exact law of answers. Draws are only ever
# compared with table entries, so one draw between two neighbouring entries stands for all of them. ---

Vote = tuple[int, int]
Law = dict[tuple[int, ...], Fraction]

MADE = world.calibrated_stable(epsilon=4.0, delta=0.01, cutoff=2)
ONE_MORE = world.StableVoting(epsilon=4.0, delta=0.01, cutoff=3, order=MADE.order, refusal=MADE.refusal)


def at(distance: int) -> Vote:
    return 2 * distance + 1, 0


def entry(made: world.StableVoting, vote: Vote) -> int:
    """The refusal probability of a vote, times 2^64."""
    distance = max(0, (abs(vote[0] - vote[1]) + 1) // 2 - 1)
    return int(made.refusal[min(distance, len(made.refusal) - 1)])


def by_code(made: world.StableVoting, votes: list[Vote]) -> Law:
    edges = sorted({0, world.WHOLE, *(entry(made, vote) for vote in votes)})
    intervals = [(low, Fraction(high - low, world.WHOLE)) for low, high in pairwise(edges)]
    law: Law = defaultdict(Fraction)
    for outcome in product(intervals, repeat=len(votes)):
        draws = np.array([low for low, _ in outcome], np.uint64)
        chance = Fraction(1)
        for _, mass in outcome:
            chance *= mass
        law[tuple(made.answer(np.array(votes), draws).tolist())] += chance
    return law


def by_definition(made: world.StableVoting, votes: list[Vote]) -> Law:
    """Each row refused with its own probability, until the cutoff."""
    running: Law = {(): Fraction(1)}
    ended: Law = {}
    for vote in votes:
        refuse = Fraction(entry(made, vote), world.WHOLE)
        chances = ((world.REFUSED, refuse), (int(vote[1] > vote[0]), 1 - refuse))
        after = {(*out, item): mass * chance for out, mass in running.items() for item, chance in chances}
        ended |= {out: mass for out, mass in after.items() if out.count(world.REFUSED) == made.cutoff}
        running = {out: mass for out, mass in after.items() if out not in ended}
    return running | ended


def queries(*distances: int) -> Iterator[tuple[Vote, Vote]]:
    """What two neighbours may vote: adjacent distances, either way round, and labels that differ."""
    for low in distances:
        yield at(low), at(low + 1)
        yield at(low + 1), at(low)
    yield (1, 0), (0, 1)


def worst_stream(made: world.StableVoting, epsilon: float, rows: int) -> float:
    """δ of the worst fixed stream of `rows` queries: the hockey-stick divergence of the two laws of the real code."""
    reached = 0.0
    for stream in product(queries(0, 3, 8), repeat=rows):
        here, there = (by_code(made, [query[side] for query in stream]) for side in (0, 1))
        gains = (float(mass) - math.exp(epsilon) * float(there.get(out, 0)) for out, mass in here.items())
        reached = max(reached, math.fsum(max(0.0, gain) for gain in gains))
    return reached


def test_the_code_has_the_law_of_its_definition() -> None:
    for votes in ([at(0), at(3), at(3), at(9)], [(0, 1), at(54), at(500), (1, 1)], [at(1)] * 4):
        assert by_code(MADE, votes) == by_definition(MADE, votes)


def test_planted_bug_one_more_refusal_has_another_law() -> None:
    assert by_code(ONE_MORE, [at(0)] * 3) != by_definition(MADE, [at(0)] * 3)


def test_short_streams_stay_below_the_accountant() -> None:
    slip = 1 - entry(MADE, at(0)) / world.WHOLE
    assert 1.9 * slip < worst_stream(MADE, 4.0, rows=2) <= MADE.delta
    assert worst_stream(ONE_MORE, 4.0, rows=3) > 2.9 * slip
