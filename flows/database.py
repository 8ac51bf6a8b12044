"""Prefect's database in a home folder: a record of runs for people to read, and not an authority.

No decision depends on it, but a server over a damaged database hangs, or fails in the middle of a run. So a damaged one
is set aside, under another name in the same folder, and the server makes a new one.

Assumes      commands of a home share its disk, whose locks hold (`flock`)
Guarantees   a server opens a writable database with intact pages and without triggers, which would change what is sent
             to the server; a database that another command uses is left alone. Apart from damaged ones set aside, a
             home holds at most two, each of LARGEST_DATABASE plus what one command adds
Not covered  a database or server that the environment names. Damage that a check of PATIENCE seconds does not reach.
             Checked by tests/flows/test_prefect_database.py

`python -m concord.flows.database` has Prefect and MLflow make the empty databases that are copied into new homes, once
per installation (artifacts/home/empty.py).
"""

import asyncio
import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import chdir, closing, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from concord.artifacts.home.empty import copy_empty, keep_as_empty
from concord.artifacts.home.whole import passing_folder, take_lock
from concord.artifacts.settings import JOURNALS, sqlite_address

DATABASE = "PREFECT_SERVER_DATABASE_CONNECTION_URL"
NAMED = ("PREFECT_API_URL", DATABASE, "PREFECT_API_DATABASE_CONNECTION_URL")
PATIENCE = 2.0
"""The most seconds for a check of the database, and to wait for its lock."""
LARGEST_DATABASE = 1 << 25
"""Bytes beyond which a new database is begun: a demonstration run adds some 400 kB, one of many tasks 6 MB."""


@contextmanager
def sound_database(home: Path) -> Iterator[None]:
    """Within the block, the home's Prefect database is sound, and no other command sets it aside."""
    if not _is_own(home):
        yield
        return
    descriptor = os.open(home / "prefect", os.O_RDONLY)
    try:
        if take_lock(descriptor, wait=False):
            _begin_anew_if_needed(_place(home))
        take_lock(descriptor, shared=True)
        try:
            yield
        finally:
            _fold(_place(home))
    finally:
        os.close(descriptor)


def is_made(home: Path) -> bool:
    """Whether the home has a database, after copying an empty one if possible; if not, its first server makes one."""
    place = _place(home)
    if place.exists() or not _is_own(home):
        return place.exists()
    with passing_folder(place, home) as folder:
        copy = folder / place.name
        if copied := copy_empty("prefect", copy) and _fault(copy) is None:
            for end in JOURNALS:  # SQLite would apply the journal of a removed database to this one
                place.with_name(place.name + end).unlink(missing_ok=True)
            copy.replace(place)
        return copied


def _place(home: Path) -> Path:
    return home / "prefect" / "prefect.db"


def _is_own(home: Path) -> bool:
    """Whether the environment names no database or server other than the home's."""
    ours = {"", str(home / "prefect"), sqlite_address(_place(home), "aiosqlite")}
    return {os.environ.get(name, "") for name in (*NAMED, "PREFECT_HOME")} <= ours


def _fold(database: Path) -> None:
    """Write the log that an ended server left, some 4 MB, into its SQLite database, if nobody else uses it."""
    if database.is_file():
        with suppress(sqlite3.Error), closing(sqlite3.connect(database, timeout=0)) as opened:
            opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _begin_anew_if_needed(database: Path) -> None:
    """Set an unused database aside: under a new name if it is damaged, in place of the last such one if too large."""
    if fault := _fault(database):
        kept = _set_aside(database, f"{database.name}.{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
        sys.stderr.write(f"concord: Prefect's record of runs {fault}: kept as {kept}, and begun anew\n")
    elif database.exists() and database.stat().st_size > LARGEST_DATABASE:
        kept = _set_aside(database, f"{database.name}.earlier")
        sys.stderr.write(f"concord: Prefect's record of runs has grown: kept as {kept}, and begun anew\n")


def _fault(database: Path) -> str | None:
    """What is wrong with an unused database; None if it is sound or missing."""
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
            return None  # sound, as far as the check went
        raise


def _set_aside(database: Path, kept: str) -> str:
    """Rename the database and its journals, replacing what had that name. Returns the new name."""
    for end in ("", *JOURNALS):
        database.with_name(kept + end).unlink(missing_ok=True)
        if os.path.lexists(file := database.with_name(database.name + end)):
            file.rename(database.with_name(kept + end))
    return kept


def install() -> None:
    """Make an empty database of Prefect's and one of MLflow's in a temporary folder, and keep them for new homes."""
    for name in [name for name in os.environ if name.startswith(("PREFECT_", "MLFLOW_"))]:
        del os.environ[name]  # it may name somebody's database
    with TemporaryDirectory() as folder, chdir(folder):
        made = Path(folder) / "prefect.db"
        os.environ |= {"PREFECT_HOME": folder, DATABASE: sqlite_address(made, "aiosqlite")}
        os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
        from prefect.server.database import provide_database_interface  # reads its settings on import

        from concord.artifacts.mlflow.store import keep_empty_store

        asyncio.run(provide_database_interface().create_db())
        keep_as_empty("prefect", made)
        keep_empty_store(Path(folder))


if __name__ == "__main__":
    install()
