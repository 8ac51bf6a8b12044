"""Private test: noisy counts of how often a student is right on private units that were kept out of learning.

Two releases share the budget equally: the confusion matrix, and the numbers of right and wrong predictions. The pair
is separate because a sum over the many noisy cells of the matrix would be much noisier.

Of a number within bounds, two tables as well: units by the student's error, at the scale of right and wrong, and by
that of naming one public constant for each. An error is a share of the bounds' length, at most 1, and is rounded to one
of the two places of PLACES around it, up with the chance (e² − t²)/(u² − t²) of an error e between t and u: its square
is right on average.

Privacy statement
    Assumes      a unit is counted once, by the student's prediction for that row alone; scales are fixed or chosen
                 from released things alone
    Guarantees   (epsilon, delta), and Rényi α·ρ at every order α, ρ = moved / (2·scale²) + moved / (2·pair_scale²)
    Ends         after one release
    Not covered  how the unit came to be in the test part (artifacts.parts). The intervals do not hold for a student
                 that learned from the tested units, or was chosen by tests on them

Proof. If rows are secret, one more unit adds 1 to one cell and 1 to either right or wrong: `moved` = 1. If only labels
are secret, a unit moves from one cell to another and may move between right and wrong: at most two cells and both
numbers of the pair change by 1: `moved` = 2. The same holds of a number's two tables: how errors are rounded follows
from a key and the unit's name. In all cases the privacy loss is that of `moved` discrete Gaussians at each of the two
scales, each shifted by one (gaussian.py), and Rényi divergences of independent draws add up (Canonne, Kamath & Steinke
2020). ∎

Checked by tests/privacy/test_private_test.py: exact δ and exact coverage of small cases, and planted bugs.
"""

from collections.abc import Collection
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from concord.artifacts.schemas import Bounds
from concord.tasks.mechanisms.distance import Ints, RandomSource
from concord.tasks.mechanisms.gaussian import Gaussian, Move
from concord.tasks.mechanisms.noise import Scale

COUNTS_MOVED = {"rows": 1, "labels": 2}
"""Number of cells, and of numbers of the pair, that a unit moves by one, by what is secret of the unit."""
PLACES = (0.0, *(2.0**-halvings for halvings in range(6, -1, -1)))
"""Errors to which a unit's error is rounded, as shares of the distance between a number's bounds."""


class PrivateTest(Gaussian):
    """Public settings only. Noise has `scale` in each cell of the matrix and `pair_scale` in right and in wrong; or, if
    `classes` is 0, for a number within bounds, `pair_scale` by its errors and `scale` by the constant's.

    session   whose student is tested, and `student` its digest
    share     of the units that the test part has, and whether it is `clean`: read by no session of learning
    bounds    of a number, and the `constant` that is tested beside the student
    """

    name: ClassVar[str] = "private_test"
    forms: ClassVar[Collection[str]] = ("counts",)
    cutoff: ClassVar[None] = None
    queries: ClassVar[int] = 1
    per_refusal: ClassVar[None] = None
    proof: ClassVar[str] = "tasks/mechanisms/private_test.py: discrete Gaussian counts (Canonne, Kamath & Steinke 2020)"
    releases: ClassVar[str] = (
        "noisy counts of private units by true and named class, or by the errors of a named number and of a constant"
    )
    by_ones: ClassVar[bool] = True
    of_ask: ClassVar[Collection[str]] = ("session", "student", "share", "clean", "bounds", "constant")

    classes: int
    secret: str
    scale: Scale
    pair_scale: Scale
    session: str | None = None
    student: str | None = None
    share: float | None = None
    clean: bool = False
    bounds: Bounds | None = None
    constant: float = 0.0

    @property
    def counted(self) -> str:
        """What it draws from: the name of counts in tasks.units.counts."""
        return "confusion" if self.classes else "number_errors"

    @property
    def moves(self) -> list[Move]:
        """Cells of the matrix, and numbers of the pair."""
        moved = COUNTS_MOVED[self.secret]
        return [(moved, moved, self.scale), (moved, moved, self.pair_scale)]

    def release(self, counts: Ints, source: RandomSource) -> Ints:
        """Noisy numbers of right and wrong, and then of the matrix, row by row, from exact counts (classes, classes) of
        units by true and predicted class; of a number, from those by errors of the student and of the constant,
        (2, len(PLACES))."""
        if not self.classes:
            noise = [source.gaussian(scale, len(PLACES)) for scale in (self.pair_scale, self.scale)]
            return counts.ravel() + np.concatenate(noise)
        matrix = counts.reshape(self.classes, self.classes)
        right = np.trace(matrix)
        pair = np.array([right, matrix.sum() - right]) + source.gaussian(self.pair_scale, 2)
        return np.concatenate([pair, matrix.ravel() + source.gaussian(self.scale, matrix.size)])


def placed(errors: NDArray[np.float64], chances: NDArray[np.float64]) -> Ints:
    """The index in PLACES (rows,) to which each error is rounded, up if `chances`, uniform from 0 to 1, are small.

    Errors are shares of what lies between the bounds, of either sign; one beyond 1, or NaN, counts as 1.
    """
    square, places = np.fmin(np.abs(errors), 1.0) ** 2, np.square(PLACES)
    below: Ints = np.searchsorted(places[:-1], square, side="right") - 1
    up: Ints = (chances < (square - places[below]) / (places[below + 1] - places[below])).astype(np.int64)
    return below + up
