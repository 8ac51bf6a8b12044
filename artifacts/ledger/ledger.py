"""Reading: what a ledger says to whoever asks, as it stands now or as it stood after an earlier entry.

The ledger: one append-only table of chained entries, and the lock under which it grows.

Privacy statement
    Assumes      costs handed to it are upper bounds; nothing is drawn that `begin_batch` did not return for
    Guarantees   what is admitted in a domain satisfies its cap (Filter), whatever process, crash or retry intervenes;
                 no row is drawn under two sets of votes; an entry changed in place is found before anything is spent
    Ends         never: entries are only added
    Not covered  an old copy of the whole database put in the place of a newer one, unless a witness saw the newer one
                 (artifacts.ledger.witness); who may write it can rewrite it

A mutation is one transaction: take the writer lock, read what others wrote, decide, append. The lock is SQLite's or
PostgreSQL's own and is freed when its holder dies. The state is the fold of the entries, kept in memory and brought up
to date from what was committed; a process that opens a ledger verifies the whole chain first.
Checked by tests/artifacts/ledger/test_ledger.py; with processes racing by test_ledger_race.py, with a witness by
test_witness.py beside it.
"""

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from concord.artifacts.errors import NotVerified, sqlite_address
from concord.artifacts.ledger.database import Entries, Rows
from concord.artifacts.ledger.events import Entry, LogRecord, Remark, RemarkKind, Standing
from concord.artifacts.ledger.state import LedgerState
from concord.artifacts.ledger.witness import Watching, Witness
from concord.artifacts.privacy import Charge
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Batch, BatchOutcome, Domain, Opening, Session

Value = TypeVar("Value")


class Reading:
    """What one book says. `artifacts.ledger.ledger.Ledger` is a reading that brings its book up to date at every
    question.
    """

    def __init__(self, book: LedgerState) -> None:
        self._book = book

    def domain(self, name: str) -> Domain | None:
        """The domain of that name, if there is one."""
        return self._read(lambda book: book.domains.get(name))

    def domains(self) -> tuple[Domain, ...]:
        """Every domain, in the order they were named."""
        return self._read(lambda book: tuple(book.domains.values()))

    def linked(self, domain: str) -> tuple[Domain, ...]:
        """The domains it is linked to on the record, by one link or by several, of those that were named yet."""
        others = self._read(lambda book: book.remarks.linked(domain))
        return tuple(domain for domain in self.domains() if domain.name in others)

    def session(self, name: str) -> Session:
        """The session of that id. Raises WrongInput where there is none."""
        return self._read(lambda book: book.session(name))

    def sessions(self, domain: str) -> tuple[Session, ...]:
        """The domain's sessions, in the order they were opened."""
        return self._read(lambda book: book.sessions_of(domain))

    def batches(self, session: str) -> tuple[Batch, ...]:
        """The session's batches so far, with the outcomes of those committed."""
        return self._read(lambda book: book.batches(session))

    def remarks(self, domain: str) -> tuple[Remark, ...]:
        """What was remarked of the domain, in order; nothing for a domain without remarks."""
        return self._read(lambda book: book.remarks.on(domain))

    def total(self, domain: str) -> Charge:
        """Everything settled and reserved in the domain, and what was lost to an older copy."""
        return self._read(lambda book: book.total(domain))

    def lost(self, domain: str) -> Charge:
        """What restorations charged for sessions that the ledger no longer knows."""
        return self._read(lambda book: book.lost(domain))

    @property
    def witnessed(self) -> bool:
        """Whether the record says that a witness outside sees every change."""
        return self._read(lambda book: book.witnessed)

    @property
    def lost_its_witness(self) -> bool:
        """Whether the record says that a witness was gone once, and how far it had seen is not known."""
        return self._read(lambda book: book.lost_its_witness)

    @property
    def restored(self) -> bool:
        """Whether it went on once without all that its witness had seen."""
        return self._read(lambda book: bool(book.restored) or book.lost_its_witness)

    def _read(self, ask: Callable[[LedgerState], Value]) -> Value:
        return ask(self._book)


