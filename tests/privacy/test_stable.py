"""Stable voting: its table, its certificate and its answers.

The certificate is recomputed from the shipped integers in 60-digit arithmetic, the answers row by row from the
definition. What the best adversary makes of it is test_stable_game.py's.
"""

import math
from decimal import Decimal, localcontext
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests import world

SETTINGS = [(0.1, 1e-6, 10_000), (0.5, 1e-5, 1), (1.0, 1e-6, 100), (1.0, 1e-2, 2), (4.0, 1e-9, 30), (20.0, 1e-6, 3)]


@pytest.mark.parametrize(("epsilon", "delta", "cutoff"), SETTINGS)
def test_the_table_falls_from_all_but_the_slip_to_the_floor(epsilon: float, delta: float, cutoff: int) -> None:
    table = [int(entry) for entry in world.calibrated_stable(epsilon=epsilon, delta=delta, cutoff=cutoff).refusal]
    assert world.WHOLE - table[0] == math.floor(delta / 10 / (cutoff + delta / 10) * world.WHOLE)
    assert table == sorted(set(table), reverse=True)
    assert table[-1] == world.FLOOR


def exact_cost(order: float, first: int, last: int) -> Decimal:
    """F_α of refusal probabilities first/2^64 and last/2^64, in 60 digits."""
    with localcontext(prec=60):
        a, p, q = Decimal(order), Decimal(first) / world.WHOLE, Decimal(last) / world.WHOLE
        paid = 1 - (a * (1 - p).ln() + (1 - a) * (1 - q).ln()).exp()
        return a * p.ln() + (1 - a) * q.ln() - paid.ln() if paid > 0 else Decimal("inf")


@pytest.mark.parametrize(("epsilon", "delta", "cutoff"), SETTINGS[1:])
def test_the_certificate_agrees_with_exact_arithmetic_and_errs_upwards(
    epsilon: float, delta: float, cutoff: int
) -> None:
    made = world.calibrated_stable(epsilon=epsilon, delta=delta, cutoff=cutoff)
    table = [int(entry) for entry in made.refusal]
    pairs = list(pairwise(table))
    some = pairs[:40] + pairs[40:-5:97] + pairs[-5:]
    for order in {1.5, 5.0, made.order}:
        ours = [world.per_refusal(np.array(pair, np.uint64), order) for pair in some]
        exact = [float(max(exact_cost(order, *pair), exact_cost(order, *pair[::-1]))) for pair in some]
        assert all(mine >= true for mine, true in zip(ours, exact, strict=True))
        assert ours == pytest.approx(exact, rel=1e-8, abs=1e-11)
        assert max(ours) <= world.per_refusal(made.refusal, order)


def test_a_table_can_be_built_for_the_order_of_its_domain() -> None:
    at = world.ORDERS.index(11.0)
    assert math.isinf(world.calibrated_stable(epsilon=8, delta=1e-6, cutoff=10).cost.renyi[at])
    made = world.calibrated_stable(epsilon=8, delta=1e-6, cutoff=10, order=11.0)
    assert math.isfinite(made.cost.renyi[at])
    assert made.cost.epsilon(1e-6) <= 8


def one_way(order: float, refused: Any, answered: Any, gap: Any) -> Any:
    """F_α(p, q) alone."""
    return world.mechanisms_distance.renyi(order, refused[0], refused[1], answered[1], gap)


def test_planted_bug_a_table_built_in_one_direction_is_certified_as_worse(monkeypatch: pytest.MonkeyPatch) -> None:
    kappa = 0.1
    with monkeypatch.context() as planted:
        for room in (world.mechanisms_distance, world.mechanisms_refusal_tables):
            planted.setattr(room, "both_ways", one_way)
        table = world.greedy_table(1e-7, 12.0, kappa)
        assert world.per_refusal(table, 12.0) <= kappa
    assert world.per_refusal(table, 12.0) > 1.1 * kappa


def test_planted_bug_a_table_shifted_by_one_has_another_slip() -> None:
    made = world.calibrated_stable(epsilon=1, delta=1e-6, cutoff=10)
    shifted = world.StableVoting(epsilon=1.0, delta=1e-6, cutoff=10, order=made.order, refusal=made.refusal[1:])
    assert made.cost.epsilon(1e-6) <= 1 < 1.01 < shifted.cost.epsilon(1e-6)


def row_by_row(made: world.StableVoting, votes: world.Ints, draws: NDArray[np.uint64], refused: int) -> list[int]:
    """The mechanism as its definition reads."""
    labels: list[int] = []
    for counts, draw in zip(votes.tolist(), draws.tolist(), strict=True):
        if refused == made.cutoff:
            break
        first, second = sorted(counts, reverse=True)[:2]
        distance = min(max(0, -(-(first - second) // 2) - 1), len(made.refusal) - 1)
        refuse = draw < int(made.refusal[distance])
        labels.append(world.REFUSED if refuse else counts.index(first))
        refused += refuse
    return labels


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("refused", [0, 7, 299, 300])
def test_answers_are_the_definition_read_row_by_row(classes: int, refused: int) -> None:
    made, generator = world.calibrated_stable(epsilon=4, delta=1e-6, cutoff=300), np.random.default_rng(classes)
    votes = generator.multinomial(900, generator.dirichlet([0.3] * classes, 40_000))
    draws = generator.integers(0, world.WHOLE, 40_000, np.uint64, endpoint=False)
    expected = row_by_row(made, votes, draws, refused)
    assert made.answer(votes, draws, refused).tolist() == expected
    assert made.answer(votes.astype(np.uint16), draws, refused).tolist() == expected


def test_votes_and_draws_must_fit() -> None:
    made = world.calibrated_stable(epsilon=4, delta=1e-6, cutoff=3)
    wrong: list[tuple[tuple[int, ...], Any]] = [
        ((5,), np.zeros(5, np.uint64)),
        ((5, 2), np.zeros(4, np.uint64)),
        ((5, 2), np.zeros(5)),
    ]
    for shape, draws in wrong:
        with pytest.raises(ValueError, match="votes must be"):
            made.answer(np.ones(shape, np.int64), draws)


def test_calibration_is_deterministic_and_its_table_cannot_be_changed() -> None:
    _, first = world.fitted_table.__wrapped__(1.0, 1e-6, 20, 1.5)
    _, again = world.fitted_table.__wrapped__(1.0, 1e-6, 20, 1.5)
    assert first.tolist() == again.tolist()
    with pytest.raises(ValueError, match="read-only"):
        world.calibrated_stable(epsilon=1, delta=1e-6, cutoff=20).refusal[0] = 0
