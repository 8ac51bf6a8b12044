"""Prefect's database in a home folder: a record of runs for people to look at, and no authority.

Nothing that decides is read from it; but a server over a damaged one hangs, or fails in the middle of a run. So one
that is not sound is set aside, under another name in the same folder, and the server makes a new one.

Assumes      commands of a home share its disk, whose locks hold (`flock`)
Guarantees   what a server opens is a database that can be written, of sound pages, without triggers, which would change
             what the server is told; one that another command uses is left alone
Not covered  a database that the environment names, or a server's: they are not of this folder. Damage that a look of
             PATIENCE does not reach. Checked by tests/flows/test_prefect_database.py
"""

import fcntl
import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from artifacts.addresses import sqlite_address

DATABASE = "PREFECT_SERVER_DATABASE_CONNECTION_URL"
NAMED = ("PREFECT_API_URL", DATABASE, "PREFECT_API_DATABASE_CONNECTION_URL")
PATIENCE = 2.0
"""Seconds that a look takes at most, and that a lock of nobody's is waited for."""


@contextmanager
def sound_database(home: Path) -> Iterator[None]:
    """While it lasts, no other command sets aside the database that Prefect's server in this home uses."""
    folder = home / "prefect"
    ours = {"", str(folder), sqlite_address(folder / "prefect.db", "aiosqlite")}
    if not {os.environ.get(name, "") for name in (*NAMED, "PREFECT_HOME")} <= ours:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        if _alone(descriptor) and (fault := _fault(folder / "prefect.db")):
            kept = _set_aside(folder / "prefect.db")
            sys.stderr.write(f"concord: Prefect's record of runs {fault}: kept as {kept}, and begun anew\n")
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield
    finally:
        os.close(descriptor)


def _alone(descriptor: int) -> bool:
    """Whether no other command uses the database; if so, none begins to."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _fault(database: Path) -> str | None:
    """What is wrong with the database that nobody uses, if there is one and anything is."""
    if not os.path.lexists(database):
        return None
    if not os.access(database, os.R_OK | os.W_OK) or not database.is_file():
        return "cannot be written"
    try:
        with closing(sqlite3.connect(database, timeout=PATIENCE, isolation_level=None)) as opened:
            return _fault_inside(opened)
    except sqlite3.OperationalError as failed:
        return f"cannot be used ({failed})"
    except sqlite3.DatabaseError:
        return "is damaged"


def _fault_inside(database: sqlite3.Connection) -> str | None:
    database.execute("BEGIN IMMEDIATE")
    database.execute("ROLLBACK")
    if database.execute("SELECT 1 FROM sqlite_master WHERE type = 'trigger'").fetchone():
        return "has triggers, which Prefect makes none of"
    until = time.monotonic() + PATIENCE
    database.set_progress_handler(lambda: time.monotonic() > until, 10_000)
    try:
        return None if database.execute("PRAGMA quick_check(1)").fetchone() == ("ok",) else "is damaged"
    except sqlite3.OperationalError as failed:
        if failed.sqlite_errorcode == sqlite3.SQLITE_INTERRUPT:
            return None  # sound, as far as the look went
        raise


def _set_aside(database: Path) -> str:
    """Give the database and what belongs to it another name, which this returns."""
    kept = f"{database.name}.{datetime.now(UTC):%Y%m%dT%H%M%S%f}"
    for end in ("", "-wal", "-shm", "-journal"):
        if os.path.lexists(file := database.with_name(database.name + end)):
            file.rename(database.with_name(kept + end))
    return kept