class Ledger(Reading):
    """The ledger at one database URL. Safe to share between threads; processes open it each for themselves."""

    def __init__(self, url: str, witness: Witness | None = None) -> None:
        """Open the ledger, making it where there is none. Raises NotVerified where the database is not a ledger.

        With a witness every change is seen by it before it is acted on, and none is made behind what it saw; a ledger
        that says it is witnessed is not changed without.
        """
        super().__init__(LedgerState())
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
        outcome = BatchOutcome(index=index, asked=asked, answered=answered, refused=refused, released=released)
        return self._write(lambda book: book.commit(session, outcome), lambda book: book.session(session))

    def settle(self, session: str, *, give_back: bool) -> Session:
        """Close a session; with `give_back`, where it pays by refusal, what was not spent returns to the domain."""
        return self._write(lambda book: book.settle(session, give_back=give_back), lambda book: book.session(session))

    def restore(self, reason: str) -> tuple[Standing, ...]:
        """Go on where ledger and witness differ (`artifacts.ledger.witness`); what each domain is charged from now on.

        Every open session is charged whole and closed. Raises WrongInput where nothing is to be restored, NotVerified
        where what was spent cannot be told.
        """
        with self._guard, self._entries.writing() as rows:
            _catch_up(self._book, rows)
            self._append(self._watching.restore(self._book, rows, reason), rows)
        self._be_seen()
        return self._read(LedgerState.standings)

    def check_witness(self) -> bool:
        """Whether a witness sees the ledger. Raises NotVerified where one that should is gone, or saw what is not."""
        self._consider(lambda _: None)
        return self._watching.witness is not None

    def at_once(self, ask: Callable[[Reading], Value]) -> Value:
        """What `ask` finds in one reading, with nothing written while it looks."""
        return self._read(lambda book: ask(Reading(book)))

    def lines(self) -> list[LogRecord]:
        """Every line as it is kept, unread."""
        with self._entries.reading() as rows:
            return rows.since(1)

    def history(self) -> Iterator[tuple[LogRecord, Reading]]:
        """Each line, and the ledger as it stood after it, in order; a reading is good until the next is asked for."""
        with self._entries.reading() as rows:
            lines = rows.since(1)
        book = LedgerState()
        for line in lines:
            book.read(line)
            yield line, Reading(book)

    def verify(self) -> None:
        """Read every entry from the first. Raises NotVerified naming the first that is not what was written."""
        if self._book.length:
            with self._entries.reading() as rows:
                _catch_up(LedgerState(), rows)
        self.domains()  # what this process read before must still be there; where it read nothing, this reads it all

    def back_up(self, file: Path) -> bool:
        """Copy the ledger to a new file; not where it is on a server. Returns whether it did."""
        return self._entries.back_up(file)

    def _read(self, ask: Callable[[LedgerState], Value]) -> Value:
        with self._guard, self._entries.reading() as rows:
            _catch_up(self._book, rows)
            return ask(self._book)

    def _consider(self, decide: Callable[[LedgerState], object]) -> None:
        """Raise what a change would raise; writes nothing."""
        with self._guard, self._entries.reading() as rows:
            decide(self._current(rows))

    def _write(self, decide: Callable[[LedgerState], list[Entry]], ask: Callable[[LedgerState], Value]) -> Value:
        with self._guard, self._entries.writing() as rows:
            self._append(decide(self._current(rows)), rows)
        self._be_seen()
        return self._read(ask)

    def _append(self, entries: list[Entry], rows: Rows) -> None:
        head, at = self._book.head, datetime.now(UTC).isoformat(timespec="seconds")
        for entry in entries:
            head = LogRecord.after(head, entry, at)
            rows.add(head)

    def _current(self, rows: Rows) -> LedgerState:
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


def _catch_up(book: LedgerState, rows: Rows) -> None:
    """Read what was committed since the book's head, having seen that its head is still there."""
    known = 0 if book.head is None else book.head.seq
    lines = rows.since(known)
    if book.head is not None and lines[:1] != [book.head]:
        raise NotVerified(f"the ledger no longer holds entry {known} as it was read before")
    for line in lines if book.head is None else lines[1:]:
        book.read(line)


def domain_of(session: Session, ledger: Reading) -> Domain:
    """The domain a session is charged to: the ledger has one for every session it holds."""
    return next(domain for domain in ledger.domains() if domain.name == session.domain)
