"""Domains: named bodies of private data, and the privacy filter that decides what may still be spent on each.

There are two filters. A domain has one of them for its whole life. For people who are in two domains the sum of both
caps holds, (ε₁ + ε₂, δ₁ + δ₂), whichever filters the domains have and however their sessions interleave: a filter is
one interactive mechanism (Lyu 2022; Vadhan & Zhang 2023).

`renyi`      adds Rényi divergence at one order and converts once, at the cap; refusals that did not happen come back
`gaussian`   adds μ² and promises the cap's trade-off at every ε at once: no conversion, and rounds that were never
             begun come back

Proof of `gaussian` (Smith & Thakurta 2022; here with δ). An answer that costs (μ, δ) between neighbours
(artifacts.gaussian) is chosen by what was released before, so μ and δ are known when it is drawn. Let Σμ² be at most m
along every path, and Σδ at most d. Then H(γ) ≤ H_√m(γ) + d for the whole, at every γ: by induction on how many answers
may still come. After the first, which costs (μ, δ), what follows upon any outcome has r² = m − μ² and d − δ left,
whatever the outcome. With p, q the laws of the first, and g, g' two Gaussians that lie r apart,
    H(γ) = E_p H(γ·q/p; rest) ≤ E_p H_r(γ·q/p) + d − δ = E_g H(γ·g'/g; first) + d − δ
         ≤ E_g H_μ(γ·g'/g) + δ + d − δ = H(γ) of Gaussians that lie μ and r apart, + d = H_√m(γ) + d. ∎
A session is one such answer, drawn when it is opened, however its rows interleave with those of others: what costs
(μ, δ) against every asker is computed from one draw that does (Vadhan & Zhang 2023).

Rounds never begun. A session of tallies is several such answers, one a round, and its scales, so the μ and δ of each,
are on record from when it was opened: each round is such an answer, whatever is released between two. So the proof
holds for the rounds that were drawn, one by one, if on every path their Σμ² is at most m and their Σδ at most d. Of an
open session all rounds are charged; one that ends keeps those begun, for a round is begun on record before it is drawn,
and begins none after. Both charges cover every draw, so every path stays within the cap. The choice to end a session
is made, as every choice here, by released data. A round that is begun is paid, whether it was seen or not.
  Of a stream, release k is charged what it costs a unit that arrived in the first. One that arrived later, in a period
that what was released may decide, has paid less by any time: Σμ² of its own steps is below the charge on every path.

The proof needs one number to be left, the same upon every outcome. Of exact trade-off curves, or laws of the privacy
loss, none is: a filter that admits while they compose to less than the cap's is wrong (arXiv:2602.06756). So is one
that adds over the tree instead of the path, or gives back for what happened once something was drawn.
Checked by tests/privacy/test_filter.py and test_gaussian_filter.py: exact adversaries, and those faults planted.
"""

import math
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache, reduce
from operator import add
from typing import ClassVar, Literal, Self, get_args

from concord.artifacts.errors import WrongInput
from concord.artifacts.gaussian import largest_mu, least_epsilon, mu_of_pure, mu_of_range, squared
from concord.artifacts.privacy import (
    DELTA_QUANTUM,
    MU_QUANTUM,
    ORDERS,
    RENYI_QUANTUM,
    UP,
    Charge,
    Cost,
    FilterPart,
    MovedGaussians,
    Pure,
    Range,
    WholeClaim,
    rounded_up,
)

FilterKind = Literal["renyi", "gaussian"]
FILTERS: tuple[FilterKind, ...] = get_args(FilterKind)


@dataclass(frozen=True, kw_only=True)
class Filter:
    """The filter `renyi`: one Rényi order, frozen at creation.

    Assumes      costs are charged before they start; each charge is at `order`, chosen before any release
    Guarantees   everything admitted together satisfies (epsilon, delta), however adaptively it was chosen
                 (Rogers et al. 2016; Feldman & Zrnic 2021)
    Ends         never: sums only grow, and what returns was never drawn on
    Not covered  choosing the best order at admission: it can reach 1.9 δ. Checked by tests/privacy/test_filter.py
    """

    kind: ClassVar[FilterKind] = "renyi"
    by_refusals: ClassVar[bool] = True

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
        return _share(self.budget, charge)

    def more(self, total: Charge, each: Charge) -> int:
        """How many further charges of `each`, which is more than nothing, fit after `total`."""
        return _more(self.budget, Decimal(self.delta_additive), total, each)

    def spent(self, total: Charge) -> tuple[float, float]:
        """The (ε, δ) of `total`: the least ε at the cap's δ_R, and δ_R plus additive δ; (0, 0) for no charge."""
        if not total.renyi and not total.delta:
            return 0.0, 0.0
        return float(total.renyi) + self.conversion, self.delta_renyi + float(total.delta)


