"""A copy of a home with MLflow's addresses rewritten, as if it had been made there."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

ADDRESSES = (
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
    ("experiments", "artifact_location"),
)


def copied(home: Path, target: Path) -> Path:
    """Copy a home to `target`, with the addresses in its MLflow store."""
    shutil.copytree(home, target, dirs_exist_ok=True)
    if not (target / "mlflow.db").is_file():
        return target
    with closing(sqlite3.connect(target / "mlflow.db", isolation_level=None)) as store:
        tables = {name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if "experiments" not in tables:
            return target
        made = [row[0] or "" for row in store.execute("SELECT artifact_location FROM experiments")]
        for before in {place.rpartition("/")[0] for place in made if "/mlartifacts/" in place}:
            for table, column in ADDRESSES:
                moved = f"UPDATE {table} SET {column} = replace({column}, ?, ?)"
                store.execute(moved, (f"{before}/", f"{(target / 'mlartifacts').as_uri()}/"))
    return target
