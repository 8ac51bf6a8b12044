"""Benchmarks of linear teachers as arrays: fits, and votes by one product. Run by `make bench`; see speed.md.

Peers run on the same rows: scikit-learn's fits and predictions in a loop, fits by joblib on all cores, and the bare
matrix product of the same numbers. Fits as arrays are in blocks of a plan's default size, on as many threads as there
are cores, as a run has them. Of each, the best of three; what is asserted is on the wall, against the better peer.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from concord.artifacts.learners import TeachersPlan
from concord.tasks.asking.arrays import LinearTeachers, known, weights_together
from concord.tasks.asking.teachers import Teacher, add_votes
from concord.tasks.data.guard import silenced
from tests.benchmarks.speed import MACHINE, Measured

pytestmark = pytest.mark.bench

ROWS, WIDTH, CORES = 100, 50, 2
AIM_OF_FITS, LEAST_FITS, LEAST_VOTES, MOST_OF_PRODUCT = 10.0, 6.0, 15.0, 2.0
"""Times as fast as the better of scikit-learn's loop and joblib; as the loop of predictions; times the bare product's
seconds."""
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
    """The weights of each shard's teacher, fitted in blocks by as many threads as there are cores."""
    plan = TeachersPlan(count=len(some))
    learner = known(plan, WIDTH, 2)
    assert learner is not None

    def block(first: int) -> list[np.ndarray]:
        with silenced():
            own = [(X, y, 0) for X, y in some[first : first + plan.block]]
            return weights_together(learner, {}, own, 2)

    with ThreadPoolExecutor(CORES) as pool:
        return [weights for found in pool.map(block, range(0, len(some), plan.block)) for weights in found]


def by_scikit_learn(X: np.ndarray, y: np.ndarray) -> LogisticRegression:
    return LogisticRegression().fit(X, y)


def by_joblib(some: list[Shard]) -> list[LogisticRegression]:
    fits: list[LogisticRegression] = Parallel(n_jobs=CORES)(delayed(by_scikit_learn)(*shard) for shard in some)
    return fits


def by_loop(some: list[Shard]) -> list[LogisticRegression]:
    return [by_scikit_learn(X, y) for X, y in some]


@pytest.mark.parametrize(("teachers", "tries"), [(1_000, 3), (10_000, 3)])
def test_fits_of_logistic_teachers(teachers: int, tries: int, record: Callable[[Measured], None]) -> None:
    some, took = shards(teachers), dict[str, list[tuple[float, float]]]()
    fits: dict[str, Callable[[list[Shard]], Any]] = {"arrays": as_arrays, "loop": by_loop, "joblib": by_joblib}
    found: dict[str, Any] = {}
    by_joblib(some[:CORES])  # its workers are there then
    with threadpool_limits(1):
        for _ in range(tries):
            for name, fit in fits.items():
                seconds, processor, found[name] = timed(partial(fit, some))
                took.setdefault(name, []).append((seconds, processor))
    wall = {name: min(seconds for seconds, _ in each) * 1e6 / teachers for name, each in took.items()}
    used = {name: min(processor for _, processor in each) * 1e6 / teachers for name, each in took.items()}
    times = min(wall["loop"], wall["joblib"]) / wall["arrays"]
    print(
        f"\nfits of {teachers:,} logistic teachers, {ROWS} rows x {WIDTH} ({MACHINE}), "
        f"microseconds each, best of {tries}"
    )
    print(f"  arrays, on {CORES} threads: {wall['arrays']:,.0f} ({used['arrays']:,.0f} of processor)")
    print(f"  scikit-learn, in a loop: {wall['loop']:,.0f} ({used['loop']:,.0f} of processor)")
    print(f"  scikit-learn, by joblib on {CORES} cores: {wall['joblib']:,.0f}")
    print(f"  {times:.1f} times as fast as the better; {used['loop'] / used['arrays']:.1f} times by processor time")
    what, better = f"fits of {teachers:,} logistic teachers, {ROWS} rows × {WIDTH}", min(wall["loop"], wall["joblib"])
    beside = f"the better of scikit-learn's loop and joblib: {better:,.0f} µs a fit; ours {wall['arrays']:,.0f}"
    record(Measured(what, times, "×", AIM_OF_FITS, least=True, beside=f"{beside}; at least {LEAST_FITS:g} is asked"))
    theirs = np.array([np.append(model.coef_, model.intercept_) for model in found["loop"]])
    ours = np.array(found["arrays"])[:, 0]
    assert np.abs(ours - theirs).max() < 0.02 * np.abs(theirs).max()  # it stops at its tolerance
    assert times > LEAST_FITS


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
