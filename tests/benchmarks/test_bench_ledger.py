"""Benchmark of a ledger at scale: one of 100,000 batches, read and verified. Run by `make bench`."""

from collections.abc import Callable
from pathlib import Path
from time import process_time

import pytest

from tests.artifacts.ledger.openings import batch, named, opening
from tests.benchmarks.speed import MACHINE, Measured
from tests.world import Ledger, Ref, _catch_up

pytestmark = pytest.mark.bench

BATCHES = (10_000, 100_000)
MOST_TIMES = 1.5
"""Of ten times the seconds, for ten times the batches."""


def filled(folder: Path, batches: int) -> Ledger:
    """A ledger of one session of so many batches of a row, made in memory's time: no draw hangs on it."""
    folder.mkdir()
    ledger = named(Ledger.of(folder))
    ledger.open_session(opening())
    with ledger._entries.writing() as rows:
        for index in range(batches):
            begun = batch(index=index, first=index, rows=1)
            _catch_up(ledger._state, rows)
            ledger._append(ledger._state.begin("one", begun), rows)
            ref = Ref(path=f"one/labels/batch-{index:05d}.arrow", digest=f"{index:064x}")
            _catch_up(ledger._state, rows)
            ledger._append(ledger._state.commit("one", begun.released_as(ref)), rows)
    return ledger


def test_a_ledger_of_many_batches_is_verified_in_linear_time(
    tmp_path: Path, record: Callable[[Measured], None]
) -> None:
    seconds, each = [], []
    for batches in BATCHES:
        folder = tmp_path / str(batches)
        filled(folder, batches)
        started = process_time()
        ledger = Ledger.of(folder)
        ledger.verify()
        seconds.append(process_time() - started)
        started = process_time()
        for index in range(batches, batches + 20):
            begun = ledger.begin_batch("one", batch(index=index, first=index, rows=1))
            ref = Ref(path=f"one/labels/batch-{index:05d}.arrow", digest=f"{index:064x}")
            ledger.commit_batch("one", begun.released_as(ref))
        each.append((process_time() - started) / 20)
        size = (folder / "ledger.db").stat().st_size
        print(f"\n{batches:,} batches ({MACHINE}): read and verified in {seconds[-1]:.1f} processor s, ", end="")
        print(f"{1e3 * each[-1]:.1f} processor ms for a further one, {size / batches:,.0f} bytes a batch", end="")
    print()
    times = seconds[1] / seconds[0] * BATCHES[0] / BATCHES[1]
    beside = f"{BATCHES[0]:,} batches: {seconds[0]:.1f} processor s; {BATCHES[1]:,}: {seconds[1]:.1f}"
    record(Measured("a ledger read and verified, time a batch", times, "×", MOST_TIMES, least=False, beside=beside))
    assert times < MOST_TIMES
    assert each[1] < 2 * each[0]
