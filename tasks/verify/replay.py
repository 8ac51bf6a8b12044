"""Replay the ledger: check its rule a second time, from the raw records and the mechanisms' recorded settings alone.

No code of ledger, filter, sessions or charges is used: a fault there that wrote a wrong ledger with an intact chain is
found here. Amounts are exact fractions; the budget is computed to 60 digits and rounded down; the cost of settings is
from `tasks.verify.recompute`. After a wrong record, the replay goes on with the numbers of that record.

Assumes      the chain holds (artifacts.ledger.events); settings are those that ran
Guarantees   every breach of the ledger's rule is named:
             1  a domain's δ is halved for conversion and additive δ; its order is the best of ORDERS for its cap. A
                recap keeps the order and covers what is charged already
             2  every session that was opened was covered: Σ nats at the order ≤ B and Σ additive δ ≤ δ_A
             3  a session and each of its refusals are charged what the settings cost, rounded up by no more than
                ROUNDING, for the neighbours of the domain; no key serves two sessions, no secret subset two relabelled
                ones
                A session ends at the cutoff, and at the queries, that its settings state
             4  nothing is begun out of turn or once the session has ended; noise is drawn for a batch that was begun,
                and once under its name; counts add up; a settlement is the whole
                reservation, or what was refused if that is less and may be returned. Of μ² nothing returns but what
                rounds were charged that no entry began
             5  a domain is divided into parts of units once; a charge that names a part by that division counts in it
                alone, any other in each; what is covered is the most of any part
             6  sessions that name one stream are its seasons, if their mechanism is of seasons: of a stream the most of
                any season is covered, and of two streams both. Tests on the units of one release each are a stream of
                their own, in the test part
             7  after a restoration every open session is charged whole, and no session is a season of a stream from
                before
             8  a domain is bound to one secret of a name, and to one question of a run and number
Not covered  what was refused and not written; who may write the ledger can write another that keeps the rule
             Checked by tests/tasks/verify/test_reckoning.py, with faults planted in the code that writes the ledger
"""

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import reduce
from typing import Any, Protocol

from concord.artifacts.errors import NotVerified
from concord.tasks.verify.kinds import KindSettings
from concord.tasks.verify.recompute import StreamSettings, charge, charge_of_refusal, read_settings

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
MOST_ROUNDED_UP = Fraction(1, 10**6)
"""Largest share by which an amount may have been rounded up."""
QUANTA = Fraction(1, 10**11), Fraction(1, 10**35)
"""Further rounding allowed per refusal, in nats and additive δ: last digits of double arithmetic and of storage."""

HIDDEN = {"rows": "add or remove one unit", "labels": "change the labels of one unit"}
"""The neighbours that a mechanism hides, by the `secret` in its settings."""


Price = tuple[float, float]
"""Rényi nats and additive δ."""


@dataclass(frozen=True)
class RenyiAmount:
    """Rényi nats at a domain's order, and additive δ."""

    nats: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)

    @classmethod
    def of(cls, body: RecordBody) -> "RenyiAmount":
        """The amount in a record."""
        return cls(Fraction(body["renyi"]), Fraction(body["delta"]))

    def __add__(self, other: "RenyiAmount") -> "RenyiAmount":
        return RenyiAmount(self.nats + other.nats, self.delta + other.delta)

    def __le__(self, other: "RenyiAmount") -> bool:
        return self.nats <= other.nats and self.delta <= other.delta

    def __str__(self) -> str:
        return f"{float(self.nats):.6g} nats and δ {float(self.delta):.3g}"

    def times(self, count: int | Fraction) -> "RenyiAmount":
        """The amount multiplied by `count`."""
        return RenyiAmount(self.nats * count, self.delta * count)

    def most(self, other: "RenyiAmount") -> "RenyiAmount":
        """The larger of each component."""
        return RenyiAmount(max(self.nats, other.nats), max(self.delta, other.delta))


