"""Demo: synthetic hospital stays from a seeded generator, so that a first run needs no download.

The rows are SYNTHETIC: none is of a person. A patient has one or several stays and is frail or not. All recorded
features depend on that, and so does readmission within thirty days, except for a share that cannot be predicted.

Imports nothing heavy, because a command writes it while its server starts. Checked by tests/tasks/advice/test_demo.py
"""

from pathlib import Path

import numpy as np
import polars as pl
from numpy.random import Generator
from numpy.typing import NDArray

PLAN_SCHEMA_FILE = "concord-plan.schema.json"
SCHEMA_LINE = f"#:schema {PLAN_SCHEMA_FILE}\n"
"""The first line of a plan, by which an editor finds the schema of its keys and completes and checks them."""
SHIPPED = Path(__file__).parents[2] / PLAN_SCHEMA_FILE
"""A link to the schema in deployments/plans, which `make reference` writes; in a wheel, a copy of it."""
ONE_TABLE, WITH_PUBLIC = "demo-one-table.toml", "demo.toml"
"""Its plans: without public rows, and with them."""
FILES = (ONE_TABLE, "demo-one-table.json", WITH_PUBLIC)
"""Beside the code, links to files in deployments/plans; in a wheel, copies of them."""
DEMO_TABLES = "data/demo"
PATIENTS = {"private": 26_000, "public": 1_300, "test": 900}
UNFORESEEN = 0.08
"""Share of stays whose outcome is the opposite of what frailty predicts."""

Mask = NDArray[np.bool_]
DIAGNOSES = ("heart failure", "pneumonia", "fracture", "stroke", "diabetes", "appendicitis", "asthma", "injury")
FRAIL_DIAGNOSES = (0.30, 0.20, 0.10, 0.14, 0.16, 0.02, 0.05, 0.03)
OTHER_DIAGNOSES = (0.05, 0.10, 0.17, 0.06, 0.08, 0.18, 0.16, 0.20)
PLACES = ("home", "home with care", "nursing home", "rehabilitation")
FRAIL_PLACES = (0.20, 0.40, 0.25, 0.15)
OTHER_PLACES = (0.78, 0.10, 0.02, 0.10)


def write_demo(folder: Path) -> Path:
    """Write the demonstration's tables and plans into a folder. Returns the path of the plan without public rows."""
    write_stays(folder / DEMO_TABLES)
    for file in (*(SHIPPED.with_name(name) for name in FILES), SHIPPED):
        (folder / file.name).write_bytes(file.read_bytes())
    return folder / ONE_TABLE


def write_stays(folder: Path) -> None:
    """Write private.parquet, public.parquet (no patient, no outcome) and test.parquet: the same bytes each time."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed, (name, patients) in enumerate(PATIENTS.items()):
        rows = stays(patients, np.random.default_rng(seed))
        hidden = {"private": [], "public": ["patient", "readmitted"], "test": ["patient"]}[name]
        rows.drop(hidden).write_parquet(folder / f"{name}.parquet")


def stays(patients: int, rng: Generator) -> pl.DataFrame:
    """Synthetic stays of that many patients, in random order; about 2.3 per patient."""
    frail = rng.random(patients) < 0.4
    owner = rng.permutation(np.repeat(np.arange(patients), 1 + rng.poisson(np.where(frail, 2.0, 0.9))))
    weak = frail[owner]
    age = np.where(frail, rng.normal(76, 8, patients), rng.normal(45, 16, patients)).clip(18, 101).round()
    columns = {
        "patient": pl.Series([f"P{number:06d}" for number in owner]),
        "admitted": pl.Series(np.datetime64("2023-01-01") + rng.integers(0, 730, len(owner))).cast(pl.Date),
        "age": _sometimes(age[owner], rng, 0.02).cast(pl.Int16),
        "sex": pl.Series(np.where(rng.random(patients) < 0.52, "f", "m")[owner]),
        "diagnosis": pl.Series(_chosen(DIAGNOSES, weak, FRAIL_DIAGNOSES, OTHER_DIAGNOSES, rng)),
        "emergency": _sometimes(rng.random(len(owner)) < np.where(weak, 0.75, 0.35), rng, 0.05),
        "days": pl.Series(1 + rng.poisson(np.where(weak, 8, 3))),
        "earlier_stays": pl.Series(rng.poisson(np.where(weak, 2.5, 0.3))),
        "medicines": pl.Series(rng.poisson(np.where(weak, 9, 2.5))),
        "haemoglobin": _sometimes(rng.normal(np.where(weak, 11.2, 13.8), 1.3).round(1), rng, 0.15),
        "creatinine": _sometimes(rng.lognormal(np.where(weak, 0.35, -0.1), 0.3).round(2), rng, 0.10),
        "discharged_to": pl.Series(_chosen(PLACES, weak, FRAIL_PLACES, OTHER_PLACES, rng)),
        "readmitted": pl.Series(np.where(weak ^ (rng.random(len(owner)) < UNFORESEEN), "yes", "no")),
    }
    return pl.DataFrame(columns)


def _chosen(
    words: tuple[str, ...], frail: Mask, of_frail: tuple[float, ...], of_others: tuple[float, ...], rng: Generator
) -> NDArray[np.str_]:
    """One word per row, drawn with the probabilities of its patient's group."""
    names = np.array(words)
    return np.where(frail, rng.choice(names, len(frail), p=of_frail), rng.choice(names, len(frail), p=of_others))


def _sometimes(values: NDArray[np.generic], rng: Generator, absent: float) -> pl.Series:
    """Values, a random share of which becomes null."""
    return pl.select(pl.when(pl.Series(rng.random(len(values)) >= absent)).then(pl.Series(values))).to_series()
