"""Estimators that leak the rows they are given on every channel they have, and that end in ways they should not."""

import ctypes
import logging
import sys
import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from tests.promises.canary import VALUE


def _tell(text: str) -> None:
    """Write the text on every channel that Python has."""
    print(text)
    print(text, file=sys.stderr)
    warnings.warn(text, stacklevel=1)
    for name in (None, "prefect.task_runs", "anyone"):
        logging.getLogger(name).critical(text)


class Teller(LogisticRegression):  # type: ignore[misc]  # scikit-learn has no types
    """Leaks its rows on every channel, and fails on every fifth shard with a row in its message."""

    def fit(self, X: Any, y: Any) -> Self:
        if not _rehearsed(X):
            text = f"{VALUE}-row {X[0].tolist()}"
            _tell(text)
            if self.random_state % 5 == 0:
                raise ValueError(text)
        super().fit(X, y)
        return self


class Native(LogisticRegression):  # type: ignore[misc]  # scikit-learn has no types
    """Prints like native code, bypassing Python's streams."""

    def fit(self, X: Any, y: Any) -> Self:
        if not _rehearsed(X):
            ctypes.CDLL(None).puts(f"{VALUE}-row".encode())
        super().fit(X, y)
        return self


class Quitter(LogisticRegression):  # type: ignore[misc]  # scikit-learn has no types
    """Exits the program with a row in the exit message."""

    def fit(self, X: Any, y: Any) -> Self:
        if not _rehearsed(X):
            raise SystemExit(f"{VALUE}-row {X[0].tolist()}")
        super().fit(X, y)
        return self


class Glutton(LogisticRegression):  # type: ignore[misc]  # scikit-learn has no types
    """Runs out of memory with a row in its message."""

    def fit(self, X: Any, y: Any) -> Self:
        if not _rehearsed(X):
            raise MemoryError(f"{VALUE}-row {X[0].tolist()}")
        super().fit(X, y)
        return self


class Gossip(LogisticRegression):  # type: ignore[misc]  # scikit-learn has no types
    """A student that leaks a row it is asked about alone, as private rows are, and fails on some."""

    def predict(self, X: Any) -> Any:
        if len(X) == 1:
            text = f"{VALUE}-row {X[0].tolist()}"
            _tell(text)
            ctypes.CDLL(None).puts(text.encode())
            if X[0, 0] > 1:
                raise ValueError(text)
        return super().predict(X)


def _rehearsed(X: NDArray[np.float32]) -> bool:
    return bool(np.array_equal(X.ravel()[:8], np.sin(np.arange(8, dtype=np.float32))))
