"""Rows of the private table: read by rules that cannot fail, one row at a time, whatever stands in them.

A CSV file is read line by line: an unbalanced quote, a ragged line or bytes that are not UTF-8 touch that line alone;
a line longer than LONGEST_LINE is cut there. Columnar files are read by batches, and their types do not matter: cells
are cast later, by `tasks.cells`. Only what the schema lacks is an error.
Checked by tests/tasks/test_tables.py and tests/tasks/test_split.py.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import polars as pl

from artifacts.errors import WrongInput
from tasks.cells import clean_text
from tasks.files import PRIVATE, ROWS, TableFile, csv_names, find_files, split_line

LONGEST_LINE = 1 << 20
FRAME_BYTES = 1 << 26
"""Text held in memory at a time, at most."""


def private_frames(path: str, columns: Mapping[str, str]) -> Iterator[pl.DataFrame]:
    """The columns of every row, in frames; a column that one of several files lacks is null in its rows.

    `columns` maps each name to the plan's field that asks for it. Raises WrongInput, before any row is read, where no
    file has a column, or a file is missing or of another format.
    """
    files = find_files(path, PRIVATE)
    present = {name for file in files for name in file.names}
    for name, asked_by in columns.items():
        if name not in present:
            raise WrongInput(f"{PRIVATE} must hold the column {name!r} that {asked_by} names, but its columns lack it")
    return _frames(files, tuple(columns))


def _frames(files: Sequence[TableFile], columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    for file in files:
        read = _lines_in_frames(file.path, columns) if file.format == "csv" else file.frames(columns)
        for frame in read:
            if frame.is_empty():
                continue  # columnar files may hold batches of no rows
            absent = [pl.lit(None).alias(name) for name in columns if name not in frame.columns]
            yield frame.with_columns(absent).select(columns)


def _lines_in_frames(path: Path, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
    names = [name.strip() for name in csv_names(path)]
    places = [names.index(name) if name in names else len(names) for name in columns]
    with path.open("rb") as file:
        file.readline()
        for lines in _groups(_lines(file)):
            yield clean_text(_text_frame([split_line(line) for line in lines], columns, places))


def _text_frame(rows: Sequence[Sequence[str]], columns: Sequence[str], places: Sequence[int]) -> pl.DataFrame:
    cells = {
        name: [row[place] if place < len(row) else None for row in rows]
        for name, place in zip(columns, places, strict=True)
    }
    return pl.DataFrame(cells, schema=dict.fromkeys(columns, pl.String))


def _lines(file: BinaryIO) -> Iterator[bytes]:
    """Lines that are not blank, each cut at LONGEST_LINE bytes."""
    while line := file.readline(LONGEST_LINE):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(LONGEST_LINE)
        if line.strip():
            yield line


def _groups(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    size = 0
    for line in lines:
        group.append(line)
        size += len(line)
        if len(group) == ROWS or size >= FRAME_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
