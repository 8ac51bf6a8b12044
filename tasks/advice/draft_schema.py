"""Draft of a schema: the columns of a private table, whose ranges and categories its owner declares.

    header and stored types ─ fields left open ─ declared in the file, or by an answer each ─ Table Schema

Assumes      ranges and categories are known in public: nobody can check that
Guarantees   no private cell is read, not even for a least and a largest value or a list of words
Not covered  columns whose stored type is a list: they need a public table.
             Checked by tests/flows/cli/test_init_schema.py
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from concord.artifacts.errors import WrongInput
from concord.artifacts.schemas import COMMAS, TextFormat
from concord.artifacts.table_schema import (
    BUCKETS,
    TYPES,
    DeclaredCategories,
    DeclaredRange,
    DeclaredText,
    TableSchema,
    schema_of,
)
from concord.tasks.data.cells import OURS, kind_of
from concord.tasks.data.tables import open_private

SCHEMA_FILE = "schema.json"
"""The file's name, beside the plan."""
WHY = (
    "declare a range or the categories of each column. Take them from documentation, never from the rows, because "
    "declarations are public. A range that is much too wide costs the model nothing. Text without categories is hashed "
    "into buckets; any other column without a declaration is left out"
)
STORED = {"boolean": "boolean", "date": "date", "categorical": "string", "null": "any"}
"""Types of a Table Schema by kinds of columns; those of numbers and moments follow from the stored type as well."""


def fields_of(private: str, besides: Iterable[str | None], form: TextFormat = COMMAS) -> list[dict[str, Any]]:
    """The columns of the private table as fields left open, from its header and stored types alone: `any` in CSV, whose
    cells would have to be read for a type."""
    fields, known = list[dict[str, Any]](), {"", *besides}
    for file in open_private(private, form).files:
        for name in file.names:
            if name in known or name.startswith(OURS):
                continue
            known.add(name)
            stored = file.type_of(name)
            kind = kind_of(stored)
            if file.is_text:
                fields.append(_open(name, "any"))
            elif kind == "numeric":
                fields.append(_open(name, "integer" if stored.is_integer() else "number"))
            elif kind in STORED:
                fields.append(_open(name, "datetime" if str(stored).startswith("Datetime") else STORED[kind]))
    return fields


def _open(name: str, kind: str) -> dict[str, Any]:
    bounds, words = {"minimum": None, "maximum": None}, {"enum": list[str]()}
    left = {"boolean": {}, "string": words, "any": {**bounds, **words}}.get(kind, bounds)
    return {"name": name, "type": kind, **({"constraints": left} if left else {})}


def question(field: Mapping[str, Any]) -> str:
    """The question to an owner about a field; empty if nothing is left open."""
    name, kind = field["name"], field["type"]
    if kind == "any":
        known = "`integer`, `number` or `date` with its least and largest value, `boolean`, its categories"
        return f"{name!r}: {known}, or `string` to hash its text into {BUCKETS} buckets; empty to leave it out"
    if kind in TYPES:
        return f"{name!r}: the least and the largest {kind}, such as {EXAMPLES[kind]}; empty to leave it out"
    hashed = f"empty to hash its text into {BUCKETS} buckets, if nobody can list them; `any` to leave it out"
    return f"{name!r}: its categories, with commas between; {hashed}" if kind == "string" else ""


DAY = re.compile(r"(?:(\d{4})-(\d\d)-(\d\d)|(\d{1,2})\.(\d{1,2})\.(\d{4}))")
"""A day as 2026-12-31 or 31.12.2026, which is known to be no number and no other day."""
VALUE = re.compile(r"[-+.\d]|to$|$")
"""Matches the beginning of a number or a date, and what may stand between two."""
EXAMPLES = {"integer": "0 120", "number": "0 1e6", "date": "1990-01-01 2030-12-31", "datetime": "1990-01-01 2030-12-31"}


def answered(field: Mapping[str, Any], answer: str, form: TextFormat = COMMAS) -> dict[str, Any]:
    """The field as declared by an answer to its question; if that is empty, text is hashed and any other field left
    open. An answer with commas lists categories, even if one begins with the name of a type; but not if values alone
    follow that name, which are a range, of numbers in that form. Raises WrongInput."""
    kind, rest = field["type"], answer.strip()
    named, _, values = rest.partition(" ")
    listed = "," in rest and not (named in TYPES and all(map(VALUE.match, re.split(r"[,\s]+", values))))
    if kind in ("any", "string") and not listed and named in (*TYPES, "boolean", "string", "any"):
        kind, rest = named, values
    elif kind == "any" and rest:
        kind = (
            "date"
            if len(days := rest.replace(" to ", " ").split()) == 2 and all(map(DAY.fullmatch, days))
            else "string"
        )
    if not rest and kind not in ("boolean", "string"):
        return _open(field["name"], kind)
    declared: dict[str, Any] = {"name": field["name"], "type": kind}
    if kind == "string" and rest:
        words = [word.strip() for word in rest.split(",") if word.strip()]
        if len(words) < 2:
            raise WrongInput(
                f"the categories of {field['name']!r} must be two or more, with commas between, got {rest!r}: a range "
                "begins with its type, such as `integer 0 120`"
            )
        declared["constraints"] = {"enum": words}
    elif kind in TYPES:
        bounds = rest.replace(" to ", " ").split()
        if len(bounds) != 2:
            raise WrongInput(
                f"the range of {field['name']!r} must be two values, its least and its largest, got {rest!r}"
            )
        if TYPES[kind] == "numeric":
            grouped = {"thousands": form.thousands or "."} if form.decimal == "," else {}
            bounds = [form.model_copy(update=grouped).plain(bound) for bound in bounds]
        matches = [DAY.fullmatch(bound) for bound in bounds] if TYPES[kind] == "date" else []
        if matches and all(day and day[4] for day in matches):
            declared["format"] = "%d.%m.%Y"
            bounds = [f"{day[6]}-{day[5]:0>2}-{day[4]:0>2}" for day in matches if day]
        declared["constraints"] = dict(zip(("minimum", "maximum"), bounds, strict=True))
    column = schema_of({"fields": [declared]}).columns[0]
    if isinstance(column, DeclaredRange) and TYPES[kind] == "numeric":
        bounds_as_numbers = (int(each) if each.is_integer() else each for each in (column.low, column.high))
        declared["constraints"] = dict(zip(("minimum", "maximum"), bounds_as_numbers, strict=True))
    return declared


def written(fields: Iterable[Mapping[str, Any]]) -> str:
    """The fields as the text of a Table Schema."""
    return json.dumps({"description": WHY, "fields": [*fields]}, indent=1, ensure_ascii=False) + "\n"


def declared_in_words(schema: TableSchema) -> dict[str, str]:
    """Sentences on what each column is declared to be, and on columns that are left out because they are left open."""
    found = dict[str, str]()
    for column in schema.columns:
        match column:
            case DeclaredRange():
                found[column.name] = column.in_words
            case DeclaredCategories():
                found[column.name] = f"{column.kind}, {len(column.words)} of them"
            case DeclaredText():
                found[column.name] = f"text, hashed into {column.buckets} buckets"
            case _:
                found[column.name] = column.kind
    return found | dict.fromkeys(schema.undeclared, UNDECLARED)


UNDECLARED = "no range or categories declared, left out"
