"""Faults to plant in the code that writes the ledger: where each is planted, and what stands there then.

None is in code that the reckoning uses. Each writes a ledger that its own book believes;
tests/tasks/verify/test_reckoning.py sees that the reckoning does not.
"""

from dataclasses import replace
from decimal import Decimal
from typing import Any

from tests.world import Charge, Filter, LedgerState, Session

charge, admits, freeze, recapped, budget = Filter.charge, Filter.admits, Filter.freeze, Filter.recapped, Filter.budget
owed, totals = Session.owed, LedgerState.totals


def cheap(of: Filter, cost: Any) -> Charge:
    whole = charge(of, cost)
    return replace(whole, renyi=whole.renyi * (1 - Decimal("1e-8")))


def dear(of: Filter, cost: Any) -> Charge:
    whole = charge(of, cost)
    return replace(whole, renyi=whole.renyi * (1 + Decimal("1e-5")))


def uneven(epsilon: float, delta: float) -> Filter:
    return replace(freeze(epsilon, delta), delta_additive=delta)


def another_order(epsilon: float, delta: float) -> Filter:
    return replace(freeze(epsilon, delta), order=freeze(epsilon, delta).order + 1)


def at_best_order(of: Filter, total: Charge) -> bool:
    """The classical fault: the best of several orders at admission."""
    return min(replace(of, order=order).spent(total)[0] for order in (of.order, 8.0, 20.0)) <= of.epsilon


FAULTS: dict[str, tuple[Any, str, Any]] = {
    "charges too little": (Filter, "charge", cheap),
    "charges too much": (Filter, "charge", dear),
    "charges no additive δ": (Filter, "charge", lambda of, cost: replace(charge(of, cost), delta=Decimal(0))),
    "charges at another order": (Filter, "charge", lambda of, cost: charge(replace(of, order=2.0), cost)),
    "gives the whole δ to each part": (Filter, "freeze", staticmethod(uneven)),
    "takes another order": (Filter, "freeze", staticmethod(another_order)),
    "recaps one part of δ": (Filter, "recapped", lambda of, e, d: replace(recapped(of, e, d), delta_renyi=d)),
    "recaps the order": (Filter, "recapped", lambda of, e, d: replace(recapped(of, e, d), order=of.order + 0.25)),
    "settles nothing": (Session, "owed", lambda *_, **__: Charge()),
    "returns what it must keep": (
        Session,
        "owed",
        lambda item, **how: owed(replace(item, per_refusal=replace(item.reserved, renyi=Decimal("0.01"))), **how),
    ),
    "forgets the pending batch": (Session, "owed", lambda item, **how: owed(replace(item, pending=None), **how)),
    "forgets a refusal": (Session, "owed", lambda item, **how: owed(replace(item, refused=item.refused - 1), **how)),
    "mixes two bounds": (
        Session,
        "owed",
        lambda item, **how: replace(owed(item, **how), renyi=min(owed(item, **how).renyi, item.reserved.renyi / 2)),
    ),
}
"""Production code with one fault each, in what it writes."""

UNBOUNDED: dict[str, tuple[Any, str, Any]] = {
    "admits everything": (Filter, "admits", lambda *_: True),
    "forgets Rényi": (Filter, "admits", lambda of, total: admits(of, Charge(delta=total.delta))),
    "forgets one session": (
        LedgerState,
        "totals",
        lambda book, domain, *also: {
            part: Charge(renyi=charge.renyi - min(charge.renyi, next(iter(book.sessions.values())).charge.renyi))
            if len(book.sessions) > 1
            else charge
            for part, charge in totals(book, domain, *also).items()
        },
    ),
    "forgets the conversion": (Filter, "conversion", property(lambda _: 0.0)),
    "budgets a little more": (Filter, "budget", property(lambda of: budget.fget(of) * Decimal("1.001"))),  # type: ignore[attr-defined]
    "takes the best order at admission": (Filter, "admits", at_best_order),
}
