"""A home in another place: MLflow keeps absolute addresses of the files it was given, and they follow the home here.

Assumes      the tables of MLflow's store that name files are those of ADDRESSES
Guarantees   every address below an `mlartifacts` folder elsewhere becomes the same one below ours, all or none; what
             MLflow recorded besides is not touched
Not covered  a tracking server, which knows its own files. Checked by tests/promises/test_move.py
"""

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

ADDRESSES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)
EXPERIMENT = re.compile(r"(file://.*)/[^/]+")


COPIES: list[TemporaryDirectory[str]] = []
"""Of stores that cannot be written, for as long as this process lasts."""


def followed(database: Path, folder: Path) -> Path:
    """The store of this home whose addresses begin with `folder`: itself, or a copy where it cannot be written.

    Raises sqlite3.Error.
    """
    if database.is_file() and not os.access(database, os.W_OK):
        database = _copied(database)
    follow(database, folder)
    return database


def follow(database: Path, folder: Path) -> None:
    """Let the addresses in a store of this home begin with `folder`, where its files are now. Raises sqlite3.Error."""
    if not database.is_file():
        return
    with closing(sqlite3.connect(database, isolation_level=None)) as store:
        for before in _elsewhere(store, folder):
            store.execute("BEGIN IMMEDIATE")
            for table, column in ADDRESSES:
                moved = f"{column} = ? || substr({column}, ?) WHERE substr({column}, 1, ?) = ?"
                store.execute(
                    f"UPDATE {table} SET {moved}",
                    (folder.as_uri(), len(before) + 1, len(before) + 1, f"{before}/"),
                )
            store.execute("COMMIT")


def _elsewhere(store: sqlite3.Connection, folder: Path) -> set[str]:
    """Folders of that name in other places, which experiments were made in."""
    if not store.execute("SELECT 1 FROM sqlite_master WHERE name = 'experiments'").fetchone():
        return set()
    locations = [row[0] or "" for row in store.execute("SELECT artifact_location FROM experiments")]
    found = {made[1] for made in map(EXPERIMENT.fullmatch, locations) if made}
    return {root for root in found if root.endswith(f"/{folder.name}")} - {folder.as_uri()}


def _copied(database: Path) -> Path:
    COPIES.append(TemporaryDirectory())
    copy = Path(COPIES[-1].name) / database.name
    with (
        closing(sqlite3.connect(f"file:{quote(str(database))}?mode=ro", uri=True)) as store,
        closing(sqlite3.connect(copy)) as made,
    ):
        store.backup(made)
    return copy
