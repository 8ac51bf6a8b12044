"""Expected outcomes are those of the mechanisms themselves, simulated with noise that is for tests alone."""

import math
from dataclasses import asdict

import numpy as np
import pytest

from tests.world import ConfidentGNMax, LaplaceVotes, Mechanism, NoisyVotes, SparseVector, StableVoting, expectation

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
@pytest.mark.parametrize("kind", [NoisyVotes, LaplaceVotes])
def test_odds_of_a_changed_label_are_those_of_the_mechanism(
    votes: np.ndarray, kind: type[NoisyVotes] | type[LaplaceVotes]
) -> None:
    classes = votes.shape[1]
    mechanism = kind(epsilon=1.0, delta=1e-5, queries=10, classes=classes, scale=60.0)
    noise = (gaussian if kind is NoisyVotes else laplace)(60.0, (TRIALS * len(votes), 1 if classes == 2 else classes))
    labels, _ = mechanism.answer(np.tile(votes, (TRIALS, 1)), noise)
    changed = (labels != 0).reshape(TRIALS, len(votes)).mean(axis=0)
    assert agree(changed, mechanism.odds(votes.astype(float)).changed)
    assert not agree(changed, kind(**{**asdict(mechanism), "scale": 90.0}).odds(votes.astype(float)).changed)


def test_odds_of_confident_votes_are_those_of_the_mechanism() -> None:
    mechanism = ConfidentGNMax(
        epsilon=1.0, delta=1e-5, queries=10, classes=3, answers=TRIALS * 4, threshold=200, test_scale=50.0, scale=40.0
    )
    rows = np.tile(VOTES, (TRIALS, 1))
    labels, _ = mechanism.answer(rows, gaussian(50.0, (len(rows),)), gaussian(40.0, (len(rows), 3)))
    by_row = labels.reshape(TRIALS, 4)
    expected = mechanism.odds(VOTES.astype(float))
    assert agree((by_row < 0).mean(axis=0), expected.refused)
    assert agree((by_row > 0).mean(axis=0), (1 - expected.refused) * expected.changed)


def test_odds_of_stable_voting_are_its_table() -> None:
    mechanism = StableVoting.calibrate(epsilon=2.0, delta=1e-5, cutoff=5)
    expected = [int(mechanism.refusal[min(d, len(mechanism.refusal) - 1)]) / 2**64 for d in (149, 59, 4, 39)]
    assert mechanism.odds(PAIRS.astype(float)).refused.tolist() == expected


def runs(mechanism: Mechanism, votes: np.ndarray, queries: int, times: int = 300) -> float:
    """Mean rows answered by whole sessions over rows drawn from votes."""
    total = 0
    for _ in range(times):
        rows = votes[GENERATOR.integers(0, len(votes), queries)]
        if isinstance(mechanism, StableVoting):
            labels = mechanism.answer(rows, GENERATOR.integers(0, 2**64, queries, np.uint64))
        else:
            assert isinstance(mechanism, SparseVector)
            noise = laplace(mechanism.query_scale, (queries,)), laplace(mechanism.threshold_scale, (mechanism.cutoff,))
            labels = mechanism.answer(rows, *noise)
        total += int((labels >= 0).sum())
    return total / times


@pytest.mark.parametrize("queries", [20, 60, 400])
def test_rows_answered_are_those_of_whole_sessions(queries: int) -> None:
    mechanism = StableVoting.calibrate(epsilon=2.0, delta=1e-5, cutoff=10)
    votes = np.array([[300, 0], [270, 30], [230, 70], [160, 140]])
    expected = expectation(mechanism, votes.astype(float), queries).answered
    assert runs(mechanism, votes, queries) == pytest.approx(expected, rel=0.05)


def test_rows_answered_by_a_noisy_threshold_are_not_fewer_than_expected() -> None:
    mechanism = SparseVector.calibrate(epsilon=4.0, delta=1e-5, cutoff=5)
    votes = np.array([[300, 0], [280, 20], [240, 60], [225, 75]])
    for queries in (30, 200):
        expected = expectation(mechanism, votes.astype(float), queries).answered
        assert 0.95 * expected < runs(mechanism, votes, queries) < 1.6 * expected
