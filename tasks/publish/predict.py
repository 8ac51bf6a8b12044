"""Predict: classes and probabilities, or the number, of the rows of any table, by a published student; and CSV files
for spreadsheets, of what is predicted and exported.

Assumes      the published student was checked (tasks.verify.certificate)
Guarantees   this is post-processing: nothing is spent. A file appears whole or not at all, and never replaces another.
             It holds no class but the student's. No cell of CSV and no name of a column is a formula to a spreadsheet,
             and `as_named` gives each word back; letters that are not printed, which hide or turn others, are refused
             or become �. Numbers have DIGITS digits, and all before the point
Not covered  who may see the rows; how a program guesses types of cells. Checked by tests/tasks/publish/test_predict.py
             and test_export.py
"""

import os
import re
import secrets
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from concord.artifacts.errors import EnvironmentFailed, WrongInput, in_one_line, is_printable, quoted
from concord.artifacts.published import PublishedStudent
from concord.artifacts.schemas import COMMAS, FEATURES_FIELD, TextFormat
from concord.tasks.data.cells import kind_of
from concord.tasks.data.files import format_of
from concord.tasks.data.tables import open_public
from concord.tasks.student.model import AnyRows, columns_read, load, strangers

SUFFIXES = (".parquet", ".csv")
CLASS, VALUE = "class", "number"
POINTS = ("default", "prior-odds")


@strangers()
def student_of(published: PublishedStudent) -> AnyRows:
    """A published student, to be asked. Raises NotVerified as `load` does."""
    return AnyRows(load(published.student).steps)


class Thresholded:
    """A student that names the class `name` for every row to which it gives it a probability of at least `least`, and
    for any other row the likeliest of the other classes."""

    def __init__(self, student: Any, name: str, least: float) -> None:
        self._student, self._name, self._least = student, name, least
        self.classes_, self.feature_names_in_ = student.classes_, student.feature_names_in_

    def __getitem__(self, name: str) -> Any:
        """A part of the student."""
        return self._student[name]

    def predict(self, rows: Any) -> NDArray[Any]:
        """Class names (rows,)."""
        odds, of_class = _numbers(self.predict_proba(rows)), self.classes_ == self._name
        return np.where(
            odds[:, of_class][:, 0] >= self._least, self._name, self.classes_[(odds - of_class).argmax(axis=1)]
        )

    def predict_proba(self, rows: Any) -> NDArray[Any]:
        """The student's probabilities (rows, classes)."""
        return np.asarray(self._student.predict_proba(rows))


def at_point(student: Any, point: str = "default", threshold: str | None = None) -> Any:
    """The student at another operating point.

    point      default, or prior-odds: the class whose odds rise most over its share of the public rows
    threshold  CLASS=PROBABILITY, as for `Thresholded`
    Raises WrongInput if it has no such point, class or probabilities.
    """
    if not hasattr(student, "classes_") and (threshold is not None or point != "default"):
        raise WrongInput("--threshold and --point are of students that name classes, and this one gives a number")
    if point not in POINTS or (point != "default" and threshold is not None):
        raise WrongInput(f"--point must be one of {' and '.join(POINTS)}, and without --threshold, got {point!r}")
    if threshold is not None:
        name, _, least = threshold.rpartition("=")
        classes = [str(name) for name in getattr(student, "classes_", ())]
        if name not in classes or not hasattr(student, "predict_proba"):
            raise WrongInput(
                f"--threshold must name a class with probabilities, one of {quoted(classes)}, got {name!r}"
            )
        if not 0 < _share(least) <= 1:
            raise WrongInput(f"--threshold must end with a probability above 0, such as {name}=0.2, got {least!r}")
        return Thresholded(student, name, _share(least))
    if point == "default":
        return student
    if "student__point" not in student.get_params():
        rule = "--point prior-odds is of students that tallies are decoded to"
        raise WrongInput(f"{rule}: this one keeps no shares of classes; name a class by --threshold CLASS=PROBABILITY")
    return student.set_params(student__point="prior odds")


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")


