"""Pre-check: what a plan does not recognise in the private table. By its stored types, which are public, it is refused;
by its rows, the operator is told the shares with no declared class, no unit, or no word that the encoding knows.

The shares are for the operator only, who holds the private table anyway: no result is kept, returned to a cache, or
published.

Assumes      the encoding is of public rows, or of a declared schema
Guarantees   the result has no values, only shares of rows by column. Cells are read by the same rules as in `split`,
             so nothing fails here that would not fail there
Not covered  decisions of an operator who has read it (tests/privacy/README.md).
             Checked by tests/tasks/data/test_precheck.py
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from concord.artifacts.errors import WrongInput
from concord.artifacts.schemas import NULL_WORDS, Encoding
from concord.artifacts.table_schema import DeclaredText, TableSchema
from concord.tasks.data.cells import cast_numbers, cast_rows, class_index, is_read
from concord.tasks.data.tables import UNIT_FIELD, Table
from concord.tasks.units.guard import private_stage
from concord.tasks.units.units import unit_names


def check_types(table: Table, encoding: Encoding) -> None:
    """Raise WrongInput if a file of the private table stores a feature in a type of which no cell is read as public
    rows have it: each would count as missing, at full price."""
    for file in table.files:
        for column in encoding.columns:
            dtype = file.type_of(column.name) if column.name in file.names else pl.Null()
            if dtype == pl.Null or column.kind in ("null", "list") or is_read(dtype, column.kind):
                continue
            rule = f"data.private stores the column {column.name!r} in a type that is not read as {column.kind}"
            raise WrongInput(f"{rule}, in {file.shown}: store it as public rows or the schema have it, or leave it out")


def check_stored(schema: TableSchema, stored: Mapping[str, pl.DataType]) -> None:
    """Raise WrongInput if a table stores a column in a type that is not read as the schema declares it, so that each
    cell would count as missing; or as moments, whose text depends on their unit and zone, and text is declared.

    A column of the type null is read: its type follows from its cells alone, which are private.
    """
    for column in (column for column in schema.columns if column.name in stored):
        dtype = stored[column.name]
        if dtype.is_nested() or dtype == pl.Unknown:
            rule = f"data.private stores the column {column.name!r} in a type that data.schema cannot declare"
            raise WrongInput(f"{rule}: lists and pictures need a public table (data.public), others must be left out")
        if dtype != pl.Null and not is_read(dtype, column.kind):
            rule = f"data.private stores the column {column.name!r} in a type that is not read as {column.kind}"
            raise WrongInput(f"{rule}, which data.schema declares: declare what is stored, or leave the column out")
        if dtype.is_temporal() and isinstance(column, DeclaredText):
            rule = f"data.private stores the column {column.name!r} as dates or moments, and data.schema declares text"
            raise WrongInput(f"{rule}: declare a range of type 'date' or 'datetime', or leave the column out")


@dataclass(frozen=True)
class Unmatched:
    """Shares of the private rows that have no declared class or no number within bounds, that have no unit, and, by
    feature, whose cell is neither empty nor a known word, or a number if the feature is numeric."""

    label: float
    unit: float
    features: dict[str, float]


@private_stage
def unmatched(table: Table, encoding: Encoding) -> Unmatched:
    """The shares of a private table that a plan would not recognise. Raises WrongInput if it lacks a column."""
    columns = encoding.asked | {encoding.label: "data.label"}
    if encoding.unit is not None:
        columns[encoding.unit] = UNIT_FIELD
    unmarked = encoding.spelled(lambda spelling: spelling.model_copy(update={"absent": ()}))
    markers = {column.name: column.spelling.absent for column in encoding.columns}
    rows, classless, nameless, unread = 0, 0, 0, Counter[str]()
    for frame in table.frames(columns):
        rows, stored = rows + frame.height, frame.schema
        label, cells = frame[encoding.label], cast_rows(frame.drop(encoding.label), unmarked)
        if encoding.bounds is None:
            classes = class_index(encoding.label, label.dtype, encoding.classes)
            classless += frame.select(classes.is_null().sum()).item()
        else:
            numbers, (low, high) = cast_numbers(label), encoding.bounds
            classless += int((~((low <= numbers) & (numbers <= high))).sum())
        if encoding.unit is not None:
            nameless += unit_names(frame[encoding.unit]).null_count()
        for name in cells.columns:
            filled = frame[name].is_not_null()
            if stored[name] == pl.String:
                empty = [*NULL_WORDS, *(marker for marker in markers[name] if isinstance(marker, str))]
                filled &= ~frame[name].str.strip_chars().is_in(empty)
            unread[name] += int((filled & cells[name].is_null()).sum())
    rows = max(rows, 1)
    return Unmatched(classless / rows, nameless / rows, {name: unread[name] / rows for name in encoding.features})
