"""Votes and answers: what a mechanism at the door is given, what it gives back, and where its randomness comes from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Draws = NDArray[np.uint64]
REFUSED = -1
"""The label of a refused row."""


@dataclass(frozen=True)
class Answers:
    """What leaves the door for a batch: labels (rows,), REFUSED where refused, shorter than the votes when the
    cutoff was reached; and for mechanisms that release them, whole noisy counts (rows, classes)."""

    labels: Ints
    counts: Ints | None = None


class Source(Protocol):
    """The randomness of one session, as the door hands it to a mechanism."""

    def uniform(self, first: int, rows: int) -> Draws:
        """The keyed 64-bit draws of session-wide rows first … first + rows − 1; the same at every call."""

    def laplace(self, scale: float, size: int) -> Ints:
        """Fresh exact discrete Laplace noise."""

    def gaussian(self, scale: float, size: int) -> Ints:
        """Fresh exact discrete Gaussian noise."""

    def once(self, name: str, draw: Callable[[], Ints]) -> Ints:
        """What `draw` gave the first time it was asked for in this session, kept in the vault since."""