def predict_table(student: Any, table: str, target: Path, *, key: str | None = None) -> int:
    """Write class and probabilities of every row of a table, in order, to a new Parquet or CSV file.

    key   a column of the table that is written beside them, such as the name of a row
    Returns the number of rows. Raises WrongInput if the table lacks that column or one of the student, or if the file
    exists or has another suffix.
    """
    suffix = target.suffix.lower()
    if suffix not in SUFFIXES:
        raise WrongInput(f"--out must be a new file named .parquet or .csv, got {target}")
    if target.exists():
        raise WrongInput(f"--out must be a new file, but {target} already exists")
    if suffix == ".csv" and not all(map(is_printable, getattr(student, "classes_", ()))):
        raise WrongInput("--out must be a .parquet file: the student names a class by letters that are not printable")
    read = columns_read(student)
    names = {key} - read.keys() if key is not None else set[str]()
    form = format_of(table, field="ROWS")
    frames = open_public(table, "ROWS", form).frames(read | dict.fromkeys(names, FEATURES_FIELD), names)
    passing = target.with_name(f".{target.name}.{secrets.token_hex(8)}")  # no name at which others may put a link
    try:
        tables = predictions(student, frames, key)
        rows = _write(tables, passing, form if suffix == ".csv" else None)
        passing.rename(target)
    except OSError as failed:
        raise EnvironmentFailed(f"{target} cannot be written: {os.strerror(failed.errno or 0)}") from None
    finally:
        passing.unlink(missing_ok=True)
    return rows


def predictions(student: Any, frames: Iterator[pl.DataFrame], key: str | None = None) -> Iterator[pa.Table]:
    """For each frame, a table of CLASS and, if the student has them, a column of probabilities per class; or of VALUE,
    if it has no classes; after the frame's column `key`, if one is named.

    Raises NotVerified if the student gives anything but its classes and numbers.
    """
    names = [str(name) for name in getattr(student, "classes_", ())]
    for frame in frames:
        with strangers():
            predicted = pa.table(_predictions(student, frame, names))
        yield predicted if key is None else _after(frame[key], predicted)


def _after(keys: pl.Series, predicted: pa.Table) -> pa.Table:
    """A table after a column of the rows it is about. Raises WrongInput if that is not one of words or numbers."""
    if keys.name in predicted.column_names or kind_of(keys.dtype) in (None, "null", "list"):
        raise WrongInput(
            f"--id must name a column of words or numbers that is not called so already, got {keys.name!r}"
        )
    return predicted.add_column(0, keys.name, keys.to_arrow())


def _predictions(student: Any, frame: pl.DataFrame, names: Sequence[str]) -> dict[str, Any]:
    if not names:
        return {VALUE: _numbers(student.predict(frame)).reshape(len(frame))}
    predicted = student.predict(frame).tolist()
    if not {*predicted} <= {*names}:
        raise KeyError("it gives another class")
    columns = {CLASS: pa.array(predicted, pa.string())}
    if hasattr(student, "predict_proba"):
        odds = _numbers(student.predict_proba(frame)).reshape(len(frame), len(names))
        columns |= {f"probability {name}": odds[:, at] for at, name in enumerate(names)}
    return columns


def _numbers(odds: NDArray[Any]) -> NDArray[Any]:
    if odds.dtype.kind != "f":
        raise TypeError("it gives no numbers")
    return odds


def _write(tables: Iterator[pa.Table], file: Path, form: TextFormat | None) -> int:
    """Write tables as CSV of a format, or as Parquet; returns the number of rows."""
    first, rows = next(tables), 0
    opened: Any = pyarrow.parquet.ParquetWriter(file, first.schema) if form is None else file.open("wb")
    with opened as sink:
        for table in chain((first,), tables):
            if table.schema != first.schema:
                raise WrongInput("--id must name a column of one type in all files of ROWS")
            if form is None:
                sink.write_table(table)
            else:
                sink.write(csv_part(table, form, header=table is first))
            rows += table.num_rows
    return rows


DIGITS = 7
"""Most significant digits of a number in a CSV file, unless more stand before the point."""
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
    number = cs.float()  # an id may be a double, and a count large beside its noise
    short = pl.when(number.abs() < 10.0**DIGITS).then(number.round_sig_figs(DIGITS)).otherwise(number.round())
    shown = rows.with_columns(short, words.replace(spelt)).rename(_spelt)
    return shown.write_csv(include_header=header, separator=form.separator, decimal_comma=form.decimal == ",")


def _spelt(word: str) -> str:
    return in_spreadsheet(in_one_line(word))


def csv_part(table: pa.Table, form: TextFormat, *, header: bool) -> bytes:
    """Rows as a part of a CSV file in a format. Raises WrongInput if a letter of theirs cannot stand there."""
    rows = pl.DataFrame(pl.from_arrow(table))
    for column in rows.select(cs.string(include_categorical=True).cast(pl.String)):
        if not all(map(is_printable, (column.name, *column.drop_nulls().unique()))):
            raise WrongInput(
                f"--out must be a .parquet file: the column {column.name!r} has letters that are not printable"
            )
    try:
        return csv_text(rows, form, header=header).encode(form.encoding)
    except UnicodeEncodeError:
        rule = f"--out must be a .parquet file: {form.encoding}, the encoding of ROWS, lacks a letter"
        raise WrongInput(rule) from None
