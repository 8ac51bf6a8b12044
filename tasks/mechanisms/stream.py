"""A stream: running sums over units that arrive period by period, released every period, each unit charged once.

Let x_s be the exact sums (tallies.py) over the units that arrived in period s = 0 … T − 1 of a season, for questions
that stay the same. Release t is

    y_t = Σ_{s≤t} q_{t−s}·x_s + z_t,   z_t fresh exact discrete Gaussian noise,   q_k = round(2^bits·(2k choose k)/4^k)

The numbers (2k choose k)/4^k are the coefficients of (1 − x)^(−1/2): the matrix of running sums is the square of theirs
(Fichtenberger, Henzinger & Upadhyay 2023; Henzinger, Upadhyay & Upadhyay 2023). From y_0 … y_t anyone computes running
totals (tasks.student.running_totals).

Privacy statement
    Assumes      every unit is whole in one contribution, of one period; questions are fixed before the first row of the
                 season is read; noise of a release is drawn once, at the door, and is no function of anything else
    Guarantees   (epsilon, delta) for all releases of the season together, past and future, for adding or removing a
                 unit: whichever period it arrives in, and also if period and unit are chosen by what was released
    Ends         after T releases; one that is begun is paid for. If it ends after t, Σ_{k<t} q_k² of the charge
    Not covered  replacing a unit by another (four times ρ); a unit that is in two periods; questions that follow what
                 was released: they would ask units again that have paid for the first question alone

Proof. A unit that arrives in s with contribution v, ‖v‖² ≤ N, moves y_t by the whole vector q_{t−s}·v for t ≥ s, and
nothing else: contributions of other units, and the questions, are the same. Before s nothing depends on it, so v may be
chosen after y_0 … y_{s−1}. A discrete Gaussian under the shift q_{t−s}·v is q_{t−s}²·N/2σ²-zero-concentrated (Canonne,
Kamath & Steinke 2020, Thm. 14), and that adds over steps that are chosen one after another (Bun & Steinke 2016):
ρ = Σ_{k<T−s} q_k²·N/2σ², the most for s = 0. The sharper δ is gaussian.py's, `moved_delta`, of all T moves: μ² adds
likewise, and so do the numbers that move. After t releases the sum ends at k = t − 1 − s. ∎
Sums and noise wrap at 2^64, which is post-processing. `bits` follows the *stated* number of units, so that no count of
private rows decides it. Checked by tests/privacy/test_stream.py: the exact law on tiny universes, and planted bugs.
"""

import math
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np

from concord.artifacts.errors import WrongInput
from concord.tasks.mechanisms.contributions import RoundQuestion
from concord.tasks.mechanisms.distance import Ints, RandomSource
from concord.tasks.mechanisms.gaussian import Move
from concord.tasks.mechanisms.tallies import Tallies

MOST_BITS = 8
"""Bits of q: with 8, the noise of a season of 52 is within a thousandth of that of exact coefficients."""
LONGEST_SEASON = 1024


class Stream(Tallies):
    """Public settings only: those of tallies, whose `rounds` are the questions of every release, and the season's.

    season   releases, T
    bits     of the coefficients q
    matrix   by which running sums are released
    """

    name: ClassVar[str] = "stream"
    forms: ClassVar[Collection[str]] = ("periods",)
    proof: ClassVar[str] = (
        "tasks/mechanisms/stream.py: running sums by a square-root matrix under discrete Gaussian noise "
        "(Fichtenberger, Henzinger & Upadhyay 2023; Canonne, Kamath & Steinke 2020), each unit in one period"
    )
    command: ClassVar[str] = "concord refresh PLAN"
    releases: ClassVar[str] = (
        "noisy running sums over public codes of all units that arrived so far, one release a period: all releases of "
        "the season together, past and future, are within this guarantee for each unit, as all seasons of the stream "
        "are, since a unit is asked in one of them alone; all else follows from them"
    )

    season: int
    bits: int = MOST_BITS
    matrix: Literal["square root"] = "square root"

    def model_post_init(self, context: Any) -> None:
        """Raises WrongInput if the season is out of its range."""
        super().model_post_init(context)
        if not 1 <= self.season <= LONGEST_SEASON or not 1 <= self.bits <= MOST_BITS or self.secret != "rows":
            raise WrongInput(f"a season has 1 to {LONGEST_SEASON} releases about units whose rows are secret")

    @property
    def coefficients(self) -> tuple[int, ...]:
        """q_0 … q_{T−1}."""
        return coefficients(self.season, self.bits)

    @property
    def queries(self) -> int:
        """Number of releases; each is a batch of one."""
        return self.season

    @property
    def moves(self) -> list[Move]:
        """As for tallies, over all releases, of a unit that arrives in the first."""
        weight = sum(q * q for q in self.coefficients)
        return [(square * weight, cells * self.season, scale) for square, cells, scale in super().moves]

    def check(self, number: int, question: RoundQuestion) -> None:
        """As for tallies; and the question may have no model, which could follow from what was released."""
        super().check(number, question)
        if question.model is not None:
            raise ValueError("a question of a stream stays the same for the season, and has no model")

    def mixed(self, arrived: Sequence[Ints]) -> Ints:
        """Σ_s q_{t−s}·x_s of the exact sums x_0 … x_t (numbers,) of what arrived in each period so far."""
        total = np.zeros_like(arrived[0])
        for at, sums in enumerate(reversed(arrived)):
            total += np.int64(self.coefficients[at]) * sums
        return total

    def release(self, number: int, sums: Ints, source: RandomSource) -> Ints:
        """Mixed sums of one question with fresh exact discrete Gaussian noise: of question `number` % R of R, in
        release `number` // R. Raises ValueError if there are more sums, or releases, than were paid for."""
        release, question = divmod(number, len(self.rounds))
        if release >= self.season:
            raise ValueError(f"the season has {self.season} releases")
        return super().release(question, sums, source)


@lru_cache(maxsize=16)
def coefficients(season: int, bits: int) -> tuple[int, ...]:
    """q_k = round(2^bits · (2k choose k)/4^k) for k < season; halves are rounded up."""
    return tuple(((math.comb(2 * k, k) << (bits + 1)) + 4**k) // (2 * 4**k) for k in range(season))
