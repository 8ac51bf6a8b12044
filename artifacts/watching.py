"""Watching: how a ledger and its witness stand to each other, and how the ledger goes on where they differ.

    nothing was ever seen       go on; once the witness has seen the ledger, the ledger says that it is witnessed
    all that was seen is there  go on
    the witness is gone         stop; `restore` says so on the record, and goes on with a new one or without any
    what was seen is not there  stop; `restore` charges what was seen, beside what was spent apart from it

Either way `restore` ends every open session at its whole charge: an older copy might draw on it again.

Assumes      the witness is what it was (artifacts.witness)
Guarantees   a ledger that says it is witnessed is written to only when its witness holds nothing that it lacks
Not covered  what was spent after a copy that is put back together with an old witness, or in place of one that is gone:
             the latter is said in every certificate from then on. Checked by tests/artifacts/test_witness.py
"""

from dataclasses import replace
from functools import reduce
from itertools import takewhile
from operator import add
from typing import NoReturn

from artifacts.book import Book
from artifacts.chain import Entry
from artifacts.entries import Rows
from artifacts.errors import NotVerified, WrongInput
from artifacts.privacy import Charge
from artifacts.restoration import Restoration, Standing, Watch, missing
from artifacts.witness import Sighting, Witness

GONE = (
    "put it back, or name where it is; where it is lost, `concord restore --reason WHY` goes on {how}, ending every "
    "open session at its whole charge"
)


class Watching:
    """The witness of one ledger, where it has one."""

    def __init__(self, witness: Witness | None) -> None:
        self.witness = witness

    def last(self) -> Sighting | None:
        """The last sighting, if there was one."""
        return None if self.witness is None else self.witness.last()

    def check(self, seen: Sighting | None, book: Book, rows: Rows) -> None:
        """Raise NotVerified where the ledger lacks what was `seen` before it was read, or its witness is gone."""
        if seen is None and book.witnessed:
            seen = self.last() or self._gone()  # what says so was written after the first sighting
        if seen is not None and not _stands(seen, book, rows):
            raise NotVerified(
                f"the ledger has {book.length} entries and its witness saw entry {seen.seq}, which is not among "
                "them: an older copy was put back, or the witness is another ledger's; `concord restore` goes on from "
                "an older copy, charging what may have been spent since"
            )

    def show(self, book: Book, rows: Rows) -> None:
        """Let the witness see what it has not seen yet."""
        if self.witness is not None:
            self.witness.see(lambda last: self._sighting(last, book, rows))

    def restore(self, book: Book, rows: Rows, reason: str) -> list[Entry]:
        """What the ledger has to say to go on. Raises WrongInput where nothing keeps it from that; NotVerified where
        what was spent cannot be told.
        """
        seen = self.last()
        if seen is None:
            return self._without(book, reason)
        if _stands(seen, book, rows):
            raise WrongInput("nothing is to be restored: the ledger holds all that its witness saw")
        then = self._agreed(book, rows)
        _check_apart(book, then, seen.standings)
        standings = tuple(replace(one, charge=one.charge + _since(then, book, one)) for one in seen.standings)
        return [Entry(domain="", event=Restoration(witnessed=seen.head, standings=standings, reason=reason))]

    def announce(self, book: Book) -> list[Entry]:
        """That a witness sees the ledger, for the record; none where it says so."""
        return [] if book.witnessed else [Entry(domain="", event=Watch(witnessed=True))]

    def _without(self, book: Book, reason: str) -> list[Entry]:
        if not book.witnessed:
            raise WrongInput("nothing is to be restored: CONCORD_WITNESS must name the witness that saw the ledger")
        if self.witness is not None:
            self.witness.see(lambda _: None)  # where it cannot be written, that shows before anything is charged
        return [Entry(domain="", event=Watch(witnessed=self.witness is not None, reason=reason))]

    def _agreed(self, book: Book, rows: Rows) -> Book:
        """The book when it and what the witness saw were last the same. Raises NotVerified where they never were."""
        met, then = self._met(rows), Book()
        if book.length and not met:
            raise NotVerified(
                "the ledger holds nothing of what the witness saw, which is another ledger's: CONCORD_WITNESS must "
                "name its own"
            )
        for line in rows.since(1)[:met]:
            then.read(line)
        return then

    def _gone(self) -> NoReturn:
        if self.witness is None:
            named = "the ledger says that a witness sees it, and CONCORD_WITNESS names none"
            raise NotVerified(f"{named}: {GONE.format(how='without one')}")
        named = f"the ledger says that a witness sees it, and {self.witness.path} has seen nothing"
        raise NotVerified(f"{named}: {GONE.format(how='with a new one there')}")

    def _sighting(self, last: Sighting | None, book: Book, rows: Rows) -> Sighting | None:
        since = 0 if last is None else last.seq if last.head not in book.restored else self._met(rows)
        heads = rows.digests(since + 1, book.length)
        return Sighting(seq=book.length, heads=heads, standings=book.standings()) if heads else None

    def _met(self, rows: Rows) -> int:
        """The last entry that the ledger holds as its witness saw it; 0 without one."""
        seen = [] if self.witness is None else self.witness.heads()
        alike = zip(seen, rows.digests(1, len(seen)), strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], alike))


def _stands(seen: Sighting, book: Book, rows: Rows) -> bool:
    """Whether the ledger holds what was seen, or went on without it by a restoration on the record."""
    return seen.head in book.restored or rows.digests(seen.seq, seen.seq) == (seen.head,)


def _check_apart(book: Book, then: Book, standings: tuple[Standing, ...]) -> None:
    """Raise NotVerified where what was spent here and elsewhere since `then` does not just add up: a row answered twice
    under one secret draw is covered by no charge."""
    for before in then.sessions.values():
        now = book.session(before.id)
        if (now.batches, now.asked) != (before.batches, before.asked):
            raise NotVerified(
                f"session {now.id} was drawn on in this ledger, and may have been where its witness saw it: what both "
                "together spent cannot be told; begin a new home and a new domain"
            )
    for domain in (standing.domain for standing in standings):
        if not book.domains.get(domain.name, domain).differs_only_in_cap(domain):
            raise NotVerified(f"domain {domain.name!r} of this ledger is not the one that its witness saw")


def _since(then: Book, book: Book, standing: Standing) -> Charge:
    """What the domain was charged in this ledger for what it did not hold then."""
    domain = standing.domain.name
    new = (session.charge for session in book.sessions_of(domain) if session.id not in then.sessions)
    return reduce(add, new, missing(book.lost(domain), then.lost(domain)))
