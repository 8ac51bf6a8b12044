"""The declared schema of a private table: of each feature its type, and a range or its categories.

It takes the place of a public table: everything that is learned of columns is learned from this, or from what was
released. Its form is Frictionless Data's Table Schema, so that a data dictionary is read as it is.

    {"fields": [{"name": "age", "type": "integer", "constraints": {"minimum": 17, "maximum": 90}},
                {"name": "sex", "type": "string", "constraints": {"enum": ["Female", "Male"]}}]}

Assumes      the schema was declared, from documentation or by law, and not read off private rows: nobody can check that
Guarantees   every column it names has a finite range or distinct categories; nothing is ever filled in from a table
Not covered  rules for rows and values, such as `required`: a cell that breaks one is read like any other.
             Checked by tests/artifacts/test_table_schema.py

PROPERTIES says what becomes of every property of the standard; so does the guide's table.
"""

import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Container, Iterable, Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from concord.artifacts.errors import WrongInput
from concord.artifacts.properties import PROPERTIES, STRPTIME, TEXT_FORMATS
from concord.artifacts.schemas import (
    LARGEST_NUMBER,
    NULL_WORDS,
    USUAL_SPELLING,
    Frozen,
    Spelled,
    Spelling,
    canonical_json,
)

DAY_SECONDS, UNIX_EPOCH = 86_400, date(1970, 1, 1).toordinal()
LARGEST_WHOLE = 2**53
"""Largest whole number of a range: a double holds all up to it."""
MOST_WORDS = 2**16 - 2
"""Most categories of a column: with the cells of other words and of missing ones, cells are numbered by two bytes."""
WHOLE_TYPES = ("integer", "year", "date")
TYPES: dict[str, Literal["numeric", "date"]] = {
    **dict.fromkeys(("number", "integer", "year"), "numeric"),
    **dict.fromkeys(("date", "datetime"), "date"),
}
"""Types of a Table Schema that have a range, and their kind of column."""
SCALARS = (*TYPES, "boolean", "string", "any")
BUCKETS, MOST_BUCKETS = 32, 1024
"""Buckets that text without categories is hashed to, by default and at most. On Adult's 8 text columns, 16 to 128
learned as much as declared categories."""


