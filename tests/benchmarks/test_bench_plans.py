"""The plans on real data, run whole on fresh homes: what is answered, how much is right, what the student reaches.

Benchmarks, not tests of speed; `make data` prepares the tables, and a plan whose tables are not there is skipped.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import mean
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

PLANS = Path(__file__).parents[2] / "deployments" / "plans"
pytestmark = pytest.mark.bench


def run(name: str, home: Path) -> tuple[dict[str, Any], float]:
    """The plan's outcome as the command line prints it, and the seconds it took."""
    if not (PLANS / "data" / f"{name}_private.parquet").exists():
        pytest.skip(f"the tables of {name} are not there: make data DATA=FOLDER")
    command = [str(Path(sys.executable).parent / "concord"), "run", str(PLANS / f"{name}.toml"), "--json"]
    started = time.monotonic()
    environment = {**os.environ, "CONCORD_HOME": str(home)}
    printed = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    return json.loads(printed), time.monotonic() - started


def right(name: str, label: str, outcome: dict[str, Any]) -> float:
    """The share of the released labels that are the public rows' true ones."""
    files = sorted((Path(outcome["certificate"]).parent / "labels").iterdir())
    released = pa.concat_tables([pa.ipc.open_file(file).read_all() for file in files])["label"].to_pylist()
    truth = pl.read_parquet(PLANS / "data" / f"{name}_truth.parquet")[label].cast(pl.String).to_list()
    return float(mean(ours == theirs for ours, theirs in zip(released, truth, strict=True) if ours is not None))


def test_adult_over_three_homes(tmp_path: Path) -> None:
    outcomes = [run("adult", tmp_path / str(home))[0] for home in range(3)]
    reached = [outcome["student"]["accuracy"] for outcome in outcomes]
    print(f"\nadult: student right on {', '.join(f'{item:.2%}' for item in reached)}; mean {mean(reached):.2%}")
    assert all(outcome["guarantee"]["epsilon"] <= 1 and outcome["guarantee"]["delta"] == 1e-5 for outcome in outcomes)
    assert mean(reached) >= 0.83


def test_adult_again_in_one_home(tmp_path: Path) -> None:
    _, first = run("adult", tmp_path)
    outcome, again = run("adult", tmp_path)
    print(f"\nadult: {first:.1f} s, and {again:.1f} s when run again, {again / first:.2f} of it")
    assert all(stage["cached"] for stage in outcome["stages"])
    assert outcome["spent_now"] == {"epsilon": 0.0, "delta": 0.0}


def test_kdd99_answers_almost_everything(tmp_path: Path) -> None:
    outcome, seconds = run("kdd99", tmp_path)
    share = right("kdd99", "labels", outcome)
    print(
        f"\nkdd99: {outcome['answered']:,} answered, {outcome['refused']:,} refused, {share:.2%} of the labels right, ",
        end="",
    )
    print(f"student right on {outcome['student']['accuracy']:.2%}, {seconds:.0f} s")
    assert (outcome["guarantee"]["epsilon"], outcome["guarantee"]["delta"]) == (1.0, 1e-6)
    assert outcome["answered"] >= 10_000
    assert share >= 0.99


def test_mnist_says_what_it_reached(tmp_path: Path) -> None:
    outcome, seconds = run("mnist", tmp_path)
    hard, reached = right("mnist", "label", outcome), outcome["student"]["accuracy"]
    print(f"\nmnist: {outcome['answered']:,} noisy counts, {hard:.1%} of their winners right; ", end="")
    print(f"student right on {reached:.1%}, {seconds:.0f} s")
    assert reached > hard
