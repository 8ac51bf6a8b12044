"""A stream of people who arrive week by week, and the plan over it."""

from pathlib import Path
from typing import Any

import polars as pl

from tests.support.people import people, tables_of_plan, write_tables


def weekly(folder: Path, **stream: Any) -> dict[str, Any]:
    """The plan, as nested tables, with its tables written."""
    given = tables_of_plan(write_tables(folder))
    given["labeling"] = {"mechanism": "tallies", "rows": 6000}
    given["data"] |= {"private": "arriving"}
    given["stream"] = {"season": 4, **stream}
    return {name: section for name, section in given.items() if name not in ("teachers", "student")}


def arrive(folder: Path, week: int, rows: pl.DataFrame | None = None) -> Path:
    """Write the file of a week."""
    (folder / "arriving").mkdir(exist_ok=True)
    file = folder / "arriving" / f"{week}.parquet"
    (people(1500, 10 + week) if rows is None else rows).write_parquet(file)
    return file
