"""The ledger's table in its database: records are read and appended under the database's own lock.

Assumes      PostgreSQL that syncs (`fsync`, its default), whatever its defaults of commits and isolation are, or SQLite
             on a disk of this machine; file systems known to be shared are refused
Guarantees   one writer at a time; records are durable when a transaction ends, all of them or none; the lock is freed
             when its holder dies. Another user's file is not written, and one with anything in it but the table as it
             was made, such as a trigger or a view, is not opened
Not covered  what the records say: artifacts.ledger.events reads them; what else a server's database holds. Checked by
             tests/artifacts/ledger/test_ledger_database.py and tests/promises/test_lost_commits.py
"""

import hashlib
import os
import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
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
from sqlalchemy.dialects import sqlite
from sqlalchemy.engine import Engine, make_url
from sqlalchemy.exc import ArgumentError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool
from sqlalchemy.schema import CreateTable

from concord.artifacts.errors import EnvironmentFailed, NotVerified, WrongInput
from concord.artifacts.ledger.events import LogRecord
from concord.artifacts.settings import sqlite_file

PAGE = 10_000
"""Records that are read at once: about a tenth of a second."""
LOCK_WAIT = 60
"""Seconds to wait for another process's transaction."""

MAY_NOT_WRITE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM)
"""Errors of SQLite if a file, or its folder, is somebody else's."""

MOUNTS = Path("/proc/self/mounts")
SHARED = re.compile(
    r"nfs\d?|cifs|smb\w*|afs|fuse\.(sshfs|s3fs|gcsfuse|goofys|mount-s3|mountpoint-s3|rclone|blobfuse2?)"
)
"""File systems that other machines write to as well, and object stores mounted as one. Not 9p: sandboxes and virtual
machines give that name to a disk of their own host."""
LOCK_KEY = int.from_bytes(hashlib.sha256(b"concord ledger").digest()[:8], "big", signed=True)
METADATA = MetaData()
ENTRIES = Table(
    "entries",
    METADATA,
    Column("seq", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=False),
    *(Column(name, Text, nullable=False) for name in ("at", "domain", "session", "kind", "body")),
    Column("previous", Text, nullable=False, unique=True),
    Column("digest", Text, nullable=False),
)
MADE = " ".join(str(CreateTable(ENTRIES).compile(dialect=sqlite.dialect())).split())
"""The statement by which SQLite keeps the table: defaults and conflict rules of its columns would be in it."""


class LedgerRows:
    """The records, as one reading or one transaction sees them."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def since(self, seq: int) -> list[LogRecord]:
        """The records from number `seq` on, in order. They are read by the PAGE: who adds one waits for no more."""
        records, page = list[LogRecord](), self._page(ENTRIES.c.seq >= seq)
        while page:
            records += page
            page = self._page(ENTRIES.c.seq > page[-1].seq) if len(page) == PAGE else []
        return records

    def _page(self, condition: ColumnElement[bool]) -> list[LogRecord]:
        rows = self._connection.execute(select(ENTRIES).where(condition).order_by(ENTRIES.c.seq).limit(PAGE))
        return [LogRecord(**row) for row in rows.mappings()]

    def add(self, record: LogRecord) -> None:
        """Add a record; it is durable when the transaction ends."""
        self._connection.execute(insert(ENTRIES), asdict(record))


class Entries:
    """The table at one database URL."""

    def __init__(self, url: str) -> None:
        """Open the table, made if missing. Raises NotVerified if the database is not a ledger."""
        self.engine, self.file = _engine(url), sqlite_file(url)
        with self._in_one_sentence(), self.engine.connect() as connection:
            there = _recognised(connection)  # reading needs no lock and no permission to write
        if not there:
            with self._in_one_sentence(), self._transaction() as connection:
                if not _recognised(connection):
                    METADATA.create_all(connection, checkfirst=False)

    @contextmanager
    def reading(self) -> Iterator[LedgerRows]:
        """The records as they are, for reading."""
        with self._in_one_sentence(), self.engine.connect() as connection:
            yield LedgerRows(connection)

    @contextmanager
    def writing(self) -> Iterator[LedgerRows]:
        """The records; nobody else can append to them until the context ends."""
        with self._in_one_sentence(), self._transaction() as connection:
            yield LedgerRows(connection)

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """A transaction that holds the writer lock from its first statement and is durable when it ends."""
        with self.engine.connect() as connection:
            if self.engine.dialect.name == "sqlite":
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:
                # else, by a server's default, what is read could be from before the lock was waited for
                connection.execute(text("SET TRANSACTION ISOLATION LEVEL READ COMMITTED"))
                connection.execute(text("SET LOCAL synchronous_commit = on"))
                connection.execute(text(f"SET LOCAL lock_timeout = '{LOCK_WAIT}s'"))
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK_KEY})
            yield connection
            connection.commit()

    @contextmanager
    def _in_one_sentence(self) -> Iterator[None]:
        """Raise database errors as our own: EnvironmentFailed for the machine's, NotVerified for a changed database."""
        try:
            yield
        except SQLAlchemyError as failed:
            cause = getattr(failed, "orig", None) or failed
            message = " ".join(str(cause).split())
            code = getattr(cause, "sqlite_errorcode", None)
            if code is not None and code & 0xFF in MAY_NOT_WRITE and self.file is not None:
                raise EnvironmentFailed(
                    f"the ledger {self.file} cannot be found or written ({message}): restore it, or make the file and "
                    "its folder writable"
                ) from None
            refuses = str(getattr(cause, "sqlstate", "")).startswith(("25", "42501"))  # read-only, idle, or no right
            if refuses or (isinstance(failed, OperationalError | InterfaceError) and code != sqlite3.SQLITE_ERROR):
                raise EnvironmentFailed(f"the ledger's database failed: {message}") from None
            advice = "put a copy in its place, and run `concord restore`"
            raise NotVerified(f"the ledger's database cannot be read ({message}): {advice}") from None


