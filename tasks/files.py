"""Files of rows: Parquet, Arrow IPC or CSV, as a file, a folder or a glob.

A line of a CSV file is a row: line breaks inside quotes are not read. Checked by tests/tasks/test_tables.py.
"""

import csv
import glob
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
from polars.exceptions import PanicException
from pyarrow.fs import LocalFileSystem

from artifacts.errors import ConcordError, EnvironmentFailed, WrongInput
from tasks.cells import clean_text

Format = Literal["parquet", "ipc", "csv"]
PRIVATE = "data.private"
"""The plan's field of the private table. What stands in its files is told to nobody: not even the words of its first
line, which are names only where it has a header."""
ROWS = 1 << 16
"""Rows held in memory at a time."""


@dataclass(frozen=True)
class TableFile:
    """One file of a table."""

    path: Path
    format: Format
    field: str

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Column names in order. Raises WrongInput where the file cannot be read, or a name comes twice."""
        with self.readable():
            stored = csv_names(self.path) if self.format == "csv" else self._dataset.schema.names
        names = tuple(name.strip() for name in stored)
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            which = "one" if self.field == PRIVATE else repr(twice[0])
            raise WrongInput(f"{self.field} must name each column once, got {which} twice in {self.path}")
        return names

    def type_of(self, name: str) -> pl.DataType:
        """The type of a column. Raises WrongInput where it is none that polars knows."""
        if self.format == "csv":
            return pl.String()
        with self.readable():
            stored = self._dataset.schema.field(self.names.index(name)).type
            return pl.Series(sound(pa.array([], stored))).dtype

    def frames(self, columns: Sequence[str], rows: int = ROWS) -> Iterator[pl.DataFrame]:
        """Those of the columns that the file has, in frames of at most `rows` rows. Raises WrongInput."""
        with self.readable():
            stored = {name.strip(): name for name in self._dataset.schema.names}
            present = [name for name in columns if name in stored]
            batches = self._dataset.to_batches(
                columns=[stored[name] for name in present], batch_size=rows, batch_readahead=1, fragment_readahead=1
            )
            for batch in batches:
                frame = _frame(present, batch)
                yield clean_text(frame) if self.format == "csv" else frame

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
            reason = "" if self.field == PRIVATE else ": " + str(wrong).partition("\n")[0]
            raise WrongInput(f"{self.field}: {self.path} cannot be read as {self.format}{reason}") from None

    @cached_property
    def _dataset(self) -> pyarrow.dataset.Dataset:
        form = _text_format(self.path) if self.format == "csv" else self.format
        return pyarrow.dataset.dataset(str(self.path), format=form, filesystem=LocalFileSystem())


def find_files(path: str, field: str) -> tuple[TableFile, ...]:
    """The files a path means, sorted by name, all of one format; hidden ones (. or _ in front) do not count."""
    place = Path(path)
    if place.is_dir():
        found = [file for file in sorted(place.rglob("*")) if file.is_file() and file.name[0] not in "._"]
    else:
        found = [place] if place.is_file() else sorted(Path(match) for match in glob.glob(path, recursive=True))
    if not found:
        state = "is empty" if place.is_dir() else "does not exist"
        raise WrongInput(f"{field} must be a file, a folder of files or a glob that matches some, but {path} {state}")
    files = tuple(TableFile(file, _format(file, field), field) for file in found)
    if len({file.format for file in files}) > 1:
        raise WrongInput(f"{field} must hold files of one format, got several in {path}")
    return files


def csv_names(path: Path) -> list[str]:
    """Column names of a CSV file: the fields of its first line, as they stand."""
    with path.open("rb") as file:
        return split_line(file.readline().removeprefix(b"\xef\xbb\xbf"))


def split_line(line: bytes) -> list[str]:
    """The fields of one line. Nothing in it can fail or reach another line; what cannot be read has no fields."""
    try:
        return next(csv.reader([line.decode(errors="replace").rstrip("\r\n")]), [])
    except csv.Error:
        return []


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


def _text_format(path: Path) -> pyarrow.dataset.CsvFileFormat:
    """Every cell as text: what a column is, is decided over all of it, not by its first block."""
    text = dict.fromkeys(csv_names(path), pa.string())
    return pyarrow.dataset.CsvFileFormat(convert_options=pa.csv.ConvertOptions(column_types=text))


def _frame(names: Sequence[str], batch: pa.RecordBatch) -> pl.DataFrame:
    return pl.DataFrame([pl.Series(name, sound(column)) for name, column in zip(names, batch.columns, strict=True)])


def sound(column: pa.Array) -> pa.Array:
    """The column as polars can take it, its layout checked: a reader of damaged bytes may end the process.

    Text whose bytes are not UTF-8 is mended cell by cell: readers of text trust it blindly. Raises ArrowInvalid.
    """
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return _text(column)
    column.validate(full=True)
    if pa.types.is_decimal256(column.type):
        return column.cast(pa.float64())  # one long number makes a column so, and polars has no such type
    return column


def _text(column: pa.Array) -> pa.Array:
    stored = column.view(pa.large_binary() if pa.types.is_large_string(column.type) else pa.binary())
    stored.validate(full=True)
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        cells = [None if cell is None else cell.decode(errors="replace") for cell in stored.to_pylist()]
        return pa.array(cells, pa.large_string())
    return column
