"""The ledger: one append-only table of chained entries, and the lock under which it grows.

Privacy statement
    Assumes      costs handed to it are upper bounds; nothing is drawn that `begin_batch` did not return for
    Guarantees   what is admitted in a domain satisfies its cap (Filter), whatever process, crash or retry intervenes;
                 no row is drawn under two sets of votes; an entry changed in place is found before anything is spent
    Ends         never: entries are only added
    Not covered  an old copy of the whole database put in the place of a newer one, unless a witness saw the newer one
                 (artifacts.witness); who may write it can rewrite it

A mutation is one transaction: take the writer lock, read what others wrote, decide, append. The lock is SQLite's or
PostgreSQL's own and is freed when its holder dies. The state is the fold of the entries, kept in memory and brought up
to date from what was committed; a process that opens a ledger verifies the whole chain first.
Checked by tests/artifacts/test_ledger.py; with processes racing by test_ledger_race.py, with a witness by
test_witness.py beside it.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from artifacts.addresses import sqlite_address
from artifacts.book import Book
from artifacts.chain import Entry, Line
from artifacts.entries import Entries, Rows
from artifacts.errors import NotVerified
from artifacts.reading import Answer, Reading
from artifacts.remarks import Remark, RemarkKind
from artifacts.restoration import Standing
from artifacts.schemas import Ref
from artifacts.sessions import Batch, Domain, Opening, Outcome, Session
from artifacts.watching import Watching
from artifacts.witness import Witness


class Ledger(Reading):
    """The ledger at one database URL. Safe to share between threads; processes open it each for themselves."""

    def __init__(self, url: str, witness: Witness | None = None) -> None:
        """Open the ledger, making it where there is none. Raises NotVerified where the database is not a ledger.

        With a witness every change is seen by it before it is acted on, and none is made behind what it saw; a ledger
        that says it is witnessed is not changed without.
        """
        super().__init__(Book())
        self._entries = Entries(url)
        self._watching = Watching(witness)
        self._guard = threading.Lock()

    @classmethod
    def of(cls, home: Path) -> "Ledger":
        """The ledger of a home folder: the database CONCORD_LEDGER names, or HOME/ledger.db, its owner's alone.

        Its witness is the file that CONCORD_WITNESS names, if it names one.
        """
        return cls(os.environ.get("CONCORD_LEDGER", own_address(home)), Witness.of(home))

    def name_domain(self, name: str, *, unit: str, neighbours: str, epsilon: float, delta: float) -> Domain:
        """The domain, frozen at its first mention. Raises WrongInput naming the field that is not what was frozen."""
        asked = Domain.frozen(name, unit=unit, neighbours=neighbours, epsilon=epsilon, delta=delta)
        return self._write(lambda book: book.name(asked), lambda book: book.domain(name))

    def plan_domain(self, name: str, *, unit: str, neighbours: str, epsilon: float, delta: float) -> Domain:
        """The domain as `name_domain` would give it; writes nothing. Raises what `name_domain` would raise."""
        asked = Domain.frozen(name, unit=unit, neighbours=neighbours, epsilon=epsilon, delta=delta)
        self._consider(lambda book: book.name(asked))
        return self.domain(name) or asked

    def recap(self, name: str, epsilon: float, delta: float, reason: str) -> Domain:
        """Change a domain's cap, on the record. Raises BudgetRefused where more than that is charged already."""
        return self._write(lambda book: book.recap(name, epsilon, delta, reason), lambda book: book.domain(name))

    def remark(self, domain: str, kind: RemarkKind, about: str, reason: str = "") -> None:
        """Put a remark on the record; once, however often it is asked for.

        Raises WrongInput where it cannot be so: no such domain, a session that is open, a domain linked to itself.
        """
        remark = Remark(kind=kind, about=about, reason=reason)
        self._write(lambda book: book.remark(domain, remark), lambda _: None)

    def hold(self, domain: str, files: Iterable[str]) -> None:
        """Put on the record that the domain holds those private files, by their keyed digests.

        Raises WrongInput where a domain that it is not linked to holds one of them.
        """
        self._write(lambda book: book.hold(domain, files), lambda _: None)

    def check_holding(self, domain: str, files: Iterable[str]) -> None:
        """Raise what `hold` would raise, for a domain named already or not; writes nothing."""
        self._consider(lambda book: book.remarks.check_holding(domain, files))

    def check_opening(self, opening: Opening, domain: Domain, *, further: bool = False) -> None:
        """Whether `open_session` would open it in that domain, named already or not; spends nothing.

        Raises what `open_session` would raise.
        """
        self._consider(lambda book: book.having(domain).open(opening, further=further))

    def open_session(self, opening: Opening, *, further: bool = False) -> Session:
        """Reserve the whole cost of a session. `further` allows one more in a domain that has some already.

        Raises BudgetRefused where the filter does not admit it or a further session was not asked for, WrongInput
        where the id is taken, NotVerified where its key has served before.
        """
        return self._write(lambda book: book.open(opening, further=further), lambda book: book.session(opening.id))

    def begin_batch(self, session: str, batch: Batch) -> Batch:
        """Write a batch down before any draw; gives the batch on record, with its outcome if it was committed.

        Raises NotVerified where the record differs, saying whether position, rows or votes changed, or where it is
        not the session's next batch; BudgetRefused where nothing is left to draw.
        """
        return self._write(lambda book: book.begin(session, batch), lambda book: book.batches(session)[batch.index])

    def commit_batch(
        self, session: str, index: int, *, asked: int, answered: int, refused: int, released: Ref
    ) -> Session:
        """Record what was released, once it is durable; a session at its end is settled in the same transaction.

        Raises NotVerified where the counts cannot be, or where the batch was committed with others.
        """
        outcome = Outcome(index=index, asked=asked, answered=answered, refused=refused, released=released)
        return self._write(lambda book: book.commit(session, outcome), lambda book: book.session(session))

    def settle(self, session: str, *, give_back: bool) -> Session:
        """Close a session; with `give_back`, where it pays by refusal, what was not spent returns to the domain."""
        return self._write(lambda book: book.settle(session, give_back=give_back), lambda book: book.session(session))

    def restore(self, reason: str) -> tuple[Standing, ...]:
        """Go on where ledger and witness differ (`artifacts.watching`); what each domain is charged from now on.

        Every open session is charged whole and closed. Raises WrongInput where nothing is to be restored, NotVerified
        where what was spent cannot be told.
        """
        with self._guard, self._entries.writing() as rows:
            _catch_up(self._book, rows)
            self._append(self._watching.restore(self._book, rows, reason), rows)
        self._be_seen()
        return self._read(Book.standings)

    def check_witness(self) -> bool:
        """Whether a witness sees the ledger. Raises NotVerified where one that should is gone, or saw what is not."""
        self._consider(lambda _: None)
        return self._watching.witness is not None

    def at_once(self, ask: Callable[[Reading], Answer]) -> Answer:
        """What `ask` finds in one reading, with nothing written while it looks."""
        return self._read(lambda book: ask(Reading(book)))

    def lines(self) -> list[Line]:
        """Every line as it is kept, unread."""
        with self._entries.reading() as rows:
            return rows.since(1)

    def history(self) -> Iterator[tuple[Line, Reading]]:
        """Each line, and the ledger as it stood after it, in order; a reading is good until the next is asked for."""
        with self._entries.reading() as rows:
            lines = rows.since(1)
        book = Book()
        for line in lines:
            book.read(line)
            yield line, Reading(book)

    def verify(self) -> None:
        """Read every entry from the first. Raises NotVerified naming the first that is not what was written."""
        if self._book.length:
            with self._entries.reading() as rows:
                _catch_up(Book(), rows)
        self.domains()  # what this process read before must still be there; where it read nothing, this reads it all

    def back_up(self, file: Path) -> bool:
        """Copy the ledger to a new file; not where it is on a server. Returns whether it did."""
        return self._entries.back_up(file)

    def _read(self, ask: Callable[[Book], Answer]) -> Answer:
        with self._guard, self._entries.reading() as rows:
            _catch_up(self._book, rows)
            return ask(self._book)

    def _consider(self, decide: Callable[[Book], object]) -> None:
        """Raise what a change would raise; writes nothing."""
        with self._guard, self._entries.reading() as rows:
            decide(self._current(rows))

    def _write(self, decide: Callable[[Book], list[Entry]], ask: Callable[[Book], Answer]) -> Answer:
        with self._guard, self._entries.writing() as rows:
            self._append(decide(self._current(rows)), rows)
        self._be_seen()
        return self._read(ask)

    def _append(self, entries: list[Entry], rows: Rows) -> None:
        head, at = self._book.head, datetime.now(UTC).isoformat(timespec="seconds")
        for entry in entries:
            head = Line.after(head, entry, at)
            rows.add(head)

    def _current(self, rows: Rows) -> Book:
        """The book, up to date. Raises NotVerified where it is behind what its witness saw, or that is gone."""
        seen = self._watching.last()  # first: what it saw, the ledger then holds
        _catch_up(self._book, rows)
        self._watching.check(seen, self._book, rows)
        return self._book

    def _be_seen(self) -> None:
        """Let the witness, if there is one, see what was committed; the record says that it does, once it has."""
        if self._watching.witness is None:
            return
        with self._guard, self._entries.reading() as rows:
            _catch_up(self._book, rows)
            self._watching.show(self._book, rows)
        if not self._book.witnessed:
            with self._guard, self._entries.writing() as rows:
                _catch_up(self._book, rows)
                self._append(self._watching.announce(self._book), rows)
            self._be_seen()


def own_address(home: Path) -> str:
    """The address of a home's own ledger, which no other home shares."""
    return sqlite_address(home.absolute() / "ledger.db")


def _catch_up(book: Book, rows: Rows) -> None:
    """Read what was committed since the book's head, having seen that its head is still there."""
    known = 0 if book.head is None else book.head.seq
    lines = rows.since(known)
    if book.head is not None and lines[:1] != [book.head]:
        raise NotVerified(f"the ledger no longer holds entry {known} as it was read before")
    for line in lines if book.head is None else lines[1:]:
        book.read(line)
