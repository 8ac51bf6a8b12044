"""Parts and seasons: units that no other sessions touch, and what a domain pays for each.

Parts divide a domain's units once, for its whole life.

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

Seasons of a stream (tasks.mechanisms.stream) divide units by when they arrive: a season asks no unit that an earlier
one of its stream has asked. So of each stream a domain pays the largest season, in each part, besides what else touches
the part. Two streams divide units each in its own way, so their largest seasons add up.

Assumes      who names a stream when it opens a season knows all units that its seasons before have asked
Guarantees   as for parts, for a unit of any season: also if what was released decides in which one it arrives
Ends         if an older copy is restored: what is opened after that knows no season before it
Not covered  seasons that ask a unit again

Proof. Until it arrives nothing depends on u, so which season it is in may follow from what was released. Then all that
u can change is, in their adaptive order, steps that touch its part and are of no stream, and of each stream those of
one season: on every path their charges are at most what the domain pays. ∎
Checked by tests/privacy/test_divided.py and test_seasons.py, with exact laws and planted bugs.
"""

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Final, NamedTuple, TypeVar

from concord.artifacts.domains import Division
from concord.artifacts.errors import WrongInput
from concord.artifacts.privacy import Charge
from concord.artifacts.sessions import Terms

LEARNING: Final = "learning"
TEST: Final = "test"
EVERY: Final = ""
"""The part of a session that may touch all units."""
PARTS = (LEARNING, TEST)
NOTHING = Charge()


class Counted(NamedTuple):
    """A charge: the part that it counts in, or EVERY, and the stream of which it is a season, or none."""

    part: str
    stream: str
    charge: Charge


class Parts:
    """The divisions on record, and the only units that each session touches."""

    def __init__(self) -> None:
        self._divided: dict[str, Division] = {}
        self._touched: dict[str, str] = {}
        self._season_of: dict[str, str] = {}
        self._lost: set[str] = set()

    def divide(self, domain: str, division: Division) -> None:
        """Record how the domain is divided."""
        self._divided[domain] = division

    def enter(self, session: Terms) -> None:
        """Record a session just opened, under the division on record now: a later one does not count for it."""
        self._touched[session.id], self._season_of[session.id] = self.touched_by(session), self.continued_by(session)

    def lose(self, session: str) -> None:
        """Sessions may be missing: whatever is opened from now on is no season of that session's stream."""
        self._lost.add(self._season_of[session])

    def division(self, domain: str) -> Division | None:
        """How the domain is divided, if it is."""
        return self._divided.get(domain)

    def of(self, session: str) -> str:
        """The only part that an opened session touches, or EVERY."""
        return self._touched[session]

    def touched_by(self, session: Terms) -> str:
        """The only part that a session would touch if it were opened now, or EVERY."""
        division = self._divided.get(session.domain)
        divided = division is not None and session.division == division.commitment
        return session.part if divided and session.part in PARTS else EVERY

    def stream_of(self, session: str) -> str:
        """The stream of which an opened session is a season, or none."""
        return self._season_of[session]

    def continued_by(self, session: Terms) -> str:
        """The stream of which a session would be a season if it were opened now, or none."""
        return session.stream if self.goes_on(session.stream) else ""

    def goes_on(self, stream: str) -> bool:
        """Whether a later season of that stream would know all units that earlier ones have asked."""
        return stream not in self._lost

    def is_new(self, domain: str, division: Division) -> bool:
        """Whether the domain is not divided yet. Raises WrongInput if another share or naming rule is on record."""
        recorded = self._divided.get(domain)
        if recorded is None:
            return True
        for field, frozen, given in (
            ("test.share", recorded.share, division.share),
            ("the naming of units", recorded.naming, division.naming),
        ):
            if frozen != given:
                raise WrongInput(
                    f"{field} of domain {domain!r} is {frozen!r} on the record, got {given!r}: units are divided once, "
                    "for the domain's whole life; a plan without [test] may still open a session, which counts in all"
                )
        return False


Amount = TypeVar("Amount")


def paid(amounts: Iterable[tuple[str, Amount]], most: Callable[..., Amount]) -> list[Amount]:
    """The amounts that a unit may pay, from amounts with their stream: all of none, and of each stream the most."""
    alone, seasons = list[Amount](), dict[str, Amount]()
    for stream, amount in amounts:
        if stream:
            seasons[stream] = most(seasons.get(stream, amount), amount)
        else:
            alone.append(amount)
    return [*alone, *seasons.values()]


def by_part(charges: Iterable[Counted]) -> dict[str, Charge]:
    """The charge of each part."""
    listed = list(charges)
    touched = {name: [charged for charged in listed if charged.part in (EVERY, name)] for name in PARTS}
    return {
        name: sum(paid([(charged.stream, charged.charge) for charged in touching], Charge.most), NOTHING)
        for name, touching in touched.items()
    }


def largest(totals: dict[str, Charge]) -> Charge:
    """The charge of a domain from those of its parts: of each amount, the largest."""
    return reduce(Charge.most, totals.values())
