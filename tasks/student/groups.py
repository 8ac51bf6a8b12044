"""Groups: a published student on public test rows, by the words of declared public columns.

Assumes      the test table is public; the columns need not be features
Guarantees   post-processing: nothing here reads a private row. A group of fewer than LEAST rows has no figures, which
             would say little of it
Not covered  how similar the test table is to future rows, and groups that no column names. Checked by
             tests/tasks/student/test_groups.py; tasks.verify.measured computes the figures again
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from concord.artifacts.measures import LEAST_OF_GROUP, GroupMeasured
from concord.artifacts.schemas import Encoding
from concord.tasks.data.encode import grouping, labelled_rows
from concord.tasks.data.tables import open_public
from concord.tasks.student.evaluate import PROBABILITY_DIGITS
from concord.tasks.student.intervals import root_mean_square, share

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline


def by_group(student: "Pipeline", path: str, encoding: Encoding, groups: Sequence[str]) -> tuple[GroupMeasured, ...]:
    """Figures of a published student for each group of the labelled rows at `path`. Raises WrongInput."""
    if not groups:
        return ()
    _, truth = labelled_rows(path, encoding)
    table = open_public(path, "data.test", encoding.format)
    raw = pl.concat(table.frames(encoding.features), how="vertical_relaxed")
    right: NDArray[Any] = truth if encoding.bounds else np.array(encoding.classes)[truth]
    said = student.predict(raw)
    sure = student.predict_proba(raw).max(axis=1) if hasattr(student, "predict_proba") else None
    return tuple(
        measured_group(name, word, np.asarray(words.eq_missing(word)), right, said, sure, encoding.classes)
        for name, words in grouping(path, groups, encoding).items()
        for word in words.unique().sort().to_list()
    )


def measured_group(
    column: str,
    word: str | None,
    own: NDArray[np.bool_],
    right: NDArray[Any],
    said: NDArray[Any],
    sure: NDArray[Any] | None,
    classes: Sequence[str],
) -> GroupMeasured:
    """Figures of the rows that are `own`, all arrays (rows,)."""
    rows = int(own.sum())
    if rows < LEAST_OF_GROUP:
        return GroupMeasured(column=column, group=word, rows=rows)
    if not classes:
        return GroupMeasured(column=column, group=word, rows=rows, rmse=root_mean_square(right[own] - said[own]))
    hits, classed = right[own] == said[own], [right[own] == name for name in classes]
    return GroupMeasured(
        column=column,
        group=word,
        rows=rows,
        accuracy=share(int(hits.sum()), rows),
        recalls=tuple(
            share(int(hits[of].sum()), int(of.sum())) if of.sum() >= LEAST_OF_GROUP else None for of in classed
        ),
        sure=None if sure is None else round(float(sure[own].mean()), PROBABILITY_DIGITS),
    )
