"""Noisy votes: exact δ on every pair of neighbours, against planted bugs; laws of the cost; what leaves the door."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from tests.privacy.exact import LEFT_OUT, gaussian_law, row_pairs, worst
from tests.world import Ints, NoisyVotes, noises, noisy_labels

TEACHERS = 2
EPSILON, DELTA = 1.5, 0.02
SMALL = [(1, 2), (2, 2), (1, 3)]


def calibrated(queries: int, classes: int) -> NoisyVotes:
    return NoisyVotes.calibrate(epsilon=EPSILON, delta=DELTA, queries=queries, classes=classes)


def exact_delta(mechanism: NoisyVotes, scale: float) -> float:
    """The mechanism's true δ at EPSILON when its noise has that scale."""
    width = noises(mechanism.classes)
    pairs = row_pairs(mechanism.answer, gaussian_law(scale), TEACHERS, mechanism.classes, width)
    return worst(pairs, mechanism.queries, EPSILON)


@pytest.mark.parametrize(("queries", "classes"), SMALL)
def test_the_claim_holds_exactly_and_little_is_wasted(queries: int, classes: int) -> None:
    mechanism = calibrated(queries, classes)
    assert mechanism.cost.epsilon(DELTA) <= EPSILON
    assert 0.5 * DELTA < exact_delta(mechanism, mechanism.scale) + LEFT_OUT <= DELTA


@pytest.mark.parametrize(
    ("queries", "classes", "factor"),
    [
        pytest.param(1, 2, 0.5, id="sensitivity halved"),
        pytest.param(1, 3, 1 / sqrt(2), id="sqrt 2 forgotten"),
        pytest.param(2, 2, 1 / sqrt(2), id="noise unscaled by queries"),
        pytest.param(2, 2, 0.8, id="a fifth too little"),
    ],
)
def test_too_little_noise_is_rejected(queries: int, classes: int, factor: float) -> None:
    mechanism = calibrated(queries, classes)
    assert exact_delta(mechanism, mechanism.scale * factor) > DELTA


def test_a_second_count_under_noise_of_its_own_is_rejected() -> None:
    mechanism = calibrated(1, 2)

    def twin(votes: Ints, noise: Ints) -> tuple[Ints, Ints]:
        counts = votes + noise
        return counts.argmax(axis=1), counts

    pairs = row_pairs(twin, gaussian_law(mechanism.scale), TEACHERS, 2, width=2)
    assert worst(pairs, 1, EPSILON) > DELTA


def test_a_label_told_without_noise_is_rejected() -> None:
    mechanism = calibrated(1, 2)

    def twin(votes: Ints, noise: Ints) -> tuple[Ints, Ints]:
        _, counts = noisy_labels(votes, noise)
        return votes.argmax(axis=1), counts

    assert worst(row_pairs(twin, gaussian_law(mechanism.scale), TEACHERS, 2, width=1), 1, EPSILON) > DELTA


def test_a_scale_that_does_not_earn_the_claim_does_not_get_it() -> None:
    mechanism = replace(calibrated(1_000, 2), scale=10.0)
    assert mechanism.cost.claims == ()
    assert mechanism.cost.epsilon(DELTA) > EPSILON


@pytest.mark.parametrize("classes", [2, 10])
def test_the_curve_is_linear_in_queries_and_falls_with_noise(classes: int) -> None:
    noisy_votes = NoisyVotes(epsilon=1.0, delta=1e-5, queries=1, classes=classes, scale=40.0)
    many = replace(noisy_votes, queries=250)
    assert many.cost.renyi == pytest.approx(250 * np.array(noisy_votes.cost.renyi))
    assert max(replace(many, scale=41.0).cost.renyi) < max(many.cost.renyi)


def test_two_classes_share_one_noise_and_sum_to_the_teachers() -> None:
    labels, counts = noisy_labels(np.array([[3, 7], [5, 5], [9, 1]], np.uint16), np.array([[-20], [0], [5]]))
    assert counts.tolist() == [[23, -13], [5, 5], [4, 6]]
    assert labels.tolist() == [0, 0, 1]


def test_ties_go_to_the_lowest_class() -> None:
    labels, counts = noisy_labels(np.array([[1, 4, 5]]), np.array([[4, 1, 0]]))
    assert counts.tolist() == [[5, 5, 5]]
    assert labels.tolist() == [0]


def test_noise_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="noise must be"):
        noisy_labels(np.zeros((4, 3), np.int64), np.zeros((4, 1), np.int64))
