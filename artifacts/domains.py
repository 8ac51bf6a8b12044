"""Domains: named bodies of private data, and the privacy filter that decides what may still be spent on each.

A filter adds Rényi divergence at one order, which is frozen when the domain is named, and converts once, at the cap.
Refusals that did not happen come back.
Checked by tests/privacy/test_filter.py: exact adversaries, and planted faults.
"""

import math
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal, localcontext
from typing import Self

from concord.artifacts.errors import WrongInput
from concord.artifacts.privacy import DELTA_QUANTUM, ORDERS, RENYI_QUANTUM, UP, Charge, Cost, rounded_up

NEIGHBOURS = {"rows": "add or remove one unit", "labels": "change the labels of one unit"}
"""Which pairs of tables a claim compares, by what is secret of a unit: its rows, or their labels alone."""
LABELS_OF = "the labels of "
"""How the words for a privacy unit begin if its features are public."""


@dataclass(frozen=True, kw_only=True)
class Filter:
    """The privacy filter of a domain: one Rényi order, frozen at creation.

    Assumes      costs are charged before they start; each charge is at `order`, chosen before any release
    Guarantees   everything admitted together satisfies (epsilon, delta), however adaptively it was chosen
                 (Rogers et al. 2016; Feldman & Zrnic 2021)
    Ends         never: sums only grow, and what returns was never drawn on
    Not covered  choosing the best order at admission: it can reach 1.9 δ. Checked by tests/privacy/test_filter.py
    """

    epsilon: float
    delta: float
    order: float
    delta_renyi: float
    delta_additive: float

    @classmethod
    def freeze(cls, epsilon: float, delta: float) -> "Filter":
        """The filter of a new domain: half of δ for the conversion, half for additive δ; the order at which Gaussian
        spends go furthest."""
        at = [
            cls(epsilon=epsilon, delta=delta, order=o, delta_renyi=delta / 2, delta_additive=delta / 2) for o in ORDERS
        ]
        return max(at, key=lambda item: item.budget / Decimal(item.order))

    def recapped(self, epsilon: float, delta: float) -> "Filter":
        """The same order under another cap. Only the cap may ever change."""
        return replace(self, epsilon=epsilon, delta=delta, delta_renyi=delta / 2, delta_additive=delta / 2)

    @property
    def budget(self) -> Decimal:
        """The budget B: Rényi nats that may be spent at `order`; rounded down."""
        nats = Decimal(self.epsilon - self.conversion)
        with localcontext(prec=80):
            return (nats - abs(nats) * Decimal(UP - 1)).quantize(RENYI_QUANTUM, rounding=ROUND_FLOOR)

    @property
    def conversion(self) -> float:
        """The cost in ε of converting Rényi nats at δ_R: ε = nats + conversion."""
        order = self.order
        return math.log1p(-1 / order) - (math.log(self.delta_renyi) + math.log(order)) / (order - 1)

    def charge(self, cost: Cost) -> Charge:
        """The charge for `cost` at `order`. Raises ValueError if it is infinite there."""
        nats = cost.renyi[ORDERS.index(self.order)]
        if not math.isfinite(nats):
            raise ValueError(f"its Rényi cost is infinite at the domain's order {self.order:g}")
        return Charge(renyi=rounded_up(nats, RENYI_QUANTUM), delta=rounded_up(cost.delta, DELTA_QUANTUM))

    def admits(self, total: Charge) -> bool:
        """Whether everything settled and reserved, `total`, stays within the cap."""
        return total.renyi <= self.budget and total.delta <= Decimal(self.delta_additive)

    def share(self, charge: Charge) -> float:
        """The part of the budget that a charge takes, by its Rényi nats."""
        return float(charge.renyi / self.budget) if self.budget > 0 else float(charge.renyi > 0)

    def more(self, total: Charge, charge: Charge) -> int:
        """Number of further charges of `charge`, which is positive, that fit after `total`."""
        with localcontext(prec=80):
            left = (
                (self.budget - total.renyi, charge.renyi),
                (Decimal(self.delta_additive) - total.delta, charge.delta),
            )
            return max(0, min(int(rest // once) for rest, once in left if once))

    def spent(self, total: Charge) -> tuple[float, float]:
        """The (ε, δ) of `total`: the least ε at the cap's δ_R, and δ_R plus additive δ; (0, 0) for no charge."""
        if not total.renyi and not total.delta:
            return 0.0, 0.0
        return float(total.renyi) + self.conversion, self.delta_renyi + float(total.delta)


@dataclass(frozen=True, kw_only=True)
class Domain:
    """A named body of private data. Only the cap in its filter may ever change, by a `NewCap`."""

    name: str
    unit: str
    neighbours: str
    filter: Filter

    @property
    def labels_only(self) -> bool:
        """Whether labels alone are protected."""
        return self.neighbours == NEIGHBOURS["labels"]

    @classmethod
    def frozen(cls, name: str, *, unit: str, neighbours: str, epsilon: float, delta: float) -> Self:
        """A new domain under that cap. Raises WrongInput if the cap is out of range."""
        _require_cap(epsilon, delta)
        rule = Filter.freeze(float(epsilon), float(delta))
        return cls(name=name, unit=unit, neighbours=neighbours, filter=rule)

    def recapped(self, epsilon: float, delta: float) -> Self:
        """The same domain under another cap. Raises WrongInput if the cap is out of range."""
        _require_cap(epsilon, delta)
        return replace(self, filter=self.filter.recapped(float(epsilon), float(delta)))

    def price(self, claim: tuple[float, float], before: Charge, after: Charge) -> str:
        """Words saying what a session would cost the domain: its claim, and the charge `before` and `after` it. They
        do not state the rest of the cap, because charges of sessions do not add up as ε."""
        cap, spent = (self.filter.epsilon, self.filter.delta), self.filter.spent(before)
        return (
            f"it claims {amount(*claim)} and would bring the charge of domain {self.name!r} from {amount(*spent)} to "
            f"{amount(*self.filter.spent(after))}, of a cap of {amount(*cap)}"
        )


@dataclass(frozen=True, kw_only=True)
class NewCap:
    """A domain's new cap, on the record with its reason."""

    filter: Filter
    reason: str


@dataclass(frozen=True, kw_only=True)
class Division:
    """How a domain's units are divided, recorded once.

    commitment  to part key, share and naming rule, keyed by the part key: a holder of that key can check it
    share       the probability that a unit is in the test part
    naming      the rule by which a unit is named; the operator's alone, so an excerpt of the ledger leaves it out
    """

    commitment: str
    share: float
    naming: str


def amount(epsilon: float, delta: float) -> str:
    """An (ε, δ) pair in words."""
    return f"(ε {epsilon:.4g}, δ {delta:.3g})"


def _require_cap(epsilon: float, delta: float) -> None:
    if not 0 < epsilon < math.inf:
        raise WrongInput(f"the cap's epsilon must be positive and finite, got {epsilon!r}")
    if not 0 < delta < 1:
        raise WrongInput(f"the cap's delta must be between 0 and 1, got {delta!r}")
