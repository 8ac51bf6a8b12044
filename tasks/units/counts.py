"""Counts of private units, one row of each, by what a student predicts for them, one row at a time.

In a batch a prediction could depend on other rows: matrix products round by position, and an estimator may use all rows
at once.
"""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from concord.artifacts.parts import TEST
from concord.artifacts.schemas import LABEL, Bounds, Encoding, Ref
from concord.tasks.data.codes import Codes
from concord.tasks.data.matrix import encode
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.hypotheses import Hypotheses
from concord.tasks.mechanisms.private_test import PLACES, placed
from concord.tasks.units.guard import private_stage, silenced
from concord.tasks.units.parts import provenance_of
from concord.tasks.units.split import one_row_a_unit
from concord.tasks.units.teachers import aligned_copy, read_only
from concord.tasks.units.units import UNIT, PrivateRows, keyed_bits

Says = Callable[[NDArray[Any]], NDArray[Any]]
"""A student's prediction: class names, or numbers, (rows,) of rows in its own format (rows, width)."""
Predictor = tuple[Says, Codes | None]
"""A student, and the codes by which it reads rows; None if it reads encoded ones."""


def read_by(student: Predictor, rows: pl.DataFrame, encoding: Encoding) -> NDArray[Any]:
    """Cast rows (rows, width) as a student reads them."""
    codes = student[1]
    return encode(rows, encoding) if codes is None else codes.of(rows)[:, list(codes.weighed)]


def classes_given(says: Says, X: NDArray[Any], classes: Sequence[str]) -> Ints:
    """The class (rows,) that a student predicts for each row (rows, width), one row at a time.

    If it fails on a row or predicts no declared class, the first class counts.
    """
    indices = {name: index for index, name in enumerate(classes)}
    return _given(X, lambda row: indices.get(str(says(row)[0]), 0), 0).astype(np.int64)


def numbers_given(says: Says, X: NDArray[Any]) -> NDArray[np.float64]:
    """The number (rows,) that a student predicts for each row (rows, width), one row at a time; NaN if it fails."""
    return _given(X, lambda row: float(says(row)[0]), np.nan).astype(np.float64)


def _given(X: NDArray[Any], answer: Callable[[NDArray[Any]], float], failed: float) -> NDArray[Any]:
    answers: dict[bytes, float] = {}
    given = []
    for row in X:
        name = row.tobytes()
        if name not in answers:
            try:
                answers[name] = answer(read_only(aligned_copy(row[np.newaxis])))
            except Exception:  # no failure of an estimator on a private row may show
                answers[name] = failed
        given.append(answers[name])
    return np.array(given)


@dataclass(frozen=True)
class Confusion:
    """Numbers of units of the test part, (classes, classes), by true class and the one that the student predicts."""

    student: Predictor
    classes: int

    name: ClassVar[str] = "confusion"
    by_unit: ClassVar[bool] = False

    @property
    def shape(self) -> tuple[int, ...]:
        """(true classes, predicted classes)."""
        return self.classes, self.classes

    def counted(self, rows: pl.DataFrame, encoding: Encoding) -> Ints:
        """The counts of some cast rows, each of another unit. No row can make it fail."""
        X, truth = read_by(self.student, rows, encoding), rows[LABEL].to_numpy().astype(np.int64)
        predicted = classes_given(self.student[0], X, encoding.classes)
        counts = np.zeros(self.shape, dtype=np.int64)
        np.add.at(counts, (truth, predicted), 1)
        return counts


@dataclass(frozen=True)
class NumberErrors:
    """Numbers of units of the test part by the errors of the student and of naming `constant`, (2, len(PLACES)). Each
    error is rounded by a hash of the unit's name, by the domain's `key`."""

    student: Predictor
    bounds: Bounds
    constant: float
    key: bytes = field(repr=False)

    name: ClassVar[str] = "number_errors"
    by_unit: ClassVar[bool] = True  # each copy of a row needs a count of its own
    shape: ClassVar[tuple[int, ...]] = (2, len(PLACES))

    def counted(self, rows: pl.DataFrame, encoding: Encoding) -> Ints:
        """The counts of some rows, as in `Confusion`."""
        X, truth, (low, high) = read_by(self.student, rows, encoding), rows[LABEL].to_numpy(), self.bounds
        predicted = numbers_given(self.student[0], X)
        counts = np.zeros(self.shape, dtype=np.int64)
        for cells, number, purpose in zip(counts, (predicted, self.constant), (b"error", b"constant"), strict=True):
            chances = keyed_bits(rows[UNIT], self.key, purpose) / 2.0**64
            np.add.at(cells, placed((number - truth) / (high - low), chances), 1)
        return counts


@private_stage
def count_units(private: PrivateRows, counts: Confusion | NumberErrors, folder: str) -> Ref:
    """Write the counts of the units of the test part to a file of the vault."""
    tested, total = replace(private, part=TEST), np.zeros(counts.shape, dtype=np.int64)
    with silenced():
        for rows in one_row_a_unit(tested, folder, copies=counts.by_unit):
            total += counts.counted(rows, private.encoding)
    with (
        provenance_of(tested)
        .with_(form="counts", question=counts.name)
        .file(private.vault, f"{folder}/{counts.name}") as sink
    ):
        sink.write(total.astype("<i8").tobytes())
    return sink.ref


@private_stage
def count_errors(private: PrivateRows, candidates: Hypotheses, folder: str) -> Ref:
    """Count the private rows, one per unit, that each candidate gets wrong: (candidates,), in a file of the vault."""
    errors = np.zeros(len(candidates), dtype=np.int64)
    for rows in one_row_a_unit(private, folder):
        X = encode(rows, private.encoding).astype(np.float64)
        errors += candidates.errors(X, rows[LABEL].to_numpy().astype(np.int64))
    buffer = io.BytesIO()
    np.save(buffer, errors, allow_pickle=False)
    with provenance_of(private).with_(form="scores").file(private.vault, f"{folder}/errors.npy") as sink:
        sink.write(buffer.getvalue())
    return sink.ref