def _engine(url: str) -> Engine:
    """The engine of a database. A missing SQLite file is created, readable by its owner alone."""
    try:
        parsed = make_url(url)
        engine = create_engine(parsed, poolclass=NullPool, hide_parameters=True)
    except ArgumentError:
        raise WrongInput("the ledger's address must be a database URL such as sqlite:////folder/ledger.db") from None
    except ImportError as missing:
        raise EnvironmentFailed(
            f"the ledger's database needs the package {missing.name}: {sys.executable} -m pip install {missing.name}"
        ) from None
    if engine.dialect.name != "sqlite":
        return engine
    file = sqlite_file(url) or Path()
    _check_local(file)
    try:
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as failed:
        raise EnvironmentFailed(f"the ledger {file} cannot be opened: {failed.strerror}") from None

    @event.listens_for(engine, "connect")
    def durable(connection: sqlite3.Connection, _: Any) -> None:
        connection.isolation_level = None  # transactions begin where this file begins them
        # A cell that is not UTF-8 was tampered with: it must reach the chain's check, not fail while it is fetched.
        connection.text_factory = lambda cell: cell.decode(errors="surrogateescape")
        connection.execute(f"PRAGMA busy_timeout = {LOCK_WAIT * 1000}")
        connection.execute("PRAGMA synchronous = EXTRA")  # syncs the folder as well: a commit survives a power cut

    return engine


def _check_local(file: Path) -> None:
    """Raise EnvironmentFailed if the file lies where SQLite's locks and syncs are not known to hold."""
    try:
        lines = os.fsdecode(MOUNTS.read_bytes()).split("\n") if MOUNTS.exists() else []
        place = file.absolute().resolve()
    except (OSError, RuntimeError):  # a link to itself, which cannot be opened either
        return
    mounted = [line.split(" ") for line in lines if line.count(" ") > 1]  # not at a tab, which a name may have
    mounts = {Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), words[1])): words[2] for words in mounted}
    kind = next((mounts[folder] for folder in (place, *place.parents) if folder in mounts), "")
    if SHARED.fullmatch(kind):
        raise EnvironmentFailed(
            f"the ledger {file} lies on a shared file system ({kind}), whose locks may not hold: let CONCORD_LEDGER "
            "name a PostgreSQL database, or a file on a disk of this machine"
        )


def _recognised(connection: Connection) -> bool:
    """Whether the database holds a ledger. Raises NotVerified if that is not as it was made; a file may hold nothing
    else, since a trigger would change what is written."""
    if connection.dialect.name != "sqlite":
        tables = inspect(connection)
        there = tables.has_table(ENTRIES.name)
        if there and [column["name"] for column in tables.get_columns(ENTRIES.name)] != ENTRIES.columns.keys():
            raise NotVerified("the database holds a table of entries that is not a ledger's")
        return there
    schema = connection.exec_driver_sql("SELECT type, name, sql FROM sqlite_master").all()
    ours = {("table", ENTRIES.name, MADE), ("index", f"sqlite_autoindex_{ENTRIES.name}_1", "")}
    stored = {(kind, name, " ".join((made or "").split())) for kind, name, made in schema}
    if strange := sorted(f"{kind} {name!r}" for kind, name, _ in stored - ours):
        raise NotVerified(
            f"the database is not a ledger, or was changed: it holds the {', the '.join(strange)}, and a ledger "
            "holds its table of entries as it was made, and nothing else"
        )
    return bool(stored)
