"""A run too large for us: arithmetic and a simulation of its schedule, from rates that were measured.

    python -m tests.benchmarks.schedule measure    rates.json: processor seconds of each step, on this machine
    python -m tests.benchmarks.schedule            the tables of deployments/guides/scale.md, from rates.json

The simulation is of events: tasks of a stage are given to the first worker that is free, polls are begun at most AHEAD
batches before the door, and the door takes one batch after another. What one process does, one core does: encode, split
and the door. Checked by tests/benchmarks/test_pages_of_figures.py
"""

import heapq
import json
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.support.markdown import between, table

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
        "train teachers": fit * -(-blocks // workers),
        "poll and release": interleaved(polls, [rows / rates.labels for rows in batches], workers),
    }
    return Schedule(stages, fit * blocks + sum(polls))


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
    runs = [simulate(size, rates, workers) for workers in WORKERS]
    names = list(runs[0].stages)
    of_runs = [("workers", *names, "total", "busy", "cost")]
    for workers, run in zip(WORKERS, runs, strict=True):
        cells, share = [hours(run.stages[name]) for name in names], run.busy / (workers * run.wall)
        cost = (workers + 1) * run.wall / 3600 * CORE_HOUR
        of_runs.append((f"{workers:,}", *cells, hours(run.wall), f"{share:.0%}", f"${cost:,.0f}"))
    bytes_of = {
        "shards": size.private * rates.shard_bytes,
        "staged public rows": size.public * rates.staged_bytes,
        "teachers": size.teachers * rates.teacher_bytes,
        "votes, 4 bytes for each of two classes": size.public * 8.0,
        "released labels": size.public * rates.label_bytes,
    }
    total = sum(bytes_of.values())
    in_home = [(name, f"{value / 1e6:,.0f} MB") for name, value in bytes_of.items()]
    in_home.append(("total", f"{total / 1e9:,.0f} GB, ${total / 1e12 * TERABYTE_MONTH:,.0f} a month"))
    of_steps = [
        ("step", "rate"),
        ("public rows encoded and staged", f"{rates.encoded:,.0f} a second"),
        ("private rows split, Parquet", f"{rates.split:,.0f} a second"),
        (f"logistic teachers of {FITTED:,} rows × {WIDTH}", f"{rates.fits:,.1f} a second"),
        ("votes of linear teachers", f"{rates.votes / 1e6:,.0f} million a second"),
        ("votes turned into durable labels", f"{rates.labels / 1e6:,.1f} million rows a second"),
        ("a task of Prefect on Dask", f"{rates.task:g} s"),
    ]
    measured = f"Rates of one core, {rates.machine}, measured {rates.at[:10]} in processor seconds:"
    cut = f"batches of {size.batch:,} rows:"
    given = f"{size.private:,} private rows, {size.public:,} public ones, {size.teachers:,} teachers, {cut}"
    parts = (measured, table(of_steps), given, table(of_runs), table([("in the home", "bytes"), *in_home]))
    return "\n\n".join(part if isinstance(part, str) else "\n".join(part) for part in parts)


def hours(seconds: float) -> str:
    return f"{seconds / 3600:,.1f} h" if seconds >= 3600 else f"{seconds / 60:,.1f} min"


MARKS = "<!-- made by tests/benchmarks/schedule.py -->", "<!-- to here -->"


def page(text: str, rates: Rates) -> str:
    """The page with the tables in their place."""
    return between(text, f"\n{tables(rates)}\n", MARKS)


FITTED, WIDTH = 10_000, 50
"""Rows of a shard, a billion over 100,000, and columns."""


def measure(rows: int = 200_000, labels: int = 4_000_000) -> Rates:
    """The rates of this machine, which may do other work: time of processors is counted."""
    import numpy as np

    from tests.benchmarks import parts, runs
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

    seconds = parts.processor
    with tempfile.TemporaryDirectory() as place:
        folder = runs.tables(Path(place) / "data", rows, rows)
        (folder / "plan.toml").write_text(runs.voting(1000, 100))
        plan, vault = load_plan(folder / "plan.toml"), Vault(folder / "home/vault")
        encoding = learn_encoding(plan)
        encoded, staged = seconds(lambda: list(stage_public(plan.path("public"), encoding, vault, "public", 65_536)))
        divided, shards = seconds(lambda: list(split(PrivateRows(plan, encoding, vault, bytes(32)), "shards/scale/x")))
        of = {
            name: sum((vault.root / ref.path).stat().st_size for ref in refs) / rows
            for name, refs in (("staged", [batch.ref for batch in staged]), ("shards", shards))
        }
        some = parts.shards(20, FITTED)
        fitted, weights = seconds(lambda: parts.as_arrays(some))
        teachers = LinearTeachers(np.repeat(np.stack(weights, axis=1), 50, axis=1))
        X, counts = np.ones((20_000, WIDTH), np.float32), np.zeros((20_000, 2), np.uint32)
        with silenced():
            voted, _ = seconds(lambda: add_votes(counts, teachers, X))
        stream = parts.Stream.of(folder / "door", labels, 1 << 20)
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
