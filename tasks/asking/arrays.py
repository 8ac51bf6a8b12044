"""Linear teachers as arrays: the learners that allow it, a block of teachers as one array, and votes by one product.

    weights (outputs, teachers, numbers + 1) · (a row's numbers, 1)  =  scores (outputs, teachers)

With two classes there is one output, and a teacher votes for the second class if it is above zero. Otherwise each class
has an output, and the vote is the first of the largest; a class that a shard lacks cannot win (LACKS). A teacher
without a model has zeros and its fixed vote in the offset: it keeps its place and is asked like the others. Naive Bayes
is linear in a row's numbers and their squares.

Assumes      KNOWN has the learner's name and each of its parameters; all others are fitted and asked one by one
Guarantees   the choice of fit follows from plan and encoding, which are public. Weights are scikit-learn's for the
             same rows in double precision, converged, within 1e-4 of the largest. A teacher depends on its own shard
             alone to the bit, with its own stopping rule, whether it is fitted by itself or together with others. A
             vote depends on the row and its own teacher alone: shapes of products are public, and a score is a sum of
             its own teacher's weights. Checked by tests/tasks/asking/test_linear_teachers.py and
             tests/privacy/test_linear_alone.py
Not covered  votes on rows within rounding of a tie may differ from scikit-learn's, which uses single precision. A
             `max_iter` or `tol` that would stop earlier than scikit-learn's default leaves the learner to scikit-learn;
             one that would stop later changes nothing, since a fit ends when it has converged. Logistic regression with
             next to no penalty on columns that are not scaled: from about 1e8 for C times the square of a cell on, the
             loss is so flat that weights, and votes with them, may be farther from the optimum than stated here
"""

import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError

from concord.artifacts.learners import TeachersPlan
from concord.tasks.asking.gradients import logistic_of_many
from concord.tasks.asking.linear import (
    Classes,
    Numbers,
    Rows,
    aligned,
    discriminant,
    naive_bayes,
    nearest_centroid,
    ridge,
)
from concord.tasks.asking.logistic import logistic
from concord.tasks.data.guard import PRIVATE_FAILURES

Weights = NDArray[np.floating[Any]]
Test = Callable[[Any], bool]

UNKNOWNS = 192
"""Most unknowns of a logistic regression: beyond, scikit-learn's first-order steps are faster than a Hessian."""
WIDEST = 4096
"""Most columns times classes of other learners."""
# The sizes of products decide how sums are grouped, and so votes near a tie, which are recorded. So these three must
# never change, for any session or machine. Half a mebibyte of scores fits a processor's own cache.
TEACHERS_AT_A_TIME = 250
"""Teachers whose scores are held at once, at most 255, because their votes are counted in bytes …"""
ROWS_IN_CACHE = 512
"""… and the rows."""
MOST_HELD = 1 << 26
"""Most bytes of weights joined into one array, which is then divided into parts of TEACHERS_AT_A_TIME."""
LACKS = -1e38
"""Offset of a class of which a shard has no row. Not −∞, since −∞ times zero is NaN."""


@dataclass(frozen=True)
class Known:
    """A learner that can be fitted as arrays.

    fit        fits one shard, in `linear` or `logistic`
    together   fits many shards of two classes faster, with None for each shard left to `fit`; or None
    params     a test of the value of each supported parameter; a plan with others is left to scikit-learn
    required   parameters that a plan must name, since scikit-learn's default is another learner
    fits       whether a number of columns and of classes is supported
    squares    whether scores use a row's numbers and their squares, in double precision
    """

    fit: Callable[..., Numbers]
    params: Mapping[str, Test]
    required: frozenset[str] = frozenset()
    fits: Callable[[int, int], bool] = lambda width, classes: width * classes <= WIDEST
    squares: bool = False
    together: Callable[..., list[Numbers | None]] | None = None

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """Type of the weights: double if there are squares, which may be large."""
        return np.float64 if self.squares else np.float32


