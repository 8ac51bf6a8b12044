"""Stable queries: undeclared answers under neighbours, and the most predictive feature by shard as an example."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.privacy.exact import Steady
from tests.world import (
    NoisyVotes,
    SparseVector,
    StableVoting,
    WrongInput,
    ask_query,
    distance_to_instability,
    leaders,
    sum_tail,
)

Leaders = Callable[[Sequence[Hashable]], tuple[Hashable, tuple[int, int]]]


MECHANISMS = [
    pytest.param(StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=1), id="stable"),
    pytest.param(SparseVector.calibrate(epsilon=1.0, delta=1e-5, cutoff=1), id="sparse vector"),
]

# The example --------------------------------------------------------------------------------------------------------

FEATURES = ("age", "hours", "income", "zip")


def most_predictive(features: NDArray[np.float64], labels: NDArray[np.float64]) -> str:
    """The feature of largest correlation with the label on one shard."""
    return FEATURES[int(np.abs([np.corrcoef(column, labels)[0, 1] for column in features.T]).argmax())]


def shards(strength: float) -> list[str]:
    """What 300 shards of 60 rows answer, where income predicts the label with this strength and nothing else does."""
    rng = np.random.default_rng(3)
    features, noise = rng.normal(size=(300, 60, 4)), rng.normal(size=(300, 60))
    labels = strength * features[:, :, 2] + noise
    return [most_predictive(*shard) for shard in zip(features, labels, strict=True)]


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_most_predictive_feature_is_released_where_shards_agree(mechanism: StableVoting | SparseVector) -> None:
    assert ask_query(mechanism, [shards(strength=1.0), shards(strength=0.0)], Steady()) == ["income", None]


# Neighbours ---------------------------------------------------------------------------------------------------------


@cache
def distance(counts: tuple[int, int]) -> int:
    return int(distance_to_instability(np.array([counts]))[0])


def leaks(leading: Leaders, answers: Sequence[Hashable]) -> bool:
    """Whether some teacher's change of answer breaks what the proofs use: distances one apart, 0 where winners differ.

    Over every vector of five answers out of these. Winners differ where a reader can tell them apart.
    """
    for here in product(answers, repeat=5):
        winner, counts = leading(here)
        for teacher, other in product(range(5), answers):
            there = [*here[:teacher], other, *here[teacher + 1 :]]
            other_winner, other_counts = leading(there)
            near, far = sorted((distance(counts), distance(other_counts)))
            if far - near > 1 or (repr(winner) != repr(other_winner) and far > 0):
                return True
    return False


def test_undeclared_answers_keep_what_the_proofs_use() -> None:
    assert not leaks(leaders, ["a", "b", "c", "d"])
    assert not leaks(leaders, [1, True, 1.0, 0.0, -0.0])


def test_equal_answers_that_look_different_would_leak() -> None:
    def merged(answers: Sequence[Hashable]) -> tuple[Hashable, tuple[int, int]]:
        ranked = Counter(answers).most_common(2)
        return ranked[0][0], (ranked[0][1], ranked[1][1] if len(ranked) > 1 else 0)

    assert not leaks(merged, ["a", "b", "c"])
    assert leaks(merged, [1, True, 2])


def test_a_distance_that_trusts_a_tie_would_leak() -> None:
    def trusting(answers: Sequence[Hashable]) -> tuple[Hashable, tuple[int, int]]:
        winner, (top, second) = leaders(answers)
        return winner, (top + 1, second)

    assert leaks(trusting, ["a", "b", "c"])


def test_noisy_counts_of_undeclared_answers_would_leak() -> None:
    """One teacher of nine knows an answer: noisy counts release it far oftener than any δ, and never without it."""
    lead_of_the_others, scale = 8 - 1, 2.0
    assert sum_tail(scale, scale, lead_of_the_others + 1) > 1e-2


def test_only_mechanisms_that_refuse_may_release_undeclared_answers() -> None:
    noisy = NoisyVotes.calibrate(epsilon=1.0, delta=1e-5, queries=1, classes=2)
    with pytest.raises(WrongInput, match="noisy_votes"):
        ask_query(noisy, [["a", "b"]], Steady())


# Asking -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cutoff", [1, 3])
def test_batches_are_answered_as_one_stream(cutoff: int) -> None:
    mechanism = StableVoting.calibrate(epsilon=8.0, delta=1e-3, cutoff=cutoff)
    rng = np.random.default_rng(5)
    answers = [rng.choice(["a", "b", "c"], size=120, p=[0.9, 0.08, 0.02] if row % 4 else None) for row in range(40)]
    stream = [list(map(str, row)) for row in answers]
    whole = ask_query(mechanism, stream, Steady())
    assert whole.count(None) == cutoff
    assert whole[-1] is None
    parts: list[str | None] = []
    for start in range(0, 40, 7):
        parts += ask_query(mechanism, stream[start : start + 7], Steady(), first=start, refused=parts.count(None))
    assert parts == whole


def test_a_query_of_no_teachers_is_refused_and_no_queries_have_no_answers() -> None:
    mechanism = SparseVector.calibrate(epsilon=1.0, delta=1e-5, cutoff=1)
    assert ask_query(mechanism, [], Steady()) == []
    with pytest.raises(WrongInput):
        ask_query(mechanism, [[]], Steady())
