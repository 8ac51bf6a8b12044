"""What models without a guarantee make of a benchmark's table: class probabilities of test rows."""

from collections.abc import Callable, Mapping

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.ensemble import HistGradientBoostingClassifier

from tests.benchmarks.ours import Coded, Said, logistic, said, taught
from tests.world import CodeMatrix, Codes, deepens


def largest(data: Coded, epsilon: float, seed: int) -> Said:  # noqa: ARG001
    """The largest class among the private rows, for every row: what a student that learned nothing else is right on."""
    shares = np.bincount(data.labels.private, minlength=data.classes) / len(data.labels.private)
    return said(np.tile(shares, (len(data.labels.test), 1)))


def linear(data: Coded, epsilon: float, seed: int) -> Said:  # noqa: ARG001
    """Logistic regression on the true labels of the private rows, on the codes of tallies."""
    codes, places = data.at(epsilon)
    return logistic(hot(places.private, codes), data.labels.private, hot(places.test, codes), data.classes)


def boosted(data: Coded, epsilon: float, seed: int) -> Said:  # noqa: ARG001
    """Boosted trees on the true labels of the private rows."""
    trees = HistGradientBoostingClassifier(random_state=seed).fit(data.encoded.private, data.labels.private)
    return said(trees.predict_proba(data.encoded.test))


def open_labels(data: Coded, epsilon: float, seed: int) -> Said:
    """Logistic regression on the true labels of the public rows: what it is worth to have them labelled. Of pictures,
    the student that tallies have."""
    codes, places = data.at(epsilon)
    if deepens(codes):
        return taught(data, codes, np.eye(data.classes)[data.labels.public], seed)
    return logistic(hot(places.public, codes), data.labels.public, hot(places.test, codes), data.classes)


def hot(rows: CodeMatrix, codes: Codes) -> csr_matrix:
    """One-hot rows of the codes that a model has weights for."""
    places = rows[:, list(codes.fine)]
    starts = np.arange(0, places.size + 1, places.shape[1])
    return csr_matrix((np.ones(places.size), places.ravel(), starts), shape=(len(places), codes.size))


OPEN: Mapping[str, Callable[[Coded, float, int], Said]] = {
    "public_labels": open_labels,
    "linear": linear,
    "boosted": boosted,
    "largest": largest,
}
"""Without a guarantee, and the same at every ε."""