@dataclass
class DomainSums:
    """A domain. Its neighbours, which its claims compare, and its order α* never change.

    alone     what each part is charged for sessions of no stream
    seasons   of each stream, what its sessions are charged, each with the part it counts in
    unknown   streams whose later seasons may not know whom earlier ones asked, since the domain was `restored`
    """

    neighbours: str
    order: Fraction
    cap: tuple[Fraction, Fraction]
    split: tuple[Fraction, Fraction]
    alone: dict[str, RenyiAmount] = field(default_factory=lambda: dict.fromkeys(("learning", "test"), RenyiAmount()))
    seasons: dict[str, dict[str, tuple[str, RenyiAmount]]] = field(default_factory=dict)
    unknown: set[str] = field(default_factory=set)
    divided: RecordBody | None = None
    relabelled: bool = False
    restored: bool = False

    @classmethod
    def of(cls, body: RecordBody) -> "DomainSums":
        """The domain in a record."""
        cap, split = cap_of(body["filter"])
        return cls(body["neighbours"], Fraction(body["filter"]["order"]), cap, split)

    def hold(self, session: str, amount: RenyiAmount, held: "SessionAccount") -> None:
        """Charge a session this amount in place of what it was charged before."""
        if held.stream:
            self.seasons.setdefault(held.stream, {})[session] = held.part, amount
        else:
            for part in self.alone if held.part == "" else (held.part,):
                self.alone[part] += amount + held.charged.times(-1)
        held.charged = amount

    @property
    def charged(self) -> dict[str, RenyiAmount]:
        """What each part is charged: of each stream, the most of any season."""
        totals = dict(self.alone)
        for seasons in self.seasons.values():
            for name in totals:
                touching = [amount for part, amount in seasons.values() if part in ("", name)]
                totals[name] += reduce(RenyiAmount.most, touching, RenyiAmount())
        return totals

    def touched(self, body: RecordBody) -> str:
        """The only part of the recorded division that a session opened now reads; empty if it may read all."""
        is_recorded = self.divided is not None and body["division"] == self.divided["commitment"]
        return str(body["part"]) if is_recorded else ""

    @property
    def budget(self) -> RenyiAmount:
        """B and δ_A."""
        with localcontext(prec=BUDGET_DIGITS):
            nats = _budget(self.cap[0], self.split[0], self.order)
            return RenyiAmount(Fraction(nats - abs(nats) * Decimal(10) ** (10 - BUDGET_DIGITS)), self.split[1])

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
    reserved: RenyiAmount
    per_refusal: RenyiAmount | None
    cutoff: int | None
    queries: int | None
    part: str = ""
    stream: str = ""
    charged: RenyiAmount = RenyiAmount()
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
    def owed(self) -> RenyiAmount:
        """Its charge by refusals. A batch that may have been drawn counts as refused, up to the cutoff."""
        if self.per_refusal is None:
            return self.reserved
        happened = self.per_refusal.times(int(min(or_endless(self.cutoff), self.refused + self.pending)))
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


