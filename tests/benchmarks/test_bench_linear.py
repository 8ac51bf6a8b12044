"""Benchmark of linear teachers: votes by one product. Run by `make bench`; see speed.md.

Peers run on the same rows: scikit-learn's predictions in a loop, and the bare matrix product of the same numbers.
"""

from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from tests.benchmarks.speed import MACHINE, Measured
from tests.world import LinearTeachers, Teacher, TeachersPlan, add_votes, fitted_teacher, silenced, weights_of

pytestmark = pytest.mark.bench

ROWS, WIDTH = 100, 50
LEAST_VOTES, MOST_OF_PRODUCT = 15.0, 2.0
"""Times as fast as the loop of predictions; times the bare product's seconds."""
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
    """The weights of each shard's teacher, as `teach` fits them."""
    plan = TeachersPlan(count=len(some))
    with silenced():
        fitted = [fitted_teacher(plan, at, X, y, 2) for at, (X, y) in enumerate(some)]
        return [weights_of(teacher.model, teacher.fixed, WIDTH, 2) for teacher in fitted]


def test_votes_of_a_thousand_logistic_teachers(record: Callable[[Measured], None]) -> None:
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
    what = f"votes of {teachers:,} logistic teachers on {rows:,} rows × {WIDTH}"
    loop_beside = f"a loop of `predict`: {asked:.1f} s; {rows * teachers / ours / 1e6:,.0f} million votes a second"
    record(Measured(f"{what}, speed", asked / ours, "×", LEAST_VOTES, least=True, beside=loop_beside))
    bare_beside = f"the bare product in single precision: {bare:.3f} s; ours {ours:.3f}"
    record(Measured(f"{what}, time", ours / bare, "×", MOST_OF_PRODUCT, least=False, beside=bare_beside))
    assert np.abs(arrays.astype(int) // 3 - loop).max() <= 0.05 * teachers
    assert asked / ours > LEAST_VOTES
    assert ours / bare < MOST_OF_PRODUCT
