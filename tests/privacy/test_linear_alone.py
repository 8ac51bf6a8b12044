"""A linear teacher alone: to the bit the same whatever other shards hold; and its votes, whatever others learned.

Law 8 for teachers that are asked as one array. A block of shards is trained with and without a row of one of them, and
weights are compared as bytes: one teacher may change. One shard is fitted again and again in memory that others used.
Votes of one are compared beside others of any weights. Planted: padding to the longest shard, a stopping rule that
shards share, a scale that they share; weights that are scaled together.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from tests import world
from tests.support.shards import Shard, learner, plain_encoding, write_block

WIDTH, COUNT = 7, 5
LOGISTIC = "sklearn.linear_model.LogisticRegression"
Taught = Callable[[Sequence[Shard], int], list[bytes]]


def drawn(rng: np.random.Generator, kinds: Sequence[str], most: int, classes: int) -> list[Shard]:
    """The rows (rows, WIDTH) and labels of a shard of each of those kinds."""
    found = []
    for kind in kinds:
        rows = int(rng.integers(0, most + 1))
        X, y = rng.normal(size=(rows, WIDTH)), rng.integers(0, classes, rows)
        X *= {"huge": 1e9, "constant": 0}.get(kind, 1)
        y *= kind != "one class"
        X[:, 0] += 20 * y * (kind == "apart")
        found.append((X.astype(np.float32), y))
    return found


@st.composite
def blocks(draw: st.DrawFn) -> tuple[list[Shard], int, int]:
    """COUNT shards, how many classes there are, and a shard that loses a row."""
    rng, classes = np.random.default_rng(draw(st.integers(0, 1 << 30))), draw(st.sampled_from([2, 3]))
    kind = st.sampled_from(["plain", "huge", "constant", "one class", "apart"])
    shards = drawn(rng, [draw(kind) for _ in range(COUNT)], draw(st.sampled_from([3, 40, 300])), classes)
    return shards, classes, draw(st.integers(0, COUNT - 1))


def changed(taught: Taught, block: tuple[list[Shard], int, int]) -> int:
    """How many teachers change, to the bit, as a shard loses its last row."""
    shards, classes, at = block
    X, y = shards[at]
    fewer = [*shards[:at], (X[:-1], y[:-1]), *shards[at + 1 :]]
    return sum(a != b for a, b in zip(taught(shards, classes), taught(fewer, classes), strict=True))


@pytest.mark.parametrize("estimator", world.LINEAR)
@pytest.mark.parametrize("cases", [6, pytest.param(60, marks=pytest.mark.slow)])
def test_a_row_of_one_shard_changes_one_teacher(
    estimator: str, cases: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    vault, plan = world.Vault(tmp_path / "vault"), learner(estimator, COUNT)

    def taught(shards: Sequence[Shard], classes: int) -> list[bytes]:
        block = write_block(dict(enumerate(shards)), (0, COUNT), COUNT, vault)
        _, found = world.load_teachers(
            world.teach(block, plan, plain_encoding(WIDTH, classes), vault, "teachers"), vault
        )
        assert isinstance(found, world.LinearTeachers)
        return [found.weights[:, at].tobytes() for at in range(COUNT)]

    @settings(max_examples=cases)
    @given(blocks())
    def holds(block: tuple[list[Shard], int, int]) -> None:
        assert changed(taught, block) <= 1

    holds()


@pytest.mark.parametrize("estimator", world.LINEAR)
def test_a_teacher_is_the_same_wherever_memory_is_free(estimator: str) -> None:
    """What other shards left of it decides where a fit's own arrays lie. In the precision of the fit."""
    rng, plan = np.random.default_rng(2), learner(estimator, COUNT)
    for classes, rows in ((2, 37), (3, 150)):
        X, y = rng.normal(size=(rows, 31)).astype(np.float32), rng.permutation(np.arange(rows) % classes)
        found = set()
        for _ in range(12):
            used = [np.empty(int(size), dtype=np.uint8) for size in rng.integers(1, 5_000, 40)]
            del used[::2]
            found |= set(each_alone([(X, y)], classes, plan))
        assert len(found) == 1


def each_alone(shards: Sequence[Shard], classes: int, plan: world.TeachersPlan | None = None) -> list[bytes]:
    """Teachers as `teach` fits them, in the precision of the fit; by default of logistic regression."""
    plan = plan or learner(LOGISTIC, COUNT)
    with world.silenced():
        fits = [
            world.fitted_teacher(plan, at, world.aligned_copy(X), world.aligned_copy(y), classes).model
            for at, (X, y) in enumerate(shards)
        ]
    return [b"" if fit is None else fit.coef_.tobytes() + fit.intercept_.tobytes() for fit in fits]


