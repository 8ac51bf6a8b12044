"""Verify finds a change in any cell that MLflow keeps of a run, and names it; all but those that are told here."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from shutil import copy

import pytest

from concord.artifacts.mlflow.read import Records
from concord.tasks.mechanisms.stable import StableVoting
from concord.tasks.verify.verify import verify
from tests.support.published import world
from tests.support.tracked import tracked

EVERY = 100
"""The default tests change every hundredth cell; those marked slow every third, which takes most of a minute."""

COVERED = {
    "runs": ("run_uuid", "status", "lifecycle_stage", "artifact_uri", "experiment_id"),
    "params": ("key", "value", "run_uuid"),
    "metrics": ("key", "value", "step", "run_uuid"),
    "latest_metrics": ("key", "value", "run_uuid"),
    "tags": ("key", "value", "run_uuid"),
    "inputs": ("source_id", "destination_id"),
    "input_tags": ("input_uuid", "name", "value"),
    "datasets": ("dataset_uuid", "name", "digest", "dataset_source_type", "dataset_source"),
    "logged_models": ("model_id", "name", "artifact_location", "source_run_id"),
    "logged_model_tags": ("model_id", "tag_key", "tag_value"),
    "registered_models": ("name", "description"),
    "model_versions": ("name", "version", "description", "source", "run_id", "storage_location"),
    "model_version_tags": ("key", "value", "name", "version"),
    "experiments": ("name",),
    "experiment_tags": ("key", "value"),
}
"""Cells that the guarantee or the lineage of a published model rests on."""

LEFT = {
    "moments, of which there is no other record": {"start_time", "end_time", "timestamp", "creation_time"}
    | {"last_updated_time", "last_update_time", "creation_timestamp_ms", "last_updated_timestamp_ms", "deleted_time"},
    "who and what started a run, which is told of none": {"user_id", "source_type", "source_name", "source_version"}
    | {"entry_point_name"},
    "what MLflow itself keeps in order": {
        "is_nan",
        "input_uuid",
        "workspace",
        "experiment_id",
        "current_stage",
        "status",
    }
    | {"status_message", "run_link", "model_type", "dataset_schema", "dataset_profile", "lifecycle_stage"},
    "repeated from another row, which is covered": {"name", "step", "destination_type"},
    "where files of further runs will go": {"artifact_location"},
}
"""Columns of those tables that are not covered, and why. An alias is for people to set; tables that are not named at
all hold nothing of a run."""
EMPTY = {"alembic_version", "workspaces", "registered_model_aliases"}

WORDS = {
    "inputs": "dataset|model|list of",
    "input_tags": "dataset",
    "datasets": "dataset",
    "logged_models": "model",
    "registered_models": "registered model|people-student",
    "model_versions": "registered model|model tag|people-student|people/models",
    "experiments": "experiment|no finished run",
    "experiment_tags": "experiment",
    "runs": "finished run|of stage|list of stages|MLflow store|file",
}
"""What a check names when it finds a cell of these tables; of others the row's key, or what is listed by it."""

Cell = tuple[str, int, str]


@pytest.fixture(scope="module")
def store(mlflow_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The tracking store of a home with one small run; its files, which do not change here, are read once."""
    home = tmp_path_factory.mktemp("home")
    copy(mlflow_database, home / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        small = world(home, rows=12, batch=6)
        labels = small.truth.copy()
        labels[5] = -1
        tracked(
            small, StableVoting.calibrate(epsilon=1.0, delta=1e-5, cutoff=20), labels, datetime(2026, 1, 2, tzinfo=UTC)
        )
        assert [check for check in verify(home) if not check.ok] == []
        patch.setattr(Records, "_files", cache(Records._files))
        patch.setattr("concord.tasks.verify.verify.AT_THE_DOOR", {})  # the ledger's, which no row of MLflow bears on
        yield home / "mlflow.db"


def cells(live: sqlite3.Connection) -> list[Cell]:
    """Every covered cell of the run's rows, by table, row and column."""
    return [
        (table, row, column)
        for table, columns in COVERED.items()
        for (row,) in live.execute(f"SELECT rowid FROM {table}").fetchall()
        if not is_mlflows_own(live, table, row)
        for column in columns
        if column != "artifact_uri" or has_files(live, row)
    ]


def is_mlflows_own(live: sqlite3.Connection, table: str, row: int) -> bool:
    """The experiment that is there from the beginning, and how pages of ours are to be laid out."""
    found = live.execute(f"SELECT * FROM {table} WHERE rowid = ?", (row,)).fetchone()
    return (table == "experiments" and "Default" in found) or "mlflow.experimentKind" in found


def has_files(live: sqlite3.Connection, run: int) -> bool:
    """Whether a run is one of its own: those nested in it have no files."""
    nested = "SELECT run_uuid IN (SELECT run_uuid FROM tags WHERE key = 'stage') FROM runs WHERE rowid = ?"
    return not live.execute(nested, (run,)).fetchone()[0]


def unfound(database: Path, every: int) -> list[str]:
    """Changes to cells that verification did not find, or found without a word for them."""
    wrong = []
    with closing(sqlite3.connect(database)) as live, closing(sqlite3.connect(":memory:")) as before:
        live.backup(before)
        live.execute("PRAGMA ignore_check_constraints = ON")
        for table, row, column in cells(live)[::every]:
            live.execute(f"UPDATE {table} SET {column} = {another(live, table, row, column)} WHERE rowid = {row}")
            live.commit()
            text = " ".join(check.detail for check in verify(database.parent) if not check.ok)
            if not any(word in text for word in words(before, table, row)):
                wrong.append(f"{table}.{column} of row {row}: {text or 'nothing was found'}")
            before.backup(live)
    return wrong


def another(live: sqlite3.Connection, table: str, row: int, column: str) -> str:
    """Another value of the same type, as SQL."""
    (kind,) = live.execute(f"SELECT typeof({column}) FROM {table} WHERE rowid = {row}").fetchone()
    return f"{column} || 'x'" if kind == "text" else f"{column} + 1000"


def words(before: sqlite3.Connection, table: str, row: int) -> list[str]:
    """What a check says that has found a change in that row."""
    if table in WORDS:
        return WORDS[table].split("|")
    key = "tag_key" if table == "logged_model_tags" else "key"
    (name,) = before.execute(f"SELECT {key} FROM {table} WHERE rowid = {row}").fetchone()
    return [name, name.partition(".")[2] or name, "list of stages", "no finished run"]


def test_changes_in_cells_of_mlflow_are_found_and_named(store: Path) -> None:
    assert unfound(store, EVERY) == []


@pytest.mark.slow
def test_changes_in_a_third_of_all_cells_are_found_and_named(store: Path) -> None:
    assert unfound(store, 3) == []


def test_every_column_is_covered_or_left_for_a_reason(store: Path) -> None:
    left = set().union(*LEFT.values())
    with closing(sqlite3.connect(store)) as live:
        tables = [name for (name,) in live.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        filled = {table for table in tables if live.execute(f"SELECT count(*) FROM {table}").fetchone()[0]}
        assert filled - EMPTY == set(COVERED)
        for table, columns in COVERED.items():
            known = {column[1] for column in live.execute(f"PRAGMA table_info({table})")}
            assert known - set(columns) <= left, table
        assert len(cells(live)) > 400
