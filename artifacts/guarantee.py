"""The guarantee of a session: its (ε, δ), for whose data, against which neighbours."""

import math
from typing import Self

from pydantic import BaseModel, ConfigDict

from artifacts.sessions import NEIGHBOURS, Domain, Session


class Published(BaseModel):
    """A part of the certificate: frozen, finite, and no key it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Budget(Published):
    """An (ε, δ) pair."""

    epsilon: float
    delta: float


class Guarantee(Budget):
    """The session's claim, at its cutoff or last row.

    unit         whose data one unit is
    neighbours   which pairs of tables the claim compares
    replace_one  what it implies where one unit is replaced by another: two steps, (2ε, (1 + e^ε)·δ); None where only
                 labels are secret, and nobody is added, removed or replaced
    """

    unit: str
    neighbours: str
    replace_one: Budget | None

    @classmethod
    def of(cls, domain: Domain, session: Session) -> Self:
        """The claim of a session of that domain."""
        return cls.at(session.epsilon, session.delta, domain.unit, domain.neighbours)

    @classmethod
    def at(cls, epsilon: float, delta: float, unit: str, neighbours: str) -> Self:
        """That claim for those units and neighbours."""
        twice = Budget(epsilon=2 * epsilon, delta=min(1.0, (1 + _exp(epsilon)) * delta))
        return cls(
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            neighbours=neighbours,
            replace_one=None if neighbours == NEIGHBOURS["labels"] else twice,
        )

    @property
    def labels_only(self) -> bool:
        """Whether labels alone are protected."""
        return self.neighbours == NEIGHBOURS["labels"]

    @property
    def factor(self) -> float:
        """e^ε: how much likelier one unit can make any outcome, but for δ."""
        return _exp(self.epsilon)


def _exp(epsilon: float) -> float:
    return math.exp(min(epsilon, 700.0))
