"""Canaries: private tables of marked values, and the places where none of them may turn up."""

import re
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from tests.promises.unpack import layers
from tests.support.people import people, tables_of_plan, write_tables

VALUE, NAME = "zqxvalue", "zqxname"
"""In every marked value and in every marked name. Names of files and columns the operator may see; values nobody."""
NUMBER = 48731.90625
ROWS, OWNERLESS = 7919, 12
"""Rows of the private table, and those of them whose unit is null."""
MOMENT = re.compile(rb"20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?")


def private_rows() -> pl.DataFrame:
    """People, of whom some hold marked cells."""
    row = pl.int_range(pl.len())
    return marked_labels().with_columns(
        size=pl.when(row % 50 == 1).then(NUMBER).otherwise("size"),
        shade=pl.when(row % 50 == 2).then(pl.lit(f"{VALUE}-shade")).otherwise("shade"),
    )


def marked_labels() -> pl.DataFrame:
    """The same people, whose features are fit to be public: some labels are marked, and what is no feature."""
    row = pl.int_range(pl.len())
    return people(ROWS, 1).with_columns(
        person=pl.when(row < OWNERLESS).then(None).otherwise(pl.concat_str(pl.lit(f"{VALUE}-unit-"), "person")),
        outcome=pl.when(row % 50 == 3).then(pl.lit(f"{VALUE}-label")).otherwise("outcome"),
        **{f"{NAME}_column": pl.concat_str(pl.lit(f"{VALUE}-note-"), row)},
    )


def canary_tables(folder: Path, rows: pl.DataFrame | None = None) -> dict[str, Any]:
    """A plan, still as nested tables, over a private folder of marked files."""
    table, private = private_rows() if rows is None else rows, write_tables(folder) / f"{NAME}-folder"
    private.mkdir()
    for part in range(3):
        table[part::3].write_csv(private / f"{NAME}-{part}.csv")
    (folder / "private.csv").unlink()
    tables = tables_of_plan(folder)
    tables["data"]["private"] = private.name
    tables["teachers"] |= {"count": 60, "block": 30}
    return tables


def relabelling(tables: dict[str, Any], **relabel: Any) -> dict[str, Any]:
    """That plan, with labels of a secret half of the units from one hypothesis.

    Its own numbers are below those that are searched for: chance made a thousand of labels out of 1,700 rows.
    """
    return {
        **tables,
        "relabel": {"hypotheses": "thresholds", "features": ["size"], "share": 0.5, **relabel},
        "labeling": {"mechanism": "noisy_votes", "queries": 900, "batch": 128},
    }


def counts(rows: pl.DataFrame) -> tuple[int, ...]:
    """How many rows, rows with an owner, and owners: each a number that stands nowhere else."""
    return (rows.height, rows.height - rows["person"].null_count(), rows["person"].drop_nulls().n_unique())


def published(home: Path) -> list[Path]:
    """What the guarantee covers."""
    return [home / "released", home / "mlartifacts", home / "mlflow.db"]


def operated(home: Path) -> list[Path]:
    """All the rest but the vault and the published."""
    return [path for path in home.iterdir() if path.name != "vault" and path not in published(home)]


def moments_between(places: list[Path], first: float, last: float) -> list[datetime]:
    """Moments told in files, as text or in (milli-, micro-, nano-) seconds since 1970, and of the files themselves."""
    files = [path for place in places for path in ([place] if place.is_file() else place.rglob("*"))]
    seconds = [path.stat().st_mtime for path in files if path.suffix != ".db" and path.is_file()]
    for layer in (layer for path in files if path.is_file() for layer in layers(path.read_bytes())):
        for found in MOMENT.findall(layer):
            with suppress(ValueError):  # no moment, such as 24:00:00 in a docstring of the code that models bring
                seconds.append(datetime.fromisoformat(found.decode()).replace(tzinfo=UTC).timestamp())
        seconds += [
            int(found[:10]) + int(found[10:13] or 0) / 1000 for found in re.findall(rb"\b1[789]\d{8,17}\b", layer)
        ]
    return [datetime.fromtimestamp(moment, UTC) for moment in sorted(seconds) if first < moment < last]
