"""The ledger: one append-only table of chained entries, and the lock under which it grows.

Privacy statement
    Assumes      costs handed to it are upper bounds; nothing is drawn that `begin_batch` did not return for
    Guarantees   what is admitted in a domain satisfies its cap (Filter), whatever process, crash or retry intervenes;
                 no row is drawn under two sets of votes; an entry changed in place is found before anything is spent
    Ends         never: entries are only added
    Not covered  an old copy of the whole database put in the place of a newer one; who may write it can rewrite it

A mutation is one transaction: take the writer lock, read what others wrote, decide, append. The lock is SQLite's or
PostgreSQL's own and is freed when its holder dies. The state is the fold of the entries, kept in memory and brought up
to date from what was committed; a process that opens a ledger verifies the whole chain first.
Checked by tests/test_ledger.py and, with processes racing, tests/test_ledger_race.py.
"""

import hashlib
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    MetaData,
    Table,
    Text,
    create_engine,
    event,
    insert,
    inspect,
    select,
    text,
)
from sqlalchemy.engine import Engine, make_url
from sqlalchemy.exc import ArgumentError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from artifacts.book import Book
from artifacts.chain import Entry, Line
from artifacts.errors import EnvironmentFailed, NotVerified, WrongInput
from artifacts.privacy import Charge
from artifacts.remarks import Remark, RemarkKind
from artifacts.schemas import Ref
from artifacts.sessions import Batch, Domain, Opening, Outcome, Session

Answer = TypeVar("Answer")

LOCK_WAIT = 60
"""Seconds a process waits for another one's transaction."""

LOCK_KEY = int.from_bytes(hashlib.sha256(b"concord ledger").digest()[:8], "big", signed=True)
TABLES = MetaData()
ENTRIES = Table(
    "entries",
    TABLES,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    *(Column(name, Text, nullable=False) for name in ("at", "domain", "session", "kind", "body")),
    Column("previous", Text, nullable=False, unique=True),
    Column("digest", Text, nullable=False),
)


class Ledger:
    """The ledger at one database URL. Safe to share between threads; processes open it each for themselves."""

    def __init__(self, url: str) -> None:
        """Open the ledger, making it where there is none. Raises NotVerified where the database is not a ledger."""
        self._engine = _engine(url)
        self._guard = threading.Lock()
        self._book = Book()
        with _told_in_one_sentence(), self._transaction() as connection:
            _make_or_recognise(connection)

    @classmethod
    def of(cls, home: Path) -> "Ledger":
        """The ledger of a home folder: the database CONCORD_LEDGER names, or HOME/ledger.db, its owner's alone."""
        return cls(os.environ.get("CONCORD_LEDGER", f"sqlite:///{home.absolute() / 'ledger.db'}"))

    def name_domain(self, name: str, *, unit: str, neighbours: str, epsilon: float, delta: float) -> Domain:
        """The domain, frozen at its first mention. Raises WrongInput naming the field that is not what was frozen."""
        asked = Domain.frozen(name, unit=unit, neighbours=neighbours, epsilon=epsilon, delta=delta)
        return self._write(lambda book: book.name(asked), lambda book: book.domain(name))

    def plan_domain(self, name: str, *, unit: str, neighbours: str, epsilon: float, delta: float) -> Domain:
        """The domain as `name_domain` would give it; writes nothing. Raises what `name_domain` would raise."""
        asked = Domain.frozen(name, unit=unit, neighbours=neighbours, epsilon=epsilon, delta=delta)
        self._read(lambda book: book.name(asked))
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

    def check_opening(self, opening: Opening, domain: Domain, *, further: bool = False) -> None:
        """Whether `open_session` would open it in that domain, named already or not; spends nothing.

        Raises what `open_session` would raise.
        """
        self._read(lambda book: book.having(domain).open(opening, further=further))

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

    def domain(self, name: str) -> Domain | None:
        """The domain of that name, if there is one."""
        return self._read(lambda book: book.domains.get(name))

    def domains(self) -> tuple[Domain, ...]:
        """Every domain, in the order they were named."""
        return self._read(lambda book: tuple(book.domains.values()))

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
        return self._read(lambda book: book.remarks_on(domain))

    def total(self, domain: str) -> Charge:
        """Everything settled and reserved in the domain."""
        return self._read(lambda book: book.total(domain))

    def verify(self) -> None:
        """Read every entry again from the first. Raises NotVerified naming the first that is not what was written."""
        with _told_in_one_sentence(), self._engine.connect() as connection:
            _catch_up(Book(), connection)
        self.domains()  # what this process read before must still be there as well

    def _read(self, ask: Callable[[Book], Answer]) -> Answer:
        with self._guard, _told_in_one_sentence(), self._engine.connect() as connection:
            _catch_up(self._book, connection)
            return ask(self._book)

    def _write(self, decide: Callable[[Book], list[Entry]], ask: Callable[[Book], Answer]) -> Answer:
        with self._guard, _told_in_one_sentence(), self._transaction() as connection:
            _catch_up(self._book, connection)
            head, at = self._book.head, datetime.now(UTC).isoformat(timespec="seconds")
            for entry in decide(self._book):
                head = Line.after(head, entry, at)
                connection.execute(insert(ENTRIES), asdict(head))
        return self._read(ask)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """A transaction that holds the writer lock from its first statement and is durable when it ends."""
        with self._engine.connect() as connection:
            if self._engine.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:
                connection.execute(text("SET LOCAL synchronous_commit = on"))
                connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_WAIT}s'"))
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_KEY})
            yield connection
            connection.commit()


