"""Tables: the noisy counts that a sketch released of each column and of each pair of columns, as statistical offices
publish theirs. They are paid for already, and need no model.

Assumes      the files of the steps were found to be the published ones (tasks.verify.certificate)
Guarantees   post-processing: each count is a released sum in units, which is unbiased
Not covered  counts that agree with one another: no table is made consistent with others. Checked by
             tests/tasks/publish/test_released_tables.py
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from itertools import combinations, pairwise, product
from typing import Any

import polars as pl

from concord.artifacts.table_schema import (
    UNIX_EPOCH,
    DeclaredCategories,
    DeclaredColumn,
    DeclaredRange,
    DeclaredText,
    TableSchema,
)
from concord.tasks.data.codes import CodedField, NumberField, WordField
from concord.tasks.data.concord_student import DAY, EPOCH
from concord.tasks.data.grid import UNDECLARED, apart_from, grid_of
from concord.tasks.publish.predict import csv_text
from concord.tasks.student.sketch import FIELDS

NORMAL_95 = 1.96
"""Standard deviations on either side within which 95 % of the noise lies."""
COLUMNS = {
    "table": pl.Int64,
    **dict.fromkeys(("column", "cell", "other_column", "other_cell"), pl.String),
    **dict.fromkeys(("count", "deviation", "low", "high"), pl.Float64),
}
ABOUT = """# Tables

`tables.csv` has every count that was released of the private units, with its noise: {tables} tables, of one column or
of two, with {cells:,} cells. Together they are a part of what the guarantee covers; to read them costs nothing.

| column of the file | contains |
|---|---|
| `table` | the number of the table; table 0 has one cell, all units |
| `column`, `cell` | a column and one of its cells: a category, a range, or `{missing}`; `[0, 2)` is without 2 |
| `other_column`, `other_cell` | the same of the second column, in a table of two |
| `count` | the noisy number of units; of a unit with several rows, each counts an equal part |
| `deviation` | the standard deviation of the noise, the same in all cells of a table |
| `low`, `high` | ends of the 95 % interval: in 95 % of all such cells the exact number lies between |

- A count may be negative or a fraction: noise is added whether or not anybody is in the cell, and nothing is rounded
  or left out afterwards. Keep negative counts: without them, means over tables and sums over cells are too large.
- The sum of k cells of a table has a standard deviation of √k times `deviation`. So few wide cells are more exact than
  many narrow ones, and the same column is counted in narrow and in wide cells where it has many.
- Tables were drawn independently: two that count the same units differ by their noise. 5 % of the intervals miss the
  exact number.
- The first cell of a range also has every number below it, and the last one every number beyond. `{undeclared}` is
  any category that the schema does not declare; a table of two columns counts it as `{missing}`. `{other}` is a
  declared category that is too rare there for a cell of its own. A star follows such a name if the schema declares it.
- An apostrophe stands before a name or a cell that a spreadsheet would take for a formula, as in `'-5 to -1`.
"""
TABLES, TABLES_GUIDE = "tables.csv", "tables.md"
MISSING, OTHER = "missing", "other category"


def released_tables(steps: Sequence[bytes]) -> pl.DataFrame:
    """Every released cell (cells, COLUMNS), by table.

    steps   the files of the steps that counted, JSON: that of the tables of one column, and that of two if there is one
    """
    first, *second = [json.loads(step) for step in steps]
    schema, unit = TableSchema.model_validate(first["schema"]), first["question"]["steps"]
    declared, rows = {column.name: column for column in schema.columns}, list[tuple[Any, ...]]()

    def add(fields: Sequence[CodedField], sums: Iterable[int], deviation: float, unit: int = unit) -> None:
        number, others = rows[-1][0] + 1 if rows else 0, UNDECLARED if len(fields) == 1 else OTHER
        cells = product(*([(field.name, cell) for cell in cells_in_words(field, declared, others)] for field in fields))
        for of_cell, total in zip(cells, sums, strict=False):
            one, other = (*of_cell, (None, None), (None, None))[:2]
            within = (total / unit + side * NORMAL_95 * deviation for side in (-1, 1))
            rows.append((number, *one, *other, total / unit, deviation, *within))

    count = first["question"]["count"]
    add((), first["sums"][-1:], first["scale"] / count, count)
    sums = iter(first["sums"])
    for view in grid_of(schema).fields:
        add((view,), sums, first["scale"] / unit)
    for step in second:
        sums = iter(step["sums"])
        for both in combinations(FIELDS.validate_json(json.dumps(first["next"]["tables"])), 2):
            add(both, sums, step["scale"] / unit)
    return pl.DataFrame(rows, schema=COLUMNS, orient="row")


def cells_in_words(field: CodedField, declared: Mapping[str, DeclaredColumn], others: str) -> list[str]:
    """The cells of a view of a declared column: categories, and one for `others`; or ranges. The last is that of a
    missing cell."""
    column = declared[field.name]
    if isinstance(field, WordField) and isinstance(column, DeclaredCategories | DeclaredText):
        return [*field.words, apart_from(column.words, others), apart_from(column.words, MISSING)]
    if isinstance(field, NumberField) and isinstance(column, DeclaredRange):
        edges = [column.low, *field.cuts, column.high + column.whole]
        return [*(_range(low, high, column) for low, high in pairwise(edges)), MISSING]
    return ["false", "true", MISSING]


def _range(low: float, high: float, column: DeclaredRange) -> str:
    """A range: of whole values with its last one, of others up to `high`, which only the last range holds."""
    if column.whole:
        ends = [low, high - 1] if high - low > 1 else [low]
        days = (date.fromordinal(UNIX_EPOCH + int(end)).isoformat() for end in ends)
        return " to ".join(days if column.kind == "date" else (f"{end:.0f}" for end in ends))
    start, end = (
        str(EPOCH + timedelta(microseconds=round(value * DAY))) if column.kind == "date" else f"{value!r}"
        for value in (low, high)
    )
    return f"[{start}, {end}{']' if high == column.high else ')'}"


def tables_files(steps: Sequence[bytes]) -> dict[str, bytes]:
    """The tables as CSV, and how to read them, by file name."""
    tables = released_tables(steps)
    words = {"missing": MISSING, "undeclared": UNDECLARED, "other": OTHER}
    about = ABOUT.format(tables=tables["table"].n_unique(), cells=tables.height, **words)
    return {TABLES: csv_text(tables).encode(), TABLES_GUIDE: about.encode()}