def known(teachers: TeachersPlan, width: int, classes: int) -> Known | None:
    """The learner that fits these teachers as arrays on rows of that width; None if there is none."""
    found = KNOWN.get(teachers.estimator)
    if found is None or not found.fits(width, classes) or not found.required <= set(teachers.params):
        return None
    may = all(name in found.params and found.params[name](value) for name, value in teachers.params.items())
    return found if may else None


def between(low: float, high: float) -> Test:
    """A test whether a parameter is a number from `low` to `high`."""
    return lambda value: isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def among(*values: str) -> Test:
    """A test whether a parameter is one of these words."""
    return lambda value: isinstance(value, str) and value in values


def anything(_: Any) -> bool:
    """The test of a parameter that has no effect here."""
    return True


KNOWN: Mapping[str, Known] = {
    "sklearn.linear_model.LogisticRegression": Known(
        logistic,
        {
            "C": between(1e-6, 1e6),
            "max_iter": between(100, math.inf),
            "tol": between(0, 1e-4),
            "solver": among("lbfgs", "newton-cg", "newton-cholesky"),
            "n_jobs": anything,
            "random_state": anything,
        },
        fits=lambda width, classes: (width + 1) * (1 if classes == 2 else classes) <= UNKNOWNS,
        together=logistic_of_many,
    ),
    "sklearn.linear_model.RidgeClassifier": Known(
        ridge,
        {"alpha": between(1e-6, 1e12), "solver": among("auto", "cholesky", "svd"), "random_state": anything},
    ),
    "sklearn.discriminant_analysis.LinearDiscriminantAnalysis": Known(
        discriminant,
        {
            "solver": among("lsqr"),
            "shrinkage": lambda value: among("auto")(value) or between(0, 1)(value),
        },
        required=frozenset({"solver"}),
    ),
    "sklearn.naive_bayes.GaussianNB": Known(naive_bayes, {"var_smoothing": between(0, 1)}, squares=True),
    "sklearn.neighbors.NearestCentroid": Known(nearest_centroid, {"metric": among("euclidean")}),
}


@dataclass(frozen=True)
class LinearTeachers:
    """Teachers as one array of weights (outputs, teachers, numbers + 1): of a row's numbers, their squares if there are
    any, and the offset."""

    weights: Weights

    def __len__(self) -> int:
        return int(self.weights.shape[1])

    def add_votes(self, counts: NDArray[np.uint32], X: Rows) -> None:
        """Add each teacher's vote on each row of X (rows, width) to `counts` (rows, classes), in place."""
        for first in range(0, len(X), ROWS_IN_CACHE):
            rows = slice(first, first + ROWS_IN_CACHE)
            for scores in self.scores(X[rows]):
                _count(counts[rows], scores)

    def scores(self, X: Rows) -> Iterator[Weights]:
        """Scores (outputs, teachers, rows) on X (rows, width), TEACHERS_AT_A_TIME at a time."""
        numbers = self._numbers(X)
        for start in range(0, len(self), TEACHERS_AT_A_TIME):
            yield self.weights[:, start : start + TEACHERS_AT_A_TIME] @ numbers

    def _numbers(self, X: Rows) -> Weights:
        """The matrix that weights are multiplied with, (numbers + 1, rows)."""
        width = X.shape[1]
        found = aligned(len(X), self.weights.shape[2], dtype=self.weights.dtype)
        found[:, :width], found[:, -1] = X, 1
        if found.shape[1] > width + 1:
            np.square(X, out=found[:, width:-1], dtype=found.dtype)
        return found.T

    def save(self) -> bytes:
        """The weights as a NumPy file, which holds no code."""
        np.save(file := io.BytesIO(), self.weights, allow_pickle=False)
        return file.getvalue()

    @classmethod
    def load(cls, file: bytes) -> "LinearTeachers":
        """The teachers that `save` wrote."""
        return cls.joined([np.load(io.BytesIO(file), allow_pickle=False)])

    @classmethod
    def joined(cls, weights: Sequence[Weights]) -> "LinearTeachers":
        """Blocks of teachers as one array, in their order."""
        outputs, _, numbers = weights[0].shape
        room = aligned(outputs, sum(part.shape[1] for part in weights), numbers, dtype=weights[0].dtype)
        return cls(np.concatenate(weights, axis=1, out=room))


