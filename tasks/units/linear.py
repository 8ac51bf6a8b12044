"""Linear teachers as one array: scikit-learn's fits, one a shard, and the votes of all of them by one product.

    weights (outputs, teachers, width + 1) · (a row's numbers, 1)  =  scores (outputs, teachers)

With two classes there is one output, and a teacher votes for the second class if it is above zero. Otherwise each class
has an output, and the vote is the first of the largest; a class that a shard lacks cannot win (LACKS). A teacher
without a model has zeros and its fixed vote in the offset: it keeps its place and is asked like the others.

Assumes      the learners of LINEAR predict by their `coef_` and `intercept_` alone, whatever their parameters
Guarantees   whether teachers are an array follows from the plan, which is public. A vote depends on the row and its own
             teacher alone: shapes of products are public, and a score is a sum of its own teacher's weights. Checked by
             tests/tasks/units/test_linear_teachers.py and tests/privacy/test_linear_alone.py
Not covered  votes on rows within rounding of a tie may differ from those of `predict`
"""

import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from concord.artifacts.learners import TeachersPlan

Rows = NDArray[np.floating[Any]]
Classes = NDArray[np.int64]
Weights = NDArray[np.float32]

LINEAR = (
    "sklearn.discriminant_analysis.LinearDiscriminantAnalysis",
    "sklearn.linear_model.LogisticRegression",
    "sklearn.linear_model.Perceptron",
    "sklearn.linear_model.RidgeClassifier",
    "sklearn.linear_model.SGDClassifier",
    "sklearn.svm.LinearSVC",
)
"""Learners whose teachers are one array."""
CACHE_LINE = 64  # bytes
# The sizes of products decide how sums are grouped, and so votes near a tie, which are recorded. So these three must
# never change, for any session or machine. Half a mebibyte of scores fits a processor's own cache.
TEACHERS_AT_A_TIME = 250
"""Teachers whose scores are held at once, at most 255, because their votes are counted in bytes …"""
ROWS_IN_CACHE = 512
"""… and the rows."""
MOST_HELD = 1 << 26
"""Most bytes of weights joined into one array, which is then divided into parts of TEACHERS_AT_A_TIME."""
LACKS = -1e38
"""Offset of a class without a row in the shard. Not −∞, since −∞ times zero is NaN."""


def aligned(*shape: int, dtype: Any = np.float32) -> NDArray[Any]:
    """An array that starts at a cache line, because the grouping of sums may depend on the address."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(size + CACHE_LINE, dtype=np.uint8)
    start = -room.__array_interface__["data"][0] % CACHE_LINE
    array: NDArray[Any] = room[start : start + size].view(dtype).reshape(shape)
    return array


def is_linear(teachers: TeachersPlan) -> bool:
    """Whether the votes of the plan's teachers are one product."""
    return teachers.estimator in LINEAR


def weights_of(model: Any, fixed: int, width: int, classes: int) -> Weights:
    """The weights (outputs, width + 1) of a teacher: a fitted linear classifier, whose `classes_` are class indices; or
    None, or one with a weight that is no number, for weights that vote `fixed` on every row."""
    if model is not None:
        weights = np.atleast_2d(model.coef_)
        linear = np.column_stack([weights, np.broadcast_to(model.intercept_, len(weights))]).astype(np.float32)
        if classes > 2:
            both = linear if len(linear) > 1 else np.vstack([np.zeros_like(linear), linear])  # the shard holds two
            linear = np.zeros((classes, both.shape[1]), dtype=np.float32)
            linear[:, -1], linear[model.classes_] = LACKS, both
        if np.isfinite(linear).all():
            return linear
    votes = np.full(classes, LACKS, dtype=np.float32)
    votes[fixed] = 1
    offset = np.clip(votes[1:], -1, 1) if classes == 2 else votes
    return np.hstack([np.zeros((len(offset), width), dtype=np.float32), offset[:, None]])


@dataclass(frozen=True)
class LinearTeachers:
    """Teachers as one array of weights (outputs, teachers, width + 1): of a row's numbers, and the offset."""

    weights: Weights

    def __len__(self) -> int:
        return int(self.weights.shape[1])

    def add_votes(self, counts: NDArray[np.uint32], X: Rows) -> None:
        """Add each teacher's vote on each row of X (rows, width) to `counts` (rows, classes), in place.

        Votes of up to 255 teachers fit into bytes; NaN is never the largest score.
        """
        for first in range(0, len(X), ROWS_IN_CACHE):
            rows = slice(first, first + ROWS_IN_CACHE)
            here = counts[rows]
            for scores in self.scores(X[rows]):
                if len(scores) == 1:
                    above = np.add.reduce(scores[0] > 0, axis=0, dtype=np.uint8)
                    here[:, 1] += above
                    here[:, 0] += np.uint8(scores.shape[1]) - above
                    continue
                best, winner = np.fmax(scores[0], -np.inf), np.zeros(scores[0].shape, dtype=np.uint8)
                for at, score in enumerate(scores[1:], start=1):
                    np.putmask(winner, better := score > best, at)
                    np.putmask(best, better, score)
                for at in range(len(scores)):
                    here[:, at] += np.add.reduce(winner == at, axis=0, dtype=np.uint8)

    def scores(self, X: Rows) -> Iterator[Weights]:
        """Scores (outputs, teachers, rows) on X (rows, width), TEACHERS_AT_A_TIME at a time."""
        numbers = aligned(len(X), X.shape[1] + 1)
        numbers[:, :-1], numbers[:, -1] = X, 1
        for start in range(0, len(self), TEACHERS_AT_A_TIME):
            yield self.weights[:, start : start + TEACHERS_AT_A_TIME] @ numbers.T

    def save(self) -> bytes:
        """The weights as a NumPy file, which holds no code."""
        np.save(file := io.BytesIO(), self.weights, allow_pickle=False)
        return file.getvalue()

    @classmethod
    def load(cls, file: memoryview) -> "LinearTeachers":
        """The teachers that `save` wrote."""
        return cls.joined([np.load(io.BytesIO(file), allow_pickle=False)])

    @classmethod
    def joined(cls, weights: Sequence[Weights]) -> "LinearTeachers":
        """Blocks of teachers as one array, in their order."""
        outputs, _, numbers = weights[0].shape
        room = aligned(outputs, sum(part.shape[1] for part in weights), numbers)
        return cls(np.concatenate(weights, axis=1, out=room))
