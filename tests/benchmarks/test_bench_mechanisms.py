"""Benchmarks of the mechanisms: margins they need, the door's speed, noise, calibration. Run by `make bench`.

Every speed is the best of three and stands beside a named peer's, measured in the same run on the same machine.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest

from concord.tasks.mechanisms import noise
from concord.tasks.mechanisms.distance import REFUSED
from concord.tasks.mechanisms.mechanism import calibrate
from concord.tasks.mechanisms.stable import LEAST_ORDER, StableVoting

pytestmark = pytest.mark.bench

EPSILONS, DELTA = (0.5, 1.0, 2.0), 1e-6
LENGTHS = (10**3, 10**4, 10**5, 10**6)
CUTOFF = 100
TEACHERS = 1_000
BY_REFUSAL, BY_ROW = ("stable", "sparse_vector", "published"), ("noisy_votes", "laplace_votes", "confident")
THREADS = 2
LEAST_DECISIONS, GOAL = 25e6, 100e6
"""Decisions a second of the door, draws included, on two cores."""


def seconds(work: Callable[[], Any], times: int = 3) -> float:
    """The least time of a few runs."""

    def once() -> float:
        started = perf_counter()
        work()
        return perf_counter() - started

    return min(once() for _ in range(times))


def calibrated(name: str, epsilon: float, queries: int = 10**4, cutoff: int = CUTOFF, delta: float = DELTA) -> Any:
    settings: dict[str, Any] = {"cutoff": cutoff, "queries": queries, "classes": 2, "teachers": TEACHERS}
    return calibrate(name, epsilon=epsilon, delta=delta, order=LEAST_ORDER, **settings)


def votes_of(rows: int) -> Any:
    """Votes of TEACHERS on two classes, as the vault keeps them: most rows agree, some are torn."""
    top = np.random.default_rng(1).beta(8, 2, size=rows) * TEACHERS
    first = top.astype(np.uint16)
    return np.column_stack([first, np.uint16(TEACHERS) - first])


def test_the_door(capsys: pytest.CaptureFixture[str]) -> None:
    rows = 4_000_000
    mechanism: StableVoting = replace(calibrated("stable", 1.0), cutoff=10**9)  # it shall not halt
    votes = votes_of(rows)
    buffers = [np.empty(rows + 1, np.uint64) for _ in range(THREADS)]

    def draw(thread: int) -> Any:
        return noise.keyed_draws(bytes(32), thread * rows, rows, buffers[thread])

    def decide(thread: int) -> int:
        return int(np.count_nonzero(mechanism.answer(votes, draw(thread)) == REFUSED))

    def on_threads(work: Callable[[int], Any]) -> None:
        list(pool.map(work, range(THREADS)))

    with ThreadPoolExecutor(THREADS) as pool:
        whole, drawing = (THREADS * rows / seconds(partial(on_threads, work)) for work in (decide, draw))
    alone = rows / seconds(partial(decide, 0))
    numpys = rows / seconds(lambda: np.random.default_rng(1).integers(0, 2**64, rows, dtype=np.uint64))
    opendps = 20_000 / seconds(lambda: noise.laplace(30.0, 20_000))
    with capsys.disabled():
        print(
            f"\nthe door, `stable`, draws included: {whole / 1e6:.0f} million decisions a second on {THREADS} threads"
        )
        print(f"  ({alone / 1e6:.0f} on one; at least {LEAST_DECISIONS / 1e6:.0f} asked, {GOAL / 1e6:.0f} the goal)")
        print(f"  {whole / opendps:,.0f} × a noisy threshold's one OpenDP Laplace draw a decision, {opendps / 1e6:.2f}")
        print(
            f"keyed draws: {drawing / 1e6:.0f} million a second, {drawing / numpys:.1f} × NumPy's PCG64 on one thread"
        )
    assert whole >= LEAST_DECISIONS


def draw_by_draw(measurement: Callable[[int], int], times: int) -> None:
    for _ in range(times):
        measurement(0)


def test_noise(capsys: pytest.CaptureFixture[str]) -> None:
    scale, size, few = 30.0, 50_000, 5_000
    domain = dp.atom_domain(T="i64")
    item = dp.absolute_distance(T="i64")
    generator = np.random.default_rng(1)
    samplers: dict[str, tuple[Callable[..., Any], Callable[[], Any], Any]] = {
        "laplace": (noise.laplace, lambda: generator.laplace(0, scale, size), dp.m.make_laplace(domain, item, scale)),
        "gaussian": (noise.gaussian, lambda: generator.normal(0, scale, size), dp.m.make_gaussian(domain, item, scale)),
    }
    with capsys.disabled():
        print("\nexact discrete noise, million draws a second on one thread")
        for name, (ours, inexact, by_call) in samplers.items():
            exact, floating = size / seconds(partial(ours, scale, size)), size / seconds(inexact)
            alone = few / seconds(partial(draw_by_draw, by_call, few))
            print(f"  {name:>8} {exact / 1e6:.2f}: {exact / alone:.1f} × OpenDP called draw by draw, ", end="")
            print(f"{exact / floating:.4f} × NumPy's floating-point {name}, which is not private")


@pytest.mark.parametrize(
    ("name", "epsilon", "cutoff", "most"),
    [
        ("stable", 0.5, 1_000, 0.3),
        ("stable", 4.0, 1, 0.3),
        ("stable", 0.1, 10_000, 3.0),
        ("sparse_vector", 1.0, 100, None),
        ("published", 1.0, 100, None),
        ("noisy_votes", 1.0, 100, None),
        ("laplace_votes", 1.0, 100, None),
        ("confident", 1.0, 100, None),
    ],
)
def test_calibration(
    name: str, epsilon: float, cutoff: int, most: float | None, capsys: pytest.CaptureFixture[str]
) -> None:
    deltas = iter((DELTA * 1.01, DELTA * 1.02, DELTA * 1.03))  # calibrations are cached by their arguments
    taken = seconds(lambda: calibrated(name, epsilon, cutoff=cutoff, delta=next(deltas)))
    with capsys.disabled():
        asked = "" if most is None else f", at most {most:g} asked"
        print(f"\ncalibrating {name} at ε = {epsilon:g}, T = {cutoff:,}, m = 10,000: {taken:.3f} s{asked}", end="")
    assert most is None or taken < most