def _count(counts: NDArray[np.uint32], scores: Weights) -> None:
    """Add the votes by scores (outputs, teachers, rows) to `counts` (rows, classes). Votes of up to 255 teachers fit
    into bytes; NaN is never the largest score."""
    if len(scores) == 1:
        above = np.add.reduce(scores[0] > 0, axis=0, dtype=np.uint8)
        counts[:, 1] += above
        counts[:, 0] += np.uint8(scores.shape[1]) - above
        return
    best, winner = np.fmax(scores[0], -np.inf), np.zeros(scores[0].shape, dtype=np.uint8)
    for at, score in enumerate(scores[1:], start=1):
        np.putmask(winner, better := score > best, at)
        np.putmask(best, better, score)
    for at in range(len(scores)):
        counts[:, at] += np.add.reduce(winner == at, axis=0, dtype=np.uint8)


def weights_together(
    learner: Known, params: Mapping[str, Any], shards: Sequence[tuple[Rows, Classes, int]], classes: int
) -> list[Weights]:
    """The weights of each shard's teacher, from its X, y and fixed vote as `weights_of` takes them. They are converged
    too, but may differ from those of `weights_of` in their last digits.
    """
    held = [np.flatnonzero(np.bincount(y, minlength=classes)) for _, y, _ in shards]
    two = [at for at, there in enumerate(held) if learner.together is not None and len(there) == 2]
    pairs = [(shards[at][0], (shards[at][1] == held[at][1]).astype(np.int64)) for at in two]
    found = dict(zip(two, learner.together(pairs, **params), strict=True)) if learner.together else {}
    return [weights_of(learner, params, X, y, classes, fixed, found.get(at)) for at, (X, y, fixed) in enumerate(shards)]


def weights_of(
    learner: Known,
    params: Mapping[str, Any],
    X: Rows,
    y: Classes,
    classes: int,
    fixed: int,
    found: Numbers | None = None,
) -> Weights:
    """The weights (outputs, numbers + 1) of one shard's teacher, from X (rows, width) and class indices y (rows,), in
    memory of their own. If the shard cannot be fitted, weights that vote `fixed` on every row.

    found   weights of the classes that the shard holds, if they are fitted already
    """
    try:
        return _fitted(learner, params, X, y, classes, found)
    except MemoryError:
        raise  # the machine's fault, not the shard's: it must not change a teacher
    except PRIVATE_FAILURES:
        votes = np.full(classes, LACKS)
        votes[fixed] = 1
        offset = np.clip(votes[1:], -1, 1) if classes == 2 else votes
        return np.hstack([np.zeros((len(offset), X.shape[1] * (1 + learner.squares))), offset[:, None]]).astype(
            learner.dtype
        )


def _fitted(
    learner: Known, params: Mapping[str, Any], X: Rows, y: Classes, classes: int, found: Numbers | None
) -> Weights:
    there = np.flatnonzero(np.bincount(y, minlength=classes))
    if len(there) < 2:
        raise LinAlgError("a fit needs two classes")
    own = learner.fit(X, np.searchsorted(there, y), len(there), **params) if found is None else found
    weights = (own[1:] - own[:1] if classes == 2 else own - own.mean(axis=0)).astype(learner.dtype)
    if not np.isfinite(weights).all():
        raise LinAlgError("a weight is no number")
    if classes == 2:
        return weights
    all_of_them = np.zeros((classes, weights.shape[1]), dtype=learner.dtype)
    all_of_them[:, -1], all_of_them[there] = LACKS, weights
    return all_of_them
