"""Tables: rows in files of one format, public or private.

A public table is read strictly: a fault is reported in one sentence that names the field, the value and the rule. Of a
private one only what its schema lacks is an error: no row can make reading fail. A CSV file is read line by line, in
the format that the plan declares (tasks.data.csv_files); columnar files are read by batches. Cells are cast later, by
`tasks.data.cells`.

Checked by tests/tasks/data/test_tables.py and tests/tasks/units/test_identifiers.py.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Self

import polars as pl
import pyarrow as pa
from pyarrow import types

from concord.artifacts.errors import WrongInput
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import (
    COMMAS,
    FEATURES_FIELD,
    NO_NAMES,
    SCHEMA_FIELD,
    USUAL_SPELLING,
    WORDS,
    AnyPath,
    Encoding,
    Kind,
    OneHot,
    Scaled,
    TextFormat,
)
from concord.tasks.data.cells import ANY_WORD, cast_columns, is_padded, kind_of, kinds_of_text
from concord.tasks.data.files import PRIVATE, TableFile, find_files
from concord.tasks.data.stored_columns import polars_type

UNIT_FIELD, CELLS_FIELD = "data.unit", "test.columns"
"""The fields whose columns name units."""
CELLS_IN_SCHEMA = f"{CELLS_FIELD} and {SCHEMA_FIELD}"
"""The fields of a column that names units and has a declared category such as None. It is no missing cell, but still
names nobody (`unit_names`): other names would move units into another part."""
OWN_WORDS: Mapping[str, Collection[str]] = {
    **dict.fromkeys(("data.label", SCHEMA_FIELD), ANY_WORD),
    **dict.fromkeys((UNIT_FIELD, CELLS_FIELD), NO_NAMES),
    CELLS_IN_SCHEMA: ("",),
}
"""Words of a missing cell in text, by the field that asks for the column, if they are not the usual ones. Those of the
CSV format are added, but not to ANY_WORD."""
IN_EVERY_HEADER = ("data.label", UNIT_FIELD)
"""Fields that name columns which the header of a private CSV file must have."""
TEXT, WHOLE_NUMBERS, UUIDS = "text", "whole numbers", "UUIDs"
"""Types of ids, however many bytes they have and whether each word is stored once."""
TEXT_KINDS: tuple[Kind, ...] = ("boolean", "numeric", "date")
"""Kinds of a column of text besides categories; the first that fits every cell is taken."""
UTC_NAMES = (None, "UTC", "Etc/UTC", "GMT", "Z", "+00:00")
"""Time zones of moments whose names are those in UTC."""
Slice = tuple[int, int]
"""A share of a table: `number` and `of`, for every `of`-th of its pieces from that number on. It follows from the order
of files and of their pieces alone."""
WHOLE: Slice = (0, 1)

PANDAS_INDEX = re.compile("__index_level_[0-9]+__")
"""Names of columns in which pandas stores row numbers and other indices without a name."""
_DAY, _MONTH, _YEAR = r"(?:0?[1-9]|[12][0-9]|3[01])", r"\p{L}{3,9}\.?", r"(?:[0-9]{4}|[0-9]{2})"
DATES_IN_WORDS = (
    rf"{_DAY}[./-]{_DAY}[./-]{_YEAR}",
    rf"[0-9]{{4}}[./-]{_DAY}[./-]{_DAY}",
    rf"{_DAY}\.?[ -]{_MONTH}[ -]{_YEAR}",
    rf"{_MONTH} {_DAY},? {_YEAR}",
)
DATE = rf"^(?:{'|'.join(DATES_IN_WORDS)})(?:[T ,].*)?$"
"""A word that is a date to a reader: in digits, or with the name of a month; perhaps with a time."""


@dataclass(frozen=True)
class Table:
    """Rows in files of one format.

    path     where the files were found: a file, a folder or a glob; an address; or the name of a snapshot
    field    the plan's field, or the option, that names it. Of `data.private` nothing is shown but what is asked
    unit     the column that names the units of private rows; None if it has none
    digests  keyed digests of the files, once they are computed. By them alone a stage's key knows a table
    """

    path: str
    files: tuple[TableFile, ...]
    field: str
    unit: str | None = None
    digests: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order: those of the first file. Of a private table those of any file; only the operator may
        see them, since those of a pivoted table are values."""
        files = self.files if self.field == PRIVATE else self.files[:1]
        return tuple(dict.fromkeys(name for file in files for name in file.names))

    @property
    def columns(self) -> tuple[str, ...]:
        """Its names without those that pandas gave to an index which had none."""
        return tuple(name for name in self.names if not PANDAS_INDEX.fullmatch(name))

    @property
    def pieces(self) -> int:
        """The number of pieces that can be read by themselves, in all files."""
        return sum(file.pieces for file in self.files)

    def digested(self, digest: Callable[[AnyPath], str]) -> Self:
        """The table with the keyed digest of each file (`Vault.digest_file`). Raises WrongInput if it is unreadable."""
        try:
            return replace(self, digests=tuple(digest(file.path) for file in self.files))
        except OSError as failed:
            raise WrongInput(f"{self.field} cannot be read: {failed.strerror}") from None

    def named_in(self, plan: Plan) -> Plan:
        """The plan with this table in the place of the one that it names in the field."""
        data = plan.data.model_copy(update={self.field.removeprefix("data."): self.path})
        return plan.model_copy(update={"folder": "", "data": data})

    def type_of(self, name: str) -> pl.DataType:
        """The type of a column, as the first file has it."""
        return self.files[0].type_of(name)

    def stored_types(self, name: str) -> dict[str, pa.DataType]:
        """The type of a column in each file that has it."""
        return {file.shown: file.stored_as(name) for file in self.files if name in file.names}

    def frames(
        self,
        columns: Iterable[str] | Mapping[str, str],
        names: Collection[str] = (),
        once: Collection[str] = (),
        share: Slice = WHOLE,
    ) -> Iterator[pl.DataFrame]:
        """The columns of all rows in order, in frames that hold at least one.

        columns  names; or each name with the plan's field that asks for it, `data.features` by default. The field
                 decides which words are a missing cell (OWN_WORDS)
        names    columns whose cells are never numbers, as ids are not: that of `data.unit` is always one
        once     columns of text that may come as an Enum (tasks.data.files)
        share    of the table's pieces
        Raises WrongInput, before any row is read, if a file lacks a column or has it twice; and in the end, if a public
        table has no row.
        """
        asked_by = columns if isinstance(columns, Mapping) else dict.fromkeys(columns, FEATURES_FIELD)
        self.check_columns(asked_by)
        ids = {*names, *(name for name, field in asked_by.items() if field == UNIT_FIELD)}
        missing = {name: OWN_WORDS[field] for name, field in asked_by.items() if field in OWN_WORDS}
        return self._frames(tuple(asked_by), ids, once, missing, share)

    def _frames(
        self,
        columns: Sequence[str],
        names: Collection[str],
        once: Collection[str],
        missing: Mapping[str, Collection[str]],
        share: Slice,
    ) -> Iterator[pl.DataFrame]:
        number, of = share
        rows = pieces_before = 0
        for file in self.files:
            pieces = None
            if of > 1:
                pieces = range((number - pieces_before) % of, file.pieces, of)
                pieces_before += file.pieces
            if pieces is None or pieces:
                for frame in filter(len, file.frames(columns, names, once, pieces, missing)):
                    rows += frame.height
                    yield frame
        if not rows and self.field != PRIVATE:
            raise WrongInput(f"{self.field} must hold at least one row, got none in {self.files[0].shown}")

    def kinds(self, columns: Sequence[str], *, padded: bool = False) -> dict[str, Kind]:
        """The kind of each column. Raises WrongInput if it differs between files or cannot be a feature.

        padded   whether a column of a text file in which a number begins with a needless zero is numeric; if not, it
                 is categorical
        """
        self.check_columns(dict.fromkeys(columns, FEATURES_FIELD))
        codes: set[str] = set()
        kinds: dict[str, Kind] = dict.fromkeys(columns, "null")
        for file in self.files:
            for name, kind in _kinds_of_file(file, columns, codes).items():
                if "null" not in (kind, kinds[name]) and kind != kinds[name]:
                    both = f"{kinds[name]} before {file.shown} and {kind} in it"
                    raise WrongInput(f"{self.field} must hold column {name!r} as one type in all files, got {both}")
                kinds[name] = kind if kind != "null" else kinds[name]
        words = {name for name in codes if kinds[name] == "numeric" and not padded}
        return {name: "categorical" if name in words else kind for name, kind in kinds.items()}

    def check(self, encoding: Encoding) -> None:
        """Raises WrongInput unless every feature is there, with the kind that the encoding has."""
        text = self.files[0].is_text
        kinds = self.kinds([column.name for column in encoding.columns if column.kind != "null"], padded=True)
        for column in encoding.columns:
            kind = kinds.get(column.name, "null")
            names = kind == "numeric" and isinstance(column, OneHot) and column.of_numbers
            words = text or names or kind == "categorical"
            if kind in ("null", column.kind) or (words and column.kind in WORDS):
                continue
            if not (isinstance(column, Scaled) and kind == "categorical" and self._reads(column)):
                day = date(2026, 12, 31).strftime(column.spelling.dates or "%Y-%m-%d")
                must = {"date": f"a date such as {day}", "numeric": "a number", "boolean": "a truth value such as yes"}
                rule = f"{self.field}: {column.name!r} must be {must.get(column.kind, column.kind)}"
                raise WrongInput(f"{rule} in every row, got {kind}")

    def _reads(self, column: Scaled) -> bool:
        """Whether every filled cell is read as the column has it; or most, if it is spelled otherwise than usual."""
        filled = read = 0
        for frame in self.frames([column.name]):
            filled += frame.height - frame[column.name].null_count()
            read += frame.height - cast_columns(frame, [column])[column.name].null_count()
        return read == filled or (column.spelling != USUAL_SPELLING and 2 * read > filled)

    def check_columns(self, columns: Mapping[str, str]) -> None:
        """Raise WrongInput if a file lacks one of these columns, each with the field that asks for it, or has it twice;
        or if the column of `data.unit` cannot name units. There may be no file, and no row is read.

        In a part of a private CSV file without its header, the first line is a row: no word of it may decide anything,
        or be shown. So the label and the unit must be in every header, and all headers are asked for them first.
        """
        for file in self.files:
            for name, asked_by in columns.items():
                if name not in file.names:
                    raise WrongInput(self._what_lacks(file, name, asked_by))
        for file in self.files:
            for name in columns:
                if file.names.count(name) > 1:
                    raise WrongInput(f"{self.field} must name each column once, got {name!r} twice in {file.shown}")
        for name in (name for name, asked_by in columns.items() if asked_by == UNIT_FIELD):
            self.check_names(name, UNIT_FIELD)

    def _what_lacks(self, file: TableFile, name: str, asked_by: str) -> str:
        """The sentence on a column that a file lacks."""
        rule = f"{self.field} must hold the column {name!r}"
        if self.field != PRIVATE:
            return f"{rule}, which {file.shown} lacks{file.what_to_try(name)}"
        if asked_by in (CELLS_FIELD, CELLS_IN_SCHEMA):
            return f"{rule} that {CELLS_FIELD} names in every file, because it names rows, but {file.shown} lacks it"
        if file.format == "csv" and asked_by in IN_EVERY_HEADER:
            lacks = f"in the first line of every CSV file, but that of {file.shown} lacks it"
            return f"{rule} that {asked_by} names {lacks}: write the names of the columns there{file.what_to_try(name)}"
        lacks = "its columns lack it" if len(self.files) == 1 else f"{file.shown} lacks it"
        asked_by = FEATURES_FIELD if asked_by == SCHEMA_FIELD else asked_by  # or public rows hold such words
        return f"{rule} that {asked_by} names, but {lacks}{file.what_to_try(name)}"

    def check_names(self, column: str, field: str) -> None:
        """Raise WrongInput unless the column can name units, by its type in each file: one type in all files, since the
        same name may be stored otherwise in another. For `data.unit` it is text, whole numbers or UUIDs."""
        stored, first_file = self.stored_types(column), dict[str, str]()
        for file, kind in stored.items():
            if types.is_null(plain := plain_type(kind)):
                continue
            dtype, named = polars_type(plain), None
            if types.is_integer(plain):
                named = WHOLE_NUMBERS
            elif isinstance(dtype, pl.String | pl.Binary):
                named = UUIDS if isinstance(plain, pa.UuidType) else TEXT
            elif kind_of(dtype) not in (None, "list"):
                named = str(plain)  # one name for all types whose equal values have equal names
            if named is None or (field == UNIT_FIELD and named not in (TEXT, WHOLE_NUMBERS, UUIDS)):
                kinds = (
                    "text, whole numbers or UUIDs" if field == UNIT_FIELD else "text, numbers, truth values or dates"
                )
                rule = f"{field} must name a column of {kinds}"
                raise WrongInput(f"{rule}, got {column!r} of type {kind} in {file}: write it as text")
            first_file.setdefault(named, file)
        if len(first_file) > 1:
            first, other, *_ = first_file.values()
            raise WrongInput(
                f"{field} must be stored as one type in all files, got {column!r} as {stored[first]} in {first} and as "
                f"{stored[other]} in {other}: store it as text in all"
            )

    def recorded_types(self, column: str) -> list[bool | str]:
        """What the ledger records of the types of a column that names units (tasks.units.parts): whether there are
        doubles, and the types in which a value has another name than in the others."""
        plain = list(map(plain_type, self.stored_types(column).values()))
        doubles = any(  # some decimals are too long for polars
            types.is_float64(kind)
            or types.is_decimal256(kind)
            or (types.is_decimal(kind) and not 0 <= kind.scale <= 38)
            for kind in plain
        )
        named_otherwise = {
            "uuid": any(isinstance(kind, pa.UuidType) for kind in plain),
            "float32": any(map(types.is_float32, plain)),
            "zone": any(types.is_timestamp(kind) and kind.tz not in UTC_NAMES for kind in plain),
        }
        return [doubles, *(name for name, is_stored in named_otherwise.items() if is_stored)]