def padded(shards: Sequence[Shard], classes: int) -> list[bytes]:  # noqa: ARG001, as the others
    """A planted bug: sums over rows, of their exponentials, are over as many as the longest shard has, some of them
    zero. They are the same but for how they are grouped."""
    longest, found = max(len(y) for _, y in shards), []
    for X, y in shards:
        columns = np.zeros((WIDTH, longest))
        columns[:, : len(y)] = np.exp(X.T.astype(np.float64))
        found.append((columns.sum(axis=1) / len(y)).tobytes())
    return found


def stopped_together(shards: Sequence[Shard], classes: int) -> list[bytes]:
    """A planted bug: all fits end with the first that has converged."""
    with world.silenced():
        fits = [world.fitted_teacher(learner(LOGISTIC, COUNT), 0, X, y, classes).model for X, y in shards]
    return each_alone(shards, classes, learner(LOGISTIC, COUNT, max_iter=min(int(fit.n_iter_[0]) for fit in fits)))


def scaled_together(shards: Sequence[Shard], classes: int) -> list[bytes]:
    """A planted bug: columns have unit variance over all shards."""
    scale = np.vstack([X for X, _ in shards]).std(axis=0)
    return each_alone([((X / scale).astype(np.float32), y) for X, y in shards], classes)


PLANTED = (padded, stopped_together, scaled_together)


@pytest.mark.parametrize("bug", PLANTED)
def test_what_couples_shards_is_found(bug: Taught) -> None:
    rng = np.random.default_rng(1)
    for tried in range(24):
        classes, sizes = 2 + tried % 2, (32, 30, 28, 15, 5 + tried)
        shards = []
        for rows in sizes:
            X, y = rng.normal(size=(rows, WIDTH)), rng.permutation(np.arange(rows) % classes)
            X[:, 0] += y
            shards.append((X.astype(np.float32), y))
        for at in range(COUNT):
            if changed(bug, (shards, classes, at)) > 1:
                assert changed(each_alone, (shards, classes, at)) == 1
                return
    raise AssertionError("the planted bug was not found")


NUMBERS = st.sampled_from([0.0, -0.0, 1.0, -1e38, 3e38, 1e-45, np.nan, np.inf, -np.inf])


@st.composite
def companies(draw: st.DrawFn) -> tuple[list[np.ndarray], np.ndarray, int]:
    """Weights (outputs, teachers, WIDTH + 1) of ordinary teachers, and of odd ones but for one; rows; and which one."""
    rng, outputs = np.random.default_rng(draw(st.integers(0, 1 << 30))), draw(st.sampled_from([1, 3]))
    teachers, rows = draw(st.sampled_from([2, 5, 33, 251])), draw(st.integers(1, 40))
    plain = rng.normal(size=(outputs, teachers, WIDTH + 1)).astype(np.float32)
    odd, at = np.full_like(plain, draw(NUMBERS)), draw(st.integers(0, teachers - 1))
    odd[rng.random(odd.shape) < 0.3] = draw(NUMBERS)
    odd[:, at] = plain[:, at]
    return [plain, odd], rng.normal(size=(rows, WIDTH)).astype(np.float32), at


SessionRequest = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def asked(weights: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The scores (outputs, teachers, rows), and the counts of votes."""
    teachers, classes = world.LinearTeachers(weights), max(2, len(weights))
    counts = np.zeros((len(X), classes), dtype=np.uint32)
    with world.silenced():
        teachers.add_votes(counts, X)
        return np.concatenate(list(teachers.scores(X)), axis=1), counts


def scaled_by_the_largest(weights: np.ndarray, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A planted bug: weights are scaled to one range, which changes no vote but by rounding."""
    with np.errstate(all="ignore"):
        return asked(weights / np.abs(weights).max(), X)


def seen(how: SessionRequest, weights: np.ndarray, X: np.ndarray, at: int) -> bytes:
    """What one teacher adds to the counts, and its scores."""
    without = weights.copy()
    without[:, at] = 0  # votes for the first class
    (scores, counts), (_, others) = how(weights, X), how(without, X)
    return scores[:, at].tobytes() + (counts.astype(int) - others).tobytes()


def differs(how: SessionRequest, company: tuple[list[np.ndarray], np.ndarray, int]) -> bool:
    (plain, odd), X, at = company
    return seen(how, plain, X, at) != seen(how, odd, X, at)


@settings(max_examples=30)
@given(companies())
def test_a_vote_is_the_same_beside_any_other_teachers(company: tuple[list[np.ndarray], np.ndarray, int]) -> None:
    assert not differs(asked, company)


def test_what_couples_votes_is_found() -> None:
    assert find(companies(), lambda company: differs(scaled_by_the_largest, company)) is not None
