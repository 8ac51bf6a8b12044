"""Parts: a domain's units divided once, for its whole life, and the charge of each part.

Units of the test part are never learned from, and tests of a student read no others. So a unit is touched only by the
sessions of its own part, and a domain pays the charge of its largest part, not the sum.

Assumes      a unit's part follows from its own name, the part key, the share and the naming rule alone; the key is
             independent of the data. A session that names a part reads no row of a unit of another
Guarantees   if along every path the charges of the sessions that touch a part are within the cap, for each part, then
             all sessions together are within it, however adaptively they interleave
Ends         never: the division is frozen with the domain, by a keyed commitment
Not covered  a unit exchanged for one of the other part is two steps: (ε_L + ε_T, δ_L + e^ε_L·δ_T)

Proof. Neighbours differ in one unit u, of one part p, and agree on who else is in which part. A session that does not
touch p computes from the same rows in both, so given the transcript before it, its answers have one law: its Rényi
divergence is 0 and so is its δ, whatever it is charged. So all that u can change is the steps that touch p, in their
adaptive order, and their charges are within the cap on every path: Filter (Feldman & Zrnic 2021, Thm. 3.1). This holds
for each p, and u is in one. ∎
A session names a part with the division it was made by. If that is not the division on record (a new key, another share
or naming rule, or nothing on record yet when it was opened), its own units may lie in any part: it counts in all.
Checked by tests/privacy/test_divided.py, with exact laws and planted bugs.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Final, Protocol

from concord.artifacts.errors import WrongInput
from concord.artifacts.privacy import Charge

LEARNING: Final = "learning"
TEST: Final = "test"
EVERY: Final = ""
"""The part of a session that may touch all units."""
PARTS = (LEARNING, TEST)
NOTHING = Charge()


@dataclass(frozen=True, kw_only=True)
class Division:
    """How a domain's units are divided, recorded once.

    commitment  to part key, share and naming rule, keyed by the part key: whoever holds that key can check it
    share       the probability that a unit is in the test part
    naming      the rule by which a unit is named; the operator's alone, so an excerpt of the ledger leaves it out
    """

    commitment: str
    share: float
    naming: str


class Naming(Protocol):
    """A session's fields about the part it touches (artifacts.sessions)."""

    @property
    def id(self) -> str: ...
    @property
    def domain(self) -> str: ...
    @property
    def part(self) -> str: ...
    @property
    def division(self) -> str: ...


class Parts:
    """The divisions on record, and the only part that each session touches."""

    def __init__(self) -> None:
        self._divided: dict[str, Division] = {}
        self._touched: dict[str, str] = {}

    def divide(self, domain: str, division: Division) -> None:
        """Record how the domain is divided."""
        self._divided[domain] = division

    def enter(self, session: Naming) -> None:
        """Record a session just opened, under the division on record now: a later one does not count for it."""
        self._touched[session.id] = self.touched_by(session)

    def division(self, domain: str) -> Division | None:
        """How the domain is divided, if it is."""
        return self._divided.get(domain)

    def of(self, session: str) -> str:
        """The only part that an opened session touches, or EVERY."""
        return self._touched[session]

    def touched_by(self, session: Naming) -> str:
        """The only part that a session would touch if it were opened now, or EVERY."""
        division = self._divided.get(session.domain)
        known = division is not None and session.division == division.commitment
        return session.part if known and session.part in PARTS else EVERY

    def is_new(self, domain: str, asked: Division) -> bool:
        """Whether the domain is not divided yet. Raises WrongInput if another share or naming rule is on record."""
        known = self._divided.get(domain)
        if known is None:
            return True
        for field, frozen, given in (
            ("test.share", known.share, asked.share),
            ("the naming of units", known.naming, asked.naming),
        ):
            if frozen != given:
                raise WrongInput(
                    f"{field} of domain {domain!r} is {frozen!r} on the record, got {given!r}: units are divided once, "
                    "for the domain's whole life; a plan without [test] may still open a session, which counts in all"
                )
        return False


def by_part(charges: Iterable[tuple[str, Charge]], lost: Charge = NOTHING) -> dict[str, Charge]:
    """The charge of each part, from charges with the part each counts in, or EVERY; `lost` counts in all parts."""
    totals = dict.fromkeys(PARTS, lost)
    for part, charge in charges:
        for touched in PARTS if part == EVERY else (part,):
            totals[touched] += charge
    return totals


def largest(totals: dict[str, Charge]) -> Charge:
    """The charge of a domain from those of its parts: of each amount, the largest."""
    return reduce(Charge.most, totals.values())


def least(totals: dict[str, Charge]) -> Charge:
    """Of each amount, the smallest of any part."""
    return reduce(Charge.least, totals.values())


def running_totals(charges: Iterable[tuple[str, Charge]], lost: Charge = NOTHING) -> Iterator[Charge]:
    """The charge of a domain before the first of those charges, and after each."""
    totals = by_part((), lost)
    yield largest(totals)
    for part, charge in charges:
        added = by_part([(part, charge)])
        totals = {name: add(totals[name], added[name]) for name in PARTS}
        yield largest(totals)
