"""Private choice among students: the exact law of learning and choice, neighbours in either part, planted bugs.

Units a and b learn: randomised response releases one bit about them. The candidates follow from that bit. Units c and d
are set aside, each with up to two rows of a feature and a label, and choose among the candidates. All tables are
enumerated, and all pairs that differ in one unit.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from concord.artifacts.errors import WrongInput
from concord.artifacts.kinds import Kind
from concord.artifacts.privacy import ORDERS, Cost
from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.mechanisms.exponential import StudentChoice, level_for
from concord.tasks.mechanisms.private_test import measured_share
from concord.tasks.verify import recompute
from tests.support.sentences import facts

LEARNING_EPSILON = 0.5
EPSILON = 0.8
SECRETS = ("rows", "labels")
ROWS = tuple(product((0, 1), repeat=2))
UNITS = tuple(rows for size in range(3) for rows in combinations_with_replacement(ROWS, size))
"""What a unit may have: nothing, where it is not there, one row, or two."""
LEARNERS = UNITS[:3]
Unit = tuple[tuple[int, ...], ...]
Table = tuple[Unit, ...]
Candidate = Callable[[int], int]
TABLES = list(product(LEARNERS, LEARNERS, UNITS, UNITS))


def candidates(bit: int) -> list[Candidate]:
    """Of that bit alone: a constant, the feature, and its contrary."""
    return [lambda _: bit, lambda x: x, lambda x: 1 - x]


def one_row(unit: Unit) -> Unit:
    return unit[:1]


def errors(units: Sequence[Unit], fitted: list[Candidate], counted: Callable[[Unit], Unit]) -> Ints:
    return np.array([sum(says(x) != y for unit in units for x, y in counted(unit)) for says in fitted])


@cache
def about(*learners: Unit) -> float:
    """How likely the bit is 1: randomised response to whether there is a row of class 1."""
    chance = 1 / (1 + math.exp(-LEARNING_EPSILON))
    return chance if any(y for unit in learners for _, y in unit) else 1 - chance


@cache
def law_of(choice: StudentChoice, counts: tuple[int, ...]) -> Floats:
    return choice.choice.probabilities(-np.array(counts))


def released(
    table: Table,
    choice: StudentChoice,
    *,
    fit: Callable[[int, Table], list[Candidate]] = lambda bit, _: candidates(bit),
    counted: Callable[[Unit], Unit] = one_row,
    chooses: slice = slice(2, 4),
    draws: int = 1,
) -> Floats:
    """The law of all that is released: the bit, and which candidate was chosen at each draw."""
    odds = about(*table[:2])
    law = []
    for bit, chance in ((0, 1 - odds), (1, odds)):
        each = law_of(choice, tuple(errors(table[chooses], fit(bit, table), counted).tolist()))
        whole = np.ones(1)
        for _ in range(draws):
            whole = np.outer(whole, each).ravel()
        law.append(chance * whole)
    return np.concatenate(law)


def neighbours(secret: str, at: int) -> Iterator[tuple[Table, Table]]:
    """Tables that differ in the unit at that place: it is there or not; or its labels are others."""
    for table in TABLES:
        unit = table[at]
        if secret == "rows" and unit:
            yield table, (*table[:at], (), *table[at + 1 :])
        for labels in product((0, 1), repeat=len(unit)) if secret == "labels" else ():
            other = tuple((x, y) for (x, _), y in zip(unit, labels, strict=True))
            yield table, (*table[:at], other, *table[at + 1 :])


def worst(secret: str, at: int, choice: StudentChoice, **planted: Any) -> float:
    """The largest log-ratio over all neighbours in that unit, and all that can be released."""
    return max(_losses(secret, at, choice, **planted), default=0.0)


def _losses(secret: str, at: int, choice: StudentChoice, **planted: Any) -> Iterator[float]:
    laws: dict[Table, Floats] = {}
    for pair in neighbours(secret, at):
        for table in pair:
            if table not in laws:
                laws[table] = np.log(released(table, choice, **planted))
        yield float(np.abs(laws[pair[0]] - laws[pair[1]]).max())


def made(secret: str) -> StudentChoice:
    return StudentChoice.from_settings(Kind.of({"name": "student_choice", "epsilon": EPSILON, "secret": secret}))


@pytest.mark.parametrize("secret", SECRETS)
def test_a_unit_pays_for_what_its_own_part_is_asked(secret: str) -> None:
    """One that learns loses nothing by the choice, and one that is set aside nothing by learning."""
    choice = made(secret)
    assert worst(secret, 0, choice) <= LEARNING_EPSILON * (1 + 1e-9)
    assert 0.5 * EPSILON < worst(secret, 2, choice) <= choice.cost.epsilon(0) <= EPSILON


@pytest.mark.parametrize("secret", SECRETS)
def test_its_renyi_cost_holds(secret: str) -> None:
    choice = made(secret)
    for order in (1.25, 5.0, 33.0):
        most = choice.cost.renyi[ORDERS.index(order)]
        assert renyi(secret, choice, order) <= most < Cost.approximate(EPSILON).renyi[ORDERS.index(order)]
        assert most == pytest.approx(recompute.charge(Kind.of(choice.settings()), order)[0], rel=1e-7)


@cache
def laws_of(secret: str, choice: StudentChoice) -> list[tuple[Floats, Floats]]:
    """The laws of all neighbours in unit c, each pair once."""
    pairs = ((released(here, choice), released(there, choice)) for here, there in neighbours(secret, 2))
    return list({(p.tobytes(), q.tobytes()): (p, q) for p, q in pairs}.values())


def renyi(secret: str, choice: StudentChoice, order: float) -> float:
    """The largest divergence over all neighbours of unit c."""
    found = 0.0
    for p, q in laws_of(secret, choice):
        found = max(found, *(float(np.log((a**order * b ** (1 - order)).sum())) for a, b in ((p, q), (q, p))))
    return found / (order - 1)


def every_row(unit: Unit) -> Unit:
    return unit


def fitted_to_rows_aside(bit: int, table: Table) -> list[Candidate]:
    """One candidate has seen the labels that it is tried on."""
    known = [y for unit in table[2:] for _, y in unit]
    return [*candidates(bit)[:2], lambda x: max(known, default=x)]


FAULTS: dict[str, tuple[int, float, dict[str, Any]]] = {
    "a unit counts with each of its rows": (2, EPSILON, {"counted": every_row}),
    "a retry draws again": (2, EPSILON, {"draws": 2}),
    "units that learn choose as well": (0, LEARNING_EPSILON, {"chooses": slice(0, 4)}),
    "candidates are fitted to rows set aside": (2, EPSILON, {"fit": fitted_to_rows_aside}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_breaks_the_promise(fault: str) -> None:
    at, promised, planted = FAULTS[fault]
    assert worst("rows", at, made("rows"), **planted) > 1.05 * promised


def test_full_weights_where_labels_are_secret_are_caught() -> None:
    assert worst("labels", 2, made("rows")) > 1.5 * EPSILON


def test_it_is_drawn_by_its_law() -> None:
    choice, counts = made("rows"), np.array([4, 5, 9])
    law = choice.choice.probabilities(-counts)
    tries = 800
    drawn = np.bincount([choice.choose_least(counts) for _ in range(tries)], minlength=3)
    tails = [min(binom.cdf(n, tries, p), binom.sf(n - 1, tries, p)) for n, p in zip(drawn, law, strict=True)]
    assert min(tails) > 1e-8


@pytest.mark.parametrize("secret", SECRETS)
def test_what_a_plan_says_of_units_is_what_the_draw_takes(secret: str) -> None:
    """Of three candidates, two wrong about one row in ten more."""
    choice = made(secret)
    units = choice.units_apart(0.1, 3, 0.05)
    for enough, count in ((True, units), (False, units - 10)):
        best = choice.choice.probabilities(-np.array([0, 0.1 * count, 0.1 * count]))[0]
        assert bool(best >= 0.95) is enough


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(WrongInput, match=facts("student_choice", "epsilon", "positive", "got 0.0")):
        StudentChoice(epsilon=0.0, secret="rows")


UNITS_TRIED, CHANCE, BETA = 20, 0.7, 0.05


def missed(level: float) -> float:
    """How often the interval of one student misses its chance to be right: exactly, but for noise, which there is none
    of at so small a scale."""
    low_or_high = [
        not (found.low <= CHANCE <= found.high)
        for right in range(UNITS_TRIED + 1)
        for found in [measured_share((right, 1), (UNITS_TRIED - right, 1), 0.05, 1 - level)]
    ]
    return float(binom.pmf(np.arange(UNITS_TRIED + 1), UNITS_TRIED, CHANCE)[low_or_high].sum())


@pytest.mark.parametrize("among", [2, 8, 40])
def test_the_interval_of_the_one_chosen_covers_whichever_was_chosen(among: int) -> None:
    """Candidates that err independently, of which whoever chooses takes one that the interval misses, if there is."""
    assert 1 - (1 - missed(level_for(among, 1 - BETA))) ** among <= BETA


def test_intervals_of_one_student_do_not_cover_the_luckiest_of_forty() -> None:
    assert 1 - (1 - missed(1 - BETA)) ** 40 > 2 * BETA
    assert level_for(1, 0.95) == pytest.approx(0.95)
