"""Confident votes (Confident-GNMax): test in noise whether a row's largest count is large; release only those rows.

Privacy statement
    Assumes      each privacy unit reaches one teacher; all k teachers vote on every row, so that a row of votes sums
                 to k; scales, threshold, rows, `queries` and `answers` are fixed or chosen from released things alone
    Guarantees   (epsilon, delta) for all tests and all released counts together, against any adaptive asker, and
                 Rényi α·ρ at every order α, ρ = queries / (2·test_scale²) + answers · shifts / (2·scale²)
    Ends         at `queries` rows; after `answers` released rows every further row is refused, whatever its votes
    Not covered  the data-dependent ε of the paper: it is itself private, and is neither used nor reported

Proof. One unit changes one teacher's vote from one class to another: no count moves by more than one, so neither does
their maximum, and a test is a function of one discrete Gaussian shifted by at most one. A released row is
noisy_votes.py's. Which rows are released depends on the tests, and with it in what order the draws come; but never are
there more than `queries` of the one scale and answers · shifts of the other, which is all that δ depends on
(gaussian.py). For the same reason their Rényi divergences never add up to more than α·ρ (Feldman & Zrnic 2021,
Thm. 3.1). ∎
Source: Papernot et al. 2018, Alg. 1. Checked by tests/privacy/test_confident.py: exact δ against an adaptive asker, and
planted bugs.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveInt

from concord.tasks.mechanisms.distance import REFUSED, Answers, Ints, RandomSource
from concord.tasks.mechanisms.gaussian import Gaussian, Move
from concord.tasks.mechanisms.noise import Scale
from concord.tasks.mechanisms.noisy_votes import noises, noisy_labels, shifts


class ConfidentGNMax(Gaussian):
    """Public settings only. A row is released when its largest count plus noise of `test_scale` is ≥ `threshold`."""

    name: ClassVar[str] = "confident"
    by_ones: ClassVar[bool] = True
    keyed: ClassVar[bool] = False
    counts: ClassVar[bool] = True
    cutoff: ClassVar[None] = None
    per_refusal: ClassVar[None] = None
    proof: ClassVar[str] = "tasks/mechanisms/confident.py: Confident-GNMax (Papernot et al. 2018), data-independent"
    pays_for: ClassVar[str] = "a little for each row, and more for each answer"
    take_if: ClassVar[str] = "teachers disagree sometimes"

    queries: PositiveInt
    classes: PositiveInt
    answers: PositiveInt
    threshold: int
    test_scale: Scale
    scale: Scale

    @property
    def moves(self) -> list[Move]:
        """The tests of all rows, and the counts of the rows that may be released."""
        released = self.answers * shifts(self.classes)
        return [(self.queries, self.queries, self.test_scale), (released, released, self.scale)]

    def confident(self, votes: Ints, test_noise: Ints, answered: int = 0) -> NDArray[np.bool_]:
        """Which rows (rows,) are released, given the tests' noise (rows,) and the number of rows released before."""
        passed: NDArray[np.bool_] = votes.max(axis=1) + test_noise >= self.threshold
        return passed & (np.cumsum(passed) + answered <= self.answers)

    def answer(self, votes: Ints, test_noise: Ints, noise: Ints, answered: int = 0) -> tuple[Ints, Ints]:
        """Labels (rows,) and whole noisy counts (rows, classes) given noise (rows, noises(classes)).

        A refused row has the label REFUSED and counts of 0, whatever its noise.
        """
        released = self.confident(votes, test_noise, answered)
        labels, counts = noisy_labels(votes, noise)
        return np.where(released, labels, REFUSED), np.where(released[:, None], counts, 0)

    def release(self, votes: Ints, source: RandomSource, first: int, refused: int) -> Answers:
        """Answer a batch with fresh noise, up to the last row paid for. `first` rows were asked before it."""
        paid = votes[: max(0, self.queries - first)]
        test_noise = source.gaussian(self.test_scale, len(paid))
        released = self.confident(paid, test_noise, first - refused)
        noise = np.zeros((len(paid), noises(self.classes)), np.int64)
        noise[released] = source.gaussian(self.scale, noise[released].size).reshape(-1, noise.shape[1])
        return Answers(*self.answer(paid, test_noise, noise, first - refused))
