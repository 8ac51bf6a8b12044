"""Lines: a CSV file read line by line, so that nothing in a line touches another, or how the run ends.

The first line names the columns and is public, with what ends it: if that is a lone carriage return, every line break
of the file ends a line, as old programs wrote it; if not, only a line feed does, and a lone carriage return is a blank
within its cell. A line longer than LONGEST_LINE is cut there, the first one too. Blanks around a cell do not count, be
they within its quotes or outside. Bytes that are not UTF-8 are escaped. Checked by tests/tasks/data/test_lines.py.
"""

import csv
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TextIO

from concord.tasks.data.names import ESCAPED

LONGEST_LINE = 1 << 20
"""Characters; a byte that is not UTF-8 is escaped by four."""


def csv_names(path: Path) -> list[str]:
    """Column names of a CSV file: the cells of its first line without blanks around them."""
    with _opened(path, newline="") as file:
        return [name.strip() for name in split_line(file.readline(LONGEST_LINE))]


def read_lines(path: Path, *, strict: bool = False) -> Iterator[str]:
    """Every line after the first that is not blank. Raises UnicodeDecodeError only if it is to be `strict`."""
    with _opened(path, newline="") as file:
        lone = file.readline(LONGEST_LINE).endswith("\r")
    with _opened(path, newline="" if lone else "\n", errors="strict" if strict else ESCAPED) as file:
        lines = iter(partial(_line, file, "\r\n" if lone else "\n"), "")
        next(lines, None)
        yield from filter(str.strip, lines)


def split_line(line: str) -> list[str]:
    """The cells of one line. Nothing in it can fail or reach another line; what cannot be read has no cells."""
    csv.field_size_limit(LONGEST_LINE)  # it is the whole process's: a library may have set another
    try:
        return next(csv.reader([line.rstrip("\r\n").replace("\r", " ")], skipinitialspace=True), [])
    except csv.Error:
        return []


def _line(file: TextIO, ends: str) -> str:
    """The next line, cut at LONGEST_LINE; nothing at the end of the file."""
    line = rest = file.readline(LONGEST_LINE)
    while rest and rest[-1] not in ends:
        rest = file.readline(LONGEST_LINE)
    return line


def _opened(path: Path, newline: str, errors: str = ESCAPED) -> TextIO:
    return path.open(encoding="utf-8-sig", errors=errors, newline=newline)
