"""Files of a table: Parquet, Arrow IPC or CSV, as a file, a folder or a glob; objects of a store; files of a snapshot.

A line of a CSV file is a row. Private and public files are cut into cells by the same declared rules
(tasks.data.csv_files), so that a cell is the same category on both sides. The result of a database query is read like a
CSV file of the default format, by its words. All columns are in the files: a folder whose paths name some (NAME=VALUE)
is refused. Checked by tests/tasks/data/test_tables.py.
"""

import glob
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet
from polars.exceptions import PanicException

from concord.artifacts.errors import ConcordError, EnvironmentFailed, WrongInput, quoted
from concord.artifacts.schemas import COMMAS, TextFormat
from concord.tasks.data.cells import USUAL, clean_text
from concord.tasks.data.csv_files import UTF_16, by_first_line, csv_names, declare_to_find, find_format, read_rows
from concord.tasks.data.places import HIDDEN, Format, Remote, SnapshotTable, StoredFile, objects, reachable
from concord.tasks.data.stored_columns import (
    SizedColumns,
    columns_by_words,
    parquet_footer,
    polars_type,
    read_column,
    sized_columns,
    with_words,
    words_and_places,
    words_as_enum,
)

PRIVATE = "data.private"
"""The plan's field of the private table. No content of its files is shown, not even the words of the first line, which
are names only if there is a header."""
ROWS_IN_MEMORY = 1 << 16
"""Rows held in memory at a time."""
FRAME_TEXT = 1 << 26
"""Characters of a CSV file held in memory at a time, at most."""
TEXT_NAMES = (".csv", ".tsv", ".txt")
"""Ends of names of CSV files, whatever their separator is."""
ARROW_STREAM = b"\xff\xff\xff\xff"
"""First bytes of an Arrow IPC stream; its batches can only be found one after another."""


