"""Short sessions of stable voting: every outcome of the draws through the real code, and so the exact law of answers.

Draws are only ever compared with table entries, so one draw between two neighbouring entries stands for all of them.
"""

import math
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise, product

import numpy as np

from tests.world import REFUSED, WHOLE, StableVoting

Vote = tuple[int, int]
Law = dict[tuple[int, ...], Fraction]

MADE = StableVoting.calibrate(epsilon=4.0, delta=0.01, cutoff=2)
ONE_MORE = StableVoting(epsilon=4.0, delta=0.01, cutoff=3, order=MADE.order, refusal=MADE.refusal)


def at(distance: int) -> Vote:
    return 2 * distance + 1, 0


def entry(made: StableVoting, vote: Vote) -> int:
    """The refusal probability of a vote, times 2^64."""
    distance = max(0, (abs(vote[0] - vote[1]) + 1) // 2 - 1)
    return int(made.refusal[min(distance, len(made.refusal) - 1)])


def by_code(made: StableVoting, votes: list[Vote]) -> Law:
    edges = sorted({0, WHOLE, *(entry(made, vote) for vote in votes)})
    intervals = [(low, Fraction(high - low, WHOLE)) for low, high in pairwise(edges)]
    law: Law = defaultdict(Fraction)
    for outcome in product(intervals, repeat=len(votes)):
        draws = np.array([low for low, _ in outcome], np.uint64)
        chance = Fraction(1)
        for _, mass in outcome:
            chance *= mass
        law[tuple(made.answer(np.array(votes), draws).tolist())] += chance
    return law


def by_definition(made: StableVoting, votes: list[Vote]) -> Law:
    """Each row refused with its own probability, until the cutoff."""
    running: Law = {(): Fraction(1)}
    ended: Law = {}
    for vote in votes:
        refuse = Fraction(entry(made, vote), WHOLE)
        chances = ((REFUSED, refuse), (int(vote[1] > vote[0]), 1 - refuse))
        after = {(*out, item): mass * chance for out, mass in running.items() for item, chance in chances}
        ended |= {out: mass for out, mass in after.items() if out.count(REFUSED) == made.cutoff}
        running = {out: mass for out, mass in after.items() if out not in ended}
    return running | ended


def queries(*distances: int) -> Iterator[tuple[Vote, Vote]]:
    """What two neighbours may vote: adjacent distances, either way round, and labels that differ."""
    for low in distances:
        yield at(low), at(low + 1)
        yield at(low + 1), at(low)
    yield (1, 0), (0, 1)


def worst(made: StableVoting, epsilon: float, rows: int) -> float:
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
    slip = 1 - entry(MADE, at(0)) / WHOLE
    assert 1.9 * slip < worst(MADE, 4.0, rows=2) <= MADE.delta
    assert worst(ONE_MORE, 4.0, rows=3) > 2.9 * slip
