"""What every mechanism at the door is: public settings, a cost, and an answer to votes given explicit randomness."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from artifacts.privacy import Cost

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


class Mechanism(Protocol):
    """A way to answer votes. Fields are public settings; nothing held here has seen a private row."""

    @property
    def name(self) -> str:
        """What plans and the ledger call it."""

    @property
    def keyed(self) -> bool:
        """Whether its answers follow from the session key alone, so that a retry needs no stored noise."""

    @property
    def cost(self) -> Cost:
        """What it will have spent at its end, computed from the very settings that run."""

    @property
    def cutoff(self) -> int | None:
        """Refusals until it halts; None where it does not pay by refusal."""

    @property
    def queries(self) -> int | None:
        """Rows it may answer at most; None where the stream may be endless."""

    @property
    def per_refusal(self) -> Cost | None:
        """What one refusal is charged when the session is settled by what happened; None: charged whole."""

    def settings(self) -> dict[str, Any]:
        """Its public settings as JSON, enough to rebuild and certify it: calibration inputs and what they gave."""

    def release(self, votes: Ints, source: Source, first: int, refused: int) -> Answers:
        """Answer a batch: votes (rows, classes), its first session-wide row, and the refusals before it."""


class Calibrated(Protocol):
    """A mechanism class, as the catalogue holds it."""

    @classmethod
    def calibrate(cls, *, epsilon: float, delta: float) -> Self:
        """The mechanism that spends at most (epsilon, delta); further keywords differ by mechanism."""