@dataclass(frozen=True)
class TableFile:
    """One file of a table."""

    path: Path | StoredFile
    format: Format
    field: str
    form: TextFormat = COMMAS

    @property
    def shown(self) -> str:
        """Its name in messages."""
        return str(self.path)

    @property
    def is_text(self) -> bool:
        """Whether its cells are words, which decide the kind of a column."""
        return self.format in ("csv", "text")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Column names in order. Raises WrongInput if the file cannot be read, or names of a public one are wrong."""
        names = self._stored
        if self.field == PRIVATE:  # only names that a plan asks for are checked
            return names
        if not any(names):
            raise WrongInput(f"{self.field} must begin with the names of its columns, but {self.shown} has none")
        if self.format == "csv" and any("\0" in name for name in names):
            raise WrongInput(f"{self.field}: {self.shown} cannot be read: {UTF_16}")
        if twice := [name for name, times in Counter(names).items() if times > 1]:
            raise WrongInput(f"{self.field} must name each column once, got {twice[0]!r} twice in {self.shown}")
        return names

    @cached_property
    def _stored(self) -> tuple[str, ...]:
        """Names of the columns in the file itself."""
        with self.readable():
            stored = csv_names(self.path, self.form) if self.format == "csv" else self._schema.names
        return tuple(name.strip() for name in stored)

    def stored_as(self, name: str) -> pa.DataType:
        """The type of a column by the file's schema; text in a CSV file, whose lines are not read for it."""
        if self.format == "csv":
            return pa.string()
        with self.readable():
            return self._schema.field(self._stored.index(name)).type

    def type_of(self, name: str) -> pl.DataType:
        """The type of a column in `frames`; Unknown if it cannot be a feature, and then all its cells are null."""
        return polars_type(self.stored_as(name))

    @cached_property
    def pieces(self) -> int:
        """The number of pieces that can be read by themselves: row groups, record batches, or a whole CSV file."""
        with self.readable():
            if self.format == "csv":
                return 1
            if self.format == "parquet":
                return int(parquet_footer(self.path).num_row_groups)
            with pa.ipc.open_file(self._bytes()) as file:
                return int(file.num_record_batches)

    def frames(
        self,
        columns: Sequence[str],
        names: Collection[str] = (),
        once: Collection[str] = (),
        pieces: Sequence[int] | None = None,
        missing: Mapping[str, Collection[str]] = USUAL,
    ) -> Iterator[pl.DataFrame]:
        """Frames of these columns, all of which the file has. Raises WrongInput if it cannot be read.

        names   columns whose cells are never numbers (`clean_text`)
        once    columns of text that may come as an Enum, if the file stores each word once (tasks.data.stored_columns)
        pieces  numbers of the pieces to read; None for all
        missing words of a missing cell in columns that have their own (`clean_text`)
        """
        with self.readable():
            if self.format == "csv":
                form, frames = self.form, self._text_frames(columns)
            else:
                form, frames = TextFormat(missing=self.form.missing), self._stored_frames(columns, once, pieces)
            for frame in frames:
                yield clean_text(frame, form, names, missing) if self.is_text and frame.width else frame

    def _stored_frames(
        self, columns: Sequence[str], once: Collection[str], pieces: Sequence[int] | None
    ) -> Iterator[pl.DataFrame]:
        types = {name: self.stored_as(name) for name in columns}
        stored = {name.strip(): name for name in self._schema.names}
        readable = [stored[name] for name, kind in types.items() if polars_type(kind) != pl.Unknown]
        for height, batch in self._batches(readable, {stored[name] for name in columns if name in once}, pieces):
            cells = []
            for name, kind in types.items():
                if stored[name] not in readable:
                    cells.append(pl.Series(name, [None] * height, pl.Null))
                elif isinstance(column := batch[stored[name]], pa.ChunkedArray):
                    cells.append(words_as_enum(name, [words_and_places(part) for part in column.chunks]))
                else:
                    cells.append(read_column(name, column, kind))
            yield pl.DataFrame(cells)

    def _text_frames(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Cells of all lines by the position of their column. In a private file, a cell missing from a line is null and
        nothing fails; in a public one each line must have as many cells as the first."""
        width, strict = len(self._stored), self.field != PRIVATE
        positions = {name: self._stored.index(name) for name in columns}
        for rows in _groups(read_rows(self.path, self.form, strict=strict)):
            if strict and (odd := next((row for row in rows if len(row) != width), None)) is not None:
                line = self.form.separator.join(odd)[:80]
                advice = "; a line is a row: write a table whose cells hold line breaks as Parquet"
                advice = advice if len(odd) < width else ""
                raise ValueError(f"expected {width} columns, got {len(odd)}: {line!r}{advice}")
            cells = {name: [row[at] if at < len(row) else None for row in rows] for name, at in positions.items()}
            yield pl.DataFrame(cells, schema=dict.fromkeys(columns, pl.String))

    def what_to_try(self, name: str) -> str:
        """The end of a message about a missing column: the columns there are, and a format that would find it.

        No name of a private file's column is shown, since Prefect keeps messages: the first line of a CSV file may be a
        row, and a pivoted table has values as names.
        """
        shown = "" if self.field == PRIVATE else f": its columns are {quoted(self.names)}"
        return shown + (declare_to_find(name, self.path, self.form) if self.format == "csv" else "")

    @contextmanager
    def readable(self) -> Iterator[None]:
        """Context that turns any exception of a reader into WrongInput; a damaged file may raise anything."""
        try:
            yield
        except PermissionError:
            raise EnvironmentFailed(f"{self.field}: {self.shown} cannot be opened: permission denied") from None
        except ConcordError:
            raise
        except (Exception, PanicException) as wrong:
            hidden = self.field == PRIVATE or (isinstance(self.path, Remote) and isinstance(wrong, OSError))
            declare = "; declare data.format.encoding, such as 'latin-1' or 'cp1252'"
            advice = declare if isinstance(wrong, UnicodeDecodeError) else ""
            reason = "" if hidden else f": {str(wrong).partition(chr(10))[0]}{advice}"
            raise WrongInput(f"{self.field}: {self.shown} cannot be read as {self.format}{reason}") from None

    def _batches(
        self, columns: Sequence[str], once: Collection[str], pieces: Sequence[int] | None
    ) -> Iterator[SizedColumns]:
        """Batches of at most ROWS_IN_MEMORY rows; Parquet columns in `once` are dictionaries if it has them so."""
        if self.format == "parquet":
            yield from self._parquet_batches(columns, once, pieces)
            return
        fields = [self._schema.names.index(name) for name in columns]
        options = pa.ipc.IpcReadOptions(included_fields=fields or [0])
        with pa.ipc.open_file(self._bytes(), options=options) as file:
            for batch in map(file.get_batch, range(file.num_record_batches) if pieces is None else pieces):
                firsts = range(0, batch.num_rows, ROWS_IN_MEMORY)
                yield from sized_columns(batch.slice(first, ROWS_IN_MEMORY) for first in firsts)

    def _parquet_batches(
        self, columns: Sequence[str], once: Collection[str], pieces: Sequence[int] | None
    ) -> Iterator[SizedColumns]:
        footer = parquet_footer(self.path)
        groups = range(footer.num_row_groups) if pieces is None else pieces
        streamed: dict[str, Any] = {
            "metadata": footer,
            "pre_buffer": False,
        }  # else the whole file is in memory
        types = {"binary_type": pa.large_binary(), "list_type": pa.LargeListType}
        words = columns_by_words(footer, set(columns) & set(once))
        others = [name for name in columns if name not in words]
        with pyarrow.parquet.ParquetFile(self._bytes(), **streamed, **types) as file:
            plain = sized_columns(file.iter_batches(ROWS_IN_MEMORY, groups, others))
            if not words:
                yield from plain
                return
            if not others:
                rows = sum(footer.row_group(group).num_rows for group in groups)
                plain = ((min(ROWS_IN_MEMORY, rows - first), {}) for first in range(0, rows, ROWS_IN_MEMORY))
            with pyarrow.parquet.ParquetFile(self._bytes(), **streamed, read_dictionary=words) as by_words:
                yield from with_words(plain, by_words.iter_batches(ROWS_IN_MEMORY, groups, words))

    @cached_property
    def _schema(self) -> pa.Schema:
        """The file's schema. Of Parquet that names a type which Arrow lacks, as polars' Int128, the bytes it stores."""
        try:
            if self.format == "parquet":
                return pyarrow.parquet.read_schema(self._bytes())
            with pa.ipc.open_file(self._bytes()) as file:
                return file.schema
        except pa.ArrowNotImplementedError:
            if self.format == "parquet":
                return parquet_footer(self.path).schema.to_arrow_schema()
            rule = f"{self.field}: {self.shown} holds a column of a type that Arrow lacks, such as Int128"
        raise WrongInput(f"{rule}: store that column as another type, or leave it out of the file")

    def _bytes(self) -> Any:
        """The file as Arrow reads it."""
        return pa.OSFile(str(self.path)) if isinstance(self.path, Path) else self.path.raw()


def find_files(path: str, field: str, form: TextFormat = COMMAS, *, arriving: bool = False) -> tuple[TableFile, ...]:
    """The files at a path, sorted by name, all of one format. Of a folder hidden ones (. or _ in front) do not count,
    nor of a glob that names none.

    path      of a file, a folder or a glob; the address of an object or a folder of a store, or of a snapshot
    arriving  whether a folder, or a glob, may be without files yet
    """
    if isinstance(path, SnapshotTable):
        return tuple(TableFile(place, kept, field, form) for place, kept in path.files)
    place: Path | Remote = Remote(path.rstrip("/")) if "://" in path else Path(path)
    paths: Sequence[Path | Remote]
    if isinstance(place, Remote):
        paths = objects(path, field)
    elif place.is_dir():
        there = (file for file in sorted(place.rglob("*")) if file.is_file())
        paths = [file for file in there if not HIDDEN.search(file.relative_to(place).as_posix())]
    elif place.is_file():
        paths = [place]
    else:
        root = Path(*takewhile(lambda part: not glob.has_magic(part), place.parts))
        names_hidden = HIDDEN.search(place.relative_to(root).as_posix())
        matches = {Path(match) for match in glob.glob(str(place), recursive=True)}  # it may match a file twice
        matches = {match for match in matches if match.is_file() or match.is_dir()}  # reading a pipe may never end
        paths = sorted(
            match for match in matches if names_hidden or not HIDDEN.search(match.relative_to(root).as_posix())
        )
    if not paths and not (arriving and isinstance(place, Path) and (place.is_dir() or glob.has_magic(path))):
        state = "is empty" if isinstance(place, Path) and place.is_dir() else "does not exist"
        raise WrongInput(f"{field} must be a file, a folder of files or a glob that matches some, but {path} {state}")
    below = [str(file).removeprefix(str(place)) for file in paths if str(file).startswith(str(place))]
    if any("=" in path.rpartition("/")[0] for path in below):
        rule = f"{field} must hold all of its columns in its files, but paths in {path} name some, as NAME=VALUE"
        raise WrongInput(f"{rule}: write them into the files as well, as one Parquet file or several")
    files = [TableFile(file, _format(file, field), field, form) for file in paths]
    for file in files:
        if file.format != files[0].format:
            both = f"{files[0].shown} is {files[0].format}, and {file.shown} is {file.format}"
            raise WrongInput(f"{field} must hold files of one format, but {both}")
    return tuple(files)


def format_of(*tables: str | None, field: str = "--public") -> TextFormat:
    """The format detected in the first of these public tables that is CSV. Raises WrongInput."""
    for path in filter(None, tables):
        if files := csv_files(path, field):
            with files[0].readable():
                return find_format([file.path for file in files])
    return COMMAS


def csv_files(path: str, field: str = PRIVATE) -> list[TableFile]:
    """The CSV files of a table."""
    return [file for file in find_files(path, field) if file.format == "csv"]


def format_of_private(path: str) -> TextFormat:
    """The separator of a private CSV table, by its first line alone; the usual format of any other table."""
    return next((by_first_line(file.path) for file in csv_files(path)), COMMAS)


def _format(path: Path | Remote, field: str) -> Format:
    if isinstance(path, Remote):
        with reachable(str(path), field), path.open("rb") as file:
            start = bytes(file.read(6))
    else:
        try:
            with path.open("rb") as file:
                start = file.read(6)
        except OSError as failed:
            raise EnvironmentFailed(f"{field}: {path} cannot be opened: {failed.strerror}") from None
    if start.startswith(b"PAR1"):
        return "parquet"
    if start == b"ARROW1":
        return "ipc"
    if str(path).lower().removesuffix(".gz").endswith(TEXT_NAMES):
        return "csv"
    if start.startswith(ARROW_STREAM):
        rule = f"{field} must be Parquet, Arrow IPC or CSV, but {path} is an Arrow stream"
        raise WrongInput(f"{rule}: write it as a file, with pyarrow.ipc.new_file or polars' write_ipc")
    if str(path).lower().endswith((".parquet", ".arrow")):
        kind = "Parquet" if str(path).lower().endswith("t") else "Arrow IPC"
        raise WrongInput(f"{field}: {path} is damaged or incomplete: it cannot be read as {kind}")
    named = "named .csv, .tsv or .txt, and .gz behind it if gzip packed it"
    raise WrongInput(f"{field} must be Parquet, Arrow IPC or CSV ({named}), got {path}")


def _groups(lines: Iterator[list[str]]) -> Iterator[list[list[str]]]:
    """Groups of at most ROWS_IN_MEMORY rows, or fewer if they are long."""
    group, size = list[list[str]](), 0
    for line in lines:
        group.append(line)
        size += len(line) + sum(map(len, line))
        if len(group) == ROWS_IN_MEMORY or size >= FRAME_TEXT:
            yield group
            group, size = [], 0
    if group:
        yield group
