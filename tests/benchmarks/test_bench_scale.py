"""Benchmarks at scale: a million rows on either side, ten million of either, and votes to durable labels.

Whole runs are processes of their own: wall and processor seconds (its own and its Prefect server's) and the memory of
its largest process. Tables have 20 numbers and a category. Run by `make bench`.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.benchmarks.speed import MACHINE, Measured
from tests.support.at_door import TEACHERS, files_of, labels_by, opened, write
from tests.world import PublicBatch, Session, StableVoting, Stores, votes_schema, write_frame

pytestmark = pytest.mark.bench

BATCHES = (65_536, 1 << 20)
"""Rows of a batch: by default, and as a plan of many rows would have it."""
AT_A_TIME = 250_000
LEAST_LABELS = 5e6
"""Rows a second from votes to durable labels."""
LONGEST = 20.0
"""Seconds of a million private and a million public rows, 2,000 logistic teachers, on two cores."""
MORE_MEMORY = 1.1
"""Of the largest process, at ten times the rows."""


def plan_text(
    sections: str,
    *,
    source: str = 'public = "public.parquet"',
    label: str = "y",
    classes: Sequence[str] = ("no", "yes"),
    epsilon: float = 2.0,
) -> str:
    """A plan of tables beside it, whose lifetime budget is four times that of a session, with further sections.

    source   the key of the rows that get labels: `public`, or `schema`
    """
    return f"""
[data]
private = "private.parquet"
test = "test.parquet"
{source}
label = "{label}"
classes = {json.dumps(classes)}

[privacy]
domain = "scale"
epsilon = {epsilon}
delta = 1e-6
lifetime = {{ epsilon = {4 * epsilon}, delta = 1e-5 }}

{sections}"""


def voting_plan(teachers: int, cutoff: int) -> str:
    """A plan for stable voting."""
    return plan_text(f"""\
[teachers]
count = {teachers}

[labeling]
mechanism = "stable"
cutoff = {cutoff}

[student]
refused = "drop"
""")


def frames(rows: int, seed: int, *, labelled: bool) -> Iterator[pa.Table]:
    draw = np.random.default_rng(seed)
    for first in range(0, rows, AT_A_TIME):
        size = min(AT_A_TIME, rows - first)
        numbers, kind = draw.normal(size=(size, 20)).round(3), draw.choice(["a", "b", "c", "d"], size=size)
        score = numbers @ np.linspace(-1.5, 1.5, 20) + (kind == "a") + draw.normal(size=size) / 2
        columns = {f"x{at}": numbers[:, at] for at in range(20)} | {"kind": kind}
        yield pl.DataFrame(columns | ({"y": np.where(score > 0, "yes", "no")} if labelled else {})).to_arrow()


def table(path: Path, rows: int, seed: int, *, labelled: bool) -> None:
    parts = frames(rows, seed, labelled=labelled)
    first = next(parts)
    with pq.ParquetWriter(path, first.schema) as file:
        for part in chain([first], parts):
            file.write_table(part, row_group_size=100_000)


MEASURED = """
import json, resource, subprocess, sys, time
started = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
wall, used = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""
"""Begins a run from a small process: Linux counts the memory of whoever begins one as the run's own."""


@dataclass(frozen=True)
class Took:
    """What a run took: seconds on the wall and of processors, and MiB of its largest process."""

    wall: float
    cpu: float
    peak: float

    def __str__(self) -> str:
        return f"{self.wall:.1f} s, {self.cpu:.1f} processor seconds, peak {self.peak:,.0f} MiB"


def run(folder: Path, private: int, public: int, teachers: int, cutoff: int) -> Took:
    """`concord run` over tables of so many rows, in a home of its own."""
    folder.mkdir()
    table(folder / "private.parquet", private, 1, labelled=True)
    table(folder / "public.parquet", public, 2, labelled=False)
    table(folder / "test.parquet", 20_000, 3, labelled=True)
    (folder / "plan.toml").write_text(voting_plan(teachers, cutoff))
    words = ["run", str(folder / "plan.toml"), "--home", str(folder / "home"), "--quiet"]
    command = [sys.executable, "-c", MEASURED, str(Path(sys.executable).with_name("concord")), *words]
    return Took(*json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))


