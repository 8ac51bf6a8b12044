"""What a student that tallies decode to needs besides `concord_student`: it travels too, and imports nothing of ours.

Its types are known as `concord_tallied.…`, wherever the file lies. A cell becomes the very code that Concord gives a
private one (concord.tasks.data.codes): comparisons and look-ups alone; so do two cells, if pairs of columns were asked,
and all numbers together, if they were, by the nearest centre in whole numbers.

The student has two operating points. By default it names the class of highest probability. At "prior odds" it names the
class whose odds rise most over its share of the public rows, so that a rare class is not lost:

    student.set_params(student__point="prior odds").predict(rows)

A number within bounds is decoded as a probability is, and read as its place between them: `TalliedNumber`.

Checked by tests/tasks/student/test_published_students.py.
"""

import sys
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

Numbers = NDArray[np.float64]

NAME = "concord_tallied"
POINTS = ("default", "prior odds")
ROWS_AT_A_TIME = 2048
LEAST = 1e-9
"""Shares of a class are kept so far from 0 and 1."""


class Given(BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """What learns nothing from rows: it is fitted as it is made."""

    def fit(self, X: Any = None, y: Any = None) -> Self:  # noqa: ARG002
        """Nothing is learned."""
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit, tags.no_validation = False, True
        return tags


class Code(TransformerMixin, Given):  # type: ignore[misc]  # scikit-learn is untyped
    """Clean cells of one column (rows, 1) as code numbers (rows, 1), from `start` on.

    A number is in the interval that as many of `cuts` are below or at; of `words`, each has its number, and `others`
    one together. Any other word is no cell, and without one the number is the last.
    """

    def __init__(
        self, start: int, cuts: Sequence[float] | None = None, words: Sequence[str] = (), others: Sequence[str] = ()
    ) -> None:
        self.start = start
        self.cuts = cuts
        self.words = words
        self.others = others

    @property
    def size(self) -> int:
        """Number of codes: of a number or a date one more than cuts, of a word one for the others; one if missing."""
        return len(self.words if self.cuts is None else self.cuts) + 2

    def transform(self, X: Any) -> NDArray[np.int64]:
        """Code numbers (rows, 1)."""
        cells = np.asarray(X)[:, 0]
        if self.cuts is not None:
            numbers = cells.astype(np.float64)
            ranked = np.searchsorted(np.array(self.cuts), numbers, side="right").astype(np.int64)
            ranked[np.isnan(numbers)] = len(self.cuts) + 1
        else:
            rest = len(self.words)
            ranks = dict.fromkeys(self.others, rest) | {word: rank for rank, word in enumerate(self.words)}
            ranked = np.array([ranks.get(cell, rest + 1) for cell in cells], dtype=np.int64)
        return (self.start + ranked).reshape(-1, 1)


class Pairs(TransformerMixin, Given):  # type: ignore[misc]  # scikit-learn is untyped
    """Code numbers of rows (rows, fields), and besides those of pairs of fields (rows, fields + pairs).

    both    (pairs, 2) the fields of each pair
    added   (pairs, 2, codes) what each code of either field adds to the pair's, by code number
    """

    def __init__(self, both: Any, added: Any) -> None:
        self.both = both
        self.added = added

    def transform(self, X: Any) -> NDArray[np.int64]:
        """Code numbers (rows, fields + pairs)."""
        codes, paired = np.asarray(X, np.int64), []
        for (one, other), (left, right) in zip(self.both, self.added, strict=True):
            paired.append(left[codes[:, one]] + right[codes[:, other]])
        return np.column_stack([codes, *paired])


class Joined(TransformerMixin, Given):  # type: ignore[misc]  # scikit-learn is untyped
    """Code numbers of rows (rows, fields), and besides that of all numbers together (rows, fields + 1): the nearest of
    centres, the first of equals.

    columns   (columns,) the fields of the numbers
    levels    (codes,) a whole number for each code of those, by which rows are compared
    centres   (cells, columns) levels
    start     the code number of the first centre
    """

    def __init__(self, columns: Any, levels: Any, centres: Any, start: int) -> None:
        self.columns = columns
        self.levels = levels
        self.centres = centres
        self.start = start

    def transform(self, X: Any) -> NDArray[np.int64]:
        """Code numbers (rows, fields + 1)."""
        codes, levels, centres = np.asarray(X, np.int64), np.asarray(self.levels), np.asarray(self.centres, np.float64)
        features, squares, nearest = codes[:, np.asarray(self.columns)], (centres**2).sum(axis=1), []
        for first in range(0, len(codes), ROWS_AT_A_TIME):
            of_rows = levels[features[first : first + ROWS_AT_A_TIME]].astype(np.float64)
            nearest.append((squares - 2 * (of_rows @ centres.T)).argmin(axis=1))  # whole, and below 2^53: exact
        return np.column_stack([codes, self.start + np.concatenate([np.empty(0, np.int64), *nearest])])


class Tallied(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A linear model of codes as a classifier: `weights` (codes, columns), `intercept` and `prior` (columns,).

    columns   one for two classes, the logit of the second; else one for each class, against the rest
    prior     the mean probability of public rows
    point     which of POINTS it predicts at
    """

    def __init__(self, weights: Any, intercept: Any, prior: Any, classes: Any, point: str = "default") -> None:
        self.weights = weights
        self.intercept = intercept
        self.prior = prior
        self.classes = classes
        self.point = point

    def fit(self, X: Any = None, y: Any = None) -> "Tallied":  # noqa: ARG002
        """Nothing is learned: the model is decoded already."""
        self.classes_ = np.array(self.classes)
        return self

    def predict_proba(self, X: Any) -> Numbers:
        """Probabilities (rows, classes)."""
        check_is_fitted(self)
        return probabilities(added(self.weights, self.intercept, X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Class names (rows,)."""
        check_is_fitted(self)
        if self.point not in POINTS:
            raise ValueError(f"point must be one of {', '.join(map(repr, POINTS))}, got {self.point!r}")
        if self.point == "default":
            return np.asarray(self.classes_[self.predict_proba(X).argmax(axis=1)])
        return np.asarray(self.classes_[over_prior(added(self.weights, self.intercept, X), self.prior).argmax(axis=1)])


class TalliedNumber(RegressorMixin, Given):  # type: ignore[misc]  # scikit-learn is untyped
    """A linear model of codes as a regressor: `weights` (codes, 1) and `intercept` (1,) give the logit of a number's
    place between its bounds `low` and `high`."""

    def __init__(self, weights: Any, intercept: Any, low: float, high: float) -> None:
        self.weights = weights
        self.intercept = intercept
        self.low = low
        self.high = high

    def predict(self, X: Any) -> Numbers:
        """Numbers (rows,), within the bounds."""
        place = expit(added(self.weights, self.intercept, X)[:, 0])
        return np.asarray(self.low * (1 - place) + self.high * place)


def added(weights: Any, intercept: Any, X: Any) -> Numbers:
    """Logits (rows, columns): the weights of each row's codes, added to the intercept."""
    total = np.tile(intercept, (len(X), 1))
    for column in np.asarray(X).T:
        total += weights[column]
    return np.asarray(total)


def probabilities(logits: Numbers) -> Numbers:
    """Probabilities (rows, classes) by logits (rows, columns)."""
    return np.asarray(softmax(logits, axis=1) if logits.shape[1] > 1 else expit(np.column_stack([-logits, logits])))


def log_odds(share: Any) -> Any:
    """The logit of shares, which stays finite."""
    return logit(np.clip(share, LEAST, 1 - LEAST))


def over_prior(logits: Numbers, prior: Any) -> Numbers:
    """Logits minus prior log-odds (rows, classes): the largest is the class at prior odds, which keeps rare classes."""
    over = logits - log_odds(prior)
    return np.column_stack([np.zeros(len(over)), over]) if over.shape[1] == 1 else over


for _part in (Code, Joined, Pairs, Tallied, TalliedNumber):
    _part.__module__ = NAME
sys.modules.setdefault(NAME, sys.modules[__name__])
