"""Prefect's database in a home folder: a record of runs for people to look at, and no authority.

Nothing that decides is read from it; but a server over a damaged one hangs, or fails in the middle of a run. So one
that is not sound is set aside, under another name in the same folder, and the server makes a new one.

Assumes      commands of a home share its disk, whose locks hold (`flock`)
Guarantees   what a server opens is a database that can be written, of sound pages, without triggers, which would change
             what is sent to the server; one that another command uses is left alone. A home holds two at most, each of
             LARGEST_DATABASE and what one command adds
Not covered  a database that the environment names, or a server's: they are not of this folder. Damage that a look of
             PATIENCE does not reach. Checked by tests/flows/test_prefect_database.py

`python -m concord.flows.database` has Prefect and MLflow make the empty databases that homes begin with, once an
installation (artifacts/home/empty.py).
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
"""Seconds that a look takes at most, and that a lock of nobody's is waited for."""
LARGEST_DATABASE = 1 << 25
"""From this size on the database is begun anew: a run of the demonstration adds some 400 kB, one of many tasks 6 MB."""


@contextmanager
def sound_database(home: Path) -> Iterator[None]:
    """While it lasts, no other command sets aside the database that Prefect's server in this home uses."""
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
    """Whether the home has a database, or begins with an empty one now; if not, its first server makes the tables."""
    place = _place(home)
    if place.exists() or not _is_own(home):
        return place.exists()
    with passing_folder(place, home) as folder:
        copy = folder / place.name
        if copied := copy_empty("prefect", copy) and _fault(copy) is None:
            for end in JOURNALS:  # SQLite would write what is left of one that is gone into this one
                place.with_name(place.name + end).unlink(missing_ok=True)
            copy.replace(place)
        return copied


def _place(home: Path) -> Path:
    return home / "prefect" / "prefect.db"


def _is_own(home: Path) -> bool:
    """Whether the environment names no other database, or server, than that of the home."""
    ours = {"", str(home / "prefect"), sqlite_address(_place(home), "aiosqlite")}
    return {os.environ.get(name, "") for name in (*NAMED, "PREFECT_HOME")} <= ours


def _fold(database: Path) -> None:
    """Write what a server that has ended left in SQLite's log, some 4 MB, into the database, if nobody else uses it."""
    if database.is_file():
        with suppress(sqlite3.Error), closing(sqlite3.connect(database, timeout=0)) as opened:
            opened.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _begin_anew_if_needed(database: Path) -> None:
    """Set the database that nobody uses aside if it is not sound, or has grown: of two, no more is kept than that."""
    if fault := _fault(database):
        kept = _set_aside(database, f"{database.name}.{datetime.now(UTC):%Y%m%dT%H%M%S%f}")
        sys.stderr.write(f"concord: Prefect's record of runs {fault}: kept as {kept}, and begun anew\n")
    elif database.exists() and database.stat().st_size > LARGEST_DATABASE:
        kept = _set_aside(database, f"{database.name}.earlier")
        sys.stderr.write(f"concord: Prefect's record of runs has grown: kept as {kept}, and begun anew\n")


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


def _set_aside(database: Path, kept: str) -> str:
    """Give the database and what belongs to it another name, which this returns; what had it is gone."""
    for end in ("", *JOURNALS):
        database.with_name(kept + end).unlink(missing_ok=True)
        if os.path.lexists(file := database.with_name(database.name + end)):
            file.rename(database.with_name(kept + end))
    return kept


def install() -> None:
    """Keep an empty database of Prefect's and one of MLflow's for homes to begin with, made in a folder that passes."""
    for name in [name for name in os.environ if name.startswith(("PREFECT_", "MLFLOW_"))]:
        del os.environ[name]  # what is named there is somebody's
    with TemporaryDirectory() as folder, chdir(folder):
        made = Path(folder) / "prefect.db"
        os.environ |= {"PREFECT_HOME": folder, DATABASE: sqlite_address(made, "aiosqlite")}
        os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
        from prefect.server.database import provide_database_interface  # reads its settings as it is imported

        from concord.artifacts.mlflow.store import keep_empty_store

        asyncio.run(provide_database_interface().create_db())
        keep_as_empty("prefect", made)
        keep_empty_store(Path(folder))


if __name__ == "__main__":
    install()
