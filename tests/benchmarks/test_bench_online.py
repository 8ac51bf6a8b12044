"""Benchmarks of a ledger at scale: rows answered online, and a ledger of 100,000 batches read and verified.

150 logistic teachers on three columns, `stable`; every answer durable, paid for before it is drawn.
Run by `make bench`.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import polars as pl
import pytest

from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.schemas import Ref
from concord.artifacts.stores import Stores
from concord.tasks.asks.online import Online
from tests.artifacts.ledger.openings import batch, named, opening
from tests.benchmarks.speed import MACHINE, Measured
from tests.support.people import people

pytestmark = pytest.mark.bench

TOGETHER, SINGLE, CALLERS = 1000, 200, 16
LEAST_TOGETHER, LEAST_SINGLE = 1000.0, 50.0
"""Rows a second, asked a thousand together; and one by one, by CALLERS threads of one process."""
BATCHES = (10_000, 100_000)
MOST_TIMES = 1.5
"""Of ten times the seconds, for ten times the batches."""


def undisputed(rows: int, seed: int) -> list[dict[str, Any]]:
    """Rows on which teachers agree, so that the session goes on."""
    drawn = people(20 * rows, seed).drop("outcome", "person")
    clear = drawn.filter((pl.col("size") + 2 * (pl.col("shade") == "dark") - 1).abs() > 1).unique(maintain_order=True)
    return clear.head(rows).rows(named=True)


def held(home: Path) -> tuple[int, int]:
    """Files of a home, and their bytes."""
    files = [file for file in home.rglob("*") if file.is_file()]
    return len(files), sum(file.stat().st_size for file in files)


def test_rows_answered_online(session: str, home: Path, record: Callable[[Measured], None]) -> None:
    online = Online(Stores.of(home), session)
    together, alone, at_once = undisputed(5 * TOGETHER, 77), undisputed(SINGLE // 4, 78), undisputed(SINGLE, 79)
    print(f"\nanswers online, 150 teachers ({MACHINE})")
    speeds = {}
    for name, work, rows in (
        (f"{TOGETHER:,} together", lambda: [online.answers(part) for part in parts(together, TOGETHER)], together),
        ("one after the other", lambda: [online.answer(row) for row in alone], alone),
        (f"single, {CALLERS} callers", lambda: called(online, at_once), at_once),
    ):
        files, size = held(home)
        started, used = perf_counter(), process_time()
        work()
        wall, cpu = perf_counter() - started, process_time() - used
        more, larger = held(home)
        speeds[name] = len(rows) / wall
        print(
            f"  {name}: {len(rows) / wall:,.0f} rows a second, {1e3 * cpu / len(rows):.2f} processor ms a row, ", end=""
        )
        print(f"{(more - files) / len(rows):.3f} files and {(larger - size) / len(rows):,.0f} bytes a row")
    for name, least in zip(speeds, (LEAST_TOGETHER, LEAST_SINGLE, LEAST_SINGLE), strict=True):
        record(Measured(f"rows answered online, {name}", speeds[name], "rows/s", least, least=True))
    assert 300 + len(together) < online.state.asked <= 300 + len(together) + len(alone) + len(at_once)
    assert speeds[f"{TOGETHER:,} together"] > LEAST_TOGETHER
    assert speeds[f"single, {CALLERS} callers"] > LEAST_SINGLE


def parts(rows: list[dict[str, Any]], size: int) -> Iterator[list[dict[str, Any]]]:
    return (rows[first : first + size] for first in range(0, len(rows), size))


def called(online: Online, rows: list[dict[str, Any]]) -> None:
    with ThreadPoolExecutor(CALLERS) as pool:
        list(pool.map(online.answer, rows))


def filled(folder: Path, batches: int) -> Ledger:
    """A ledger of one session of so many batches of a row, made in memory's time: no draw hangs on it."""
    folder.mkdir()
    ledger = named(Ledger.of(folder))
    ledger.open_session(opening())
    with ledger._entries.writing() as rows:
        for index in range(batches):
            begun = batch(index=index, first=index, rows=1)
            ledger._append(ledger._current(rows).begin("one", begun), rows)
            ref = Ref(path=f"one/labels/batch-{index:05d}.arrow", digest=f"{index:064x}")
            ledger._current(rows)
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
