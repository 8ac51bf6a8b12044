"""A published student as a whole: it travels with `concord_student`, and imports nothing of Concord.

Its type is known as `concord_published.Published`, wherever the file lies; within Concord it answers to that name too.

Guarantees   a column most of whose cells the encoding cannot read is warned of by its name, as those cells count as
             missing; the student is never fitted again, which would look like a validation of it or replace it
Not covered  fewer such cells, which count as missing in silence, as a private row's do
             Checked by tests/tasks/student/test_parts.py
"""

import sys
import warnings
from collections.abc import Iterator
from itertools import compress, islice
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import available_if

NAME = "concord_published"
LOOKED_AT = 1000
"""Rows that are looked at, evenly over a table, and fewer than twice as many."""
EMPTY = (
    *("", "?", "-", ".", "NA", "N/A", "n/a", "#N/A", "#N/A N/A", "#NA", "<NA>", "null", "NULL", "None", "NaT", "\\N"),
    *("NaN", "nan", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
)
"""Text of a missing cell."""
NOT_AGAIN = (
    "a published student is not fitted again: what it learned was released once, with its guarantee. To measure it, "
    "compare student.predict(rows) with labels that it never saw; cross-validation would only ask the same student"
)
READABLE = {
    "numeric": "numbers such as 1234.5",
    "boolean": "truth values such as true",
    "date": "dates such as 2026-12-31",
    "categorical": "words that the student knows, which are {}",
    "hashed": "text",
}
SHOWN_WORDS = 3
"""The most words of a column that a warning names: the student's own, for rows may hold secrets."""


class Published(Pipeline):  # type: ignore[misc]  # scikit-learn is untyped
    """A pipeline from raw columns to class names. It warns of columns that it mostly cannot read."""

    def fit(self, X: Any, y: Any = None, **params: Any) -> "Published":
        """Raises NotImplementedError."""
        raise NotImplementedError(NOT_AGAIN)

    def predict(self, X: Any, **params: Any) -> Any:
        """Class names (rows,)."""
        return super().predict(self._looked_over(X), **params)

    @available_if(lambda self: hasattr(self.steps[-1][1], "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, **params: Any) -> Any:
        """Probabilities (rows, classes), in the order of `classes_`."""
        return super().predict_proba(self._looked_over(X), **params)

    def _looked_over(self, X: Any) -> Any:
        encode = self.steps[0][1]
        if isinstance(encode, ColumnTransformer) and hasattr(X, "columns"):  # scikit-learn refuses all but frames
            for name, what in unread(X[:: max(1, len(X) // LOOKED_AT)], encode):
                warnings.warn(f"most cells of column {name!r} are no {what}: they count as missing", stacklevel=3)
        return X


def unread(rows: Any, encode: ColumnTransformer) -> Iterator[tuple[str, str]]:
    """Columns of a pandas or polars frame most of whose cells are not read; and what such a cell must be."""
    parts = {name: part for _, part, names in encode.transformers_ if isinstance(part, Pipeline) for name in names}
    for name in [name for name in parts if name in rows.columns]:
        lost, what = _lost(rows[[name]], parts[name])
        filled = sum(map(_is_filled, compress(rows[name].to_list(), lost)))
        if 2 * filled > len(lost) - sum(lost) + filled:
            yield name, what


def _lost(column: Any, part: Pipeline) -> tuple[list[bool], str]:
    """Which cells (rows,) of a frame's only column count as missing, if it is encoded by `part`; what they must be."""
    cells, (name,) = part[0], column.columns
    if cells.kind not in READABLE:
        listed = [cell if isinstance(cell, list | tuple | np.ndarray) else () for cell in column[name].to_list()]
        return [len(cell) != cells.size for cell in listed], f"lists of {cells.size} numbers"
    clean, what = cells.transform(column)[:, 0], READABLE[cells.kind]
    if cells.kind not in ("categorical", "hashed"):
        return np.isnan(clean.astype(np.float64)).tolist(), what
    encoder = part[1]
    words = encoder.categories_[0] if hasattr(encoder, "categories_") else getattr(encoder, "words", ())
    accepted = dict.fromkeys([*words, *getattr(encoder, "others", ())])  # none if it takes any word
    shown = ", ".join(map(repr, islice(accepted, SHOWN_WORDS))) + (", …" if len(accepted) > SHOWN_WORDS else "")
    return [word is None or bool(accepted and word not in accepted) for word in clean], what.format(shown)


def _is_filled(cell: Any) -> bool:
    if isinstance(cell, str):
        return cell.strip() not in EMPTY
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return False
    return not (isinstance(cell, float | np.floating) and np.isnan(cell))


Published.__module__ = NAME
sys.modules.setdefault(NAME, sys.modules[__name__])
