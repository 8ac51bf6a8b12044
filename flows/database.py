"""The database of a server that a command starts for itself: made for it, and removed with it.

Prefect's server does not work without one, and nothing reads it afterwards: what was spent and released is in the
ledger and in files. Who wants a record of runs names a server (PREFECT_API_URL), or a database (`DATABASE`).

Guarantees   no two servers share a database, and nothing is in it that another command wrote; that of a killed command
             is removed by the next
Not covered  a database or server that the environment names. Checked by tests/flows/test_prefect_database.py

`python -m concord.flows.database` has Prefect and MLflow make the empty databases that are copied, once per
installation (artifacts/home/empty.py).
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from concord.artifacts.home.atomic import passing_folder
from concord.artifacts.home.empty import copy_empty, keep_as_empty
from concord.artifacts.settings import sqlite_address

DATABASE = "PREFECT_SERVER_DATABASE_CONNECTION_URL"
NAMED = (DATABASE, "PREFECT_API_DATABASE_CONNECTION_URL")
RECORDERS = ("TASK_RUN_RECORDER", "EVENT_PERSISTER", "TRIGGERS")
UNRECORDED = {f"PREFECT_SERVER_SERVICES_{each}_ENABLED": "false" for each in RECORDERS}
"""Writing down every task and event in a database that nobody reads took a tenth of a short run."""


@contextmanager
def database_of_its_own(home: Path) -> Iterator[dict[str, str]]:
    """The settings by which a server has a new database within the context; none if the environment names one.

    Without an empty one to copy, the server makes it by its migrations, which takes seconds.
    """
    if any(map(os.environ.get, NAMED)):
        yield {}
        return
    with passing_folder(home / "prefect" / "server", home) as folder:
        copy_empty("prefect", folder / "prefect.db")
        yield {**UNRECORDED, DATABASE: sqlite_address(folder / "prefect.db", "aiosqlite")}


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
