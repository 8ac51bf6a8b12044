"""Homes: several holders of private rows release tallies, each with full noise of its own, and anybody adds them.

Home i releases S_i = Σ_(its units) contribution + N_ℤ(0, σ²) for each round, in every coordinate (tallies.py). The sum
of the shares of k homes is that of all their units with noise of scale σ·√k.

Privacy statement
    Assumes      as for tallies, in each home: its share is drawn once, at its own door, and its rounds are those of
                 `rounds`. What the plan states on whether a person may have rows in several homes
    Guarantees   of a share (`Share`): (epsilon, delta) for all rounds of one home, against everybody else: the
                 lead, the other homes, and all readers of the folder, however they choose questions
                 of all shares together (`Joint`): the same if a person has rows in one home. If in several, m of them,
                 ρ adds: m·ρ, which is stated for `homes`, their number
    Ends         as for tallies
    Not covered  no ledger enforces the claim over several homes: each keeps its own. Moving a person from one home to
                 another changes two of them. Whether a home's share is of true rows

Proof. Shares are drawn independently, and a home's share depends on no other home's rows but through questions, which
may be chosen adaptively (tallies.py). A unit that is in one home moves that home's releases alone, which is the claim
of one home; all else is post-processing of it, or independent. A person in m homes is m units, one in each: the
releases that they move are m·R adaptively composed discrete Gaussians, so ρ and μ² add, as do the numbers that move. ∎
Nothing is masked and no noise is divided, so nobody has to be trusted: noise is √k times that of one holder of all
rows. Checked by tests/privacy/test_homes.py.
"""

from dataclasses import dataclass, fields, replace
from typing import ClassVar

from concord.tasks.mechanisms.noise import LARGEST_SCALE, exact_epsilon
from concord.tasks.mechanisms.tallies import Tallies

PROOF = (
    "tasks/mechanisms/homes.py: discrete Gaussian sums of bounded whole contributions, with full noise in each home "
    "(Canonne, Kamath & Steinke 2020), composed over rounds and, if people are in several homes, over homes"
)


@dataclass(frozen=True, kw_only=True)
class Share(Tallies):
    """The tallies of one home: those of the plan, with full noise."""

    name: ClassVar[str] = "share"
    proof: ClassVar[str] = PROOF


@dataclass(frozen=True, kw_only=True)
class Joint(Tallies):
    """The tallies of several homes, added up; `rounds` are those of each.

    homes   the most homes in which a person may have rows
    """

    name: ClassVar[str] = "joint"
    proof: ClassVar[str] = PROOF

    homes: int

    @classmethod
    def of(cls, each: Tallies, homes: int) -> "Joint":
        """What is claimed of all homes together, if each runs `each` and a person may be in so many of them."""
        values = {field.name: getattr(each, field.name) for field in fields(Tallies)}
        made = cls(**values, homes=homes)
        if homes == 1:
            return made
        most = replace(made, epsilon=homes**2 * each.epsilon)  # group privacy of one home's claim is never more
        return replace(made, epsilon=min(exact_epsilon(most) * (1 + 1e-9), most.cost.epsilon(most.delta)))

    @property
    def moves(self) -> list[tuple[int, int, float]]:
        """As for tallies, by a person who is in every home that it may be in."""
        return super().moves * self.homes

    def scaled(self, shares: int) -> Tallies:
        """Plain tallies with the noise that the sum of so many shares has."""
        return self.plain(replace(each, scale=min(each.scale * shares**0.5, LARGEST_SCALE)) for each in self.rounds)
