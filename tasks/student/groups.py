"""Groups: a published student on public test rows, by the words of declared public columns.

Assumes      the test table is public; the columns need not be features
Guarantees   post-processing: nothing here reads a private row. A group of fewer than LEAST rows has no figures, which
             would say little of it
Not covered  how similar the test table is to future rows, and groups that no column names. Checked by
             tests/tasks/student/test_groups.py; tasks.verify.measured computes the figures again
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

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
    predictions = Predictions.of(student, raw, truth, encoding.classes)
    return tuple(
        predictions.group(name, word, np.asarray(words.eq_missing(word)))
        for name, words in grouping(path, groups, encoding).items()
        for word in words.unique().sort().to_list()
    )


@dataclass(frozen=True, eq=False)
class Predictions:
    """What a student predicts for labelled rows, each array (rows,).

    classes      names; none if the label is a number
    truth        classes by name, or numbers, and `predicted` ones
    probability  of the predicted class; None if the student has no probabilities
    """

    classes: Sequence[str]
    truth: NDArray[Any]
    predicted: NDArray[Any]
    probability: NDArray[Any] | None

    @classmethod
    def of(cls, student: Any, rows: pl.DataFrame, truth: NDArray[Any], classes: Sequence[str]) -> Self:
        """The predictions for raw rows, whose `truth` is class indices (rows,), or numbers."""
        probability = student.predict_proba(rows).max(axis=1) if hasattr(student, "predict_proba") else None
        return cls(classes, np.array(classes)[truth] if classes else truth, student.predict(rows), probability)

    def group(self, column: str, word: str | None, own: NDArray[np.bool_]) -> GroupMeasured:
        """Figures of the rows that are `own` (rows,), which have this word in that column."""
        rows, truth, predicted = int(own.sum()), self.truth[own], self.predicted[own]
        if rows < LEAST_OF_GROUP:
            return GroupMeasured(column=column, group=word, rows=rows)
        if not self.classes:
            return GroupMeasured(column=column, group=word, rows=rows, rmse=root_mean_square(truth - predicted))
        hits, classed = truth == predicted, [truth == name for name in self.classes]
        return GroupMeasured(
            column=column,
            group=word,
            rows=rows,
            accuracy=share(int(hits.sum()), rows),
            recalls=tuple(
                share(int(hits[of].sum()), int(of.sum())) if of.sum() >= LEAST_OF_GROUP else None for of in classed
            ),
            sure=None if self.probability is None else round(float(self.probability[own].mean()), PROBABILITY_DIGITS),
        )