def _catch_up(book: Book, connection: Connection) -> None:
    """Read what was committed since the book's head, having seen that its head is still there."""
    known = 0 if book.head is None else book.head.seq
    rows = connection.execute(select(ENTRIES).where(ENTRIES.c.seq >= known).order_by(ENTRIES.c.seq))
    lines = [Line(**row) for row in rows.mappings()]
    if book.head is not None and lines[:1] != [book.head]:
        raise NotVerified(f"the ledger no longer holds entry {known} as it was read before")
    for line in lines if book.head is None else lines[1:]:
        book.read(line)


def _engine(url: str) -> Engine:
    try:
        parsed = make_url(url)
        engine = create_engine(parsed, poolclass=NullPool, hide_parameters=True)
    except ArgumentError:
        raise WrongInput("the ledger's address must be a database URL such as sqlite:////folder/ledger.db") from None
    except ImportError as missing:
        raise EnvironmentFailed(f"the ledger's database needs the package {missing.name}") from None
    if engine.dialect.name == "sqlite":
        _bear(Path(parsed.database or ""))
        event.listen(engine, "connect", _durable)
    return engine


def _bear(file: Path) -> None:
    """An empty database file that nobody else may read, unless there is one."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as failed:
        raise EnvironmentFailed(f"the ledger {file} cannot be opened: {failed.strerror}") from None


def _durable(connection: sqlite3.Connection, _: Any) -> None:
    connection.isolation_level = None  # transactions begin where this file begins them
    # A cell that is not UTF-8 has been tampered with: it must reach the chain's check, not fail while it is fetched.
    connection.text_factory = lambda cell: cell.decode(errors="surrogateescape")
    connection.execute(f"PRAGMA busy_timeout = {LOCK_WAIT * 1000}")
    connection.execute("PRAGMA synchronous = EXTRA")  # syncs the folder as well: a commit survives a power cut


def _make_or_recognise(connection: Connection) -> None:
    tables = inspect(connection)
    if tables.has_table(ENTRIES.name):
        if [column["name"] for column in tables.get_columns(ENTRIES.name)] != ENTRIES.columns.keys():
            raise NotVerified("the database holds a table of entries that is not a ledger's")
    elif connection.dialect.name == "sqlite" and tables.get_table_names():
        raise NotVerified("the database holds other tables and is not a ledger")
    else:
        TABLES.create_all(connection, checkfirst=False)


@contextmanager
def _told_in_one_sentence() -> Iterator[None]:
    """Database errors as ours: the machine's failures apart from a database that is not what it was."""
    try:
        yield
    except SQLAlchemyError as failed:
        cause = getattr(failed, "orig", None) or failed
        said = " ".join(str(cause).split())
        wrong_content = getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_ERROR
        if isinstance(failed, OperationalError | InterfaceError) and not wrong_content:
            raise EnvironmentFailed(f"the ledger's database failed: {said}") from None
        raise NotVerified(f"the ledger's database cannot be read: {said}") from None
