"""A run too large for us: arithmetic and a simulation of its schedule, from rates that were measured.

    python -m tests.benchmarks.schedule measure    rates.json: processor seconds of each step, on this machine
    python -m tests.benchmarks.schedule            the tables of deployments/guides/scale.md, from rates.json

The simulation is of events: tasks of a stage are given to the first worker that is free, polls are begun at most AHEAD
batches before the door, and the door takes one batch after another. What one process does, one core does: encode, split
and the door. Checked by tests/benchmarks/test_schedule.py
"""

import heapq
import json
import os
import platform
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import process_time
from typing import Any

RATES = Path(__file__).with_name("rates.json")
PAGE = Path(__file__).parents[2] / "deployments/guides/scale.md"
AHEAD = 64
"""As flows/vote.py has it, on a cluster of others."""
WORKERS = (1, 16, 128, 1024)
CORE_HOUR, TERABYTE_MONTH = 0.05, 25.0
"""Prices in dollars, assumed: of a core of a rented machine, and of storage."""


@dataclass(frozen=True)
class Size:
    """What is run: rows, teachers, and how they are cut."""

    private: int = 10**9
    public: int = 10**8
    teachers: int = 100_000
    block: int = 50
    batch: int = 1 << 20


@dataclass(frozen=True)
class Rates:
    """Of one core: rows a second through encode, split and the door; fits of FITTED rows a second; votes a second.
    Bytes of a row in a shard and staged, of a label, and of a teacher. Seconds that a task costs beside its work.
    """

    machine: str
    at: str
    encoded: float
    split: float
    fits: float
    votes: float
    labels: float
    shard_bytes: float
    staged_bytes: float
    label_bytes: float
    teacher_bytes: float
    task: float = 0.34
    """Of Prefect on Dask: 34 s for 100 tasks that do nothing (two workers)."""


@dataclass(frozen=True)
class Schedule:
    """Seconds of each stage on the wall, and those that workers were busy; polls and the door go on together."""

    stages: dict[str, float]
    busy: float

    @property
    def wall(self) -> float:
        return sum(self.stages.values())


