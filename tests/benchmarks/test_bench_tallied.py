"""Benchmarks of whole runs by tallies: a million rows on either side, ten million public rows, 26 classes, Adult again.

As in `test_bench_scale`, runs are processes of their own. Run by `make bench`.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.benchmarks.speed import MACHINE, Measured
from tests.benchmarks.test_bench_scale import MEASURED, Took, plan_text, table
from tests.support.adult import PLANS, adult_tables

pytestmark = pytest.mark.bench

BY_SIZE = ("encode", "code", "infer")
"""Stages that read, code and write public rows."""


def tallied_plan(private: int, **given: Any) -> str:
    """A plan for tallies of so many private rows; `given` as for `plan_text`."""
    return plan_text(f'[labeling]\nmechanism = "tallies"\nrows = {private}\n', **given)


def run(plan: Path, home: Path, *words: str) -> tuple[Took, dict[str, Any]]:
    """`concord run`, what it took and what it printed."""
    outcome = plan.with_name("outcome.json")
    inner = "import pathlib, subprocess, sys; pathlib.Path(sys.argv[1]).write_bytes("
    inner += "subprocess.run(sys.argv[2:], check=True, stdout=subprocess.PIPE).stdout)"
    concord = [str(Path(sys.executable).with_name("concord")), "run", str(plan), "--home", str(home), "--json", *words]
    command = [sys.executable, "-c", MEASURED, sys.executable, "-c", inner, str(outcome), *concord]
    took = Took(*json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout))
    return took, json.loads(outcome.read_text())


def of_two_classes(folder: Path, private: int, public: int) -> tuple[Took, dict[str, Any]]:
    folder.mkdir()
    for name, rows, seed in (("private", private, 1), ("public", public, 2), ("test", 20_000, 3)):
        table(folder / f"{name}.parquet", rows, seed, labelled=name != "public")
    (folder / "plan.toml").write_text(tallied_plan(private))
    return run(folder / "plan.toml", folder / "home")


def but_for_size(took: Took, outcome: dict[str, Any]) -> float:
    """Seconds of a run without those of BY_SIZE."""
    return took.wall - sum(float(stage["seconds"]) for stage in outcome["stages"] if stage["name"] in BY_SIZE)


def test_a_million_by_a_million_and_ten_million_public_rows(tmp_path: Path, record: Callable[[Measured], None]) -> None:
    small, outcome = of_two_classes(tmp_path / "small", 1_000_000, 1_000_000)
    print(f"\n1,000,000 x 1,000,000 rows by tallies ({MACHINE}): {small}")
    what = "a run of 1,000,000 private and 1,000,000 public rows by tallies"
    record(Measured(what, small.wall, "s", 20.0, least=False, beside=f"{small.cpu:.1f} processor s"))
    record(Measured(f"{what}, peak memory", small.peak, "MiB", 1024.0, least=False))
    large, later = of_two_classes(tmp_path / "large", 1_000_000, 10_000_000)
    print(f"10,000,000 public rows: {large}")
    what = "tallies, 10,000,000 public rows for 1,000,000"
    times = but_for_size(large, later) / but_for_size(small, outcome)
    beside = f"whole runs {small.wall:.1f} and {large.wall:.1f} s"
    record(Measured(f"{what}, time but for reading, coding, writing", times, "×", 1.3, least=False, beside=beside))
    beside = f"{small.peak:,.0f} and {large.peak:,.0f} MiB"
    record(Measured(f"{what}, peak memory", large.peak / small.peak, "×", 1.1, least=False, beside=beside))
    assert small.wall < 2 * 20.0


def test_26_classes(tmp_path: Path, record: Callable[[Measured], None]) -> None:
    draw, letters = np.random.default_rng(1), [chr(ord("a") + at) for at in range(26)]
    centres = draw.normal(0, 2, (26, 16))
    for name, rows in (("private", 14_000), ("public", 4_000), ("test", 2_000)):
        kinds = draw.integers(0, 26, rows)
        numbers = (centres[kinds] + draw.normal(0, 1.5, (rows, 16))).round().astype(np.int32)
        frame = pl.DataFrame({f"x{at}": numbers[:, at] for at in range(16)})
        labels = pl.Series("y", np.array(letters)[kinds])
        (frame if name == "public" else frame.with_columns(labels)).write_parquet(tmp_path / f"{name}.parquet")
    (tmp_path / "plan.toml").write_text(tallied_plan(14_000, classes=letters))
    took, outcome = run(tmp_path / "plan.toml", tmp_path / "home")
    right = outcome["student"]["public_test"]["accuracy"]
    print(f"\n14,000 x 4,000 rows x 16 numbers, 26 classes ({MACHINE}): {took}; student right on {right:.1%}")
    record(Measured("14,000 private rows of 16 numbers and 26 classes, by tallies", took.wall, "s", 15.0, least=False))
    assert took.wall < 2 * 15.0


def test_a_further_session_of_adult(tmp_path: Path, record: Callable[[Measured], None]) -> None:
    for each in (PLANS / "adult-tallies.toml", adult_tables()):
        (tmp_path / each.name).symlink_to(each)
    first, _ = run(tmp_path / "adult-tallies.toml", tmp_path / "home")
    again, _ = run(tmp_path / "adult-tallies.toml", tmp_path / "home", "--new-session")
    print(f"\nAdult by tallies ({MACHINE}): {first}; a further session {again}")
    record(Measured("a further session of Adult by tallies", again.wall, "s", 6.0, least=False))
    assert again.wall < 2 * 6.0
