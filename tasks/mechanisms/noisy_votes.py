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

from artifacts.privacy import Cost
from tasks.mechanisms.accounting import gaussian_delta
from tasks.mechanisms.counts import NoisyCounts, shifts
from tasks.mechanisms.voting import Ints, Source


@dataclass(frozen=True, kw_only=True)
class NoisyVotes(NoisyCounts):
    """Counts under discrete Gaussian noise of `scale`."""

    name: ClassVar[str] = "noisy_votes"

    @property
    def cost(self) -> Cost:
        """ρ-zero-concentrated, and the budget itself where the exact δ at `scale` is within it."""
        moved = self.queries * shifts(self.classes)
        proved = gaussian_delta(self.epsilon, moved, self.scale) <= self.delta
        claims = ((self.epsilon, self.delta),) if proved else ()
        return replace(Cost.gaussian(moved / (2 * self.scale**2)), claims=claims)

    def noise(self, source: Source, size: int) -> Ints:
        """`size` fresh draws of discrete Gaussian noise."""
        return source.gaussian(self.scale, size)
