"""A small world for end-to-end tests: tables of made-up people on disk, and a plan over them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from tests.world import Plan, parse_plan

CLASSES = ["no", "yes"]
UNIT = "p1-17"
"""One of the people of seed 1."""


def people(rows: int, seed: int) -> pl.DataFrame:
    """Rows with a number, a category, and a label that depends on both; each person has about two rows."""
    rng = np.random.default_rng(seed)
    size, shade = rng.normal(size=rows), rng.choice(["dark", "light"], size=rows)
    label = size + 2 * (shade == "dark") + 0.3 * rng.normal(size=rows) > 1
    return pl.DataFrame(
        {
            "person": [f"p{seed}-{integer}" for integer in rng.integers(0, rows // 2, size=rows)],
            "size": size.round(4),
            "shade": shade,
            "visits": rng.integers(0, 9, size=rows),
            "outcome": np.where(label, "yes", "no"),
        }
    )


def write_tables(folder: Path, private: pl.DataFrame | None = None) -> Path:
    """private.csv, public.parquet and test.parquet in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    (people(6000, 1) if private is None else private).write_csv(folder / "private.csv")
    people(300, 2).drop("outcome", "person").write_parquet(folder / "public.parquet")
    people(200, 3).drop("person").write_parquet(folder / "test.parquet")
    return folder


def arrive(folder: Path, seed: int, rows: int = 150) -> Path:
    """Write one more public file in `folder`. Returns its path."""
    folder.mkdir(exist_ok=True)
    people(rows, seed).drop("outcome", "person").write_parquet(folder / f"{seed}.parquet")
    return folder


def tables_of_plan(folder: Path) -> dict[str, Any]:
    """The plan as nested tables, to be changed before it is parsed."""
    return {
        "folder": str(folder),
        "data": {
            "private": "private.csv",
            "public": "public.parquet",
            "test": "test.parquet",
            "label": "outcome",
            "unit": "person",
            "classes": CLASSES,
        },
        "privacy": {
            "domain": "people",
            "epsilon": 4.0,
            "delta": 1e-5,
            "lifetime": {"epsilon": 9.0, "delta": 4e-5},
        },
        "teachers": {"count": 150, "block": 75},
        "labeling": {"mechanism": "stable", "cutoff": 12, "batch": 128},
        "student": {},
    }


def tallied(folder: Path, rows: int = 6000, **data: Any) -> dict[str, Any]:
    """A plan that asks so many rows by tallies, as nested tables, with other keys of [data]; None removes one."""
    tables = {name: part for name, part in tables_of_plan(folder).items() if name not in ("teachers", "student")}
    kept = {key: value for key, value in {**tables["data"], **data}.items() if value is not None}
    return {**tables, "data": kept, "labeling": {"mechanism": "tallies", "rows": rows}}


def changed(given: Plan | dict[str, Any], **changes: Any) -> Plan:
    """The plan, or that of these tables, with changes such as teachers__count=50."""
    tables = given.model_dump() if isinstance(given, Plan) else given
    for place, value in changes.items():
        section, key = place.split("__")
        tables = {**tables, section: {**(tables.get(section) or {}), key: value}}
    return parse_plan(tables)


def write_plan(folder: Path, **changes: Any) -> Path:
    """Write plan.toml in `folder`, with changes such as teachers__count=50; None removes a key or a section."""
    tables = tables_of_plan(folder)
    del tables["folder"]
    for place, value in changes.items():
        section, _, key = place.partition("__")
        if value is None:
            del (tables[section] if key else tables)[key or section]
        else:
            tables.setdefault(section, {})[key] = value
    lines = [
        line
        for section, keys in tables.items()
        for line in (f"[{section}]", *(f"{key} = {_toml(value)}" for key, value in keys.items()))
    ]
    (folder / "plan.toml").write_text("\n".join(lines))
    return folder / "plan.toml"


def _toml(value: Any) -> str:
    """A TOML value of strings, numbers, lists and inline tables."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    return f"[{', '.join(map(_toml, value))}]" if isinstance(value, list) else json.dumps(value)


class Weeks:
    """Files that arrive, one after another, each with people of the week before."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.persons = folder, list[set[Any]]()

    def arrive(self) -> None:
        number = len(self.persons)
        rows = pl.concat([people(400, 20 + number), people(400, 19 + number)])
        rows.write_parquet(self.folder / f"{number}.parquet")
        self.persons.append(set(rows["person"]))
