"""Benchmarks of whole commands: wall and processor seconds, and the memory of the largest process.

Each command is in processes of its own, in a home that no other uses. Tables have 20 numbers and a category, unless a
benchmark says otherwise.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.benchmarks.speed import Benchmark, Measured
from tests.benchmarks.tables import schema_of_rows
from tests.promises.commands import STAND_INS
from tests.support.adult import CLASSES, LABEL, PLANS, adult_tables
from tests.support.people import people, write_plan, write_tables
from tests.world import flows_refresh, load_plan

CONCORD = str(Path(sys.executable).with_name("concord"))
MEASURED = """
import json, resource, subprocess, sys, time
started = time.perf_counter()
with open(sys.argv[1], "wb") as said:
    subprocess.run(sys.argv[2:], check=True, stdout=said)
wall, used = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
"""
"""Starts a command from a small process, because Linux counts the memory of the parent as the child's."""
AT_A_TIME = 250_000


@dataclass(frozen=True)
class Took:
    """Seconds on the wall and of processors (also those of its Prefect server), MiB of its largest process, and the
    file with what it printed."""

    wall: float
    cpu: float
    peak: float
    said: Path

    @property
    def by_size(self) -> float:
        """Seconds of a run's stages that read, code and write public rows."""
        stages = json.loads(self.said.read_text())["stages"]
        return sum(float(stage["seconds"]) for stage in stages if stage["name"] in ("encode", "code", "infer"))


