"""Parts: a domain's units divided once, for its whole life, and what each part of them is charged.

Units of the test part take no part in learning, and what tries a student out reads no others. So one unit is touched by
the sessions of its own part alone, and a domain pays what its largest part is charged, not the sum.

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
"""What a session names that may touch units of every part."""
PARTS = (LEARNING, TEST)
NOTHING = Charge()


@dataclass(frozen=True, kw_only=True)
class Division:
    """How a domain's units are divided: on its record, once.

    commitment  to part key, share and naming rule, keyed by the part key: who holds that key knows it again
    share       how likely a unit is in the test part
    naming      what a unit's name is made of
    """

    commitment: str
    share: float
    naming: str


class Naming(Protocol):
    """What a session says of the part it touches (artifacts.sessions)."""

    @property
    def id(self) -> str: ...
    @property
    def domain(self) -> str: ...
    @property
    def part(self) -> str: ...
    @property
    def division(self) -> str: ...


class Parts:
    """The divisions on record, and which part each session touches alone."""

    def __init__(self) -> None:
        self._divided: dict[str, Division] = {}
        self._touched: dict[str, str] = {}

    def divide(self, domain: str, division: Division) -> None:
        """From here on the domain is divided."""
        self._divided[domain] = division

    def enter(self, session: Naming) -> None:
        """A session just opened: what counts is the division on record now, not one that comes later."""
        self._touched[session.id] = self.touched_by(session)

    def division(self, domain: str) -> Division | None:
        """How the domain is divided, if it is."""
        return self._divided.get(domain)

    def of(self, session: str) -> str:
        """The part that an opened session touches alone, or EVERY."""
        return self._touched[session]

    def touched_by(self, session: Naming) -> str:
        """The part that a session would touch alone if it were opened now, or EVERY."""
        division = self._divided.get(session.domain)
        known = division is not None and session.division == division.commitment
        return session.part if known and session.part in PARTS else EVERY

    def is_new(self, domain: str, asked: Division) -> bool:
        """Whether the domain is not divided yet. Raises WrongInput if it was, by another share or naming rule."""
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
    """What each part is charged, given the part that each charge counts in, or EVERY; what was lost counts in all."""
    totals = dict.fromkeys(PARTS, lost)
    for part, charge in charges:
        for touched in PARTS if part == EVERY else (part,):
            totals[touched] += charge
    return totals


def largest(totals: dict[str, Charge]) -> Charge:
    """What a domain is charged whose parts are charged that: the most of any, of each amount."""
    return reduce(Charge.most, totals.values())


def least(totals: dict[str, Charge]) -> Charge:
    """The least that any part is charged: what is missing from it is missing from none by more."""
    return reduce(Charge.least, totals.values())


def running_totals(charges: Iterable[tuple[str, Charge]], lost: Charge = NOTHING) -> Iterator[Charge]:
    """What a domain is charged before any of those charges, and after each."""
    totals = by_part((), lost)
    yield largest(totals)
    for part, charge in charges:
        added = by_part([(part, charge)])
        totals = {name: add(totals[name], added[name]) for name in PARTS}
        yield largest(totals)
