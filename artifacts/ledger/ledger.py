"""The ledger: one append-only table of chained entries, and the lock under which it grows.

Privacy statement
    Assumes      costs handed to it are upper bounds; nothing is drawn that `begin_batch` did not return for
    Guarantees   what is admitted in a domain satisfies its cap (Filter), whatever process, crash or retry intervenes;
                 no step is drawn for from two exact answers, nor twice; an entry changed in place is found
                 before anything is spent
    Ends         never: entries are only added
    Not covered  an old copy of the whole database put in the place of a newer one, unless a published folder of the
                 newer one was kept (`verify --kept`); anyone who may write the database can rewrite it

A mutation is one transaction: take the writer lock, read what others wrote, decide, append. The lock is SQLite's or
PostgreSQL's own and is freed when its holder dies. The state is the fold of the entries, kept in memory and updated
from newly committed ones; a process that opens a ledger verifies the whole chain first.
Checked by tests/artifacts/ledger/test_ledger.py; with processes racing by test_ledger_race.py.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from pathlib import Path
from typing import Self, cast

from concord.artifacts.domains import Division, Domain
from concord.artifacts.errors import NotVerified
from concord.artifacts.home.atomic import is_home
from concord.artifacts.ledger.database import Entries, LedgerRows
from concord.artifacts.ledger.events import Entry, LogRecord, Remark, RemarkKind
from concord.artifacts.ledger.reading import Reading, Value
from concord.artifacts.ledger.state import LedgerState
from concord.artifacts.sessions import Batch, BatchOutcome, Draw, Opening, Session
from concord.artifacts.settings import Settings, sqlite_file

_opened: ContextVar[dict[tuple[type, str], "Ledger"] | None] = ContextVar("_opened", default=None)


@contextmanager
def opened_once() -> Iterator[None]:
    """Within the context, as during one command, the whole chain of a ledger is verified once, when it is opened first;
    later entries are verified as they are read."""
    token = _opened.set(_opened.get() or {})
    try:
        yield
    finally:
        _opened.reset(token)


class Ledger(Reading):
    """The ledger at one database URL. Threads may share it; each process opens its own."""

    def __init__(self, url: str) -> None:
        """Open the ledger, made if missing. Raises NotVerified if the database is not a ledger."""
        super().__init__(LedgerState())
        self._entries = Entries(url)
        self._guard = threading.Lock()

    @classmethod
    def of(cls, home: Path) -> Self:
        """The ledger of a home folder: the database CONCORD_LEDGER names, or HOME/ledger.db, its owner's alone."""
        url, opened = Settings.now().ledger_of(home), _opened.get()
        if opened is None:
            return cls(url)
        if (cls, url) not in opened:
            opened[cls, url] = cls(url)
        return cast(Self, opened[cls, url])

    @staticmethod
    def is_there(home: Path) -> bool:
        """Whether a home has a ledger: opening one that is missing would make it."""
        file = sqlite_file(Settings.now().ledger_of(home))
        return is_home(home) if file is None else file.is_file()

    def name_domain(self, name: str, *, unit: str, neighbours: str, epsilon: float, delta: float) -> Domain:
        """The domain, frozen when it is first named. Raises WrongInput naming the field that differs from then."""
        domain = Domain.frozen(name, unit=unit, neighbours=neighbours, epsilon=epsilon, delta=delta)
        return self._write(lambda state: state.name(domain), lambda state: state.domain(name))

    def plan_domain(self, name: str, *, unit: str, neighbours: str, epsilon: float, delta: float) -> Domain:
        """The domain as `name_domain` would give it; writes nothing. Raises what `name_domain` would raise."""
        domain = Domain.frozen(name, unit=unit, neighbours=neighbours, epsilon=epsilon, delta=delta)
        self._consider(lambda state: state.name(domain))
        return self.domain(name) or domain

    def recap(self, name: str, epsilon: float, delta: float, reason: str) -> Domain:
        """Change a domain's cap, on the record. Raises BudgetRefused if more than that is charged already."""
        return self._write(lambda state: state.recap(name, epsilon, delta, reason), lambda state: state.domain(name))

    def divide(self, domain: str, division: Division) -> None:
        """Divide the domain's units, once. Raises WrongInput if another share or naming rule is on the record."""
        self._write(lambda state: state.divide(domain, division), lambda _: None)

    def check_division(self, domain: str, division: Division) -> None:
        """Raise what `divide` would raise, for a domain named already or not; writes nothing."""
        self._consider(lambda state: state.parts.is_new(domain, division))

    def remark(self, domain: str, kind: RemarkKind, about: str, reason: str = "") -> None:
        """Record a remark on a domain, unless the same one is on the record already.

        Raises WrongInput for an unknown domain or an open session.
        """
        remark = Remark(kind=kind, about=about, reason=reason)
        self._write(lambda state: state.remark(domain, remark), lambda _: None)

    def hold(self, domain: str, files: Iterable[str]) -> None:
        """Record that the domain holds those private files, by keyed digests of their names.

        Raises WrongInput if another domain holds one of them.
        """
        self._write(lambda state: state.hold(domain, files), lambda _: None)

    def check_holding(self, domain: str, files: Iterable[str]) -> None:
        """Raise what `hold` would raise, for a domain named already or not; writes nothing."""
        self._consider(lambda state: state.remarks.check_holding(domain, files))

    def check_opening(self, opening: Opening, domain: Domain, *, further: bool = False) -> None:
        """Raise what `open_session` would raise in that domain, named already or not; spends nothing."""
        self._consider(lambda state: state.having(domain).open(opening, further=further))

    def open_session(self, opening: Opening, *, further: bool = False) -> Session:
        """Reserve the whole cost of a session. `further` allows one more in a domain that has some already.

        Raises BudgetRefused if the filter does not admit it or a further session was not asked for, WrongInput
        if the id is taken, NotVerified if its key has served before.
        """
        return self._write(lambda state: state.open(opening, further=further), lambda state: state.session(opening.id))

    def begin_batch(self, session: str, batch: Batch) -> Batch:
        """Record a batch before any draw. Returns the batch on record, with its outcome if it was committed.

        Raises NotVerified if the record differs, naming what changed (position, question or exact answer), or if it is
        not the session's next batch; BudgetRefused if nothing is left to draw.
        """
        return self._write(
            lambda state: state.begin(session, batch),
            lambda state: state.batches(session, batch.index, batch.index + 1)[0],
        )

    def record_draw(self, session: str, draw: Draw) -> None:
        """Record what was drawn for a begun batch, before anything made of it is seen.

        Raises NotVerified if another draw of that name is on record, as by another copy of the vault.
        """
        self._write(lambda state: state.draw(session, draw), lambda _: None)

    def commit_batch(self, session: str, outcome: BatchOutcome) -> Session:
        """Record what a batch released, once it is durable; a session at its end is settled in the same transaction.

        Raises NotVerified if the counts are impossible, or if the batch was committed with different ones.
        """
        return self._write(lambda state: state.commit(session, outcome), lambda state: state.session(session))

    def settle(self, session: str, *, give_back: bool) -> Session:
        """Close a session; with `give_back`, what it reserved and did not spend returns to the domain."""
        return self._write(
            lambda state: state.settle(session, give_back=give_back), lambda state: state.session(session)
        )

    def restore(self, reason: str) -> None:
        """Go on from an older copy: every open session is charged whole and closed. Raises WrongInput if there is no
        domain."""
        self._write(lambda state: state.restore(reason), lambda _: None)

    def at_once(self, ask: Callable[[Reading], Value]) -> Value:
        """The result of `ask` on one consistent reading."""
        return self._read(lambda state: ask(Reading(state)))

    def now(self) -> datetime:
        """The time, and none before that of the last entry: the clock may have been set back since."""
        now, last = datetime.now(UTC), self._read(lambda state: state.head)
        if last is None:
            return now
        try:
            return max(now, datetime.fromisoformat(last.at))
        except (ValueError, TypeError):
            raise NotVerified(f"entry {last.seq} of the ledger must state a time, got {last.at!r}") from None

    def records(self) -> list[LogRecord]:
        """Every record as it is stored, without a check."""
        with self._entries.reading() as rows:
            return rows.since(1)

    def history(self) -> Iterator[tuple[LogRecord, Reading]]:
        """Each record with the ledger's state after it, in order; a reading is valid until the next is taken."""
        with self._entries.reading() as rows:
            records = rows.since(1)
        state = LedgerState()
        for record in records:
            state.read(record)
            yield record, Reading(state)

    def verify(self) -> None:
        """Verify every entry from the first. Raises NotVerified naming the first that is not what was written."""
        if self._state.length:
            with self._entries.reading() as rows:
                _catch_up(LedgerState(), rows)
        self.domains()  # entries this process read before must still be there; if it read none, this reads all

    def _read(self, ask: Callable[[LedgerState], Value]) -> Value:
        with self._guard, self._entries.reading() as rows:
            _catch_up(self._state, rows)
            return ask(self._state)

    def _consider(self, decide: Callable[[LedgerState], object]) -> None:
        """Raise what the change would raise; writes nothing."""
        with self._guard, self._entries.reading() as rows:
            _catch_up(self._state, rows)
            decide(self._state)

    def _write(self, decide: Callable[[LedgerState], list[Entry]], ask: Callable[[LedgerState], Value]) -> Value:
        with self._guard:
            with self._entries.writing() as rows:
                _catch_up(self._state, rows)
                added = self._append(decide(self._state), rows)
            for record in added:  # durable now; the next reading checks that they are there
                self._state.read(record)
            return ask(self._state)

    def _append(self, entries: list[Entry], rows: LedgerRows) -> list[LogRecord]:
        head, at, added = self._state.head, datetime.now(UTC).isoformat(timespec="seconds"), list[LogRecord]()
        for entry in entries:
            head = LogRecord.after(head, entry, at)
            added.append(head)
            rows.add(head)
        return added


def _catch_up(state: LedgerState, rows: LedgerRows) -> None:
    """Read what was committed since the state's head, after a check that the head is still there."""
    last = 0 if state.head is None else state.head.seq
    records = rows.since(last)
    if state.head is not None and records[:1] != [state.head]:
        raise NotVerified(f"the ledger no longer holds entry {last} as it was read before")
    for record in records if state.head is None else records[1:]:
        state.read(record)