class DeclaredRange(Frozen):
    """A number, or a date in days since 1970, from `low` to `high`; `whole` if there is nothing between whole ones."""

    kind: Literal["numeric", "date"]
    name: str
    low: Annotated[float, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
    high: Annotated[float, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
    whole: bool
    spelling: Spelled = USUAL_SPELLING

    @property
    def in_words(self) -> str:
        """Its kind and its bounds, as they are read."""
        if self.kind == "numeric":
            return f"{'whole numbers' if self.whole else 'numbers'}, {self.low:g} to {self.high:g}"
        first, last = (date.fromordinal(UNIX_EPOCH + math.floor(day)) for day in (self.low, self.high))
        return f"{'dates' if self.whole else 'moments'}, {first} to {last}" + (
            f", written as {self.spelling.dates}" if self.spelling.dates else ""
        )

    @model_validator(mode="after")
    def low_is_below_high(self) -> Self:
        """Check that the range holds more than one value."""
        if not self.low < self.high:
            raise ValueError(f"minimum must be below maximum, got {self.low:g} and {self.high:g}")
        if self.whole and not (self.low.is_integer() and self.high.is_integer()):
            raise ValueError(f"minimum and maximum must be whole numbers, got {self.low:g} and {self.high:g}")
        if self.whole and max(-self.low, self.high) > LARGEST_WHOLE:
            rule = f"minimum and maximum must be from -2^53 to 2^53, got {self.low:g} and {self.high:g}"
            raise ValueError(f"{rule}: declare a number, not whole ones")
        for number in self.spelling.absent:
            if isinstance(number, float) and self.low <= number <= self.high:
                value = f"{number:g}" if self.kind == "numeric" else date.fromordinal(UNIX_EPOCH + int(number))
                rule = f"missingValues must lie outside of minimum and maximum, got {value}"
                raise ValueError(f"{rule}: narrow the range, or give the field missingValues of its own")
        return self


class DeclaredTruth(Frozen):
    """A truth value: false or true."""

    kind: Literal["boolean"]
    name: str
    spelling: Spelled = USUAL_SPELLING

    @model_validator(mode="after")
    def words_are_true_or_false(self) -> Self:
        """Check that no word is both true and false."""
        if both := {*self.spelling.true} & {*self.spelling.false}:
            raise ValueError(f"trueValues and falseValues must be different words, got {min(both)!r} in both")
        return self


class DeclaredCategories(Frozen):
    """Text, or numbers that stand for categories, by their words as they are read from a table."""

    kind: Literal["categorical"]
    name: str
    words: Annotated[tuple[str, ...], Field(min_length=1)]
    spelling: Spelled = USUAL_SPELLING

    @model_validator(mode="after")
    def words_differ(self) -> Self:
        """Check that the words are distinct, and none of them is declared to be that of a missing cell."""
        if len(self.words) > MOST_WORDS:
            rule = f"enum must list at most {MOST_WORDS:,} categories, got {len(self.words):,}"
            raise ValueError(f"{rule}: declare broader ones, or none, to hash them into buckets")
        before = set[str]()
        for word in self.words:
            if word in before:
                raise ValueError(f"enum must list each category once, got {word!r} twice")
            if word in ("", *self.spelling.absent):
                raise ValueError(f"enum must not list {word!r}, which stands for a missing cell: leave it out")
            before.add(word)
        return self


class DeclaredText(Frozen):
    """Text whose categories nobody can list: each is hashed to one of `buckets`, by a rule that depends on no row."""

    kind: Literal["text"]
    name: str
    buckets: Annotated[int, Field(strict=True, ge=2, le=MOST_BUCKETS)] = BUCKETS
    spelling: Spelled = USUAL_SPELLING

    @property
    def words(self) -> tuple[str, ...]:
        """The names of its buckets (concord_student.bucket)."""
        return tuple(f"bucket {at} of {self.buckets}" for at in range(1, self.buckets + 1))


DeclaredColumn = Annotated[
    DeclaredRange | DeclaredTruth | DeclaredCategories | DeclaredText, Field(discriminator="kind")
]


def varies(column: DeclaredColumn) -> bool:
    """Whether a column may have more than one value: nothing is learned from another one."""
    return not isinstance(column, DeclaredCategories) or len(column.words) > 1


class TableSchema(Frozen):
    """The declared columns of a private table, features alone, in order.

    undeclared   names of columns without a range or categories, of which nothing can be learned
    """

    columns: Annotated[tuple[DeclaredColumn, ...], Field(min_length=1)]
    undeclared: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its columns."""
        return tuple(column.name for column in self.columns)

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """The categories of each column that declares them."""
        return {column.name: column.words for column in self.columns if isinstance(column, DeclaredCategories)}

    @property
    def hashed(self) -> frozenset[str]:
        """Names of its columns whose texts are hashed to buckets."""
        return frozenset(column.name for column in self.columns if isinstance(column, DeclaredText))

    @property
    def digest(self) -> str:
        """SHA-256 in hex of its JSON: not keyed, because a schema is public."""
        return hashlib.sha256(canonical_json(self.model_dump()).encode()).hexdigest()

    def check(self, label: str, header: Iterable[str] | None = None, no_features: Iterable[str] = ()) -> None:
        """Raise WrongInput if the schema names other columns than a table's header has, or none of more than one value.

        header       column names of the private table; None if they are not known yet
        no_features  columns of the table that are no features, such as that of the unit
        """
        named = {*self.names, *self.undeclared}
        if not any(map(varies, self.columns)):
            rule = "data.schema must declare more than one value of some column"
            raise WrongInput(f"{rule}: nothing can be learned from any other")
        if header is None:
            return
        present = {*header} - {label, *no_features}
        for name in (*self.names, *self.undeclared):
            if name not in present:
                rule = f"data.schema names the column {name!r}, which data.private lacks"
                raise WrongInput(f"{rule}: correct the name, or leave the field out")
        if others := present - named:  # whose names are not shown: a pivoted table has values as names
            rule = f"data.schema has no field for {len(others)} of the columns of data.private"
            raise WrongInput(f"{rule}: add a field for each, or name the columns to learn from in data.features")

    def without(self, names: Container[str | None]) -> "TableSchema":
        """Without these columns, such as the label and the unit, which a dictionary describes as well. Raises
        WrongInput if none is left."""
        columns = tuple(column for column in self.columns if column.name not in names)
        if not columns:
            raise WrongInput(
                "data.schema must declare a range or categories for one column at least, besides the label"
            )
        return TableSchema(columns=columns, undeclared=tuple(name for name in self.undeclared if name not in names))

    def only(self, features: Iterable[str]) -> "TableSchema":
        """With these columns alone, in this order. Raises WrongInput if one is not declared."""
        by_name = {column.name: column for column in self.columns}
        for name in features:
            if name not in by_name:
                raise WrongInput(f"data.features names {name!r}, for which data.schema declares no range or categories")
            if not varies(by_name[name]):
                raise WrongInput(f"data.features names {name!r}, which has one value in data.schema: leave it out")
        return TableSchema(columns=tuple(by_name[name] for name in features), undeclared=())


def schema_in_plan(given: Any) -> Any:
    """A schema as a plan or its record has it."""
    return schema_of(given) if isinstance(given, Mapping) and "columns" not in given else given


DeclaredSchema = Annotated[
    TableSchema,
    BeforeValidator(schema_in_plan),
    WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object", "properties": {"fields": {"type": "array"}}}]}),
]
"""A schema as a plan gives it: the `fields` of a Table Schema; a file was read before."""


def read_schema(path: Path) -> TableSchema:
    """Read a Table Schema of Frictionless Data from a JSON file. Raises WrongInput unless the file holds one."""
    try:
        descriptor = json.loads(path.read_bytes())  # UTF-8, or UTF-16 with or without a mark, as Notepad writes it
    except OSError as failed:
        raise WrongInput(f"data.schema = {path.name!r} cannot be read: {failed.strerror}") from None
    except ValueError:
        raise WrongInput(f"data.schema = {path.name!r} must be JSON of a Table Schema: it is no JSON") from None
    return schema_of(descriptor)


def schema_of(descriptor: Any) -> TableSchema:
    """The schema that a Table Schema describes. Raises WrongInput, in a sentence that names the field and the rule."""
    if isinstance(descriptor, Mapping) and isinstance(resources := descriptor.get("resources"), list):
        if len(resources) != 1:
            rule = f"data.schema must be of one table, and this data package has {len(resources)} resources"
            raise WrongInput(f"{rule}: write the `schema` of one to a file of its own")
        descriptor = resources[0]
    if isinstance(descriptor, Mapping) and "fields" not in descriptor and "schema" in descriptor:
        descriptor = descriptor["schema"]
        if isinstance(descriptor, str):
            raise WrongInput(f"data.schema must be a Table Schema, and this resource names one: give {descriptor!r}")
    fields = descriptor.get("fields") if isinstance(descriptor, Mapping) else None
    if not isinstance(fields, list) or not fields or not all(isinstance(field, Mapping) for field in fields):
        raise WrongInput(
            "data.schema must be a Table Schema: an object with a list of `fields`, each with name and type"
        )
    if (match := descriptor.get("fieldsMatch", "exact")) not in ("exact", "equal", ["exact"], ["equal"]):
        rule = f"data.schema: fieldsMatch must be 'exact' or 'equal', got {match!r}"
        raise WrongInput(f"{rule}: leave it out, and name the columns to learn from in data.features")
    columns, undeclared, names = list[DeclaredColumn](), list[str](), set[str]()
    for field in fields:
        name = field.get("name")
        if not isinstance(name, str) or not name.strip():
            raise WrongInput("data.schema must give every field a name, in quotes")
        name = name.strip()  # as the names of a table's columns
        if name in names:
            raise WrongInput(f"data.schema must name each column once, got {name!r} twice")
        names.add(name)
        try:
            column = _column(name, {"missingValues": descriptor.get("missingValues", [])} | dict(field))
        except ValueError as wrong:
            raise WrongInput(f"data.schema, field {name!r}: {_rule(wrong)}") from None
        if column is None:
            undeclared.append(name)
        else:
            columns.append(column)
    if not columns:
        raise WrongInput("data.schema must declare a range or categories for one column at least")
    return TableSchema(columns=tuple(columns), undeclared=tuple(undeclared))


def _column(name: str, field: Mapping[str, Any]) -> DeclaredColumn | None:
    """A field as a column; None if it is left open: neither range nor categories, and of no type that needs none.
    Raises ValueError with the rule."""
    kind, limits = field.get("type", "any"), field.get("constraints", {})
    if kind not in SCALARS:
        rule = f"type must be one of {', '.join(SCALARS)}, got {kind!r}"
        raise ValueError(f"{rule}: lists, pictures and objects need a public table (data.public)")
    if not isinstance(limits, Mapping):
        raise ValueError(f"constraints must be an object, got {limits!r}")
    for key in limits.keys() - PROPERTIES["constraints"].keys():
        raise ValueError(f"constraints must be {', '.join(PROPERTIES['constraints'])}, got {key!r}")
    for key, usual in (("decimalChar", "."), ("groupChar", ""), ("bareNumber", True)):
        if field.get(key, usual) != usual:
            raise ValueError(f"{key} is {PROPERTIES['field'][key]}, got {field[key]!r}")
    given = {key: value for key, value in limits.items() if value not in (None, [])}
    if "enum" not in given and field.get("categories"):
        given["enum"] = field["categories"]
    spelling = _spelling(kind, field, words="enum" in given)
    if "buckets" in field and (kind != "string" or "enum" in given):
        raise ValueError(
            "buckets are for text whose categories nobody can list: declare type 'string' without enum, or no buckets"
        )
    if kind == "boolean":
        return DeclaredTruth(kind="boolean", name=name, spelling=spelling)
    if "enum" in given:
        if not isinstance(given["enum"], list):
            raise ValueError(f"enum must be a list of categories, got {given['enum']!r}")
        words = tuple(_word(value) for value in given["enum"])
        if missing := {*words} & {_word(value) for value in field["missingValues"]}:
            raise ValueError(f"enum must not list {min(missing)!r}, which missingValues names: leave it out of one")
        return DeclaredCategories(kind="categorical", name=name, words=words, spelling=spelling)
    if kind == "string":
        given = {"kind": "text", "name": name, "buckets": field.get("buckets", BUCKETS), "spelling": spelling}
        return DeclaredText.model_validate(given)
    for key in ("minimum", "maximum"):
        if (beyond := given.pop(f"exclusive{key.title()}", None)) is not None and kind in TYPES:
            inward = (1 if key == "minimum" else -1) * (kind in WHOLE_TYPES)
            given.setdefault(key, _bound(key, _day(beyond, spelling.dates), kind) + inward)
    if not {"minimum", "maximum"} & given.keys():
        return None
    if kind == "any":
        raise ValueError(f"type must be one of {', '.join(TYPES)} if there is a range, got 'any'")
    for key in ("minimum", "maximum"):
        if key not in given:
            rule = f"constraints must give {key}, from documentation and not from the rows"
            raise ValueError(f"{rule}; a range much too wide costs the model nothing")
    low, high = (_bound(key, _day(given[key], spelling.dates), kind) for key in ("minimum", "maximum"))
    whole = kind in WHOLE_TYPES
    return DeclaredRange(kind=TYPES[kind], name=name, low=low, high=high, whole=whole, spelling=spelling)


def _spelling(kind: str, field: Mapping[str, Any], *, words: bool) -> Spelling:
    """How the cells of a field are written, which are `words` if it lists categories. Raises ValueError."""
    for key in ("missingValues", "trueValues", "falseValues"):
        if not isinstance(field.get(key, []), list):
            raise ValueError(f"{key} must be a list, got {field[key]!r}")
    texts = {_word(value) for value in field["missingValues"]} - {*NULL_WORDS}
    form, is_date = field.get("format", "default"), TYPES.get(kind) == "date"
    if is_date and isinstance(form, str) and form not in ("default", "any"):
        parts = sorted(re.findall("%([a-zA-Z])", form))
        if not STRPTIME.fullmatch(form) or "".join(parts) not in ("Ydm", "HMYdm", "HMSYdm"):
            rule = "format must be made of %Y, %m and %d, and perhaps %H and %M, or %S as well, such as '%d.%m.%Y'"
            raise ValueError(f"{rule}, got {form!r}: write dates otherwise as 2026-12-31")
    elif form not in (TEXT_FORMATS if kind == "string" else ("default",)):
        rule = "a form of dates such as '%d.%m.%Y', or left out" if is_date else "left out, or 'default'"
        raise ValueError(f"format must be {rule}, got {form!r}")
    if kind == "boolean":
        true, false = (tuple(map(_word, field.get(key, []))) for key in ("trueValues", "falseValues"))
        return Spelling(absent=tuple(sorted(texts)), true=true, false=false)
    if kind not in TYPES or words:
        return Spelling(absent=tuple(sorted(texts)))
    absent = tuple(_absent(text, kind, form) for text in sorted(texts))
    return Spelling(absent=absent, dates=form if is_date and form != "default" else "")


def _absent(text: str, kind: str, form: str) -> float | str:
    """A missing value as a number or a day since 1970; other text stays text."""
    try:
        return _bound("missingValues", _day(text, form if form != "default" else ""), kind)
    except ValueError:
        return text


def _day(value: Any, form: str) -> Any:
    """A date that is written in that form; anything else as it is."""
    try:
        return datetime.strptime(value, form) if form and isinstance(value, str) else value
    except ValueError:
        return value


def _word(value: Any) -> str:
    """A category as its cells are read: outer blanks cut off, characters composed, whole numbers without a point. Of
    one with a label, its value."""
    if isinstance(value, Mapping) and "value" in value:
        value = value["value"]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f"enum must list text or numbers, got {value!r}")
    return unicodedata.normalize("NFC", str(value).strip())


def _bound(key: str, value: Any, kind: str) -> float:
    """A bound of a range as a number: dates in days since 1970."""
    if TYPES[kind] == "date":
        return value if isinstance(value, float) else _days(key, value)
    try:  # text is a number as well, by the standard
        bound = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
    except ValueError:
        raise ValueError(f"{key} must be a number, got {value!r}") from None
    except OverflowError:
        bound = math.inf
    if not math.isfinite(bound):
        raise ValueError(f"{key} must be a finite number, got {value!r}")
    return bound


def _days(key: str, value: Any) -> float:
    """An ISO date or moment (UTC unless it names another zone), or a date of TOML, in days since 1970."""
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        moment = None
    if isinstance(moment, date) and not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if not isinstance(moment, datetime):
        raise ValueError(f"{key} must be a date such as 2001-12-31, got {value!r}")
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    days = (zoned - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() / DAY_SECONDS
    if not date.min.toordinal() <= UNIX_EPOCH + days < date.max.toordinal() + 1:
        raise ValueError(f"{key} must be of the years 1 to 9999 in UTC, got {value!r}")
    return days


def _rule(wrong: ValueError) -> str:
    """The rule of an error, without pydantic's words."""
    errors = getattr(wrong, "errors", None)
    if errors is None:
        return str(wrong)
    first = errors()[0]
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    key = next(step for step in reversed(first["loc"]) if isinstance(step, str))
    key = {"low": "minimum", "high": "maximum", "words": "enum"}.get(key, key)
    return f"{key}: {first['msg'].replace('Input should', 'must')}, got {first['input']!r}"
