"""Public tables: read strictly. Whatever is wrong is told in one sentence that names the field, the value and the rule.

Checked by tests/tasks/test_tables.py.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from artifacts.encoding import Encoding, Kind
from artifacts.errors import WrongInput
from tasks.cells import kind_of, kinds_of_text
from tasks.files import TableFile, find_files

TEXT_KINDS: tuple[Kind, ...] = ("boolean", "numeric", "date")
"""What a column of text can be besides categories; the first that fits every cell is taken."""


@dataclass(frozen=True)
class PublicTable:
    """A table that is public: read strictly, and its faults told in full."""

    files: tuple[TableFile, ...]
    field: str

    @property
    def names(self) -> tuple[str, ...]:
        """Column names in order, as the first file has them."""
        return self.files[0].names

    def type_of(self, name: str) -> pl.DataType:
        """The type of a column, as the first file has it."""
        return self.files[0].type_of(name)

    def frames(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """The columns of all rows in order. Raises WrongInput where there is no row at all, or a column is absent."""
        rows = 0
        self._must_hold(columns)
        for file in self.files:
            for frame in file.frames(columns):
                rows += frame.height
                yield frame
        if not rows:
            raise WrongInput(f"{self.field} must hold at least one row, got none in {self.files[0].path}")

    def kinds(self, columns: Sequence[str]) -> dict[str, Kind]:
        """What each column holds. Raises WrongInput where that differs between files or cannot be a feature."""
        self._must_hold(columns)
        kinds: dict[str, Kind] = dict.fromkeys(columns, "null")
        for file in self.files:
            for name, kind in _kinds_of_file(file, columns).items():
                if "null" not in (kind, kinds[name]) and kind != kinds[name]:
                    both = f"{kinds[name]} before {file.path} and {kind} in it"
                    raise WrongInput(f"{self.field} must hold column {name!r} as one type in all files, got {both}")
                kinds[name] = kind if kind != "null" else kinds[name]
        return kinds

    def check(self, encoding: Encoding) -> None:
        """Raises WrongInput unless every feature is there, as the encoding has it."""
        text = self.files[0].format == "csv"
        kinds = self.kinds([column.name for column in encoding.columns if column.kind != "null"])
        for column in encoding.columns:
            kind = kinds.get(column.name, "null")
            if kind not in ("null", column.kind) and not (text and column.kind == "categorical"):
                rule = f"{self.field} must hold column {column.name!r} as {column.kind}, as the public table did"
                raise WrongInput(f"{rule}, got {kind}")

    def _must_hold(self, columns: Sequence[str]) -> None:
        for file in self.files:
            for name in columns:
                if name not in file.names:
                    raise WrongInput(f"{self.field} must hold the column {name!r}, which {file.path} lacks")


def open_public(path: str, field: str = "data.public") -> PublicTable:
    """The public table at a file, folder or glob. Raises WrongInput where nothing is there."""
    return PublicTable(find_files(path, field), field)


def kind_in(file: TableFile, name: str) -> Kind:
    """What a column holds by its type alone. Raises WrongInput where that cannot be a feature."""
    kind = kind_of(file.type_of(name))
    if kind is None:
        rule = f"{file.field} must hold numbers, truth values, dates, text or lists of fixed size as features"
        raise WrongInput(f"{rule}, got column {name!r} of type {file.stored_as(name)}")
    return kind


def _kinds_of_file(file: TableFile, columns: Sequence[str]) -> dict[str, Kind]:
    if file.format == "csv":
        with file.readable():
            return _kinds_of_lines(file, columns)
    return {name: kind_in(file, name) for name in columns}


def _kinds_of_lines(file: TableFile, columns: Sequence[str]) -> dict[str, Kind]:
    possible: dict[str, set[Kind]] = {name: set(TEXT_KINDS) for name in columns}
    seen: set[str] = set()
    for frame in file.frames(columns):
        for name in columns:
            possible[name] = kinds_of_text(frame[name], possible[name])
            if frame[name].null_count() < frame.height:
                seen.add(name)
    return {
        name: next((kind for kind in TEXT_KINDS if kind in possible[name]), "categorical") if name in seen else "null"
        for name in columns
    }
