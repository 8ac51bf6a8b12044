"""Stable voting against the best adaptive adversary: nothing it can ask reaches more than the claimed δ.

Two ways to one number: `best_attack` finds strategies and rounds what they gain down, `adaptive_delta`, the accountant,
rounds up. They must lie close together, and the attack must rise above δ for every planted bug.
"""

import math

import numpy as np
import pytest

from concord.tasks.mechanisms import distance
from concord.tasks.mechanisms.adaptive_adversary import adaptive_delta
from concord.tasks.mechanisms.distance import WHOLE, Floats, Table, greedy_table, per_refusal, probabilities
from concord.tasks.mechanisms.stable import StableVoting

PAGE = [
    (1.0, 0.01, 1, 6.0, 0.0010),
    (1.0, 0.01, 2, 6.0, 0.0014),
    (1.0, 0.01, 3, 6.0, 0.0019),
    (2.0, 0.02, 5, 4.0, 0.0032),
]
"""ε, δ, cutoff, order of the table, and what the best adversary reaches (STABLE_VOTING)."""
SHARP = [(4.0, 0.01, 2), (3.0, 0.001, 2), (4.0, 1e-4, 3)]


def table_at(order: float, epsilon: float, delta: float, cutoff: int) -> Table:
    """The Rényi table of one order: a tenth of δ for labels, the rest for the conversion."""
    slip = delta / 10 / (cutoff + delta / 10)
    conversion = math.log1p(-1 / order) - (math.log(0.9 * delta) + math.log(order)) / (order - 1)
    return greedy_table(slip, order, (epsilon - conversion) * (order - 1) / cutoff)


def sharp(epsilon: float, delta: float, cutoff: int) -> StableVoting:
    return StableVoting.calibrate(epsilon=epsilon, delta=delta, cutoff=cutoff, accountant="game")


def best_attack(table: Table, cutoff: int, epsilon: float, jump: int = 1) -> float:
    """δ of the best strategy found by value iteration on a grid of log x, each landing rounded against the adversary.

    Neighbours differ by `jump` in distance. Every sweep is the gain of an actual strategy, so any number of them is a
    lower bound; queries that are hardly ever refused are left out.
    """
    width, below, above = epsilon / 400, 600, 800
    p, not_p = probabilities(table)
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


def _swept(value: Floats, moves: list[tuple[Floats, float, float]]) -> Floats:
    before = np.zeros_like(value)
    while (value - before).max() > 1e-9:
        before = value
        for refused, label, shift in moves:
            value = np.maximum(value, refused + label * _landed(value, shift))
    return value


def _landed(value: Floats, shift: float) -> Floats:
    """`value` that many cells on, at the next grid point of larger x, where it is not larger; 0 beyond the grid."""
    cells = math.ceil(shift - 1e-9)
    if cells >= 0:
        return np.concatenate([value[cells:], np.zeros(min(cells, len(value)))])
    return np.concatenate([np.full(min(-cells, len(value)), value[0]), value[:cells]])


@pytest.mark.parametrize(("epsilon", "delta", "cutoff", "order", "reached"), PAGE)
def test_the_published_values_lie_between_attack_and_accountant(
    epsilon: float, delta: float, cutoff: int, order: float, reached: float
) -> None:
    table = table_at(order, epsilon, delta, cutoff)
    attack, bound = best_attack(table, cutoff, epsilon), adaptive_delta(table, cutoff, epsilon, order, points=80)
    assert attack <= bound <= 1.07 * attack
    assert attack - 1e-5 <= reached <= bound + 1e-5
    assert bound <= delta


def test_at_ten_refusals_a_factor_of_two_is_left_by_the_curve() -> None:
    made = StableVoting.calibrate(epsilon=1, delta=1e-6, cutoff=10)
    assert adaptive_delta(made.refusal, 10, 1.0, made.order) < 4.6e-7


@pytest.mark.parametrize(("epsilon", "delta", "cutoff"), SHARP)
def test_a_table_calibrated_to_the_game_answers_more_within_delta(epsilon: float, delta: float, cutoff: int) -> None:
    made, plain = sharp(epsilon, delta, cutoff), StableVoting.calibrate(epsilon=epsilon, delta=delta, cutoff=cutoff)
    assert best_attack(made.refusal, cutoff, epsilon) <= made.played_delta <= delta
    assert made.cost.epsilon(delta) == epsilon
    assert (made.refusal <= WHOLE // 100).argmax() < (plain.refusal <= WHOLE // 100).argmax()
    assert per_refusal(made.refusal, made.order) > per_refusal(plain.refusal, plain.order)


@pytest.mark.parametrize(("epsilon", "delta", "cutoff"), SHARP)
def test_planted_bugs_let_the_adversary_past_delta(epsilon: float, delta: float, cutoff: int) -> None:
    table = sharp(epsilon, delta, cutoff).refusal
    one_more_refusal = best_attack(table, cutoff + 1, epsilon)
    shifted_by_one = best_attack(table[1:], cutoff, epsilon)
    sensitivity_two = best_attack(table, cutoff, epsilon, jump=2)
    assert min(one_more_refusal, shifted_by_one, sensitivity_two) > delta


def test_planted_bug_a_slip_of_delta_at_each_refusal() -> None:
    table = greedy_table(0.01, 6.0, 0.5)
    assert best_attack(table, 3, 1.0) > 0.029


def test_planted_bug_a_table_built_in_one_direction(monkeypatch: pytest.MonkeyPatch) -> None:
    made = sharp(4.0, 0.01, 2)
    kappa = per_refusal(made.refusal, made.order)
    monkeypatch.setattr(distance, "both_ways", lambda a, p, q, _, not_q, gap: distance.renyi(a, p, q, not_q, gap))
    table = greedy_table(float(probabilities(made.refusal)[1][0]), made.order, kappa)
    assert best_attack(table, 2, 4.0) > 0.01


@pytest.mark.slow
def test_the_game_is_played_at_three_hundred_refusals() -> None:
    made = StableVoting.calibrate(epsilon=1, delta=1e-6, cutoff=300)
    assert 0.5e-6 < adaptive_delta(made.refusal, 300, 1.0, made.order, points=10) < 0.9e-6
