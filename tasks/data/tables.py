"""Files of rows: Parquet, Arrow IPC or CSV, as a file, a folder or a glob.

A line of a CSV file is a row; line breaks within quotes are read in public files alone, if the plan declares them.
Private and public files are cut into cells by the same declared rules (TextFormat, tasks.data.sound), so that a cell
is the same category on both sides. A public table is read strictly: whatever is wrong with it is reported in one
sentence that names the field, the value and the rule.
Checked by tests/tasks/data/test_tables.py.
"""

import glob
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
from polars.exceptions import PanicException
from pyarrow.fs import LocalFileSystem

from concord.artifacts.errors import ConcordError, EnvironmentFailed, WrongInput
from concord.artifacts.schemas import COMMAS, Encoding, Kind, OneHot, TextFormat
from concord.tasks.data.cells import clean_text, is_padded, kind_of, kinds_of_text
from concord.tasks.data.sound import (
    csv_names,
    declare_to_find,
    listed,
    nulls,
    parquet_footer,
    polars_type,
    read_lines,
    read_rows,
    sound,
)

Format = Literal["parquet", "ipc", "csv"]
PRIVATE = "data.private"
"""The plan's field of the private table. What stands in its files is told to nobody: not even the words of its first
line, which are names only if it has a header."""
ROWS_IN_MEMORY = 1 << 16
"""Rows held in memory at a time."""
FRAME_TEXT = 1 << 26
"""Characters of a CSV file held in memory at a time, at most."""


