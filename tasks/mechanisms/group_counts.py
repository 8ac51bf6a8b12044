"""Noisy counts of public groups among private units.

Privacy statement
    Assumes      the groups are public and each unit is in exactly one of them, by one row; noise is exact discrete
                 Laplace of scale `scale` in each count
    Guarantees   (ε, 0), ε = 1/scale: one more unit raises one count by 1 and changes no other
    Ends         after one release
    Not covered  units that change their group: that is two steps, as for any unit that is replaced

Proof. Counts of neighbouring tables differ by 1 in one place, so their ℓ₁ distance is 1. The density of discrete
Laplace noise changes by a factor e^(1/scale) at most over a step of 1 (Ghosh, Roughgarden & Sundararajan 2009). ∎
A unit counted by each of its rows would move counts by as many, and break this.
Checked by tests/privacy/test_group_counts.py: the exact law, and planted bugs.
"""

from dataclasses import dataclass
from typing import ClassVar

from concord.artifacts.privacy import Cost
from concord.tasks.mechanisms.distance import Ints, RandomSource
from concord.tasks.mechanisms.mechanism import FieldSettings
from concord.tasks.mechanisms.noise import laplace_reach, laplace_scale


@dataclass(frozen=True, kw_only=True)
class GroupCounts(FieldSettings):
    """Public settings only."""

    name: ClassVar[str] = "group_counts"
    proof: ClassVar[str] = "tasks/mechanisms/group_counts.py: discrete Laplace noise (Ghosh et al. 2009); pure, δ = 0"

    epsilon: float
    scale: float

    @classmethod
    def calibrate(cls, *, epsilon: float) -> "GroupCounts":
        """Noise of the least scale for epsilon. Raises WrongInput."""
        return cls(epsilon=epsilon, scale=laplace_scale(epsilon))

    @property
    def cost(self) -> Cost:
        """Pure ε = 1/scale."""
        return Cost.approximate(1 / self.scale)

    def release(self, counts: Ints, source: RandomSource) -> Ints:
        """Noisy counts (groups,), which may be below 0."""
        return counts + source.laplace(self.scale, len(counts))

    def within(self, chance: float) -> float:
        """Largest distance of a noisy count from the exact one, with that probability."""
        return max(0, laplace_reach(self.scale, (1 - chance) / 2) - 1)
