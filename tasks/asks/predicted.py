"""The prediction of a student for private units of the test part, one row at a time.

In a batch a prediction could depend on other rows: matrix products round by position, and an estimator may use all rows
at once.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from concord.artifacts.home.vault import Vault
from concord.artifacts.parts import LEARNING, TEST
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, Ref
from concord.artifacts.sessions import Session
from concord.tasks.asking.teachers import aligned_copy, read_only
from concord.tasks.data.cells import LABEL
from concord.tasks.data.codes import Codes
from concord.tasks.data.encode import encode
from concord.tasks.data.guard import silenced
from concord.tasks.data.parts import division_of
from concord.tasks.data.split import one_row_a_unit
from concord.tasks.data.units import Erased
from concord.tasks.mechanisms.distance import Ints

Says = Callable[[NDArray[Any]], NDArray[Any]]
"""A student's prediction: class names (rows,) of rows in its own format (rows, width)."""
Predictor = tuple[Says, Codes | None]
"""A student's prediction, and the codes by whose fine fields it reads a row; None if it reads encoded rows."""


def predictions(
    plan: Plan,
    encoding: Encoding,
    candidates: Sequence[Predictor],
    vault: Vault,
    folder: str,
    key: bytes,
    erased: Erased,
) -> Iterator[tuple[Ints, list[Ints]]]:
    """For some rows of the test part at a time, one a unit: their classes (rows,), and those each candidate says."""
    with silenced():
        for rows in one_row_a_unit(plan, encoding, vault, folder, key, erased, part=TEST):
            said = [
                classes_given(says, _as_read(rows, encoding, codes), encoding.classes) for says, codes in candidates
            ]
            yield rows[LABEL].to_numpy().astype(np.int64), said


def is_clean(plan: Plan, learned: Session, vault: Vault) -> bool:
    """Whether a session learned from no unit of the test part: it named the learning part of the same division."""
    division = division_of(plan, vault)
    return division is not None and (learned.part, learned.division) == (LEARNING, division.commitment)


def keep_counts(counts: Ints, vault: Vault, path: str) -> Ref:
    """Write private counts to a file of the vault."""
    with vault.create(path) as sink:
        sink.write(counts.astype("<i8").tobytes())
    return sink.ref


def classes_given(says: Says, X: NDArray[Any], classes: Sequence[str]) -> Ints:
    """The class (rows,) that a student predicts for each row (rows, width), one row at a time.

    If it fails on a row or predicts no declared class, the first class counts.
    """
    indices = {name: index for index, name in enumerate(classes)}
    known: dict[bytes, int] = {}
    predicted = np.zeros(len(X), dtype=np.int64)
    for at in range(len(X)):
        row = X[at : at + 1].tobytes()
        if row not in known:
            known[row] = _answer(says, X[at : at + 1], indices)
        predicted[at] = known[row]
    return predicted


def _as_read(rows: pl.DataFrame, encoding: Encoding, codes: Codes | None) -> NDArray[Any]:
    return encode(rows, encoding) if codes is None else codes.of(rows)[:, list(codes.fine)]


def _answer(says: Says, row: NDArray[Any], indices: dict[str, int]) -> int:
    try:
        return indices.get(str(says(read_only(aligned_copy(row)))[0]), 0)
    except Exception:  # no failure of an estimator on a private row may show
        return 0