def simulate(size: Size, rates: Rates, workers: int) -> Schedule:
    """The schedule on so many workers of one core, beside the core of the flow."""
    blocks, batches = -(-size.teachers // size.block), list(parts(size.public, size.batch))
    fit = size.block / rates.fits * (size.private / size.teachers / FITTED) + rates.task
    polls = [rows * size.teachers / rates.votes + rates.task for rows in batches]
    stages = {
        "encode": size.public / rates.encoded,
        "split": size.private / rates.split,
        "train teachers": spread([fit] * blocks, workers),
        "poll and release": interleaved(polls, [rows / rates.labels for rows in batches], workers),
    }
    return Schedule(stages, fit * blocks + sum(polls))


def spread(tasks: list[float], workers: int) -> float:
    """When the last of the tasks ends, each given to the first worker that is free."""
    free = [0.0] * workers
    for seconds in tasks:
        heapq.heapreplace(free, free[0] + seconds)
    return max(free)


def interleaved(polls: list[float], door: list[float], workers: int, ahead: int = AHEAD) -> float:
    """When the door has passed the last batch: one after the other, each once it is polled, `ahead` begun before."""
    free, passed = [0.0] * workers, [0.0]
    polled: list[float] = []
    for at, seconds in enumerate(polls):
        begun = max(free[0], passed[max(0, at - ahead)])
        heapq.heapreplace(free, begun + seconds)
        polled.append(begun + seconds)
        passed.append(max(passed[-1], polled[at]) + door[at])
    return passed[-1]


def parts(rows: int, size: int) -> Iterator[int]:
    return (min(size, rows - first) for first in range(0, rows, size))


def tables(rates: Rates, size: Size | None = None) -> str:
    """What the page shows."""
    size = size or Size()
    bytes_of = {
        "shards": size.private * rates.shard_bytes,
        "staged public rows": size.public * rates.staged_bytes,
        "teachers": size.teachers * rates.teacher_bytes,
        "votes, 4 bytes for each of two classes": size.public * 8.0,
        "released labels": size.public * rates.label_bytes,
    }
    runs = [simulate(size, rates, workers) for workers in WORKERS]
    names = list(runs[0].stages)
    lines = [
        f"Rates of one core, {rates.machine}, measured {rates.at[:10]} in processor seconds:",
        "",
        "| step | rate |",
        "|---|---|",
        f"| public rows encoded and staged | {rates.encoded:,.0f} a second |",
        f"| private rows split, Parquet | {rates.split:,.0f} a second |",
        f"| logistic teachers of {FITTED:,} rows × {WIDTH} | {rates.fits:,.1f} a second |",
        f"| votes of linear teachers | {rates.votes / 1e6:,.0f} million a second |",
        f"| votes turned into durable labels | {rates.labels / 1e6:,.1f} million rows a second |",
        f"| a task of Prefect on Dask | {rates.task:g} s |",
        "",
        f"{size.private:,} private rows, {size.public:,} public ones, {size.teachers:,} teachers, batches of "
        f"{size.batch:,} rows:",
        "",
        "| workers | " + " | ".join(names) + " | total | busy | cost |",
        "|---|" + "---|" * (len(names) + 3),
    ]
    for workers, run in zip(WORKERS, runs, strict=True):
        cost = (workers + 1) * run.wall / 3600 * CORE_HOUR
        cells = [hours(run.stages[name]) for name in names]
        share = run.busy / (workers * run.wall)
        lines.append(f"| {workers:,} | {' | '.join(cells)} | {hours(run.wall)} | {share:.0%} | ${cost:,.0f} |")
    lines += ["", "| in the home | bytes |", "|---|---|"]
    lines += [f"| {name} | {value / 1e6:,.0f} MB |" for name, value in bytes_of.items()]
    total = sum(bytes_of.values())
    lines.append(f"| total | {total / 1e9:,.0f} GB, ${total / 1e12 * TERABYTE_MONTH:,.0f} a month |")
    return "\n".join(lines) + "\n"


def hours(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} h" if seconds >= 3600 else f"{seconds / 60:,.1f} min"


MARKS = ("<!-- made by tests/benchmarks/schedule.py -->\n", "<!-- to here -->\n")


def page(text: str, rates: Rates) -> str:
    """The page with the tables in their place."""
    before, after = MARKS
    return re.sub(f"{before}.*{after}", lambda _: f"{before}\n{tables(rates)}\n{after}", text, flags=re.DOTALL)


FITTED, WIDTH = 10_000, 50
"""Rows of a shard, a billion over 100,000, and columns."""


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    started = process_time()
    result = work()
    return process_time() - started, result


def measure(rows: int = 200_000, labels: int = 4_000_000) -> Rates:
    """The rates of this machine, which may do other work: time of processors is counted."""
    import numpy as np

    from tests.benchmarks import test_bench_linear as linear
    from tests.benchmarks.test_bench_scale import BATCHES, Stream, table, voting_plan
    from tests.world import (
        LinearTeachers,
        PrivateRows,
        Vault,
        add_votes,
        learn_encoding,
        load_plan,
        silenced,
        split,
        stage_public,
    )

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, seed, labelled in (("private", 1, True), ("public", 2, False), ("test", 3, True)):
            table(folder / f"{name}.parquet", rows, seed, labelled=labelled)
        (folder / "plan.toml").write_text(voting_plan(1000, 100))
        plan, vault = load_plan(folder / "plan.toml"), Vault(folder / "home/vault")
        encoding = learn_encoding(plan)
        encoded, staged = seconds(lambda: list(stage_public(plan.path("public"), encoding, vault, "public", 65_536)))
        divided, shards = seconds(lambda: list(split(PrivateRows(plan, encoding, vault, bytes(32)), "shards/scale/x")))
        of = {
            name: sum((vault.root / ref.path).stat().st_size for ref in refs) / rows
            for name, refs in (("staged", [batch.ref for batch in staged]), ("shards", shards))
        }
        linear.ROWS = FITTED
        some = linear.shards(20)
        fitted, weights = seconds(lambda: linear.as_arrays(some))
        teachers = LinearTeachers(np.repeat(np.stack(weights, axis=1), 50, axis=1))
        X, counts = np.ones((20_000, WIDTH), np.float32), np.zeros((20_000, 2), np.uint32)
        with silenced():
            voted, _ = seconds(lambda: add_votes(counts, teachers, X))
        stream = Stream.of(folder / "door", labels, BATCHES[1])
        released, _ = seconds(stream.answer)
        size = sum(file.stat().st_size for file in (folder / "door/released").rglob("*.arrow"))
    return Rates(
        machine=f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        encoded=rows / encoded,
        split=rows / divided,
        fits=len(some) / fitted,
        votes=len(X) * 1000 / voted,
        labels=labels / released,
        shard_bytes=of["shards"],
        staged_bytes=of["staged"],
        label_bytes=size / labels,
        teacher_bytes=float(weights[0].nbytes),
    )


def measured() -> Rates:
    return Rates(**json.loads(RATES.read_text()))


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        RATES.write_text(json.dumps(asdict(measure()), indent=1) + "\n")
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8"), measured()), encoding="utf-8")
