"""MLflow's store in a home: made in one piece, under a lock, before it is used.

MLflow makes a new database in many steps and without a lock: two first users, or one that is killed, leave a file that
MLflow never opens again. Here one process makes it in another file and renames it when it is whole. MLflow only mirrors
the ledger and the released files, so a store that cannot be read is put aside and a new one made.

Guarantees   a store that exists is whole; one that cannot be read is kept under another name; locks are the kernel's
Not covered  stores elsewhere that MLFLOW_TRACKING_URI names: they are used as they are.
             Checked by tests/artifacts/mlflow/test_tracking_store.py
"""

import logging
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from importlib.metadata import version
from itertools import count
from pathlib import Path
from urllib.parse import quote, urlsplit
from urllib.request import url2pathname

from mlflow.exceptions import MlflowException
from mlflow.store.db.utils import _get_latest_schema_revision
from mlflow.tracking import MlflowClient

from concord.artifacts.errors import EnvironmentFailed
from concord.artifacts.home.atomic import discard, locked, passing_folder, sync_folder
from concord.artifacts.home.empty import copy_empty, keep_as_empty
from concord.artifacts.process import ProcessChange, variables
from concord.artifacts.settings import (
    JOURNALS,
    STORE,
    Settings,
    check_answers,
    own_store,
    own_store_file,
    sqlite_address,
    sqlite_file,
)

STORE_PATIENCE = 20.0
"""Seconds to wait for another process that writes to a SQLite store, as MLflow itself waits."""
AUTOFLUSH = "(raised as a result of"
"""The beginning of SQLAlchemy's line before the reason, if a query failed to write."""
PLACES = "SELECT artifact_location FROM experiments WHERE artifact_location LIKE 'file:%'"
STORE_LOCK = "mlflow.lock"
"""Held by the process that makes a store, or migrates it."""


@ProcessChange
@contextmanager
def silently() -> Iterator[None]:
    """Log nothing of MLflow's within the context: its failures are raised too, and shown as one sentence."""
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)


unpooled = ProcessChange(lambda: variables({"MLFLOW_SQLALCHEMYSTORE_POOLCLASS": "NullPool"}))
"""To open a store that is a file: a pool would write to one that was deleted."""


@contextmanager
def in_one_sentence() -> Iterator[None]:
    """Raise the store's failures as EnvironmentFailed, and log nothing of them."""
    try:
        with silently():
            yield
    except (MlflowException, OSError, sqlite3.Error) as failed:
        reason = next(line for line in f"{failed}\n".splitlines() if not line.startswith(AUTOFLUSH))
        raise EnvironmentFailed(f"the MLflow store cannot be used: {reason}") from None


def ready_store(home: Path) -> Path | None:
    """Make or migrate the store of a home and check that it answers, before anything is spent that it would record.

    Returns the new path of a store that could not be read and was put aside. Raises EnvironmentFailed.
    """
    aside = None
    check_answers(STORE)
    with in_one_sentence(), locked(home / STORE_LOCK):
        if own_store(home):
            database = own_store_file(home)
            if _there(database) and not _readable(database):
                names = (database.with_name(f"{database.name}.unreadable-{number}") for number in count(1))
                aside = next(name for name in names if not name.exists())
                _clear_journals(database)
                database.replace(aside)
                sync_folder(database.parent)
            _make(database)
        client_of(Settings.now().store_of(home))
        if own_store(home):
            check_place(own_store_file(home), home.absolute() / "mlartifacts")
    return aside


def check_place(database: Path, folder: Path) -> None:
    """Raise EnvironmentFailed if a home's own store names another home's folder for its files: the home was moved."""
    with closing(sqlite3.connect(database)) as store:
        places = [Path(url2pathname(urlsplit(place).path)).parent for (place,) in store.execute(PLACES)]
    # resolved, because the same home may be named by a link
    if any(place.name == folder.name and place.resolve() != folder.resolve() for place in places):
        raise EnvironmentFailed(
            f"the MLflow store of {folder.parent} was made where the home was before: move mlflow.db and mlartifacts "
            "away; each session is recorded anew when a command uses it"
        )


class OtherVersion(EnvironmentFailed):
    """Another version of MLflow has made the store: nothing is wrong with it, and nothing is lost."""


def client_of(uri: str) -> MlflowClient:
    """A client of a store, once both of its halves have answered: runs and registered models. Raises MlflowException,
    or OtherVersion.

    Opening a database may also raise errors of Alembic, SQLAlchemy and others, by the step of a migration that fails.
    """
    try:
        with unpooled() if uri.startswith("sqlite") else nullcontext():
            client = MlflowClient(uri, registry_uri=uri)
            client.search_experiments(max_results=1)
            client.search_registered_models(max_results=1)
    except Exception as failed:
        file, tables = sqlite_file(uri), set[str]()
        with (
            suppress(sqlite3.Error),  # it is no database, or none of MLflow's
            closing(sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True)) as store,
        ):
            tables = {revision for (revision,) in store.execute("SELECT version_num FROM alembic_version")}
        if tables and tables != {_get_latest_schema_revision()}:  # type: ignore[no-untyped-call]
            raise OtherVersion(
                f"the MLflow store {file} was made by another version of MLflow than {version('mlflow')}, which is "
                f"installed (its tables are those of {', '.join(tables)}): upgrade it, or move it away, as "
                "deployments/guides/upgrade.md says"
            ) from None
        raise MlflowException(str(failed)) from None
    return client


def make_if_missing(home: Path) -> None:
    """Make the home's own store if it is missing. Raises whatever MLflow or the machine fails with."""
    if not _there(own_store_file(home)):
        with locked(home / STORE_LOCK):
            _make(own_store_file(home))


def _there(database: Path) -> bool:
    return database.is_file() and database.stat().st_size > 0


def _make(database: Path) -> None:
    if _there(database):
        return
    discard(database, database.parent)
    _clear_journals(database)
    with passing_folder(database, database.parent) as folder:
        made = folder / database.name
        if not (copy_empty("mlflow", made) and _opens(made)):
            made.unlink(missing_ok=True)
            client_of(sqlite_address(made))
            _without_default(made)
        made.replace(database)
        sync_folder(database.parent)


def keep_empty_store(folder: Path) -> None:
    """Have MLflow make a store in a temporary folder, and keep it to copy into new homes."""
    client_of(sqlite_address(folder / "mlflow.db"))
    _without_default(folder / "mlflow.db")
    keep_as_empty("mlflow", folder / "mlflow.db")


def _without_default(database: Path) -> None:
    """Delete the experiment Default of a new store, as MLflow does: nobody uses it, and it names a folder."""
    with closing(sqlite3.connect(database)) as store, store:
        store.execute("UPDATE experiments SET artifact_location = 'mlruns/0', lifecycle_stage = 'deleted'")


def _readable(database: Path) -> bool:
    """Whether the file is an intact database. One without a run must open too: nothing is lost with it.

    Raises sqlite3.OperationalError if it cannot be read now, as if it is locked.
    """
    try:
        with closing(sqlite3.connect(database, timeout=STORE_PATIENCE)) as store:
            if store.execute("PRAGMA quick_check(1)").fetchall() != [("ok",)]:
                return False
            tables = {name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if "runs" in tables and store.execute("SELECT 1 FROM runs").fetchone():
                return True
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        return False
    return _opens(database)


def _opens(database: Path) -> bool:
    try:
        client_of(sqlite_address(database))
    except (MlflowException, OtherVersion):
        return False
    return True


def _clear_journals(database: Path) -> None:
    for end in JOURNALS:
        database.with_name(f"{database.name}{end}").unlink(missing_ok=True)
