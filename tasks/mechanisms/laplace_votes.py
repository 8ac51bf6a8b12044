"""Laplace votes (LNMax): release every row's counts with exact discrete Laplace noise, and their argmax.

Two classes: one count of class 1 a row; class 0 is the rest of the k votes, and k is public. More: every count.

Privacy statement
    Assumes      each privacy unit reaches one teacher; all k teachers vote on every row, so that a row of votes sums
                 to k; scale, rows and `queries` are fixed or chosen from released things alone
    Guarantees   (epsilon, delta) for all counts of all rows together, against any adaptive asker
    Ends         at `queries` rows; the last batch is cut there
    Not covered  the data-dependent ε of the paper: it is itself private, and is neither used nor reported

Proof. One unit changes one teacher, so a row is at most `shifts` counts that move by one, each under noise of its own.
The loss of discrete Laplace noise shifted by one is (|z − 1| − |z|) / scale, which is 1/scale or −1/scale and nothing
between, with the odds of randomised response of ε = 1/scale: the cost is that of queries · shifts such responses, with
equality. Halving it, not charging 2/scale a row at once, is what Rényi and optimal composition gain from. ∎
At equal charge in a domain this noise has 1.7 (ε = 0.1) to 1.1 times (ε = 4) the variance of Gaussian noise if a unit
moves one number by one, and F times that if it moves F: so tallies add Gaussian noise.
Source: Papernot et al. 2017 (scale 1/γ on each count); composition: Kairouz, Oh & Viswanath 2015.
Checked by tests/privacy/test_noisy_votes.py: exact δ on worst neighbours, and planted bugs.
"""

from typing import ClassVar

from concord.artifacts.privacy import Cost
from concord.tasks.mechanisms.distance import Ints, RandomSource
from concord.tasks.mechanisms.noisy_votes import NoisyCounts, shifts


class LaplaceVotes(NoisyCounts):
    """Counts under discrete Laplace noise of `scale`."""

    name: ClassVar[str] = "laplace_votes"
    proof: ClassVar[str] = (
        "tasks/mechanisms/laplace_votes.py: LNMax (Papernot et al. 2017), data-independent, with optimal composition "
        "(Kairouz, Oh & Viswanath 2015)"
    )
    pays_for: ClassVar[str] = "each row, Laplace noise"
    take_if: ClassVar[str] = "there are few rows"

    @property
    def cost(self) -> Cost:
        """Cost of randomised response with ε = 1/scale, once for every count that may move."""
        return Cost.approximate(1 / self.scale, times=self.queries * shifts(self.classes))

    def noise(self, source: RandomSource, size: int) -> Ints:
        """`size` fresh draws of discrete Laplace noise."""
        return source.laplace(self.scale, size)