@dataclass(frozen=True, kw_only=True)
class GaussianFilter:
    """The filter `gaussian`: Σμ² within that of the cap, and Σδ within a quarter of the cap's δ.

    Assumes      costs are charged whole before they start; of a session nothing returns but rounds never begun
    Guarantees   H(γ) ≤ H_μ(γ) + δ_A at every γ for everything admitted together, however adaptively it was chosen, at
                 the μ of `budget`: (epsilon, delta) among them
    Ends         never: sums only grow, and what returns was never drawn
    Not covered  refusals that did not happen, exact trade-off curves. See this file's first lines
    """

    by_refusals: ClassVar[bool] = False
    order: ClassVar[float] = 1.5
    """Tables of `stable` are built for an order: here that of the most accurate, for charges do not depend on it."""
    conversion: ClassVar[float] = 0.0

    kind: Literal["gaussian"] = "gaussian"
    epsilon: float
    delta: float
    delta_additive: float

    @classmethod
    def freeze(cls, epsilon: float, delta: float) -> "GaussianFilter":
        """The filter of a new domain: a quarter of δ for additive δ, which is more than discrete Gaussians ever need
        and leaves room for some (ε, δ)."""
        return cls(epsilon=epsilon, delta=delta, delta_additive=delta / 4)

    def recapped(self, epsilon: float, delta: float) -> "GaussianFilter":
        """The same under another cap."""
        return self.freeze(epsilon, delta)

    @property
    def budget(self) -> Decimal:
        """The μ² that may be spent: of the largest μ whose δ at the cap's ε leaves δ_A of the cap's; rounded down."""
        delta = Fraction(self.delta) - Fraction(self.additive)
        return squared(largest_mu(self.epsilon, delta), MU_QUANTUM, up=False)

    @property
    def additive(self) -> Decimal:
        """δ_A, to the last digit that charges have, so that one answer of exactly that δ fits."""
        return _up(self.delta_additive, DELTA_QUANTUM)

    def charge(self, cost: Cost) -> Charge:
        """The charge for `cost` in μ². Raises ValueError if no bound is proved for its parts."""
        if cost.parts is None:
            raise ValueError("nothing is proved of it that a Gaussian filter could add up")
        return reduce(add, map(_charge_of, cost.parts), Charge())

    def admits(self, total: Charge) -> bool:
        """Whether everything settled and reserved, `total`, stays within the cap."""
        return total <= Charge(mu_squared=self.budget, delta=self.additive)

    def share(self, charge: Charge) -> float:
        """The part of the budget that a charge takes, by its μ²."""
        return _share(self.budget, charge)

    def more(self, total: Charge, each: Charge) -> int:
        """How many further charges of `each`, which is more than nothing, fit after `total`."""
        return _more(self.budget, self.additive, total, each)

    def spent(self, total: Charge) -> tuple[float, float]:
        """The (ε, δ) of `total`, read at the cap's δ; (0, 0) if nothing was charged. A total beyond the cap is read the
        way `admits` judges it: ε at the part of δ that is not additive, and δ as that part plus the additive δ."""
        if not total.mu_squared and not total.delta:
            return 0.0, 0.0
        mu, whole, additive = _root_above(total.mu_squared), Fraction(self.delta), Fraction(self.additive)
        if self.admits(total):
            return min(self.epsilon, least_epsilon(mu, whole - Fraction(total.delta))), self.delta
        return least_epsilon(mu, whole - additive), float(whole - additive + Fraction(total.delta))


AnyFilter = Filter | GaussianFilter


def freeze(kind: FilterKind, epsilon: float, delta: float) -> AnyFilter:
    """The filter of a new domain with that cap."""
    return Filter.freeze(epsilon, delta) if kind == "renyi" else GaussianFilter.freeze(epsilon, delta)


def same_rule(first: AnyFilter, other: AnyFilter) -> bool:
    """Whether both filters charge alike: they differ in the cap alone."""
    return (first.kind, first.order) == (other.kind, other.order)


