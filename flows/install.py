"""What an installation does once: `python -m concord.flows.install` has Prefect and MLflow make their empty databases,
which new servers and homes copy (artifacts/home/empty.py). Checked by tests/artifacts/home/test_empty.py.
"""

import asyncio
import os
from contextlib import chdir
from pathlib import Path
from tempfile import TemporaryDirectory

from concord.artifacts.home.empty import keep_as_empty
from concord.artifacts.settings import sqlite_address
from concord.flows.server import DATABASE


def install() -> None:
    """Make an empty database of Prefect's and one of MLflow's in a temporary folder, and keep them to be copied."""
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
