"""CSV files for spreadsheets: what is predicted and exported.

Guarantees   no cell and no name of a column is a formula to a spreadsheet, and `as_named` gives each word back; letters
             that are not printed, which hide or turn others, are refused or become �. Numbers have DIGITS digits
Not covered  how a program guesses types of cells. Checked by tests/tasks/publish/test_predict.py and test_export.py
"""

import re
from pathlib import Path
from typing import Self

import polars as pl
import polars.selectors as cs
import pyarrow as pa

from concord.artifacts.errors import WrongInput, in_one_line, is_printable
from concord.artifacts.schemas import COMMAS, TextFormat

DIGITS = 7
"""Most significant digits of a number in a CSV file."""
FORMULA = re.compile(r"'*\s*[=+\-@＝＋－＠]")
"""Matches the beginning of a text that a spreadsheet takes for a formula, or of one with apostrophes before it."""
NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""Matches a number, which may begin like a formula."""


def in_spreadsheet(word: str) -> str:
    """A word as a CSV file holds it: with an apostrophe before it if it begins like a formula and is no number."""
    return f"'{word}" if FORMULA.match(word) and not NUMBER.fullmatch(word) else word


def as_named(cell: str) -> str:
    """The word that a cell of such a file means."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


def csv_text(rows: pl.DataFrame, form: TextFormat = COMMAS, *, header: bool = True) -> str:
    """Rows as CSV in a format, after the names of their columns."""
    words = cs.string(include_categorical=True).cast(pl.String)
    spelt = {word: _spelt(word) for column in rows.select(words) for word in column.drop_nulls().unique()}
    shown = rows.with_columns(cs.float().round_sig_figs(DIGITS), words.replace(spelt)).rename(_spelt)
    return shown.write_csv(include_header=header, separator=form.separator, decimal_comma=form.decimal == ",")


def _spelt(word: str) -> str:
    return in_spreadsheet(in_one_line(word))


class CsvFile:
    """A CSV file that is written in the format of another; a new one is opened, and closed with the context."""

    def __init__(self, path: Path, form: TextFormat) -> None:
        self._file, self._form, self._first = path.open("wb"), form, True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def write_table(self, table: pa.Table) -> None:
        """Append rows, after the names of the columns if they are the first. Raises WrongInput."""
        rows = pl.DataFrame(pl.from_arrow(table))
        for column in rows.select(cs.string(include_categorical=True).cast(pl.String)):
            if not all(map(is_printable, (column.name, *column.drop_nulls().unique()))):
                raise WrongInput(
                    f"--out must be a .parquet file: the column {column.name!r} has letters that are not printable"
                )
        try:
            self._file.write(csv_text(rows, self._form, header=self._first).encode(self._form.encoding))
        except UnicodeEncodeError:
            rule = f"--out must be a .parquet file: {self._form.encoding}, the encoding of ROWS, lacks a letter"
            raise WrongInput(rule) from None
        self._first = False
