"""The noisy threshold: code against specification, specification against the best adversary, and planted bugs."""

import math
from decimal import Decimal, localcontext
from itertools import product

import numpy as np
import pytest

from tests.privacy.transcripts import Run, Step, adaptive, patient, steps, votes_at, worst_stream
from tests.world import NoisyThreshold, SparseVector, calibrated_sparse_vector, hockey_stick, least_with_tail, sum_tail

EXACT = 1e-9
"""Relative head-room of what is rounded up."""


def threshold(cutoff: int = 1, *, above: int = 4, scales: tuple[float, float] = (1.0, 2.0)) -> SparseVector:
    return SparseVector(
        epsilon=1.0, delta=0.1, cutoff=cutoff, threshold=above, threshold_scale=scales[0], query_scale=scales[1]
    )


def claimed(mechanism: NoisyThreshold, epsilon: float) -> float:
    """δ the mechanism is proved to have at `epsilon`."""
    return hockey_stick(mechanism.epoch_epsilon, mechanism.cutoff, epsilon) + mechanism.slip


# The code is the specification --------------------------------------------------------------------------------------

DISTANCES = [2, 1, 2, 3]
NOISE = range(-1, 2)


def same_on_all_noise(mechanism: SparseVector, specification: Run) -> bool:
    votes = votes_at(DISTANCES)
    return all(
        mechanism.answer(votes, np.array(queries), np.array(thresholds)).tolist()
        == specification.answer(DISTANCES, queries, [*thresholds, *thresholds])
        for queries in product(NOISE, repeat=len(DISTANCES))
        for thresholds in product(NOISE, repeat=mechanism.cutoff)
    )


@pytest.mark.parametrize("cutoff", [1, 2, 3])
def test_the_code_is_the_specification_on_all_noise(cutoff: int) -> None:
    mechanism = threshold(cutoff, above=2)
    assert same_on_all_noise(mechanism, Run.of(mechanism))


@pytest.mark.parametrize(
    "bug",
    [
        pytest.param({"redrawn": "never"}, id="threshold not redrawn"),
        pytest.param({"redrawn": "row"}, id="threshold redrawn at every row"),
        pytest.param({"strict": False}, id="at least for above"),
        pytest.param({"cutoff": 3}, id="a refusal too many"),
    ],
)
def test_code_with_a_planted_bug_is_not_the_specification(bug: dict[str, object]) -> None:
    mechanism = threshold(2, above=2)
    assert not same_on_all_noise(mechanism, Run.of(mechanism, **bug))


# The specification against the best adversary -----------------------------------------------------------------------

NEAR = [0, 1, 3, 4, 5]
SETTINGS = [
    threshold(1),
    threshold(2, above=3, scales=(2.0, 1.5)),
    threshold(3, above=1, scales=(0.7, 0.9)),
    calibrated_sparse_vector(epsilon=4.0, delta=0.05, cutoff=1),
    calibrated_sparse_vector(epsilon=3.0, delta=0.2, cutoff=2),
]


@pytest.mark.parametrize("mechanism", SETTINGS)
def test_no_adaptive_adversary_passes_the_claim(mechanism: SparseVector) -> None:
    around = sorted({0, mechanism.threshold - 1, mechanism.threshold, mechanism.threshold + 2})
    whole = mechanism.epoch_epsilon * mechanism.cutoff
    for epsilon in (0.1 * whole, 0.5 * whole, 0.9 * whole, whole, mechanism.epsilon):
        found = adaptive(Run.of(mechanism), steps([item for item in around if item >= 0]), 3, epsilon)
        assert found <= claimed(mechanism, epsilon) * (1 + EXACT)


@pytest.mark.parametrize(("part", "beyond"), [(0.95, True), (1.0, False)])
def test_a_patient_adversary_reaches_all_of_an_epoch_and_no_more(part: float, beyond: bool) -> None:
    mechanism = threshold(1, above=12)
    reached = patient(Run.of(mechanism), worst_stream(Run.of(mechanism), 1, 20), part * mechanism.epoch_epsilon)
    assert (reached > 1e-5) == beyond


BUGS = {
    "sensitivity halved: margin for distance": (steps(NEAR, jump=2), {}),
    "a refusal too many": (steps(NEAR), {"cutoff": 2}),
    "query noise not scaled by 2": (steps(NEAR), {"query_scale": 1.0}),
    "no query noise (Stoddard et al.)": (steps(NEAR), {"query_scale": 0.0}),
    "no cutoff (Chen et al.)": (steps(NEAR), {"cutoff": 10**6}),
    "at least for above": (steps(NEAR), {"strict": False}),
    "table shifted: threshold less 1": (steps(NEAR), {"threshold": 3}),
    "tie broken by data, but trusted": ([*steps(NEAR), Step(1, 1, split=True)], {}),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_pass_the_claim(bug: str) -> None:
    mechanism = threshold(1)
    queries, changes = BUGS[bug]
    broken = Run.of(mechanism, **changes)  # type: ignore[arg-type]  # bugs differ in what they change
    assert adaptive(broken, queries, 3, mechanism.epoch_epsilon) > 1.1 * claimed(mechanism, mechanism.epoch_epsilon)


def test_a_threshold_redrawn_at_every_row_lets_answers_leak() -> None:
    mechanism, answered = threshold(1, above=14), [Step(16, 15)] * 12
    broken = Run.of(mechanism, redrawn="row")
    assert patient(Run.of(mechanism), answered, mechanism.epoch_epsilon) == 0
    assert patient(broken, answered, mechanism.epoch_epsilon) > 10 * claimed(mechanism, mechanism.epoch_epsilon)


def test_a_label_delta_that_is_not_split_over_epochs_passes_the_budget() -> None:
    budget = 0.05
    mechanism = threshold(3, above=least_with_tail(1.0, 2.0, budget) - 1)
    split = [Step(0, 0, split=True)]
    assert adaptive(Run.of(mechanism), split, 3, mechanism.epoch_epsilon * 3) > budget
    right = mechanism.with_(threshold=least_with_tail(1.0, 2.0, budget / 3) - 1)
    assert adaptive(Run.of(right), split, 3, right.epoch_epsilon * 3) <= budget


# Costs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scales", [(1.0, 2.0), (2.0, 1.0), (3.0, 3.0), (0.05, 4.0), (5.0, 5.0 + 1e-9), (30.0, 36.0)])
@pytest.mark.parametrize("least", [0, 1, 7, 60])
def test_tail_of_the_sum_is_exact_and_rounded_up(scales: tuple[float, float], least: int) -> None:
    with localcontext(prec=40):
        p, q = ((-1 / Decimal(scale)).exp() for scale in scales)
        reach = math.ceil(50 * max(scales)) + least
        points = range(-reach, reach + 1)
        tails = {t: q**t / (1 + q) if t > 0 else 1 - q ** (1 - t) / (1 + q) for t in (least - x for x in points)}
        exact = sum((1 - p) / (1 + p) * p ** abs(x) * tails[least - x] for x in points)
        assert exact <= Decimal(sum_tail(*scales, least)) <= exact * (1 + Decimal("3e-9"))


@pytest.mark.parametrize("probability", [0.4, 0.01, 1e-9])
def test_least_distance_with_a_tail_is_the_least(probability: float) -> None:
    least = least_with_tail(3.0, 4.0, probability)
    assert sum_tail(3.0, 4.0, least) <= probability < sum_tail(3.0, 4.0, least - 1)