class RecordKept(Protocol):
    """A stored record of the ledger."""

    @property
    def seq(self) -> int: ...
    @property
    def domain(self) -> str: ...
    @property
    def session(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def body(self) -> str: ...


class LedgerReplay:
    """The state of domains and sessions after the records so far."""

    def __init__(self) -> None:
        self.accounts: dict[str, DomainSums] = {}
        self.holdings: dict[str, SessionAccount] = {}
        self._keys: set[str] = set()
        self._secrets: dict[tuple[str, str], str] = {}
        self._enter: dict[str, Callable[[RecordKept, RecordBody], Iterator[str]]] = {
            "domain": self._domain,
            "recap": self._recap,
            "divide": self._divide,
            "remark": self._remark,
            "restore": self._restore,
            "open": self._open,
            "begin": self._begin,
            "draw": self._draw,
            "commit": self._commit,
            "settle": self._settle,
        }

    def enter(self, record: RecordKept) -> Iterator[str]:
        """Process the next record; yields a sentence for each breach of the rule."""
        yield from self._enter[record.kind](record, json.loads(record.body))

    def _domain(self, record: RecordKept, body: RecordBody) -> Iterator[str]:
        if record.domain in self.accounts:
            yield "the domain was named before"
        self.accounts[record.domain] = account = DomainSums.of(body)
        yield from account.faults()
        yield from account.at_first()

    def _recap(self, record: RecordKept, body: RecordBody) -> Iterator[str]:
        account = self.accounts[record.domain]
        if (order := Fraction(body["filter"]["order"])) != account.order:
            yield f"the order of the domain changes from {float(account.order):g} to {float(order):g}"
        account.cap, account.split = cap_of(body["filter"])
        yield from account.faults()
        yield from _covered(account, "the new cap")

    def _divide(self, record: RecordKept, body: RecordBody) -> Iterator[str]:
        account = self.accounts[record.domain]
        if account.divided is not None:
            yield "the domain's units were divided before"
        if not 0 < Fraction(body["share"]) < 1 or not body["commitment"] or record.session:
            yield "the division is not valid"
        account.divided = body

    def _remark(self, record: RecordKept, body: RecordBody) -> Iterator[str]:
        if body["kind"] == "secret":
            name, _, digest = body["about"].rpartition(" ")
            if self._secrets.setdefault((record.domain, name), digest) != digest:
                yield "the domain is bound to another secret of that name"

    def _restore(self, record: RecordKept, _: RecordBody) -> Iterator[str]:
        account = self.accounts[record.domain]
        if record.session:
            yield "it is of a session, and a restoration is of the whole domain"
        for holding in self.holdings.values():
            holding.open &= holding.domain != record.domain  # at its whole charge, which is the amount held for it
        account.restored, account.unknown = True, account.unknown | account.seasons.keys()

    def _open(self, record: RecordKept, body: RecordBody) -> Iterator[str]:
        account, kind, of_refusal = (
            self.accounts[record.domain],
            read_settings(body["mechanism"]),
            body["per_refusal"],
        )
        if record.session in self.holdings or body["commitment"] in self._keys:
            yield "the session was opened before, or its key has served another"
        self._keys.add(body["commitment"])
        holding = SessionAccount(
            domain=record.domain,
            reserved=RenyiAmount.of(body["reserved"]),
            per_refusal=None if of_refusal is None else RenyiAmount.of(of_refusal),
            cutoff=body["cutoff"],
            queries=body["queries"],
            part=account.touched(body),
            stream="" if body["stream"] in account.unknown else body["stream"],
        )
        self.holdings[record.session] = holding
        yield from _priced(holding, kind, account.order)
        if HIDDEN.get(kind.secret or "", account.neighbours) != account.neighbours:
            yield f"its mechanism hides {kind.secret}, and its domain compares: {account.neighbours}"
        if kind.relabel is not None:
            if account.relabelled or account.restored:
                yield "a second session may have answered from the domain's secret subset"
            account.relabelled = True
        for end, stated in (("cutoff", kind.cutoff), ("queries", kind.queries)):
            if body[end] != stated and (end == "cutoff" or stated is not None):
                yield f"its {end} is {body[end]}, but its settings state {stated}"
        if holding.part not in ("", *account.alone):
            yield f"it names a part that does not exist: {holding.part!r}"
            holding.part = ""
        if body["stream"] and not isinstance(kind, StreamSettings):
            yield f"it names a stream, and {kind.name!r} has no seasons"
            holding.stream = ""
        account.hold(record.session, holding.reserved, holding)
        yield from _covered(account, "the domain's cap")

    def _begin(self, record: RecordKept, body: RecordBody) -> Iterator[str]:
        holding = self._of(record)
        if not holding.open or holding.exhausted:
            yield "the session had ended: nothing more was covered"
        if holding.pending or (body["index"], body["first"]) != (holding.batches, holding.rows) or body["rows"] < 1:
            yield "the batch is not the session's next"
        holding.batches, holding.rows, holding.pending = (
            holding.batches + 1,
            holding.rows + body["rows"],
            body["rows"],
        )

    def _draw(self, record: RecordKept, body: RecordBody) -> Iterator[str]:
        holding = self._of(record)
        if not holding.open or not holding.pending or body["name"] in holding.draws:
            yield "noise was drawn for no batch that was begun, or drawn again"
        holding.draws.add(body["name"])

    def _commit(self, record: RecordKept, body: RecordBody) -> Iterator[str]:
        holding, rows, refused = self._of(record), body["asked"], body["refused"]
        if not holding.open or not holding.pending or body["index"] != holding.batches - 1:
            yield "the batch was not begun, or its session had ended"
        within = 0 <= refused <= rows <= holding.pending and rows == body["answered"] + refused
        cut_short = rows < holding.pending
        holding.asked, holding.refused, holding.pending = holding.asked + rows, holding.refused + refused, 0
        beyond = holding.refused > or_endless(holding.cutoff) or holding.asked > or_endless(holding.queries)
        if not within or beyond or (cut_short and not holding.exhausted):
            yield "the counts of the batch cannot be"

    def _settle(self, record: RecordKept, body: RecordBody) -> Iterator[str]:
        holding, charge = self._of(record), RenyiAmount.of(body["charge"])
        if not holding.open or (body["status"] == "spent") != holding.exhausted:
            yield "the session had ended before, or was not at its end"
        due = [holding.owed] if holding.exhausted else [holding.owed, holding.reserved]
        if charge not in due:
            yield f"the session is settled at {charge}, but {holding.owed} is due for what was refused or begun"
        holding.open = False
        self.accounts[holding.domain].hold(record.session, charge, holding)

    def _of(self, record: RecordKept) -> SessionAccount:
        holding = self.holdings[record.session]
        if holding.domain != record.domain:
            raise KeyError(record.domain)
        return holding


def ledger_faults(records: Iterable[RecordKept]) -> Iterator[str]:
    """One sentence for each breach of the rule, naming the entry and its session or domain."""
    replay = LedgerReplay()
    for record in records:
        named = f"entry {record.seq} ({record.kind} {record.session or record.domain})"
        try:
            yield from (f"{named}: {wrong}" for wrong in replay.enter(record))
        except (KeyError, TypeError, ValueError, ArithmeticError):
            yield f"{named} cannot be followed from those before"


def _covered(account: DomainSums, by: str) -> Iterator[str]:
    for part, total in account.charged.items():
        if not total <= account.budget:
            whose = "the domain" if account.divided is None else f"the {part} part of the domain"
            yield f"{whose} is charged {total}, but {by} covers {account.budget}"
            break


def _priced(holding: SessionAccount, kind: KindSettings, order: Fraction) -> Iterator[str]:
    """Sentences about faults in a session's charges, if the cost of its settings can be recomputed."""
    try:
        whole, of_refusal = charge(kind, float(order)), charge_of_refusal(kind, float(order))
    except NotVerified as unknown:
        yield str(unknown)
        return
    refusals = 1 if holding.cutoff is None else holding.cutoff
    yield from _charged("the session", holding.reserved, whole, refusals)
    if (of_refusal is None) != (holding.per_refusal is None):
        yield "what is refused may not be charged one by one, or is not"
    elif of_refusal is not None and holding.per_refusal is not None:
        yield from _charged("a refusal", holding.per_refusal, of_refusal, 1)


def _charged(what: str, charged: RenyiAmount, due: Price, refusals: int) -> Iterator[str]:
    if not all(map(math.isfinite, due)):
        yield f"{what} costs more than any charge at the domain's order"
        return
    least = RenyiAmount(*map(Fraction, due))
    nats, delta = QUANTA
    quanta = RenyiAmount(nats if least.nats else Fraction(0), delta)
    most = least + least.times(MOST_ROUNDED_UP) + quanta.times(refusals)
    if not least <= charged or not charged <= most:
        yield f"{what} is charged {charged}, but its settings cost {least}"