def open_public(path: str, field: str = "data.public", form: TextFormat = COMMAS) -> Table:
    """The public table at a file, folder or glob. Raises WrongInput if nothing is there."""
    return Table(path, find_files(path, field, form), field)


def open_private(path: str, form: TextFormat = COMMAS, unit: str | None = None, *, arriving: bool = False) -> Table:
    """The private table at a file, folder or glob, whose CSV files have that format. Raises WrongInput if nothing is
    there, unless files are `arriving`."""
    return Table(path, find_files(path, PRIVATE, form, arriving=arriving), PRIVATE, unit)


def kind_in(file: TableFile, name: str) -> Kind:
    """The kind of a column by its type alone. Raises WrongInput if it cannot be a feature."""
    kind = kind_of(file.type_of(name))
    if kind is None:
        rule = f"{file.field} must hold numbers, truth values, dates, text or lists of fixed size as features"
        raise WrongInput(f"{rule}, got column {name!r} of type {file.stored_as(name)}")
    return kind


def _kinds_of_file(file: TableFile, columns: Sequence[str], codes: set[str]) -> dict[str, Kind]:
    """The kind of each column of a file; columns of digits with a needless leading zero are added to `codes`."""
    if not file.is_text:
        return {name: kind_in(file, name) for name in columns}
    possible: dict[str, set[Kind]] = {name: set(TEXT_KINDS) for name in columns}
    seen: set[str] = set()
    with file.readable():
        for frame in file.frames(columns):
            for name in columns:
                possible[name] = kinds_of_text(frame[name], possible[name])
                if frame[name].null_count() < frame.height:
                    seen.add(name)
                if is_padded(frame[name]):
                    codes.add(name)
    first: dict[str, Kind] = {
        name: next((kind for kind in TEXT_KINDS if kind in possible[name]), "categorical") for name in columns
    }
    return {name: kind if name in seen else "null" for name, kind in first.items()}


def are_dates(cells: pl.Series) -> bool:
    """Whether most values are dates: a vocabulary of one table has few of another's."""
    words = cells.cast(pl.String).drop_nulls()
    return 2 * int(words.str.strip_chars().str.contains(DATE).sum()) > len(words)


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of a dictionary's values; any other type as it is."""
    return plain_type(kind.value_type) if types.is_dictionary(kind) else kind
