"""A chosen hypothesis as the published student: a classifier of encoded rows, from its JSON alone.

Checked by tests/flows/test_universal_flow.py.
"""

import json
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.pipeline import Pipeline

from artifacts.encoding import Encoding
from tasks.encode import Encode
from tasks.mechanisms.hypotheses import from_description


class Chosen(ClassifierMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """A hypothesis, as JSON text so that skops can carry it, and the names of its two classes."""

    def __init__(self, hypothesis: str, classes: Sequence[str]) -> None:
        self.hypothesis = hypothesis
        self.classes = classes

    def fit(self, X: object = None, y: object = None) -> Self:  # noqa: ARG002
        """Nothing is learned: the hypothesis is chosen already."""
        self.classes_ = np.array(self.classes)
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Class names (rows,) of encoded rows (rows, width)."""
        labels = from_description(json.loads(self.hypothesis)).predict(np.asarray(X, dtype=np.float64))
        return np.asarray(self.classes_[labels])


def student_of(released: bytes, encoding: Encoding) -> Pipeline:
    """The student that a released hypothesis is, from raw public columns to class names."""
    hypothesis = json.dumps(json.loads(released)["hypothesis"], sort_keys=True)
    chosen = Chosen(hypothesis, list(encoding.classes)).fit()
    return Pipeline([("encode", Encode(encoding.model_dump_json())), ("student", chosen)])