def concord(folder: Path, *words: str) -> Took:
    """A command of Concord, and what it took."""
    command = [sys.executable, "-c", MEASURED, str(folder / "said"), CONCORD, *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    wall, cpu, peak = json.loads(done.stdout)
    return Took(wall, cpu, peak, folder / "said")


def run(folder: Path, plan: str, name: str = "run") -> Took:
    """`concord run` of a plan over the tables of a folder, in a fresh home."""
    (folder / f"{name}.toml").write_text(plan)
    return concord(folder, "run", str(folder / f"{name}.toml"), "--home", str(folder / f"home of {name}"), "--json")


# Tables and plans -----------------------------------------------------------------------------------------------------


def frames(rows: int, seed: int, *, labelled: bool) -> Iterator[pa.Table]:
    draw = np.random.default_rng(seed)
    for first in range(0, rows, AT_A_TIME):
        size = min(AT_A_TIME, rows - first)
        numbers, kind = draw.normal(size=(size, 20)).round(3), draw.choice(["a", "b", "c", "d"], size=size)
        score = numbers @ np.linspace(-1.5, 1.5, 20) + (kind == "a") + draw.normal(size=size) / 2
        columns = {f"x{at}": numbers[:, at] for at in range(20)} | {"kind": kind}
        yield pl.DataFrame(columns | ({"y": np.where(score > 0, "yes", "no")} if labelled else {})).to_arrow()


def tables(folder: Path, private: int, public: int) -> Path:
    """Private, public and test rows in a folder, which is made."""
    folder.mkdir()
    for name, rows, seed in (("private", private, 1), ("public", public, 2), ("test", 20_000, 3)):
        parts = frames(rows, seed, labelled=name != "public")
        first = next(parts)
        with pq.ParquetWriter(folder / f"{name}.parquet", first.schema) as file:
            for part in chain([first], parts):
                file.write_table(part, row_group_size=100_000)
    return folder


def plan_text(
    sections: str,
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
delta = 1e-7
lifetime = {{ epsilon = {4 * epsilon}, delta = 1e-6 }}

{sections}"""


def voting(teachers: int, cutoff: int) -> str:
    """A plan for stable voting."""
    labeling = f'mechanism = "stable"\ncutoff = {cutoff}'
    return plan_text(f'[teachers]\ncount = {teachers}\n\n[labeling]\n{labeling}\n\n[student]\nrefused = "drop"\n')


def tallied(rows: int, **given: Any) -> str:
    """A plan for tallies of so many private rows; `given` as for `plan_text`."""
    return plan_text(f'[labeling]\nmechanism = "tallies"\nrows = {rows}\n', **given)


# Benchmarks -----------------------------------------------------------------------------------------------------------


def commands(folder: Path) -> Iterator[Measured]:
    """What a person waits for over the demonstration, the best of several."""
    home = ("--home", str(folder / "home"))
    first = concord(folder, "demo", *home).wall
    (session,) = (folder / "home/released").glob("demo-*")

    def seconds(*words: str, tries: int) -> float:
        return min(concord(folder, *words).wall for _ in range(tries))

    for what, took, aim in (
        ("`concord demo` in a fresh home", first, 9.0),
        ("`concord demo` again, from its cache", seconds("demo", *home, tries=3), 2.5),
        ("`concord --help`", seconds("--help", tries=5), 0.15),
        ("`concord budget`", seconds("budget", *home, tries=5), 0.5),
        ("`concord verify FOLDER`, of a session without its home", seconds("verify", str(session), tries=3), 3.0),
        ("`concord verify`, of a home of one session", seconds("verify", *home, tries=3), 3.0),
    ):
        yield Measured(what, took, "s", aim, least=False)


def votes(folder: Path) -> Iterator[Measured]:
    """A million by a million rows, the better of two runs."""
    data = tables(folder / "data", 1_000_000, 1_000_000)
    took, other = sorted((run(data, voting(2_000, 2_000), str(at)) for at in range(2)), key=lambda each: each.wall)
    what = "a run of 1,000,000 private and 1,000,000 public rows, 2,000 teachers"
    beside = f"the other of two runs {other.wall:.1f} s; {took.cpu:.1f} processor s, peak {took.peak:,.0f} MiB"
    yield Measured(what, took.wall, "s", 20.0, least=False, beside=beside)


def ten_times(folder: Path) -> Iterator[Measured]:
    """Ten times the rows of either side, 10,000 on the other; private rows are 500 a teacher."""
    for side in ("public", "private"):
        took = []
        for rows in (1_000_000, 10_000_000):
            sizes, teachers = ((10_000, rows), 200) if side == "public" else ((rows, 10_000), rows // 500)
            took.append(run(tables(folder / f"{rows} {side}", *sizes), voting(teachers, 20)))
        small, large = took
        beside = f"{small.peak:,.0f} and {large.peak:,.0f} MiB; {small.cpu:.1f} and {large.cpu:.1f} processor s"
        what = f"10,000,000 {side} rows for 1,000,000, peak memory"
        yield Measured(what, large.peak / small.peak, "×", 1.1, least=False, beside=beside)


def tallies(folder: Path) -> Iterator[Measured]:
    """A million by a million rows, and ten million public ones."""
    small, large = (
        run(tables(folder / f"{public}", 1_000_000, public), tallied(1_000_000)) for public in (1_000_000, 10_000_000)
    )
    what = "a run of 1,000,000 private and 1,000,000 public rows by tallies"
    yield Measured(what, small.wall, "s", 15.0, least=False, beside=f"{small.cpu:.1f} processor s")
    yield Measured(f"{what}, peak memory", small.peak, "MiB", 1024.0, least=False)
    what = "tallies, 10,000,000 public rows for 1,000,000"
    times = (large.wall - large.by_size) / (small.wall - small.by_size)
    beside = f"whole runs {small.wall:.1f} and {large.wall:.1f} s"
    yield Measured(f"{what}, time but for reading, coding, writing", times, "×", 1.3, least=False, beside=beside)
    beside = f"{small.peak:,.0f} and {large.peak:,.0f} MiB"
    yield Measured(f"{what}, peak memory", large.peak / small.peak, "×", 1.1, least=False, beside=beside)


def letters(folder: Path) -> Iterator[Measured]:
    """As many classes as letters, of whole numbers about a centre each."""
    draw, names = np.random.default_rng(1), [chr(ord("a") + at) for at in range(26)]
    centres = draw.normal(0, 2, (26, 16))
    for name, rows in (("private", 14_000), ("public", 4_000), ("test", 2_000)):
        kinds = draw.integers(0, 26, rows)
        numbers = (centres[kinds] + draw.normal(0, 1.5, (rows, 16))).round().astype(np.int32)
        frame = pl.DataFrame({f"x{at}": numbers[:, at] for at in range(16)})
        labels = pl.Series("y", np.array(names)[kinds])
        (frame if name == "public" else frame.with_columns(labels)).write_parquet(folder / f"{name}.parquet")
    took = run(folder, tallied(14_000, classes=names))
    what = "14,000 private rows of 16 numbers and 26 classes, by tallies"
    yield Measured(what, took.wall, "s", 15.0, least=False)


def further(folder: Path) -> Iterator[Measured]:
    """A further session of Adult."""
    for each in (PLANS / "adult-tallies.toml", adult_tables()):
        (folder / each.name).symlink_to(each)
    words = ("run", str(folder / "adult-tallies.toml"), "--home", str(folder / "home"))
    concord(folder, *words)
    again = concord(folder, *words, "--new-session")
    yield Measured("a further session of Adult by tallies", again.wall, "s", 6.0, least=False)


def without_public(folder: Path) -> Iterator[Measured]:
    """Adult by a schema, beside the run with public rows; and a million of its rows, drawn again and again."""
    for name in ("private", "public", "test"):
        (folder / f"{name}.parquet").symlink_to(adult_tables() / f"adult_{name}.parquet")
    rows = pl.concat([pl.read_parquet(folder / f"{name}.parquet") for name in ("private", "test")])
    (folder / "schema.json").write_text(json.dumps(schema_of_rows(rows.drop(LABEL))))
    adult: dict[str, Any] = {"label": LABEL, "classes": CLASSES, "epsilon": 1.0}
    by_schema = tallied(32_561, source='schema = "schema.json"', **adult)
    schema, public = run(folder, by_schema, "schema"), run(folder, tallied(32_561, **adult), "public")
    what = "Adult without a public row, beside the run with public rows"
    beside = f"{schema.cpu:.1f} and {public.cpu:.1f} processor s"
    yield Measured(what, schema.wall / public.wall, "×", 1.5, least=False, beside=beside)
    many = pl.read_parquet(folder / "private.parquet").sample(1_000_000, with_replacement=True, seed=1)
    (folder / "private.parquet").unlink()
    many.write_parquet(folder / "private.parquet")
    took, what = run(folder, by_schema, "million"), "a run of 1,000,000 private rows without a public one"
    yield Measured(what, took.wall, "s", 18.0, least=False, beside=f"{took.cpu:.1f} processor s")
    yield Measured(f"{what}, peak memory", took.peak, "MiB", 1200.0, least=False)


def wide_schema(folder: Path) -> Iterator[Measured]:
    """2,016 tables of pairs: most of the time was Prefect's, which looked at each cut of each code for each task."""
    draw = np.random.default_rng(1)
    numbers = pl.DataFrame(draw.normal(size=(3_000, 64)).clip(-4, 4), schema=[f"x{at}" for at in range(64)])
    total = pl.sum_horizontal(f"x{at}" for at in range(5))
    rows = numbers.with_columns(pl.when(total > 0).then(pl.lit("yes")).otherwise(pl.lit("no")).alias("y"))
    rows[:1_500].write_parquet(folder / "private.parquet")
    rows[1_500:].write_parquet(folder / "test.parquet")
    (folder / "schema.json").write_text(json.dumps(schema_of_rows(numbers)))
    took = run(folder, tallied(1_500, source='schema = "schema.json"'))
    what = "a run of 1,500 private rows of 64 numbers without a public one"
    yield Measured(what, took.wall, "s", 40.0, least=False, beside=f"{took.cpu:.1f} processor s")


REFRESHES, SEASON = 520, 52


def refreshes(folder: Path) -> Iterator[Measured]:
    """The age of a stream: 520 refreshes in one home, ten seasons, a small file of new people each time.

    The tenth and the last, and those beside them, are commands; others are quicker, in one process without Prefect."""
    data, home, took = write_tables(folder / "data"), folder / "home", dict[int, tuple[float, int]]()
    labeling = {"labeling__mechanism": "tallies", "labeling__rows": 6000, "labeling__cutoff": None}
    others = {"teachers": None, "student": None, "labeling__batch": None, "stream__season": SEASON}
    path = write_plan(data, data__private="arriving", **labeling, **others)
    (data / "arriving").mkdir()

    def kept() -> int:
        """Files besides what is published."""
        parts = (part for part in home.iterdir() if part.name not in ("released", "mlartifacts"))
        return sum(len(files) for part in parts for _, _, files in os.walk(part))

    with pytest.MonkeyPatch.context() as patch:
        for place, stand_in in STAND_INS.items():
            patch.setattr(place, stand_in)
        for number in range(1, REFRESHES + 1):
            people(150, 1000 + number).write_parquet(data / "arriving" / f"{number:03}.parquet")
            if number in range(9, 12) or number > REFRESHES - 3:
                before = kept()
                seconds = concord(folder, "refresh", str(path), "--home", str(home), "--quiet").cpu
                took[number] = seconds, kept() - before
            else:
                flows_refresh.refresh(load_plan(path), home)
    early, late = [*took.values()][:3], [*took.values()][3:]
    for at, what in enumerate((f"refresh {REFRESHES} in a home for the tenth", "files that it leaves for the tenth")):
        tenth, last = (median(each[at] for each in of) for of in (early, late))
        yield Measured(what, last / tenth, "×", 1.5, least=False, beside=f"{tenth:.2f} and {last:.2f}")


RUNS: tuple[Benchmark, ...] = (
    *(commands, votes, ten_times, tallies, letters, further),
    *(without_public, wide_schema, refreshes),
)
