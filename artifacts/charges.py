"""What a domain is charged over its life, as certificate and report tell it."""

import operator
from collections.abc import Sequence
from functools import reduce
from typing import Self

from artifacts.guarantee import Budget, Published
from artifacts.privacy import Charge
from artifacts.sessions import Domain, Session, Status


class SessionCharge(Budget):
    """One session of a domain: its own claim, and the share of the domain's lifetime budget it is charged.

    status   open (charged its whole reservation), spent or closed
    """

    session: str
    mechanism: str
    share: float
    status: Status

    @classmethod
    def of(cls, session: Session, domain: Domain) -> Self:
        """What a session of that domain is charged."""
        return cls(
            epsilon=session.epsilon,
            delta=session.delta,
            session=session.id,
            mechanism=str(session.mechanism["name"]),
            share=_share(session.charge, domain),
            status=session.status,
        )


class DomainCharge(Published):
    """What the domain may spend over its lifetime, what is charged to it, and what is left: by the ledger's rule.

    order     the Rényi order at which charges add up, frozen when the domain was named
    charges   its sessions in order
    lost      share of the budget that restorations charged for sessions the ledger no longer knows
    """

    name: str
    sessions: int
    order: float
    cap: Budget
    spent: Budget
    remaining: Budget
    charges: tuple[SessionCharge, ...]
    lost: float

    @classmethod
    def of(cls, domain: Domain, sessions: Sequence[Session], lost: Charge) -> Self:
        """The domain's state after those sessions, and what was lost to an older copy."""
        total = reduce(operator.add, (session.charge for session in sessions), lost)
        cap, (epsilon, delta) = domain.filter, domain.filter.spent(total)
        return cls(
            name=domain.name,
            sessions=len(sessions),
            order=cap.order,
            charges=tuple(SessionCharge.of(session, domain) for session in sessions),
            lost=_share(lost, domain),
            cap=Budget(epsilon=cap.epsilon, delta=cap.delta),
            spent=Budget(epsilon=epsilon, delta=delta),
            remaining=Budget(epsilon=max(0.0, cap.epsilon - epsilon), delta=max(0.0, cap.delta - delta)),
        )


def _share(charge: Charge, domain: Domain) -> float:
    budget = domain.filter.budget
    return float(charge.renyi / budget) if budget > 0 else float(charge.renyi > 0)
