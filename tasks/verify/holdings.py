"""State of the reckoning: exact amounts, the budget and charges of each domain, and what each session owes.

Written from the ledger's rule (see reckoning.py), independently of concord.artifacts.privacy and artifacts.sessions,
which it checks. Amounts are fractions; a budget is computed to 60 digits and rounded down. Checked by
tests/tasks/verify/test_reckoning.py.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import reduce
from typing import Any

RecordBody = dict[str, Any]
"""The body of a record."""

RENYI_ORDERS = (
    *(1 + Fraction(quarter, 4) for quarter in range(1, 21)),
    *map(Fraction, ("6.5", "7", "7.5", "8", "9", "10", "11", "12", "13.5", "15", "18", "22", "27", "33", "40", "50")),
    *map(Fraction, (60, 80, 100, 128, 160, 200, 256, 320, 400, 512, 640, 800, 1024)),
)
TIE = Decimal("1e-8")
"""Orders that are worse than the best by no more than this share may have been chosen instead of it."""
BUDGET_DIGITS = 60


@dataclass(frozen=True)
class Amount:
    """Rényi nats at a domain's order, and additive δ."""

    nats: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)

    @classmethod
    def of(cls, body: RecordBody) -> "Amount":
        """The amount in a record."""
        return cls(Fraction(body["renyi"]), Fraction(body["delta"]))

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(self.nats + other.nats, self.delta + other.delta)

    def __le__(self, other: "Amount") -> bool:
        return self.nats <= other.nats and self.delta <= other.delta

    def __str__(self) -> str:
        return f"{float(self.nats):.6g} nats and δ {float(self.delta):.3g}"

    def times(self, count: int | Fraction) -> "Amount":
        """The amount multiplied by `count`."""
        return Amount(self.nats * count, self.delta * count)

    def most(self, other: "Amount") -> "Amount":
        """The larger of each component."""
        return Amount(max(self.nats, other.nats), max(self.delta, other.delta))


@dataclass
class DomainSums:
    """A domain. `terms` (unit, neighbours, order) never change.

    alone     what each part is charged for sessions of no stream
    seasons   of each stream, what its sessions are charged, each with the part it counts in
    unknown   streams whose later seasons may not know whom earlier ones asked, since the domain was `restored`
    """

    terms: tuple[str, str, Fraction]
    cap: tuple[Fraction, Fraction]
    split: tuple[Fraction, Fraction]
    alone: dict[str, Amount] = field(default_factory=lambda: dict.fromkeys(("learning", "test"), Amount()))
    seasons: dict[str, dict[str, tuple[str, Amount]]] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    divided: RecordBody | None = None
    relabelled: bool = False
    restored: bool = False

    @classmethod
    def of(cls, body: RecordBody) -> "DomainSums":
        """The domain in a record."""
        cap, split = cap_of(body["filter"])
        return cls((body["unit"], body["neighbours"], Fraction(body["filter"]["order"])), cap, split)

    @property
    def neighbours(self) -> str:
        """The neighbouring tables that the domain's claims compare."""
        return self.terms[1]

    @property
    def order(self) -> Fraction:
        """α*."""
        return self.terms[2]

    def charge(self, amount: Amount, part: str = "") -> None:
        """Charge one part of the units, or with no name each part."""
        for name in self.alone if part == "" else (part,):
            self.alone[name] += amount

    def hold(self, session: str, amount: Amount, held: "SessionAccount") -> None:
        """Charge a session this amount in place of what it was charged before."""
        if held.stream:
            self.seasons.setdefault(held.stream, {})[session] = held.part, amount
        else:
            self.charge(amount + held.charged.times(-1), held.part)
        held.charged = amount

    @property
    def charged(self) -> dict[str, Amount]:
        """What each part is charged: of each stream, the most of any season."""
        totals = dict(self.alone)
        for seasons in self.seasons.values():
            for name in totals:
                touching = [amount for part, amount in seasons.values() if part in ("", name)]
                totals[name] += reduce(Amount.most, touching, Amount())
        return totals

    def touched(self, body: RecordBody) -> str:
        """The only part of the recorded division that a session opened now reads; empty if it may read all."""
        known = self.divided is not None and body["division"] == self.divided["commitment"]
        return str(body["part"]) if known else ""

    @property
    def budget(self) -> Amount:
        """B and δ_A."""
        with localcontext(prec=BUDGET_DIGITS):
            nats = _budget(self.cap[0], self.split[0], self.order)
            return Amount(Fraction(nats - abs(nats) * Decimal(10) ** (10 - BUDGET_DIGITS)), self.split[1])

    def faults(self) -> Iterator[str]:
        """Sentences about faults in its split of δ."""
        whole = self.cap[1]
        if self.split != (whole / 2, whole / 2) or not 0 < whole < 1:
            parts = " and ".join(f"{float(part):.6g}" for part in self.split)
            yield f"its δ of {float(whole):.6g} is divided into {parts}, but the rule halves it"

    def at_first(self) -> Iterator[str]:
        """Sentences about faults in its order, for its first cap."""
        with localcontext(prec=BUDGET_DIGITS):
            worth = {
                order: _budget(self.cap[0], self.split[0], order) / Decimal(float(order)) for order in RENYI_ORDERS
            }
            best = max(worth, key=worth.__getitem__)
            if worth.get(self.order, Decimal("-Infinity")) < worth[best] - abs(worth[best]) * TIE:
                yield f"its order is {float(self.order):g}, but its cap asks for {float(best):g}"


@dataclass
class SessionAccount:
    """A session: the amount held for it, and its progress."""

    domain: str
    reserved: Amount
    each: Amount | None
    cutoff: int | None
    queries: int | None
    part: str = ""
    stream: str = ""
    charged: Amount = Amount()
    open: bool = True
    batches: int = 0
    rows: int = 0
    pending: int = 0
    asked: int = 0
    refused: int = 0
    draws: set[str] = field(default_factory=set)

    @property
    def exhausted(self) -> bool:
        """Whether the next refusal, or the next row, is not covered."""
        return self.refused >= or_endless(self.cutoff) or self.asked >= or_endless(self.queries)

    @property
    def owed(self) -> Amount:
        """Its charge by refusals. A batch that may have been drawn counts as refused, up to the cutoff."""
        if self.each is None:
            return self.reserved
        happened = self.each.times(int(min(or_endless(self.cutoff), self.refused + self.pending)))
        return happened if happened <= self.reserved else self.reserved


def cap_of(body: RecordBody) -> tuple[tuple[Fraction, Fraction], tuple[Fraction, Fraction]]:
    """(ε, δ) of a cap, and the split of its δ: the part left for the divergence, and δ_A."""
    epsilon, delta, additive = (Fraction(body[name]) for name in ("epsilon", "delta", "delta_additive"))
    return (epsilon, delta), (Fraction(body["delta_renyi"]), additive)


def _budget(epsilon: Fraction, delta_renyi: Fraction, order: Fraction) -> Decimal:
    """B = ε − ln((α − 1)/α) + (ln δ_R + ln α)/(α − 1); −∞ if there is no δ to convert at."""
    if delta_renyi <= 0:
        return Decimal("-Infinity")
    alpha, log_delta = _decimal(order), _decimal(delta_renyi).ln()
    return _decimal(epsilon) - ((alpha - 1) / alpha).ln() + (log_delta + alpha.ln()) / (alpha - 1)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / value.denominator


def or_endless(count: int | None) -> float:
    return math.inf if count is None else count