@dataclass(frozen=True)
class TableFile:
    """One file of a table."""

    path: Path
    format: Format
    field: str
    form: TextFormat = COMMAS

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Column names in order. Raises WrongInput if the file cannot be read, or if a name comes twice in a public
        one: of a private one, only names that are asked for may be judged."""
        with self.readable():
            stored = csv_names(self.path, self.form) if self.format == "csv" else self._schema.names
        names = tuple(name.strip() for name in stored)
        twice = [name for name in names if names.count(name) > 1]
        if twice and self.field != PRIVATE:
            raise WrongInput(f"{self.field} must name each column once, got {twice[0]!r} twice in {self.path}")
        return names

    def stored_as(self, name: str) -> pa.DataType:
        """The type of a column, as the file states it: text in a CSV file, none of whose lines is read for it."""
        if self.format == "csv":
            return pa.string()
        with self.readable():
            return self._schema.field(self.names.index(name)).type

    def type_of(self, name: str) -> pl.DataType:
        """The type of a column in `frames`; Unknown for one that can be no feature: all its cells are null there."""
        return polars_type(self.stored_as(name))

    def frames(self, columns: Sequence[str], rows: int = 0, names: Collection[str] = ()) -> Iterator[pl.DataFrame]:
        """Those of the columns that the file has; of a CSV file all of them, null if it has none. Raises WrongInput.

        rows    of a frame at most; ROWS_IN_MEMORY if not given
        names   columns in which no cell is a number, however it is written (`clean_text`)
        """
        rows = rows or ROWS_IN_MEMORY
        if self.format == "csv":
            with self.readable():
                yield from self._text_frames(columns, rows, names)
            return
        present = {name: self.stored_as(name) for name in columns if name in self.names}
        with self.readable():
            stored = {name.strip(): name for name in self._schema.names}
            known = [stored[name] for name, kind in present.items() if polars_type(kind) != pl.Unknown]
            for batch in self._batches(known, rows):
                cells = [
                    sound(name, batch.column(stored[name]), kind) if stored[name] in known else nulls(name, batch)
                    for name, kind in present.items()
                ]
                yield pl.DataFrame(cells)

    def _text_frames(self, columns: Sequence[str], rows: int, words: Collection[str]) -> Iterator[pl.DataFrame]:
        """Cells of all lines by the place of their column. In a private file, a cell that a line lacks is null, and so
        is nothing a reason to fail; in a public one each line must have as many cells as the first."""
        places = [self.names.index(name) if name in self.names else len(self.names) for name in columns]
        strict = self.field != PRIVATE
        for split in _groups(read_rows(self.path, self.form, strict=strict), rows):
            if strict:
                self._check_cells(split)
            cells = {
                name: [row[place] if place < len(row) else None for row in split]
                for name, place in zip(columns, places, strict=True)
            }
            yield clean_text(pl.DataFrame(cells, schema=dict.fromkeys(columns, pl.String)), self.form, words)

    def _check_cells(self, split: Sequence[Sequence[str]]) -> None:
        for cells in split:
            if len(cells) != len(self.names):
                line = self.form.separator.join(cells)[:80]
                raise ValueError(f"expected {len(self.names)} columns, got {len(cells)}: {line!r}{self._broken(cells)}")

    def _broken(self, cells: Sequence[str]) -> str:
        """What to try if a row has too few cells."""
        if len(cells) > len(self.names) or self.form.quoted_line_breaks:
            return ""
        return "; if cells within quotes hold line breaks, declare data.format.quoted_line_breaks = true"

    def what_to_try(self, name: str) -> str:
        """The rest of a sentence about a column that it lacks: those it has, and another format that finds it.

        Of a private file no name is shown, since Prefect keeps the sentence: the first line of a CSV file may be a row,
        and a pivoted table has values for names.
        """
        shown = "" if self.field == PRIVATE else f": its columns are {listed(self.names)}"
        return shown + (declare_to_find(name, self.path, self.form) if self.format == "csv" else "")

    def holds_rows(self) -> bool:
        """Whether it has a row beneath its column names. Raises WrongInput if it cannot be read."""
        with self.readable():
            if self.format == "csv":
                return any(True for _ in read_lines(self.path, self.form))
            if self.format == "parquet":
                return bool(pyarrow.parquet.read_metadata(self.path).num_rows)
            return bool(self._dataset.count_rows())

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Turns what a reader raises into WrongInput, in one sentence: on a damaged file it may be anything."""
        try:
            yield
        except PermissionError:
            raise EnvironmentFailed(f"{self.field}: {self.path} cannot be opened: permission denied") from None
        except ConcordError:
            raise
        except (Exception, PanicException) as wrong:
            reason = "" if self.field == PRIVATE else f": {str(wrong).partition(chr(10))[0]}{_declare(wrong)}"
            raise WrongInput(f"{self.field}: {self.path} cannot be read as {self.format}{reason}") from None

    def _batches(self, columns: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
        if self.format != "parquet":
            yield from self._dataset.to_batches(list(columns), batch_size=rows, batch_readahead=1, fragment_readahead=1)
            return
        large = {"binary_type": pa.large_binary(), "list_type": pa.LargeListType}
        with pyarrow.parquet.ParquetFile(self.path, metadata=parquet_footer(self.path), **large) as file:
            yield from file.iter_batches(rows, columns=list(columns))

    @cached_property
    def _schema(self) -> pa.Schema:
        return pyarrow.parquet.read_schema(self.path) if self.format == "parquet" else self._dataset.schema

    @cached_property
    def _dataset(self) -> pyarrow.dataset.Dataset:
        return pyarrow.dataset.dataset(str(self.path), format=self.format, filesystem=LocalFileSystem())


def find_files(path: str, field: str, form: TextFormat = COMMAS) -> tuple[TableFile, ...]:
    """The files a path means, sorted by name, all of one format; hidden ones (. or _ in front) do not count."""
    place = Path(path)
    if place.is_dir():
        found = [file for file in sorted(place.rglob("*")) if file.is_file() and file.name[0] not in "._"]
    else:
        found = [place] if place.is_file() else sorted(Path(match) for match in glob.glob(path, recursive=True))
    if not found:
        state = "is empty" if place.is_dir() else "does not exist"
        raise WrongInput(f"{field} must be a file, a folder of files or a glob that matches some, but {path} {state}")
    files = tuple(TableFile(file, _format(file, field), field, form) for file in found)
    if len({file.format for file in files}) > 1:
        raise WrongInput(f"{field} must hold files of one format, got several in {path}")
    return files


def _format(path: Path, field: str) -> Format:
    try:
        with path.open("rb") as file:
            start = file.read(6)
    except OSError as failed:
        raise EnvironmentFailed(f"{field}: {path} cannot be opened: {failed.strerror}") from None
    if start.startswith(b"PAR1"):
        return "parquet"
    if start == b"ARROW1":
        return "ipc"
    if path.suffix.lower() == ".csv":
        return "csv"
    raise WrongInput(f"{field} must be Parquet, Arrow IPC or CSV (named .csv), got {path}")


def _declare(wrong: BaseException) -> str:
    known = "; declare data.format.encoding, such as 'latin-1' or 'cp1252'"
    return known if isinstance(wrong, UnicodeDecodeError) else ""


def _groups(lines: Iterator[list[str]], rows: int) -> Iterator[list[list[str]]]:
    """So many rows at a time, or fewer that are long."""
    group: list[list[str]] = []
    size = 0
    for line in lines:
        group.append(line)
        size += len(line) + sum(map(len, line))
        if len(group) == rows or size >= FRAME_TEXT:
            yield group
            group, size = [], 0
    if group:
        yield group


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
        """The columns of all rows in order. Raises WrongInput if there is no row at all, or a column is absent."""
        rows = 0
        self._must_hold(columns)
        for file in self.files:
            for frame in file.frames(columns):
                rows += frame.height
                yield frame
        if not rows:
            raise WrongInput(f"{self.field} must hold at least one row, got none in {self.files[0].path}")

    def kinds(self, columns: Sequence[str], *, padded: bool = False) -> dict[str, Kind]:
        """What each column holds. Raises WrongInput if that differs between files or cannot be a feature.

        padded   whether numbers of a text file count as such if one begins with a needless zero: if not, they are words
        """
        self._must_hold(columns)
        codes: set[str] = set()
        kinds: dict[str, Kind] = dict.fromkeys(columns, "null")
        for file in self.files:
            for name, kind in _kinds_of_file(file, columns, codes).items():
                if "null" not in (kind, kinds[name]) and kind != kinds[name]:
                    both = f"{kinds[name]} before {file.path} and {kind} in it"
                    raise WrongInput(f"{self.field} must hold column {name!r} as one type in all files, got {both}")
                kinds[name] = kind if kind != "null" else kinds[name]
        words = {name for name in codes if kinds[name] == "numeric" and not padded}
        return {name: "categorical" if name in words else kind for name, kind in kinds.items()}

    def check(self, encoding: Encoding) -> None:
        """Raises WrongInput unless every feature is there, as the encoding has it."""
        text = self.files[0].format == "csv"
        kinds = self.kinds([column.name for column in encoding.columns if column.kind != "null"], padded=True)
        for column in encoding.columns:
            kind = kinds.get(column.name, "null")
            words = text or (kind == "numeric" and isinstance(column, OneHot) and column.of_numbers)
            if kind not in ("null", column.kind) and not (words and column.kind == "categorical"):
                rule = f"{self.field} must hold column {column.name!r} as {column.kind}, as the public table did"
                raise WrongInput(f"{rule}, got {kind}")

    def _must_hold(self, columns: Sequence[str]) -> None:
        for file in self.files:
            for name in columns:
                if name not in file.names:
                    rule = f"{self.field} must hold the column {name!r}, which {file.path} lacks"
                    raise WrongInput(rule + file.what_to_try(name))


def open_public(path: str, field: str = "data.public", form: TextFormat = COMMAS) -> PublicTable:
    """The public table at a file, folder or glob. Raises WrongInput if nothing is there."""
    return PublicTable(find_files(path, field, form), field)


def kind_in(file: TableFile, name: str) -> Kind:
    """What a column holds by its type alone. Raises WrongInput if that cannot be a feature."""
    kind = kind_of(file.type_of(name))
    if kind is None:
        rule = f"{file.field} must hold numbers, truth values, dates, text or lists of fixed size as features"
        raise WrongInput(f"{rule}, got column {name!r} of type {file.stored_as(name)}")
    return kind


def _kinds_of_file(file: TableFile, columns: Sequence[str], codes: set[str]) -> dict[str, Kind]:
    """What each column of a file holds; those with digits that begin with a needless zero are added to `codes`."""
    if file.format == "csv":
        with file.readable():
            return _kinds_of_lines(file, columns, codes)
    return {name: kind_in(file, name) for name in columns}


def _kinds_of_lines(file: TableFile, columns: Sequence[str], codes: set[str]) -> dict[str, Kind]:
    possible: dict[str, set[Kind]] = {name: set(TEXT_KINDS) for name in columns}
    seen: set[str] = set()
    for frame in file.frames(columns):
        for name in columns:
            possible[name] = kinds_of_text(frame[name], possible[name])
            if frame[name].null_count() < frame.height:
                seen.add(name)
            if is_padded(frame[name]):
                codes.add(name)
    return {
        name: next((kind for kind in TEXT_KINDS if kind in possible[name]), "categorical") if name in seen else "null"
        for name in columns
    }
