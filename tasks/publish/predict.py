"""Predict: classes and probabilities of the rows of any table, by a published student.

Assumes      the student's file is the one that its certificate names
Guarantees   this is post-processing of published files: no vault, no ledger; nothing is spent. A file appears whole or
             not at all, and never replaces another
Not covered  who may see the rows. Checked by tests/tasks/publish/test_predict.py
"""

import os
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from concord.artifacts.errors import EnvironmentFailed, WrongInput
from concord.tasks.data.formats import format_of
from concord.tasks.data.tables import open_public
from concord.tasks.student.model import AnyRows, load, read_published

WRITERS: dict[str, Any] = {".parquet": pyarrow.parquet.ParquetWriter, ".csv": pyarrow.csv.CSVWriter}
CLASS = "class"


def student_of(subject: str, home: Path) -> AnyRows:
    """The published student of a session, of a folder that holds one, or of a model in MLflow's registry.

    Raises WrongInput if nothing was published there, NotVerified if the file is not what the certificate digests.
    """
    if subject.startswith("models:/"):
        from concord.artifacts.mlflow.read import Records  # heavy, and rarely asked for

        subject = Records.of(home).session_of(subject)
    _, file = read_published(Path(subject) if Path(subject).is_dir() else home / "released" / subject)
    return AnyRows(load(file).steps)


def predict_table(student: Any, table: str, target: Path) -> int:
    """Write class and probabilities of every row of a table, in order, to a new Parquet or CSV file.

    Returns the number of rows. Raises WrongInput if the table lacks a column of the student, or if the file exists or
    has another suffix.
    """
    if target.suffix.lower() not in WRITERS:
        raise WrongInput(f"--out must be a new file named .parquet or .csv, got {target}")
    if target.exists():
        raise WrongInput(f"--out must be a new file, but {target} is there already")
    frames = open_public(table, "ROWS", format_of(table, field="ROWS")).frames([*student.feature_names_in_])
    passing = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        rows = _write(predictions(student, frames), passing, WRITERS[target.suffix.lower()])
        passing.rename(target)
    except OSError as failed:
        raise EnvironmentFailed(f"{target} cannot be written: {os.strerror(failed.errno or 0)}") from None
    finally:
        passing.unlink(missing_ok=True)
    return rows


def predictions(student: Any, frames: Iterator[pl.DataFrame]) -> Iterator[pa.Table]:
    """For each frame, a table of CLASS and, if the student has them, a column of probabilities per class."""
    for frame in frames:
        columns = {CLASS: pa.array(student.predict(frame).tolist(), pa.string())}
        if hasattr(student, "predict_proba"):
            odds = student.predict_proba(frame)
            columns |= {f"probability {name}": odds[:, at] for at, name in enumerate(student.classes_)}
        yield pa.table(columns)


def _write(tables: Iterator[pa.Table], file: Path, writer: Any) -> int:
    first = next(tables)
    with writer(file, first.schema) as sink:
        rows = 0
        for table in chain((first,), tables):
            sink.write_table(table)
            rows += table.num_rows
    return rows
