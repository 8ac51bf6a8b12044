"""Values for cells of the grid: what synthetic rows hold, so that any learner can use them.

Assumes      cells are synthetic or public, and so is what the generator's seed is made of: it is no privacy noise
Guarantees   a value lies in its cell, so that it is read as that cell again; a number lies within its declared range
Not covered  where in its cell a private value lies: nothing says that
             Checked by tests/tasks/student/test_synthetic.py and tests/tasks/data/test_schema_rows.py
"""

import hashlib
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from concord.artifacts.table_schema import DeclaredRange, TableSchema
from concord.tasks.data.codes import CodeMatrix, Codes, NumberField, WordField
from concord.tasks.data.concord_student import DAY
from concord.tasks.data.grid import grid_of

UNDECLARED = "undeclared"
"""The word of an undeclared cell in synthetic rows, unless that is declared."""
STAND_INS = 4096
"""Rows that stand in for public ones before anything is released."""


def values_in(schema: TableSchema, grid: Codes, cells: CodeMatrix, seed: bytes) -> pl.DataFrame:
    """A table with a value in each cell (rows, the grid's fields), drawn evenly within it; null if it is missing."""
    source = np.random.default_rng([1, *hashlib.sha256(seed).digest()])
    declared = {column.name: column for column in schema.columns}
    values = dict[str, pl.Series]()
    for at in grid.fine:
        field, column = grid.fields[at], declared[grid.fields[at].name]
        own = cells[:, at].astype(np.int64) - field.start
        if isinstance(field, WordField):
            undeclared = UNDECLARED
            while undeclared in field.words:
                undeclared += "*"
            values[field.name] = pl.Series([*field.words, undeclared, None], dtype=pl.String)[own]
        elif isinstance(field, NumberField):
            values[field.name] = _numbers(column, field, own, source)
    return pl.DataFrame(values)


def _numbers(column: Any, field: NumberField, own: NDArray[np.int64], source: np.random.Generator) -> pl.Series:
    """A value in each cell of a number, truth value or date."""
    missing = own == len(field.cuts) + 1
    if not isinstance(column, DeclaredRange):
        return pl.Series(own == 1).set(pl.Series(missing), None)
    unit = DAY if column.kind == "date" and not column.whole else 1
    edges = np.array([column.low, *field.cuts, column.high + column.whole, np.inf])
    edges = np.rint(edges * unit) if unit > 1 else edges  # such cuts are whole, but for their division by a day
    low, high = edges[own], np.where(missing, np.inf, edges[np.minimum(own + 1, len(edges) - 1)])
    with np.errstate(invalid="ignore"):
        value = low + source.random(len(own)) * (high - low)
    if column.whole or unit > 1:
        value = np.minimum(np.floor(value), np.ceil(high) - 1)
        value = np.maximum(value, np.ceil(low))
    else:
        last = own == len(field.cuts)
        value = np.where(last, np.minimum(value, high), np.minimum(value, np.nextafter(high, -np.inf)))
    found = pl.Series(np.where(missing, 0, value)).set(pl.Series(missing), None)
    if column.kind == "numeric":
        return found.cast(pl.Int64) if column.whole else found
    whole = found.cast(pl.Int64)
    return whole.cast(pl.Datetime("us")) if unit > 1 else whole.cast(pl.Int32).cast(pl.Date)


def stand_ins(schema: TableSchema) -> pl.DataFrame:
    """Rows drawn from the schema alone, each cell of a column about as often as another: what a plan is tried on before
    synthetic rows are released."""
    grid = grid_of(schema)
    cells = np.empty((STAND_INS, grid.width), np.int32, order="F")
    for at, field in enumerate(grid.fields):  # odd strides, so that columns go together in every way
        cells[:, at] = np.arange(STAND_INS) * (2 * at + 1) // (1 + at % 3) % field.size + field.start
    return values_in(schema, grid, cells, schema.digest.encode())
