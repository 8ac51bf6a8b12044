"""Noisy votes, Gaussian and Laplace: exact δ on every pair of neighbours, against planted bugs; laws of the cost."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from tests.privacy.exact import LEFT_OUT, Answer, Floats, gaussian_law, laplace_law, row_pairs, worst
from tests.world import Ints, LaplaceVotes, NoisyVotes, calibrated_votes, noises, noisy_labels

TEACHERS, DELTA = 2, 0.02
SMALL = [(1, 2), (2, 2), (1, 3)]
"""Queries and classes whose every outcome is enumerated."""


@dataclass(frozen=True)
class Noisy:
    """A mechanism whose counts have one kind of noise; of δ, it uses at least that part."""

    made: type[NoisyVotes] | type[LaplaceVotes]
    law: Callable[[float], tuple[Ints, Floats]]
    epsilon: float
    used: float

    def calibrated(self, queries: int, classes: int) -> Any:
        return calibrated_votes(self.made, epsilon=self.epsilon, delta=DELTA, queries=queries, classes=classes)

    def exact_delta(self, mechanism: Any, scale: float, epsilon: float | None = None) -> float:
        """The mechanism's true δ at ε when its noise has that scale."""
        pairs = row_pairs(mechanism.answer, self.law(scale), TEACHERS, mechanism.classes, noises(mechanism.classes))
        return worst(pairs, mechanism.queries, self.epsilon if epsilon is None else epsilon)


GAUSSIAN = Noisy(NoisyVotes, gaussian_law, 1.5, 0.5)
LAPLACE = Noisy(LaplaceVotes, laplace_law, 3.0, 0.999)


@pytest.mark.parametrize("noisy", [GAUSSIAN, LAPLACE])
@pytest.mark.parametrize(("queries", "classes"), SMALL)
def test_the_claim_holds_exactly_and_little_is_wasted(noisy: Noisy, queries: int, classes: int) -> None:
    mechanism = noisy.calibrated(queries, classes)
    assert mechanism.cost.epsilon(DELTA) <= noisy.epsilon
    assert noisy.used * DELTA < noisy.exact_delta(mechanism, mechanism.scale) + LEFT_OUT <= DELTA


@pytest.mark.parametrize(
    ("noisy", "queries", "classes", "factor"),
    [
        pytest.param(GAUSSIAN, 1, 2, 0.5, id="Gaussian: sensitivity halved"),
        pytest.param(GAUSSIAN, 1, 3, 1 / math.sqrt(2), id="Gaussian: sqrt 2 forgotten"),
        pytest.param(GAUSSIAN, 2, 2, 1 / math.sqrt(2), id="Gaussian: noise unscaled by queries"),
        pytest.param(GAUSSIAN, 2, 2, 0.8, id="Gaussian: a fifth too little"),
        pytest.param(LAPLACE, 1, 2, 0.5, id="Laplace: sensitivity halved"),
        pytest.param(LAPLACE, 1, 3, 0.5, id="Laplace: one of two moving counts forgotten"),
        pytest.param(LAPLACE, 2, 2, 0.5, id="Laplace: noise unscaled by queries"),
        pytest.param(LAPLACE, 2, 2, 0.95, id="Laplace: a twentieth too little"),
    ],
)
def test_too_little_noise_is_rejected(noisy: Noisy, queries: int, classes: int, factor: float) -> None:
    mechanism = noisy.calibrated(queries, classes)
    assert noisy.exact_delta(mechanism, mechanism.scale * factor) > DELTA


def counted_twice(votes: Ints, noise: Ints) -> tuple[Ints, Ints]:
    """The planted bug: the second count has noise of its own."""
    counts = votes + noise
    return counts.argmax(axis=1), counts


def labelled_without_noise(votes: Ints, noise: Ints) -> tuple[Ints, Ints]:
    """The planted bug: the label is that of the exact votes."""
    return votes.argmax(axis=1), noisy_labels(votes, noise)[1]


@pytest.mark.parametrize(("twin", "width"), [(counted_twice, 2), (labelled_without_noise, 1)])
def test_another_release_under_the_same_noise_is_rejected(twin: Answer, width: int) -> None:
    law = gaussian_law(GAUSSIAN.calibrated(1, 2).scale)
    assert worst(row_pairs(twin, law, TEACHERS, 2, width), 1, GAUSSIAN.epsilon) > DELTA


def test_ties_go_to_the_lowest_class() -> None:
    labels, counts = noisy_labels(np.array([[1, 4, 5]]), np.array([[4, 1, 0]]))
    assert counts.tolist() == [[5, 5, 5]]
    assert labels.tolist() == [0]


def test_noise_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="noise must be"):
        noisy_labels(np.zeros((4, 3), np.int64), np.zeros((4, 1), np.int64))
