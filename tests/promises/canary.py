"""Canaries: private tables of marked values, and the places in which none of them may appear."""

import re
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from tests.promises.unpack import layers
from tests.support.people import people, tables_of_plan, write_tables

VALUE, NAME = "zqxvalue", "zqxname"
"""Part of every marked value and every marked name. The operator may see names of files and columns; nobody values."""
NUMBER = 48731.90625
ROWS, OWNERLESS = 7919, 12
"""The number of rows of the private table, and of those whose unit is null."""
MOMENT = re.compile(rb"20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?")


def private_rows() -> pl.DataFrame:
    """Rows of people, some with marked cells."""
    row = pl.int_range(pl.len())
    return marked_labels().with_columns(
        size=pl.when(row % 50 == 1).then(NUMBER).otherwise("size"),
        shade=pl.when(row % 50 == 2).then(pl.lit(f"{VALUE}-shade")).otherwise("shade"),
    )


def marked_labels() -> pl.DataFrame:
    """The same people with features that may be public: marked are some labels, and columns that are not features."""
    row = pl.int_range(pl.len())
    return people(ROWS, 1).with_columns(
        person=pl.when(row < OWNERLESS).then(None).otherwise(pl.concat_str(pl.lit(f"{VALUE}-unit-"), "person")),
        outcome=pl.when(row % 50 == 3).then(pl.lit(f"{VALUE}-label")).otherwise("outcome"),
        **{f"{NAME}_column": pl.concat_str(pl.lit(f"{VALUE}-note-"), row)},
    )


def canary_tables(folder: Path, rows: pl.DataFrame | None = None, *, labels: bool = False) -> dict[str, Any]:
    """A plan, as nested tables, over a private folder of marked files: in Parquet if `labels` alone are secret."""
    table, private = private_rows() if rows is None else rows, write_tables(folder) / f"{NAME}-folder"
    private.mkdir()
    for part in range(3):
        if labels:
            table[part::3].write_parquet(private / f"{NAME}-{part}.parquet")
        else:
            table[part::3].write_csv(private / f"{NAME}-{part}.csv")
    (folder / "private.csv").unlink()
    tables = tables_of_plan(folder)
    tables["data"]["private"] = private.name
    tables["teachers"] |= {"count": 60, "block": 30}
    return tables


def relabelling(tables: dict[str, Any]) -> dict[str, Any]:
    """That plan, with labels of a secret half of the units from one hypothesis.

    Its own numbers are below those that are searched for.
    """
    return {
        **tables,
        "relabel": {"hypotheses": "stumps", "features": ["size"], "share": 0.5},
        "labeling": {"mechanism": "noisy_votes", "queries": 900, "batch": 128},
    }


def counts(rows: pl.DataFrame) -> tuple[int, ...]:
    """The numbers of rows, of rows with an owner, and of owners: numbers that appear nowhere else."""
    return (rows.height, rows.height - rows["person"].null_count(), rows["person"].drop_nulls().n_unique())


def published(home: Path) -> list[Path]:
    """The published files, which the guarantee covers."""
    return [home / "released", home / "mlartifacts", home / "mlflow.db"]


def operated(home: Path) -> list[Path]:
    """All other files of a home, except the vault."""
    return [path for path in home.iterdir() if path.name != "vault" and path not in published(home)]


def moments_between(places: list[Path], first: float, last: float) -> list[datetime]:
    """Times between two moments that are found in files, as text or in (milli-, micro-, nano-) seconds since 1970, or
    that the files themselves have."""
    files = [path for place in places for path in ([place] if place.is_file() else place.rglob("*"))]
    seconds = [path.stat().st_mtime for path in files if path.suffix != ".db" and path.is_file()]
    for layer in (layer for path in files if path.is_file() for layer in layers(path.read_bytes())):
        for found in MOMENT.findall(layer):
            with suppress(ValueError):  # not a time, such as 24:00:00 in a docstring of code in models
                seconds.append(datetime.fromisoformat(found.decode()).replace(tzinfo=UTC).timestamp())
        seconds += [
            int(found[:10]) + int(found[10:13] or 0) / 1000 for found in re.findall(rb"\b1[789]\d{8,17}\b", layer)
        ]
    return [datetime.fromtimestamp(moment, UTC) for moment in sorted(seconds) if first < moment < last]
