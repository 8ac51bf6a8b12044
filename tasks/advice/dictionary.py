"""Dictionary: a data dictionary that is a table, with a row for each column, becomes the fields of a Table Schema.

    name     type     minimum  maximum  values
    age      integer  17       90
    sex      text                       Female; Male
    smoker   code                       0 = no; 1 = yes

Assumes      the dictionary is public, and was not written from private rows
Guarantees   no private cell is read; what a cell declares is checked as that of any Table Schema is (schema_of)
Not covered  other sentences in its cells. Checked by tests/flows/cli/test_init_schema.py
"""

import re
from collections.abc import Mapping
from typing import Any

from concord.artifacts.errors import WrongInput, quoted
from concord.artifacts.table_schema import SCALARS
from concord.tasks.data.cells import text
from concord.tasks.data.concord_student import TRUTH
from concord.tasks.data.files import format_of
from concord.tasks.data.tables import open_public

TABLES = (".csv", ".tsv", ".arrow", ".feather", ".parquet")
"""Suffixes of dictionaries; any other schema is JSON."""
HEADER = ("name", "type", "minimum", "maximum", "values")
"""What each row of a dictionary says of a column; name must be there, and one of the others at least."""
OTHER_NAMES = {
    **dict.fromkeys(("int", "whole", "count"), "integer"),
    **dict.fromkeys(("float", "double", "real", "numeric", "decimal", "continuous"), "number"),
    **dict.fromkeys(("text", "str", "char", "varchar", "category", "categorical", "factor", "code", "enum"), "string"),
    **dict.fromkeys(("bool", "logical"), "boolean"),
    "timestamp": "datetime",
}
"""Types of a Table Schema by what dictionaries call them besides."""


def named_columns(words: str | None) -> dict[str, str]:
    """The columns of a dictionary by entries of HEADER, from words such as name=Feld,type=Typ. Raises WrongInput."""
    parts = [part.partition("=") for part in (words or "").split(",") if part.strip()]
    named = {key.strip(): column.strip() for key, _, column in parts}
    if not named.keys() <= {*HEADER} or "" in named.values():
        rule = f"--dictionary-columns must be KEY=COLUMN with the keys {', '.join(HEADER)} and commas between"
        raise WrongInput(f"{rule}, got {words!r}")
    return named


def fields_in(path: str, named: Mapping[str, str]) -> list[dict[str, Any]]:
    """The fields of a Table Schema that the dictionary at `path` declares, in its order.

    named   its columns by entries of HEADER, as far as they have other names than these
    Raises WrongInput if it lacks a column; naming the row, if that has no name, or a type that is not known.
    """
    table = open_public(path, "--schema", format_of(path, field="--schema"))
    in_any_case = {name.strip().casefold(): name for name in table.columns}
    columns = {key: in_any_case.get(named.get(key, key).casefold()) for key in HEADER}
    there = {key: name for key, name in columns.items() if name is not None}
    if "name" not in there or len(there) == 1 or named.keys() - there.keys():
        wanted = quoted([named.get(key, key) for key in HEADER])
        rule = f"--schema must name a dictionary with the columns {wanted}, or with the first and some of the others"
        raise WrongInput(f"{rule}, got {quoted(table.columns)}: --dictionary-columns name=…,type=… gives their names")
    rows = [
        row
        for frame in table.frames([*there.values()])
        for row in frame.select(text(name, frame.schema[name]).alias(key) for key, name in there.items()).to_dicts()
    ]
    return [_field(number, row) for number, row in enumerate(rows, start=1) if any(row.values())]


def _field(number: int, row: Mapping[str, str | None]) -> dict[str, Any]:
    """The field that a row of the dictionary declares. Raises WrongInput."""
    name, kind = row["name"], (row.get("type") or "any").strip().casefold()
    kind = OTHER_NAMES.get(kind, kind)
    if not name:
        raise WrongInput(f"--schema must name a column in each row of the dictionary, and row {number} has no name")
    if kind not in SCALARS:
        known = ", ".join(SCALARS)
        raise WrongInput(
            f"--schema: the type of {name!r} must be one of {known}, got {row['type']!r}: correct it there"
        )
    limits: dict[str, Any] = {key: row[key] for key in ("minimum", "maximum") if row.get(key)}
    values = row.get("values") or ""
    sign = next((sign for sign in (";", "|", "\n", ",") if sign in values), ";")
    words = [word.strip() for word in values.split(sign) if word.strip()]
    if all(re.fullmatch(r"[^\s<>]+\s*=.*", word) for word in words):  # a code, and what it means; <=50 is a category
        words = [word.partition("=")[0].strip() for word in words]
    if kind == "boolean" and (others := {*words} - TRUTH.keys()):
        rule = f"--schema: the values of {name!r} must be truth values such as yes and no, got {quoted(sorted(others))}"
        raise WrongInput(f"{rule}: leave them out, or correct the type to category")
    if words and kind != "boolean":
        limits = {"enum": words}
    return {"name": name, "type": kind, **({"constraints": limits} if limits else {})}
