"""Tables: several files as one table. A public table is read strictly: a fault is reported in one sentence that names
the field, the value and the rule. In a private one, files store ids as one type.

Checked by tests/tasks/data/test_tables.py and tests/tasks/units/test_identifiers.py.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import polars as pl
import pyarrow as pa
from pyarrow import types

from concord.artifacts.errors import WrongInput
from concord.artifacts.schemas import COMMAS, USUAL_SPELLING, WORDS, Encoding, Kind, OneHot, Scaled, TextFormat
from concord.tasks.data.cells import ANY_WORD, cast_columns, is_padded, kind_of, kinds_of_text
from concord.tasks.data.files import PRIVATE as PRIVATE
from concord.tasks.data.files import TableFile as TableFile
from concord.tasks.data.files import find_files as find_files
from concord.tasks.data.stored_columns import polars_type

UNIT_FIELD, CELLS_FIELD = "data.unit", "test.columns"
"""The fields whose columns name units."""
TEXT, WHOLE_NUMBERS, UUIDS = "text", "whole numbers", "UUIDs"
"""Types of ids, however many bytes they have and whether each word is stored once."""
TEXT_KINDS: tuple[Kind, ...] = ("boolean", "numeric", "date")
"""Kinds of a column of text besides categories; the first that fits every cell is taken."""

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
class PublicTable:
    """A public table: read strictly, and its faults are reported in full."""

    files: tuple[TableFile, ...]
    field: str

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order, as the first file has them."""
        return self.files[0].names

    @property
    def columns(self) -> tuple[str, ...]:
        """Its names without those that pandas gave to an index which had none."""
        return tuple(name for name in self.names if not PANDAS_INDEX.fullmatch(name))

    def type_of(self, name: str) -> pl.DataType:
        """The type of a column, as the first file has it."""
        return self.files[0].type_of(name)

    def frames(
        self, columns: Sequence[str], names: Collection[str] = (), label: str | None = None
    ) -> Iterator[pl.DataFrame]:
        """The columns of all rows in order. Raises WrongInput if there is no row at all, or a column is absent.

        names   columns whose cells are never numbers
        label   the column of labels, in which every word stays
        """
        rows, missing = 0, {} if label is None else {label: ANY_WORD}
        self.must_hold(columns)
        for file in self.files:
            for frame in file.frames(columns, names, missing=missing):
                rows += frame.height
                yield frame
        if not rows:
            raise WrongInput(f"{self.field} must hold at least one row, got none in {self.files[0].shown}")

    def kinds(self, columns: Sequence[str], *, padded: bool = False) -> dict[str, Kind]:
        """The kind of each column. Raises WrongInput if it differs between files or cannot be a feature.

        padded   whether a column of a text file in which a number begins with a needless zero is numeric; if not, it
                 is categorical
        """
        self.must_hold(columns)
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
                day = date(2026, 12, 31).strftime(getattr(column, "spelling", USUAL_SPELLING).dates or "%Y-%m-%d")
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

    def must_hold(self, columns: Sequence[str]) -> None:
        """Raise WrongInput if a file lacks one of the columns."""
        for file in self.files:
            for name in columns:
                if name not in file.names:
                    rule = f"{self.field} must hold the column {name!r}, which {file.shown} lacks"
                    raise WrongInput(rule + file.what_to_try(name))


def open_public(path: str, field: str = "data.public", form: TextFormat = COMMAS) -> PublicTable:
    """The public table at a file, folder or glob. Raises WrongInput if nothing is there."""
    return PublicTable(find_files(path, field, form), field)


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


def check_names(stored: Mapping[str, pa.DataType], column: str, field: str) -> None:
    """Raise WrongInput unless a column can name units, given its type in each file: one type in all files, since the
    same name may be stored otherwise in another. For `data.unit` it is text, whole numbers or UUIDs."""
    seen: dict[str, str] = {}
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
            kinds = "text, whole numbers or UUIDs" if field == UNIT_FIELD else "text, numbers, truth values or dates"
            rule = f"{field} must name a column of {kinds}"
            raise WrongInput(f"{rule}, got {column!r} of type {kind} in {file}: write it as text")
        seen.setdefault(named, file)
    if len(seen) > 1:
        first, other, *_ = seen.values()
        raise WrongInput(
            f"{field} must be stored as one type in all files, got {column!r} as {stored[first]} in {first} and as "
            f"{stored[other]} in {other}: store it as text in all"
        )


def recorded_types(stored: Iterable[pa.DataType]) -> list[bool | str]:
    """What the ledger records of the types of a column that names units (tasks.units.parts): whether there are doubles,
    and the types in which a value has another name than in the others."""
    plain, utc = list(map(plain_type, stored)), (None, "UTC", "Etc/UTC", "GMT", "Z", "+00:00")
    found = {
        "uuid": any(isinstance(kind, pa.UuidType) for kind in plain),
        "float32": any(map(types.is_float32, plain)),
        "zone": any(types.is_timestamp(kind) and kind.tz not in utc for kind in plain),
    }
    doubles = any(  # some decimals are too long for polars
        types.is_float64(kind) or types.is_decimal256(kind) or (types.is_decimal(kind) and not 0 <= kind.scale <= 38)
        for kind in plain
    )
    return [doubles, *(name for name, held in found.items() if held)]


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type of a dictionary's values; any other type as it is."""
    return plain_type(kind.value_type) if types.is_dictionary(kind) else kind
