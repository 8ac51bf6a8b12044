"""Workers: a private table without a public one, and the schema that is declared of it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tests.world import Plan, parse_plan

FIELDS: list[dict[str, Any]] = [
    {"name": "wage", "type": "number", "constraints": {"minimum": 0, "maximum": 1e6}},
    {"name": "age", "type": "integer", "constraints": {"minimum": 17, "maximum": 90}},
    {"name": "sex", "type": "string", "constraints": {"enum": ["Female", "Male"]}},
]


def workers(rows: int, seed: int) -> pl.DataFrame:
    """Wages that rise with age, an undeclared word, missing cells, and a class that follows from all columns."""
    source = np.random.default_rng(seed)
    age, sex = source.integers(17, 91, rows), source.choice(["Female", "Male", "other"], rows)
    wage = np.exp(source.normal(8, 1, rows)) * age / 40
    points = (np.log(wage) - 8) + (age - 50) / 20 + (sex == "Male") + source.logistic(0, 0.5, rows)
    named = np.where(points > 0.6, "high", "low")
    seen = [None if missing else float(value) for value, missing in zip(wage, source.random(rows) < 0.1, strict=True)]
    return pl.DataFrame({"wage": seen, "age": age, "sex": sex, "class": named})


def plan_of(folder: Path, *, data: dict[str, Any] | None = None, **sections: Any) -> Plan:
    folder.mkdir(exist_ok=True)
    workers(4_000, 1).write_parquet(folder / "private.parquet")
    workers(1_000, 2).write_parquet(folder / "test.parquet")
    (folder / "schema.json").write_text(json.dumps({"fields": FIELDS}))
    tables = {"private": "private.parquet", "schema": "schema.json", "label": "class", "classes": ["low", "high"]}
    privacy = {"domain": "workers", "epsilon": 1.0, "delta": 1e-5, "lifetime": {"epsilon": 4.0, "delta": 4e-5}}
    given = {"privacy": privacy, "labeling": {"mechanism": "tallies", "rows": 4_000}, **sections}
    return parse_plan({"folder": str(folder), "data": {**tables, "test": "test.parquet", **(data or {})}, **given})