@lru_cache(maxsize=1024)
def _charge_of(part: FilterPart) -> Charge:
    match part:
        case Pure():
            each = Charge(mu_squared=squared(mu_of_pure(part.epsilon), MU_QUANTUM, up=True))
            return each.times(part.times) + Charge(delta=_up(part.delta, DELTA_QUANTUM))
        case Range():
            return Charge(mu_squared=squared(mu_of_range(part.epsilon), MU_QUANTUM, up=True))
        case MovedGaussians():
            return Charge(mu_squared=_up(part.mu_squared, MU_QUANTUM), delta=_up(part.delta, DELTA_QUANTUM))
        case WholeClaim():
            if part.cost.epsilon(part.delta) > part.epsilon * UP:
                raise ValueError(f"it is not within (ε, δ) = ({part.epsilon:g}, {part.delta:g}), which it claims")
            return _charge_of(Pure(epsilon=part.epsilon, delta=part.delta))


def _up(amount: float | Fraction, quantum: Decimal) -> Decimal:
    """The amount, exactly, rounded up to the quantum: a positive one stays positive."""
    steps = Fraction(amount) / Fraction(quantum)
    with localcontext(prec=80):
        return math.ceil(steps) * quantum


def _root_above(square: Decimal) -> float:
    """A double no less than the square root."""
    with localcontext(prec=80, rounding=ROUND_CEILING):
        return math.nextafter(float(square.sqrt()), math.inf)


def _share(budget: Decimal, charge: Charge) -> float:
    return float(charge.divergence / budget) if budget > 0 else float(charge.divergence > 0)


def _more(budget: Decimal, additive: Decimal, total: Charge, each: Charge) -> int:
    with localcontext(prec=80):
        left = (budget - total.divergence, each.divergence), (additive - total.delta, each.delta)
        return max(0, min(int(rest // once) for rest, once in left if once))


@dataclass(frozen=True, kw_only=True)
class Domain:
    """A named body of private data. Only the cap in its filter may ever change, by a `NewCap`."""

    name: str
    unit: str
    neighbours: str
    filter: AnyFilter

    @classmethod
    def frozen(
        cls, name: str, kind: FilterKind = "renyi", /, *, unit: str, neighbours: str, epsilon: float, delta: float
    ) -> Self:
        """A new domain with a filter of that kind. Raises WrongInput if the cap is out of range."""
        _require_cap(epsilon, delta)
        return cls(name=name, unit=unit, neighbours=neighbours, filter=freeze(kind, float(epsilon), float(delta)))

    def recapped(self, epsilon: float, delta: float) -> Self:
        """The same domain under another cap. Raises WrongInput if the cap is out of range."""
        _require_cap(epsilon, delta)
        return replace(self, filter=self.filter.recapped(float(epsilon), float(delta)))

    def differs_only_in_cap(self, other: Self) -> bool:
        """Whether one can become the other by changes of the cap alone."""
        return replace(self, filter=other.filter) == other and same_rule(self.filter, other.filter)

    def instead_of(self, epsilon: float, delta: float) -> str:
        """A sentence saying that the cap on record holds and not a plan's (epsilon, delta); empty if they agree."""
        cap = self.filter.epsilon, self.filter.delta
        if cap == (epsilon, delta):
            return ""
        return (
            f"domain {self.name!r} has the cap {amount(*cap)} by `concord domain`, which holds, and not the "
            f"{amount(epsilon, delta)} of privacy.lifetime in the plan"
        )

    def price(self, claim: tuple[float, float], before: Charge, after: Charge) -> str:
        """Words saying what a session would cost the domain: its claim, and the charge `before` and `after` it."""
        cap, spent = (self.filter.epsilon, self.filter.delta), self.filter.spent(before)
        left = amount(max(0.0, cap[0] - spent[0]), max(0.0, cap[1] - spent[1]))
        if self.filter.kind == "gaussian" and spent[1] == cap[1]:  # δ is the cap's unless the charge is beyond it
            left = f"ε {max(0.0, cap[0] - spent[0]):.4g} at that δ"
        return (
            f"it claims {amount(*claim)} and would bring the charge of domain {self.name!r} from "
            f"{amount(*spent)} to {amount(*self.filter.spent(after))}, but its cap is {amount(*cap)} and "
            f"{left} remains"
        )


@dataclass(frozen=True, kw_only=True)
class NewCap:
    """A domain's new cap, on the record with its reason."""

    filter: AnyFilter
    reason: str


def amount(epsilon: float, delta: float) -> str:
    """An (ε, δ) pair in words."""
    return f"(ε {epsilon:.4g}, δ {delta:.3g})"


def _require_cap(epsilon: float, delta: float) -> None:
    if not 0 < epsilon < math.inf:
        raise WrongInput(f"the cap's epsilon must be positive and finite, got {epsilon!r}")
    if not 0 < delta < 1:
        raise WrongInput(f"the cap's delta must be between 0 and 1, got {delta!r}")
