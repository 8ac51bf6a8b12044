"""Benchmarks of linear teachers as arrays: fits, and votes by one product. Run by `make bench`; see linear.md.

Peers run on the same rows: scikit-learn's fits and predictions in a loop, fits by joblib on all cores, and the bare
matrix product of the same numbers. Fits as arrays are in one thread: their steps are so short that two would wait for
Python's lock.
"""

from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from concord.artifacts.learners import TeachersPlan
from concord.tasks.asking.arrays import LinearTeachers, known, weights_of
from concord.tasks.asking.teachers import Teacher, add_votes, aligned_copy
from concord.tasks.data.guard import silenced
from tests.benchmarks.test_bench_scale import MACHINE

pytestmark = pytest.mark.bench

ROWS, WIDTH, CORES = 100, 50, 2
LEAST_FITS, LEAST_VOTES, MOST_OF_PRODUCT = 6.0, 15.0, 2.0
"""Times scikit-learn's loop, in processor seconds; times the loop of predictions; times the bare product's seconds."""
Shard = tuple[np.ndarray, np.ndarray]


def shards(count: int) -> list[Shard]:
    draw = np.random.default_rng(0)
    rule = draw.normal(size=WIDTH) / np.sqrt(WIDTH)
    found = []
    for _ in range(count):
        X = draw.normal(size=(ROWS, WIDTH)).astype(np.float32)
        found.append((X, (X @ rule + draw.normal(size=ROWS) > 0).astype(np.int64)))
    return found


def timed(work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Seconds on the wall and of this process's processors, and what came of it."""
    started, used = perf_counter(), process_time()
    result = work()
    return perf_counter() - started, process_time() - used, result


def as_arrays(some: list[Shard]) -> list[np.ndarray]:
    plan = TeachersPlan(count=len(some))
    learner = known(plan, WIDTH, 2)
    assert learner is not None
    with silenced():
        return [weights_of(learner, {}, aligned_copy(X), aligned_copy(y), 2, 0) for X, y in some]


def by_scikit_learn(X: np.ndarray, y: np.ndarray) -> LogisticRegression:
    return LogisticRegression().fit(X, y)


@pytest.mark.parametrize("teachers", [1_000, 10_000])
def test_fits_of_logistic_teachers(teachers: int) -> None:
    some = shards(teachers)
    Parallel(n_jobs=CORES)(delayed(by_scikit_learn)(*shard) for shard in some[:CORES])  # its workers are there then
    ours, used, weights = timed(lambda: as_arrays(some))
    with threadpool_limits(1):
        loop, theirs_used, models = timed(lambda: [by_scikit_learn(X, y) for X, y in some])
        joblib = timed(lambda: Parallel(n_jobs=CORES)(delayed(by_scikit_learn)(*shard) for shard in some))[0]
    each = 1e6 / teachers
    print(f"\nfits of {teachers:,} logistic teachers, {ROWS} rows x {WIDTH} ({MACHINE}), microseconds each")
    print(f"  arrays, in one thread: {ours * each:,.0f} ({used * each:,.0f} of processor)")
    print(f"  scikit-learn, in a loop: {loop * each:,.0f} ({theirs_used * each:,.0f} of processor)")
    print(f"  scikit-learn, by joblib on {CORES} cores: {joblib * each:,.0f}")
    print(f"  the better of the two takes {min(loop, joblib) / ours:.1f} times as long")
    theirs = np.array([np.append(model.coef_, model.intercept_) for model in models])
    assert np.abs(np.array(weights)[:, 0] - theirs).max() < 0.02 * np.abs(theirs).max()  # it stops at its tolerance
    assert theirs_used / used > LEAST_FITS


def test_votes_of_a_thousand_logistic_teachers() -> None:
    rows, teachers = 100_000, 1_000
    weights = np.stack(as_arrays(some := shards(teachers)), axis=1)
    models = [Teacher(LogisticRegression().fit(*shard), 0) for shard in some]
    X = np.random.default_rng(1).normal(size=(rows, WIDTH)).astype(np.float32)
    arrays, loop = np.zeros((2, rows, 2), dtype=np.uint32)
    room = np.empty((1_000, teachers), dtype=np.float32)

    def product() -> None:
        for at in range(0, rows, len(room)):
            np.matmul(X[at : at + len(room)], weights[0, :, :-1].T, out=room)

    with silenced():
        ours = min(timed(lambda: add_votes(arrays, LinearTeachers(weights), X))[0] for _ in range(3))
        bare = min(timed(product)[0] for _ in range(3))
        asked = timed(lambda: add_votes(loop, models, X))[0]
    print(f"\nvotes of {teachers:,} logistic teachers on {rows:,} rows x {WIDTH} ({MACHINE}), on one core")
    print(f"  one product and its counts: {ours:.3f} s, {rows * teachers / ours / 1e6:,.0f} million votes a second")
    print(f"  bare product, single precision: {bare:.3f} s; a loop of predictions: {asked:.1f} s")
    print(f"  {ours / bare:.2f} times the product, {asked / ours:.0f} times as fast as the loop")
    assert np.abs(arrays.astype(int) // 3 - loop).max() <= 0.05 * teachers
    assert asked / ours > LEAST_VOTES
    assert ours / bare < MOST_OF_PRODUCT
