"""Benchmark splits: the seeded partition of each public data set into private, public and evaluation rows.

    python -m tests.benchmarks.prepare FOLDER      (make data DATA=FOLDER)

Writes deployments/plans/data/NAME_{private,public,truth,test}.parquet, and the synthetic tables of the demonstration.
A data set whose file is not in FOLDER is left out, and said so.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import polars as pl

from tests.world import DEMO_TABLES, write_stays

PLANS = Path(__file__).parents[2] / "deployments" / "plans"
SEED = 20_240_615


def adult(folder: Path) -> Mapping[str, pl.DataFrame]:
    """The training file is private; the test file is parted into 10,000 public and 6,281 evaluation rows."""
    rest = _shuffled(pl.read_parquet(folder / "adult_test.parquet"))
    private = pl.read_parquet(folder / "adult_train.parquet")
    return {"private": private, **_public(rest[:10_000], "income"), "test": rest[10_000:]}


def kdd99(folder: Path) -> Mapping[str, pl.DataFrame]:
    """Attacks of every kind are one class; 18,000 public rows, 36,021 to evaluate on, the others private."""
    rows = _shuffled(pl.read_parquet(folder / "kddcup99_10pct.parquet"))
    normal = pl.col("labels") == "normal."
    rows = rows.with_columns(pl.when(normal).then(pl.lit("normal")).otherwise(pl.lit("attack")).alias("labels"))
    return {"private": rows[54_021:], **_public(rows[:18_000], "labels"), "test": rows[18_000:54_021]}


def mnist(folder: Path) -> Mapping[str, pl.DataFrame]:
    """The test file is for evaluation; 10,000 training images are public, the other 50,000 private."""
    rows = _shuffled(pl.read_parquet(folder / "mnist_train.parquet"))
    test = pl.read_parquet(folder / "mnist_test.parquet")
    return {"private": rows[10_000:], **_public(rows[:10_000], "label"), "test": test}


def _public(rows: pl.DataFrame, label: str) -> Mapping[str, pl.DataFrame]:
    """Public rows without their labels, and those labels, by which a benchmark judges the released ones."""
    return {"public": rows.drop(label), "truth": rows.select(label)}


SETS = {"adult_train.parquet": adult, "kddcup99_10pct.parquet": kdd99, "mnist_train.parquet": mnist}


def prepare(folder: Path, plans: Path) -> list[str]:
    """Write every data set that is in `folder` under `plans`/data. Returns a line for each."""
    (plans / "data").mkdir(exist_ok=True)
    write_stays(plans / DEMO_TABLES)
    listed = [f"demo: synthetic, in {plans / DEMO_TABLES}"]
    for file, part in SETS.items():
        name = part.__name__
        if not (folder / file).is_file():
            listed.append(f"{name}: left out, {folder / file} is not there")
            continue
        tables = part(folder)
        for role, rows in tables.items():
            rows.write_parquet(plans / "data" / f"{name}_{role}.parquet")
        listed.append(f"{name}: " + ", ".join(f"{rows.height:,} {role}" for role, rows in tables.items()))
    return listed


def _shuffled(rows: pl.DataFrame) -> pl.DataFrame:
    return rows[np.random.default_rng(SEED).permutation(rows.height)]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: prepare.py FOLDER, where the benchmark data lie")
    print(*prepare(Path(sys.argv[1]), PLANS), sep="\n")
