"""Benchmarks of decoding tallies: of wide tables, 3,000 private and 2,000 public rows of numbers, and of 26 classes.

Processors differ, so a figure is the ratio of processor seconds to those of a kernel in the same run: NumPy's product
of two matrices of 2,000 × 2,000 doubles, by one thread. Each is measured in a process of its own. Run by `make bench`.
"""

import resource
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from time import process_time

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from concord.tasks.advice.rehearse_tallies import simulated_steps
from concord.tasks.data.codes import LEAST_BINS, MOST_CODES, Codes, NumberField
from concord.tasks.mechanisms.contributions import RoundQuestion, tally
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.tallies import Tallies, planned_rounds
from concord.tasks.student.infer import RoundPlanner
from tests.benchmarks.speed import MACHINE, Measured

pytestmark = pytest.mark.bench

PRIVATE, PUBLIC, TOLD = 3_000, 2_000, 20
LONGEST = {100: 50.0, 1_500: 300.0}
"""By columns: 20 and 120 s where the kernel takes .4 s."""
MOST_MEMORY = 2048.0


def codes_of(columns: int, bins: int) -> Codes:
    """Numbers by as many intervals as `learn_codes` has for so many columns, but `bins` at most."""
    while columns * (bins + 1) > MOST_CODES and bins > LEAST_BINS:
        bins //= 2
    cuts = tuple((np.arange(1, bins) / bins).tolist())
    fields = [NumberField(kind="numeric", name=f"x{at}", start=at * (bins + 1), cuts=cuts) for at in range(columns)]
    return Codes(fields=tuple(fields), coarse=tuple(range(columns)), fine=tuple(range(columns)))


def decoding(columns: int, bins: int, classes: int, private: int, public: int) -> tuple[float, float, float]:
    """Processor seconds of decoding all rounds, those of the kernel, and this process's memory in MiB."""
    draw, codes = np.random.default_rng(1), codes_of(columns, bins)
    kinds = draw.integers(0, classes, private + public)
    centres = np.where(np.arange(columns) < TOLD, draw.uniform(0.2, 0.8, (classes, columns)), 0.5)
    numbers = (centres[kinds] + draw.random((private + public, columns))) / 2
    rows = np.empty(numbers.shape, np.int32, order="F")
    for at, field in enumerate(codes.fields):
        assert isinstance(field, NumberField)
        rows[:, at] = field.start + np.searchsorted(field.cuts, numbers[:, at], side="right")
    planned = planned_rounds(classes=classes, fields=columns, codes=codes.size, rounds=1)
    mechanism = Tallies.calibrate(epsilon=1.0, delta=1e-6, classes=classes, rounds=planned)

    def noisy(number: int, question: RoundQuestion, _: Codes) -> Ints:
        noise = np.rint(draw.normal(scale=mechanism.rounds[number].scale, size=question.size)).astype(np.int64)
        return tally(question, rows[:private], kinds[:private]) + noise

    square = draw.random((2_000, 2_000))
    with threadpool_limits(1, user_api="blas"):
        square @ square
        begun = process_time()
        square @ square
        kernel = process_time() - begun
    begun = process_time()
    simulated_steps(RoundPlanner(mechanism, codes, rows[private:]), noisy)
    return process_time() - begun, kernel, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def apart(*given: int) -> tuple[float, float, float]:
    """`decoding`, in a process of its own."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(decoding, *given).result()


@pytest.mark.parametrize("columns", LONGEST)
def test_wide_tables(columns: int, record: Callable[[Measured], None]) -> None:
    took, kernel, peak = apart(columns, 32, 2, PRIVATE, PUBLIC)
    print(f"\n{columns:,} columns decoded ({MACHINE}): {took:.1f} processor s, {took / kernel:.0f} × {kernel:.2f} s")
    what = f"decoding {PRIVATE:,} x {PUBLIC:,} rows of {columns:,} numbers"
    beside = f"{took:.1f} and {kernel:.2f} processor s"
    in_products = f"{what}, time, in products of 2,000² matrices"
    record(Measured(in_products, took / kernel, "×", LONGEST[columns], least=False, beside=beside))
    record(Measured(f"{what}, peak memory", peak, "MiB", MOST_MEMORY, least=False))
    assert took / kernel < 2 * LONGEST[columns]
    assert peak < MOST_MEMORY


def test_decoding_26_classes(record: Callable[[Measured], None]) -> None:
    took, kernel, _ = apart(16, 16, 26, 14_000, 4_000)
    print(f"\n26 classes decoded ({MACHINE}): {took:.1f} processor s, {took / kernel:.0f} × {kernel:.2f} s")
    what = "decoding 14,000 x 4,000 rows of 16 numbers and 26 classes, time, in products of 2,000² matrices"
    record(Measured(what, took / kernel, "×", 40.0, least=False, beside=f"{took:.1f} and {kernel:.2f} processor s"))
    assert took / kernel < 80
