"""Predict: classes and probabilities of the rows of any table, by a published student.

A CSV file may be opened by a spreadsheet, which takes a cell such as `=1+1` for a formula. So a class that begins like
one has an apostrophe before it there, which `as_named` takes off again; Parquet holds every class as it is.

Assumes      the published student was checked (tasks.verify.handing)
Guarantees   this is post-processing: nothing is spent. A file appears whole or not at all, and never replaces another.
             It holds no class but the student's, no cell of CSV is a formula, and no letter in it acts on a terminal
Not covered  who may see the rows. Checked by tests/tasks/publish/test_predict.py
"""

import os
import re
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from concord.artifacts.errors import EnvironmentFailed, WrongInput, is_printable
from concord.artifacts.published import Published
from concord.tasks.data.files import format_of
from concord.tasks.data.tables import open_public
from concord.tasks.student.fitted import strangers
from concord.tasks.student.model import AnyRows, load

WRITERS: dict[str, Any] = {".parquet": pyarrow.parquet.ParquetWriter, ".csv": pyarrow.csv.CSVWriter}
CLASS = "class"
FORMULA = re.compile(r"'*\s*[=+\-@＝＋－＠]")
"""How a text begins that a spreadsheet takes for a formula, or one that has apostrophes before it."""
NUMBER = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""What begins like one and is none."""


def in_spreadsheet(name: str) -> str:
    """A class as a CSV file holds it: with an apostrophe before it if it begins like a formula and is no number."""
    return f"'{name}" if FORMULA.match(name) and not NUMBER.fullmatch(name) else name


def as_named(cell: str) -> str:
    """The class that a cell of such a file means."""
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


@strangers()
def student_of(published: Published) -> AnyRows:
    """A published student, to be asked. Raises NotVerified as `load` does."""
    return AnyRows(load(published.student).steps)


def predict_table(student: Any, table: str, target: Path) -> int:
    """Write class and probabilities of every row of a table, in order, to a new Parquet or CSV file.

    Returns the number of rows. Raises WrongInput if the table lacks a column of the student, or if the file exists or
    has another suffix.
    """
    suffix = target.suffix.lower()
    if suffix not in WRITERS:
        raise WrongInput(f"--out must be a new file named .parquet or .csv, got {target}")
    if target.exists():
        raise WrongInput(f"--out must be a new file, but {target} is there already")
    if suffix == ".csv" and not all(map(is_printable, student.classes_)):
        raise WrongInput("--out must be a .parquet file: the student names a class by letters that are not printable")
    frames = open_public(table, "ROWS", format_of(table, field="ROWS")).frames([*student.feature_names_in_])
    passing = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        tables = predictions(student, frames, in_spreadsheet if suffix == ".csv" else str)
        rows = _write(tables, passing, WRITERS[suffix])
        passing.rename(target)
    except OSError as failed:
        raise EnvironmentFailed(f"{target} cannot be written: {os.strerror(failed.errno or 0)}") from None
    finally:
        passing.unlink(missing_ok=True)
    return rows


def predictions(student: Any, frames: Iterator[pl.DataFrame], spelt: Callable[[str], str] = str) -> Iterator[pa.Table]:
    """For each frame, a table of CLASS and, if the student has them, a column of probabilities per class.

    spelt   how a class is written
    Raises NotVerified if the student gives anything but its classes and numbers.
    """
    names = {str(name): spelt(str(name)) for name in student.classes_}
    for frame in frames:
        with strangers():
            columns = {CLASS: pa.array([names[name] for name in student.predict(frame).tolist()], pa.string())}
            if hasattr(student, "predict_proba"):
                odds = _numbers(student.predict_proba(frame)).reshape(len(frame), len(names))
                columns |= {f"probability {name}": odds[:, at] for at, name in enumerate(names)}
            found = pa.table(columns)
        yield found


def _numbers(odds: NDArray[Any]) -> NDArray[Any]:
    if odds.dtype.kind != "f":
        raise TypeError("probabilities are numbers")
    return odds


def _write(tables: Iterator[pa.Table], file: Path, writer: Any) -> int:
    first = next(tables)
    with writer(file, first.schema) as sink:
        rows = 0
        for table in chain((first,), tables):
            sink.write_table(table)
            rows += table.num_rows
    return rows
