"""Expected outcomes are those of the mechanisms themselves, simulated with noise that is for tests alone; and a public
guess of how teachers agree becomes rows of shares.
"""

import math
from typing import Any

import numpy as np
import pytest

from tests import world

SEED = 20240229
GENERATOR = np.random.default_rng(SEED)
VOTES = np.array([[300, 0, 0], [210, 80, 10], [150, 145, 5], [170, 65, 65]])
PAIRS = np.array([[300, 0], [210, 90], [155, 145], [190, 110]])
TRIALS = 4000


@pytest.fixture(autouse=True)
def same_draws() -> None:
    """Whichever tests run before it, a test sees the same draws."""
    GENERATOR.bit_generator.state = np.random.default_rng(SEED).bit_generator.state


def laplace(scale: float, size: tuple[int, ...]) -> np.ndarray:
    """Discrete Laplace noise, for tests alone."""
    odds_of_more = -math.expm1(-1 / scale)
    return GENERATOR.geometric(odds_of_more, size) - GENERATOR.geometric(odds_of_more, size)


def gaussian(scale: float, size: tuple[int, ...]) -> np.ndarray:
    return np.rint(GENERATOR.normal(0, scale, size)).astype(np.int64)


def agree(found: np.ndarray, expected: np.ndarray) -> bool:
    """Frequencies of TRIALS against probabilities, within five standard deviations."""
    spread = np.sqrt(np.maximum(expected * (1 - expected), 1e-4) / TRIALS)
    return bool((np.abs(found - expected) <= 5 * spread).all())


@pytest.mark.parametrize("votes", [PAIRS, VOTES], ids=["two classes", "three"])
@pytest.mark.parametrize("name", ["stable", "noisy_votes", "confident", "laplace_votes"])
def test_odds_by_a_formula_are_those_of_simulated_sessions(name: str, votes: np.ndarray) -> None:
    """A noisy threshold is kept for an epoch, but by its formula drawn for each row."""
    terms: dict[str, Any] = {"cutoff": 10, "queries": 500, "classes": votes.shape[1], "teachers": 300, "order": 2.0}
    mechanism: Any = world.calibrate(name, epsilon=4.0, delta=1e-5, **terms)
    if name == "confident":
        mechanism = mechanism.with_(answers=500)  # a later row is refused, whatever its votes
    simulate, shares = world.odds.dispatch(object), votes.astype(float)
    simulated, expected = simulate(mechanism, shares), world.odds(mechanism, shares)
    assert agree(simulated.refused, expected.refused)
    assert agree(simulated.changed, expected.changed)
    if hasattr(mechanism, "scale"):
        assert not agree(simulated.changed, world.odds(mechanism.with_(scale=mechanism.scale / 2), shares).changed)


def test_odds_of_stable_voting_are_its_table() -> None:
    mechanism = world.calibrated_stable(epsilon=2.0, delta=1e-5, cutoff=5)
    expected = [int(mechanism.refusal[min(d, len(mechanism.refusal) - 1)]) / 2**64 for d in (149, 59, 4, 39)]
    assert world.odds(mechanism, PAIRS.astype(float)).refused.tolist() == expected


SESSIONS: list[tuple[world.Mechanism, list[list[int]], tuple[int, ...], float, float]] = [
    (
        world.calibrated_stable(epsilon=2.0, delta=1e-5, cutoff=10),
        [[300, 0], [270, 30], [230, 70], [160, 140]],
        (20, 60, 400),
        0.95,
        1.05,
    ),
    (  # a noisy threshold answers more than expected, never fewer
        world.calibrated_sparse_vector(epsilon=4.0, delta=1e-5, cutoff=5),
        [[300, 0], [280, 20], [240, 60], [225, 75]],
        (30, 200),
        0.95,
        1.6,
    ),
]
"""A mechanism, votes, numbers of rows that are drawn from them, and between which multiples of the expectation the mean
of rows answered by whole sessions lies."""


@pytest.mark.parametrize(("mechanism", "votes", "several", "least", "most"), SESSIONS, ids=["stable", "sparse_vector"])
def test_rows_answered_are_those_of_whole_sessions(
    mechanism: Any, votes: list[list[int]], several: tuple[int, ...], least: float, most: float
) -> None:
    for queries in several:
        expected = world.expectation(mechanism, np.array(votes, float), queries).answered
        answered = []
        for _ in range(300):
            rows = np.array(votes)[GENERATOR.integers(0, len(votes), queries)]
            if isinstance(mechanism, world.StableVoting):
                labels = mechanism.answer(rows, GENERATOR.integers(0, 2**64, queries, np.uint64))
            else:
                noise = laplace(mechanism.query_scale, (queries,))
                labels = mechanism.answer(rows, noise, laplace(mechanism.threshold_scale, (mechanism.cutoff,)))
            answered.append((labels >= 0).sum())
        assert least * expected < np.mean(answered) < most * expected


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_a_figure_becomes_rows_of_shares_with_that_mean(classes: int) -> None:
    """What the winner lacks goes to as few rivals as can hold it."""
    for mean in (0.6, 0.9, 1.0):
        shares = world.profile(mean, classes)
        assert shares.shape == (world.PROFILE_ROWS, classes)
        assert shares.sum(axis=1) == pytest.approx(np.ones(world.PROFILE_ROWS))
        assert (np.diff(shares, axis=1) <= 1e-12).all()
        assert shares[:, 0].mean() == pytest.approx(mean, abs=2e-3)
    first, second = world.profile(0.6, 4)[0][:2]
    assert second == first < 0.4
