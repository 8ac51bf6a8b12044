"""Noisy votes: release every row's counts with exact discrete Gaussian noise, and their argmax.

Two classes: one count of class 1 per row; class 0 has the rest of the k votes, and k is public. More classes: every
count. All counts are released, since their argmax alone would cost the same. `NoisyCounts` is the base of Gaussian and
Laplace votes; each mechanism's own file has its noise and its cost.

Privacy statement
    Assumes      each privacy unit reaches one teacher; all k teachers vote on every row, so that a row of votes sums
                 to k; scale, rows and `queries` are fixed or chosen from released things alone
    Guarantees   (epsilon, delta) for all counts of all rows together, against any adaptive asker, and Rényi α·ρ at
                 every order α, ρ = queries · shifts / (2·scale²)
    Ends         at `queries` rows; the last batch is cut there
    Not covered  replacing one unit by another (two steps); the labels cost the same as the counts, which are released

Proof. One unit changes one teacher, whose vote on a row moves from one class to another: two counts move by one, each
under noise of its own, or the one count if there are two classes. So a row is at most `shifts` discrete Gaussians
shifted by one, ρ adds over rows (Canonne, Kamath & Steinke 2020, Prop. 5; Bun & Steinke 2016), and the sharper δ is
gaussian.py's. Everything released is a function of the noisy counts. ∎
Source: PATE-PSQ (Liu, Zhu, Chaudhuri & Wang 2021); GNMax (Papernot et al. 2018), with the counts kept.
Checked by tests/privacy/test_noisy_votes.py: exact δ on worst neighbours, and planted bugs.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np
from pydantic import PositiveInt

from concord.artifacts.privacy import Cost
from concord.tasks.mechanisms.distance import Answers, Ints, RandomSource
from concord.tasks.mechanisms.gaussian import Gaussian, Move
from concord.tasks.mechanisms.mechanism import PublicSettings
from concord.tasks.mechanisms.noise import Scale


def noises(classes: int) -> int:
    """Draws of noise per row: with two classes one count determines both."""
    return 1 if classes == 2 else classes


def shifts(classes: int) -> int:
    """Number of a row's released counts that move, by one each, if one teacher changes its vote."""
    return 1 if classes == 2 else 2


def noisy_labels(votes: Ints, noise: Ints) -> tuple[Ints, Ints]:
    """Labels (rows,) and noisy integer counts (rows, classes) of votes (rows, classes) given noise (rows, noises).

    The label is the class of the largest noisy count, ties to the lowest class number.
    """
    rows, classes = votes.shape
    if noise.shape != (rows, noises(classes)):
        raise ValueError(f"noise must be {rows, noises(classes)} for votes {rows, classes}, got {noise.shape}")
    counts = votes.astype(np.int64)
    if classes == 2:
        counts += noise * np.array([-1, 1])
    else:
        counts += noise
    return counts.argmax(axis=1), counts


class NoisyCounts(PublicSettings, ABC):
    """Public settings only, independent of votes."""

    keyed: ClassVar[bool] = False
    counts: ClassVar[bool] = True
    cutoff: ClassVar[None] = None
    per_refusal: ClassVar[None] = None

    epsilon: float
    delta: float
    queries: PositiveInt
    classes: PositiveInt
    scale: Scale

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """Cost of `queries` rows at `scale`."""

    def answer(self, votes: Ints, noise: Ints) -> tuple[Ints, Ints]:
        """Labels (rows,) and whole noisy counts (rows, classes) given noise (rows, noises(classes))."""
        return noisy_labels(votes, noise)

    def release(self, votes: Ints, source: RandomSource, first: int, refused: int) -> Answers:  # noqa: ARG002
        """Answer a batch with fresh noise, up to the last row paid for."""
        paid = votes[: max(0, self.queries - first)]
        shape = len(paid), noises(self.classes)
        return Answers(*self.answer(paid, self.noise(source, shape[0] * shape[1]).reshape(shape)))

    @abstractmethod
    def noise(self, source: RandomSource, size: int) -> Ints:
        """`size` fresh draws of the mechanism's noise."""


class NoisyVotes(Gaussian, NoisyCounts):
    """Counts under discrete Gaussian noise of `scale`."""

    name: ClassVar[str] = "noisy_votes"
    proof: ClassVar[str] = (
        "tasks/mechanisms/noisy_votes.py: discrete Gaussian votes (Canonne, Kamath & Steinke 2020; GNMax of Papernot "
        "et al. 2018), data-independent"
    )
    pays_for: ClassVar[str] = "each row, Gaussian noise"
    take_if: ClassVar[str] = 'teachers disagree often, and the student is a regressor (with `refused = "soft"`)'

    by_ones: ClassVar[bool] = True

    @property
    def moves(self) -> list[Move]:
        """The counts of all rows."""
        moved = self.queries * shifts(self.classes)
        return [(moved, moved, self.scale)]

    def noise(self, source: RandomSource, size: int) -> Ints:
        """`size` fresh draws of discrete Gaussian noise."""
        return source.gaussian(self.scale, size)
