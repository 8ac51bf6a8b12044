"""Benchmarks of whole runs without a public row: Adult beside the same run with public rows, a million rows, and 64
columns.

As in `test_bench_tallied`, runs are processes of their own. A million rows are Adult's, drawn again and again; each run
is in a home of its own. Run by `make bench`.
"""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.benchmarks.speed import MACHINE, Measured
from tests.benchmarks.tables import schema_of_rows
from tests.benchmarks.test_bench_scale import Took
from tests.benchmarks.test_bench_tallied import run, tallied_plan
from tests.support.adult import CLASSES, LABEL, adult_tables

pytestmark = pytest.mark.bench


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """A folder with the tables of Adult and a schema of them."""
    for name in ("private", "public", "test"):
        (tmp_path / f"{name}.parquet").symlink_to(adult_tables() / f"adult_{name}.parquet")
    rows = pl.concat([pl.read_parquet(tmp_path / f"{name}.parquet") for name in ("private", "test")])
    (tmp_path / "schema.json").write_text(json.dumps(schema_of_rows(rows.drop(LABEL))))
    return tmp_path


def took(folder: Path, given: str, rows: int) -> Took:
    """A run in a fresh home, with these public rows or that schema."""
    plan = folder / f"{given}.toml"
    named = {"schema": 'schema = "schema.json"', "public": 'public = "public.parquet"'}[given]
    plan.write_text(tallied_plan(rows, source=named, label=LABEL, classes=CLASSES, epsilon=1.0))
    found, outcome = run(plan, folder / f"home of {given}")
    right = outcome["student"]["public_test"]["accuracy"]
    print(f"\n{rows:,} private rows, {given} ({MACHINE}): {found}; student right on {right:.1%}")
    return found


def test_adult_takes_hardly_longer_than_with_public_rows(tables: Path, record: Callable[[Measured], None]) -> None:
    schema, public = (took(tables, given, 32_561) for given in ("schema", "public"))
    beside = f"{schema.cpu:.1f} and {public.cpu:.1f} processor s"
    what = "Adult without a public row, beside the run with public rows"
    record(Measured(what, schema.wall / public.wall, "×", 1.5, least=False, beside=beside))
    assert schema.wall < 2 * 1.5 * public.wall


def test_a_million_rows_without_a_public_one(tables: Path, record: Callable[[Measured], None]) -> None:
    rows = pl.read_parquet(tables / "private.parquet").sample(1_000_000, with_replacement=True, seed=1)
    (tables / "private.parquet").unlink()
    rows.write_parquet(tables / "private.parquet")
    found = took(tables, "schema", rows.height)
    what = "a run of 1,000,000 private rows without a public one"
    record(Measured(what, found.wall, "s", 25.0, least=False, beside=f"{found.cpu:.1f} processor s"))
    record(Measured(f"{what}, peak memory", found.peak, "MiB", 1200.0, least=False))
    assert found.wall < 2 * 25.0


def test_64_columns(tmp_path: Path, record: Callable[[Measured], None]) -> None:
    """2,016 tables of pairs: most of the time was Prefect's, which looked at each cut of each code for each task."""
    draw = np.random.default_rng(1)
    numbers = pl.DataFrame(draw.normal(size=(3_000, 64)).clip(-4, 4), schema=[f"x{at}" for at in range(64)])
    total = pl.sum_horizontal(f"x{at}" for at in range(5))
    rows = numbers.with_columns(pl.when(total > 0).then(pl.lit("yes")).otherwise(pl.lit("no")).alias("y"))
    rows[:1_500].write_parquet(tmp_path / "private.parquet")
    rows[1_500:].write_parquet(tmp_path / "test.parquet")
    (tmp_path / "schema.json").write_text(json.dumps(schema_of_rows(numbers)))
    (tmp_path / "plan.toml").write_text(tallied_plan(1_500, source='schema = "schema.json"'))
    found, _ = run(tmp_path / "plan.toml", tmp_path / "home")
    print(f"\n1,500 private rows of 64 numbers, a schema ({MACHINE}): {found}")
    what = "a run of 1,500 private rows of 64 numbers without a public one"
    record(Measured(what, found.wall, "s", 40.0, least=False, beside=f"{found.cpu:.1f} processor s"))
    assert found.wall < 2 * 40.0