def test_a_million_private_and_a_million_public_rows(tmp_path: Path, record: Callable[[Measured], None]) -> None:
    """The better of two runs, each in a home of its own."""
    tried = [run(tmp_path / str(at), 1_000_000, 1_000_000, 2_000, 2_000) for at in range(2)]
    took = min(tried, key=lambda each: each.wall)
    print(f"\n1,000,000 x 1,000,000 rows, 2,000 logistic teachers, stable, cutoff 2,000 ({MACHINE}): {took}")
    what = "a run of 1,000,000 private and 1,000,000 public rows, 2,000 teachers"
    other = max(each.wall for each in tried)
    beside = f"the other of two runs {other:.1f} s; {took.cpu:.1f} processor s, peak {took.peak:,.0f} MiB"
    record(Measured(what, took.wall, "s", LONGEST, least=False, beside=beside))
    assert took.wall < LONGEST


@pytest.mark.parametrize("side", ["public", "private"])
def test_ten_times_the_rows_take_no_more_memory(side: str, tmp_path: Path, record: Callable[[Measured], None]) -> None:
    """10,000 rows on the other side; private rows are 500 a teacher, of which a block is in memory at a time."""
    took = []
    for rows in (1_000_000, 10_000_000):
        private, public, teachers = (10_000, rows, 200) if side == "public" else (rows, 10_000, rows // 500)
        took.append(run(tmp_path / str(rows), private, public, teachers, 20))
        print(f"\n{rows:,} {side} rows, {teachers:,} logistic teachers, stable, cutoff 20 ({MACHINE}): {took[-1]}")
    small, large = took
    beside = f"{small.peak:,.0f} and {large.peak:,.0f} MiB; {small.cpu:.1f} and {large.cpu:.1f} processor s"
    what = f"10,000,000 {side} rows for 1,000,000, peak memory"
    record(Measured(what, large.peak / small.peak, "×", MORE_MEMORY, least=False, beside=beside))
    assert large.peak < MORE_MEMORY * small.peak
    assert large.cpu < 10 * small.cpu


@dataclass(frozen=True)
class Stream:
    """Staged public rows and their votes in a home, of a session that does not end on the way."""

    door: Stores
    session: Session
    mechanism: StableVoting
    batches: list[PublicBatch]

    @classmethod
    def of(cls, home: Path, rows: int, batch: int) -> "Stream":
        door, mechanism = Stores.of(home), StableVoting.calibrate(epsilon=2.0, delta=1e-5, cutoff=30)
        batches = []
        for at, first in enumerate(range(0, rows, batch)):
            frame = pl.DataFrame({"row": np.arange(first, min(first + batch, rows))})
            batches.append(
                PublicBatch(ref=write_frame(frame, door.vault, f"public/{at}"), first=first, rows=len(frame))
            )
            ones = np.random.default_rng(at).choice([3, TEACHERS - 3], size=len(frame))
            write(door, f"votes/{at}", votes_schema(2), np.column_stack([TEACHERS - ones, ones]))
        return cls(door, opened(door, mechanism), mechanism, batches)

    def answer(self) -> int:
        """Rows that were answered."""
        votes = {batch: self.door.vault.find(f"votes/{at}") for at, batch in enumerate(self.batches)}
        files_of(self.door, self.session, labels_by(self.mechanism), self.batches, votes.__getitem__)
        return self.door.ledger.session(self.session.id).asked


@pytest.mark.parametrize("batch", BATCHES)
def test_votes_to_durable_labels(batch: int, record: Callable[[Measured], None]) -> None:
    rows = 10_000_000
    with tempfile.TemporaryDirectory() as folder:
        stream = Stream.of(Path(folder), rows, batch)
        started, used = perf_counter(), process_time()
        assert stream.answer() == rows
        wall, cpu = perf_counter() - started, process_time() - used
    print(f"\nvotes to durable labels, {rows:,} rows in batches of {batch:,} ({MACHINE}): ", end="")
    print(f"{rows / wall / 1e6:.1f} million a second; {rows / cpu / 1e6:.1f} million a processor second")
    what = f"votes to durable labels, {rows:,} rows, batches of {batch:,}"
    record(Measured(what, rows / wall / 1e6, "million rows/s", LEAST_LABELS / 1e6, least=True))
    assert batch == BATCHES[0] or rows / wall > LEAST_LABELS
