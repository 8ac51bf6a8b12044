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


@pytest.mark.parametrize("votes", [PAIRS, VOTES])
@pytest.mark.parametrize("kind", [world.NoisyVotes, world.LaplaceVotes])
def test_odds_of_a_changed_label_are_those_of_the_mechanism(
    votes: np.ndarray, kind: type[world.NoisyVotes] | type[world.LaplaceVotes]
) -> None:
    classes = votes.shape[1]
    mechanism = kind(epsilon=1.0, delta=1e-5, queries=10, classes=classes, scale=60.0)
    noise = (gaussian if kind is world.NoisyVotes else laplace)(
        60.0, (TRIALS * len(votes), 1 if classes == 2 else classes)
    )
    labels, _ = mechanism.answer(np.tile(votes, (TRIALS, 1)), noise)
    changed = (labels != 0).reshape(TRIALS, len(votes)).mean(axis=0)
    assert agree(changed, world.odds(mechanism, votes.astype(float)).changed)
    assert not agree(changed, world.odds(mechanism.with_(scale=90.0), votes.astype(float)).changed)


def test_odds_of_confident_votes_are_those_of_the_mechanism() -> None:
    mechanism = world.ConfidentGNMax(
        epsilon=1.0, delta=1e-5, queries=10, classes=3, answers=TRIALS * 4, threshold=200, test_scale=50.0, scale=40.0
    )
    rows = np.tile(VOTES, (TRIALS, 1))
    labels, _ = mechanism.answer(rows, gaussian(50.0, (len(rows),)), gaussian(40.0, (len(rows), 3)))
    by_row = labels.reshape(TRIALS, 4)
    expected = world.odds(mechanism, VOTES.astype(float))
    assert agree((by_row < 0).mean(axis=0), expected.refused)
    assert agree((by_row > 0).mean(axis=0), (1 - expected.refused) * expected.changed)


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
