"""Confident votes: exact δ against an adaptive asker, planted bugs, and forgotten charges."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.privacy.exact import (
    LEFT_OUT,
    Floats,
    aligned,
    every_noise,
    gaussian_law,
    hockey_stick,
    neighbours,
    row_keys,
    together,
    vote_rows,
)
from tests.world import REFUSED, ConfidentGNMax, Cost, Ints, noises, noisy_labels

DELTA = 0.02
TEACHERS = 3
SMALL = ConfidentGNMax(
    epsilon=1.0, delta=DELTA, queries=2, classes=2, answers=1, threshold=2, test_scale=1.5, scale=1.0
)


def row_law(mechanism: ConfidentGNMax, row: Ints, answered: int) -> tuple[Ints, Floats]:
    """Every outcome of one row of votes, through the real code: outcome numbers and probabilities."""
    tests, test_odds = gaussian_law(mechanism.test_scale)
    noise, odds = every_noise(gaussian_law(mechanism.scale), noises(mechanism.classes))
    answer = partial(mechanism.answer, row[None], answered=answered)
    answers = [answer(test[None], item[None]) for test in tests for item in noise]
    outcomes = row_keys(np.array([[labels[0], *counts[0]] for labels, counts in answers]))
    return outcomes, np.outer(test_odds, odds).ravel()


@dataclass(frozen=True)
class Question:
    """What a row tells: the probability of each outcome on either neighbour, and which outcomes are releases."""

    here: Floats
    there: Floats
    released: NDArray[np.bool_]


@cache
def questions(mechanism: ConfidentGNMax, answered: int) -> list[Question]:
    """Every row of votes and a neighbour of it that an asker may meet."""
    rows = vote_rows(TEACHERS, mechanism.classes)
    laws = {tuple(row): row_law(mechanism, row, answered) for row in rows}
    refused = (REFUSED + 512) * 1024**mechanism.classes
    pairs = [aligned(laws[tuple(row)], laws[tuple(moved)]) for row in rows for moved in neighbours(row)]
    return [Question(here, there, outcomes >= refused + 1024**mechanism.classes) for outcomes, here, there in pairs]


def adaptive_delta(mechanism: ConfidentGNMax, epsilon: float) -> float:
    """The true δ at ε of two rows, against the asker who chooses the second by what the first told."""
    after = {released: questions(mechanism, int(released)) for released in (False, True)}
    factor = np.exp(epsilon)

    def last(here: float, there: float, released: bool) -> float:
        gains = [np.maximum(here * item.here - factor * there * item.there, 0).sum() for item in after[released]]
        return float(max(0.0, here - factor * there, *gains))

    return max(sum(map(last, item.here, item.there, item.released)) for item in after[False])


@pytest.mark.parametrize("threshold", [2, 3])
@pytest.mark.parametrize(("test_scale", "scale"), [(1.5, 1.0), (0.9, 1.4), (2.5, 2.0)])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0])
def test_the_exact_delta_and_the_claim_hold_against_an_adaptive_asker(
    threshold: int, test_scale: float, scale: float, epsilon: float
) -> None:
    mechanism = SMALL.with_(threshold=threshold, test_scale=test_scale, scale=scale)
    assert adaptive_delta(mechanism, epsilon) + LEFT_OUT <= mechanism.delta_at(epsilon)
    assert adaptive_delta(mechanism, claim(mechanism.cost)) + LEFT_OUT <= DELTA


def all_at_once(draws: Sequence[tuple[int, float]], epsilon: float) -> float:
    """The exact δ of so many draws of each scale, each shifted by one, whatever their order."""
    laws = [gaussian_law(scale)[1] for count, scale in draws for _ in range(count)]
    return hockey_stick(together([(np.append(law, 0.0), np.insert(law, 0, 0.0)) for law in laws]), epsilon)


@pytest.mark.parametrize(("test_scale", "scale", "epsilon"), [(1.5, 1.0, 1.0), (2.0, 2.0, 0.5)])
def test_an_adaptive_order_gains_no_more_than_all_draws_and_a_forgotten_one_is_rejected(
    test_scale: float, scale: float, epsilon: float
) -> None:
    mechanism = SMALL.with_(threshold=3, test_scale=test_scale, scale=scale)
    gained, (tests, counts) = (
        adaptive_delta(mechanism, epsilon),
        [(moved, scale) for _, moved, scale in mechanism.moves],
    )
    assert gained <= all_at_once([tests, counts], epsilon) <= mechanism.delta_at(epsilon)
    assert all_at_once([tests], epsilon) < gained  # planted: releases for nothing
    assert all_at_once([counts], epsilon) < gained  # planted: tests for nothing


def claim(cost: Cost) -> float:
    return cost.epsilon(DELTA)


class TellsWithoutTest(ConfidentGNMax):
    def confident(self, votes: Ints, test_noise: Ints, answered: int = 0) -> NDArray[np.bool_]:
        return super().confident(votes, np.zeros_like(test_noise), answered)


class TellsRefusedCounts(ConfidentGNMax):
    def answer(self, votes: Ints, test_noise: Ints, noise: Ints, answered: int = 0) -> tuple[Ints, Ints]:
        labels, _ = super().answer(votes, test_noise, noise, answered)
        return labels, noisy_labels(votes, noise)[1]


class TellsTheTrueLargest(ConfidentGNMax):
    def answer(self, votes: Ints, test_noise: Ints, noise: Ints, answered: int = 0) -> tuple[Ints, Ints]:
        labels, counts = super().answer(votes, test_noise, noise, answered)
        return np.where(labels == REFUSED, labels, votes.argmax(axis=1)), counts


STRICT = SMALL.with_(threshold=3)
BLUNT = SMALL.with_(test_scale=4.0)


@pytest.mark.parametrize(
    ("honest", "twin"),
    [
        pytest.param(BLUNT, BLUNT.with_(answers=2), id="one release too many"),
        pytest.param(SMALL, SMALL.with_(test_scale=0.75), id="sensitivity of the test halved"),
        pytest.param(SMALL, SMALL.with_(scale=0.5), id="sensitivity of the counts halved"),
        pytest.param(STRICT, TellsWithoutTest(**dict(STRICT)), id="test without noise"),
        pytest.param(STRICT, TellsRefusedCounts(**dict(STRICT)), id="counts of refused rows told"),
        pytest.param(SMALL, TellsTheTrueLargest(**dict(SMALL)), id="label without noise"),
    ],
)
def test_planted_bugs_are_rejected(honest: ConfidentGNMax, twin: ConfidentGNMax) -> None:
    assert adaptive_delta(honest, claim(honest.cost)) <= DELTA < adaptive_delta(twin, claim(honest.cost))


@pytest.mark.parametrize(
    "forgotten",
    [
        pytest.param(Cost.gaussian(SMALL.answers / (2 * SMALL.scale**2)), id="tests not charged"),
        pytest.param(Cost.gaussian(SMALL.queries / (2 * SMALL.test_scale**2)), id="releases not charged"),
    ],
)
def test_a_forgotten_charge_is_rejected(forgotten: Cost) -> None:
    assert adaptive_delta(SMALL, claim(forgotten)) > DELTA
