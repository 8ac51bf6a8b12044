"""Pre-check: the shares of private rows with no declared class, no unit, or no word that the encoding knows.

For the operator only, who holds the private table anyway: no result is kept, returned to a cache, or published.

Assumes      the encoding is of public rows
Guarantees   the result has no values, only shares of rows by column. Cells are read by the same rules as in `split`,
             so nothing fails here that would not fail there
Not covered  decisions of an operator who has read it (tests/privacy/README.md).
             Checked by tests/tasks/data/test_precheck.py
"""

from collections import Counter
from dataclasses import dataclass

import polars as pl

from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding
from concord.tasks.data.cells import NULL_WORDS, canonical_id, cast_rows, class_index
from concord.tasks.data.guard import private_stage
from concord.tasks.data.units import private_frames


@dataclass(frozen=True)
class Unmatched:
    """Shares of the private rows that have no declared class, that have no unit, and, by feature, whose cell is neither
    empty nor a known word, or a number if the feature is numeric."""

    label: float
    unit: float
    features: dict[str, float]


@private_stage
def unmatched(plan: Plan, encoding: Encoding) -> Unmatched:
    """The shares of the private table that a plan would not recognise. Raises WrongInput if it lacks a column."""
    asked_by = dict.fromkeys(encoding.features, "data.features") | {encoding.label: "data.label"}
    if encoding.unit is not None:
        asked_by[encoding.unit] = "data.unit"
    rows, found = 0, Counter[str]()
    for frame in private_frames(plan.path("private"), asked_by, plan.data.format):
        rows += frame.height
        lost = _lost(frame, encoding)
        found.update({name: int(lost[name].sum()) for name in lost.columns})
    shares = {name: count / max(rows, 1) for name, count in found.items()}
    features = {name: shares.get(f"feature {name}", 0.0) for name in encoding.features}
    return Unmatched(shares.get("label", 0.0), shares.get("unit", 0.0), features)


def _lost(frame: pl.DataFrame, encoding: Encoding) -> pl.DataFrame:
    """For each row, whether it lacks a known class, a unit, and a known value of each feature."""
    label, unit = encoding.label, encoding.unit
    cells = cast_rows(frame.drop(label), encoding)
    known = frame.select(class_index(label, frame.schema[label], encoding.classes).is_null().alias("label"))
    if unit is not None:
        name = canonical_id(unit, frame.schema[unit])
        known = known.with_columns(frame.select((name.is_null() | name.is_in(NULL_WORDS)).alias("unit")))
    filled = frame.select(_says_something(column, frame.schema[column]).alias(column) for column in cells.columns)
    return known.with_columns(
        (filled[column] & cells[column].is_null()).alias(f"feature {column}") for column in cells.columns
    )


def _says_something(name: str, dtype: pl.DataType) -> pl.Expr:
    there = pl.col(name).is_not_null()
    if dtype != pl.String:
        return there
    return there & ~pl.col(name).str.strip_chars().is_in(NULL_WORDS)
