"""Noisy votes: release every row's counts with exact discrete Gaussian noise, and their argmax.

Two classes: one count of class 1 a row; class 0 is the rest of the k votes, and k is public. More: every count.

Privacy statement
    Assumes      each privacy unit reaches one teacher; all k teachers vote on every row, so that a row of votes sums
                 to k; scale, rows and `queries` are fixed or chosen from released things alone
    Guarantees   (epsilon, delta) for all counts of all rows together, against any adaptive asker, and Rényi α·ρ at
                 every order α, ρ = queries · shifts / (2·scale²)
    Ends         at `queries` rows; the last batch is cut there
    Not covered  replacing one unit by another (two steps); the labels cost the same as the counts, which are released

Proof. One unit changes one teacher, whose vote on a row moves from one class to another: two counts move by one, each
under noise of its own, or the one count where there are two classes. So a row is at most `shifts` discrete Gaussians
shifted by one, ρ adds over rows (Canonne, Kamath & Steinke 2020, Prop. 5; Bun & Steinke 2016), and the sharper δ is
accounting.py's. Everything released is a function of the noisy counts. ∎
Source: PATE-PSQ (Liu, Zhu, Chaudhuri & Wang 2021); GNMax (Papernot et al. 2018), with the counts kept.
Checked by tests/privacy/test_noisy_votes.py: exact δ on worst neighbours, and planted bugs.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import ndtr, ndtri

from artifacts.privacy import Cost
from tasks.mechanisms.accounting import gaussian_delta, least_epsilon
from tasks.mechanisms.counts import NoisyCounts, gaussian_surprisal, shifts
from tasks.mechanisms.profile import Floats
from tasks.mechanisms.voting import Ints, Source


@dataclass(frozen=True, kw_only=True)
class NoisyVotes(NoisyCounts):
    """Counts under discrete Gaussian noise of `scale`."""

    name: ClassVar[str] = "noisy_votes"
    proof: ClassVar[str] = (
        "tasks/mechanisms/noisy_votes.py: discrete Gaussian votes (Canonne, Kamath & Steinke 2020; GNMax of Papernot "
        "et al. 2018), data-independent"
    )

    @property
    def cost(self) -> Cost:
        """ρ-zero-concentrated, and the budget itself where the exact δ at `scale` is within it."""
        proved = self.delta_at(self.epsilon) <= self.delta
        claims = ((self.epsilon, self.delta),) if proved else ()
        return replace(Cost.gaussian(self._moved / (2 * self.scale**2)), claims=claims)

    def delta_at(self, epsilon: float) -> float:
        """δ of all of it at that ε, exactly but for rounding up."""
        return gaussian_delta(epsilon, self._moved, self.scale)

    @property
    def _moved(self) -> int:
        return self.queries * shifts(self.classes)

    def noise(self, source: Source, size: int) -> Ints:
        """`size` fresh draws of discrete Gaussian noise."""
        return source.gaussian(self.scale, size)

    def surprisal(self, noise: Ints) -> Floats:
        """Of the discrete Gaussian."""
        return gaussian_surprisal(self.scale, noise)

    def distribution(self, at: Floats) -> Floats:
        """Of the standard normal law."""
        return np.asarray(ndtr(at))

    def quantile(self, at: Floats) -> Floats:
        """Of the standard normal law."""
        return np.asarray(ndtri(at))

    def epsilon_if_ended(self, asked: int, refused: int) -> float:  # noqa: ARG002
        """ε at `delta` of so many rows at the same scale."""
        return least_epsilon(replace(self, queries=asked))


MECHANISM = NoisyVotes
