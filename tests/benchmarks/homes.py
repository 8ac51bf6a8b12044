"""Adult over five homes that are divided by age, not at random: what they learn together, each alone, and all pooled.

    python -m tests.benchmarks.homes FOLDER [--times 3]       FOLDER holds adult_train.parquet and adult_test.parquet

Prints the accuracy on public test rows at ε = 1, δ = 1e-5, and the seconds that one answer of a home takes. Every home
runs `concord contribute` as it is, with home folder, ledger and key of its own; flows are called without their engine.
"""

import argparse
import hashlib
import os
import tempfile
import time
from pathlib import Path
from statistics import mean

import polars as pl

from concord.artifacts.home.signing import SigningKey
from concord.artifacts.home.vault import Vault
from concord.artifacts.plan import Plan, parse_plan
from concord.flows.homes import contribute
from concord.flows.lead import lead
from concord.flows.learn import learn
from tests.benchmarks.prepare import adult
from tests.support.several import plainly

NAMES = ("young", "second", "third", "fourth", "old")
EPSILON, DELTA = 1.0, 1e-5


def by_age(private: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """The rows of five homes: fifths by age."""
    ordered, size = private.sort("age", maintain_order=True), -(-private.height // len(NAMES))
    return {name: ordered[at * size : (at + 1) * size] for at, name in enumerate(NAMES)}


def plan_of(folder: Path, private: str, rows: int, homes: dict[str, object] | None = None) -> Plan:
    """The plan of Adult for that private table, or for homes."""
    data = {"private": private, "public": "public.parquet", "test": "test.parquet", "label": "income"}
    return parse_plan(
        {
            "folder": str(folder),
            "data": {**data, "classes": ["<=50K", ">50K"]},
            "privacy": {
                "domain": "census",
                "epsilon": EPSILON,
                "delta": DELTA,
                "lifetime": {"epsilon": 4.0, "delta": 4e-5},
            },
            "labeling": {"mechanism": "tallies", "rows": rows},
            **({} if homes is None else {"homes": homes}),
        }
    )


def together(folder: Path, at: Path, rows: int) -> tuple[float, list[float]]:
    """Accuracy of all homes' student, and the seconds of each answer."""
    keys = {name: SigningKey.of(Vault(at / name / "vault")).public.raw.hex() for name in (*NAMES, "lead")}
    public = hashlib.sha256((folder / "public.parquet").read_bytes()).hexdigest()
    roster = {"names": [*NAMES], "keys": [keys[name] for name in NAMES], "lead": keys["lead"], "public": public}
    homes: dict[str, object] = {**roster, "people": "in one home", "tick": 0}
    plan, seconds = plan_of(folder, "", rows, homes), list[float]()
    while not (done := lead.fn(plan, at / "lead", str(at / "exchange")))["published"]:
        for name in done["missing"]:
            own, started = plan_of(folder, f"{name}.parquet", rows, homes), time.monotonic()
            contribute.fn(own, at / name, str(at / "exchange"), name, agreed=True)
            seconds.append(time.monotonic() - started)
    return float(done["student"]["accuracy"]), seconds


def alone(folder: Path, at: Path, private: str, rows: int) -> float:
    """Accuracy of the student of one table."""
    return float(learn.fn(plan_of(folder, private, rows), at).student["accuracy"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--times", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, plainly():
        folder = Path(place) / "data"
        folder.mkdir()
        tables = adult(given.folder)
        homes = by_age(tables["private"])
        for name, table in {**homes, **tables}.items():
            table.write_parquet(folder / f"{name}.parquet")
        rows, found, seconds = tables["private"].height, list[float](), list[float]()
        os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{place}/mlflow.db"
        for turn in range(given.times):
            accuracy, took = together(folder, Path(place) / f"run-{turn}", rows)
            found, seconds = [*found, accuracy], [*seconds, *took]
            print(f"five homes by age: {accuracy:.2%}", flush=True)
        answer = f"{mean(seconds):.1f} s, at most {max(seconds):.1f} s"
        print(f"mean of {len(found)}: {mean(found):.2%}; an answer takes {answer}")
        for name, table in {**homes, "private": tables["private"]}.items():
            ages = table["age"].sort().to_list()
            who = "all rows pooled" if name == "private" else f"{name} alone, {ages[0]} to {ages[-1]}"
            print(f"{who}: {alone(folder, Path(place) / name, f'{name}.parquet', table.height):.2%}", flush=True)


if __name__ == "__main__":
    main()
