"""New processes, forked from a server that has loaded their modules. A process has only one such server, which loads
the modules that its first user asks for, so all ask here.
"""

import multiprocessing
import os

FRESH = multiprocessing.get_context("forkserver")
FRESH.set_forkserver_preload(
    [
        "pytest",
        "concord.tasks.asks.hypothesis",
        "tests.artifacts.ledger.openings",
        "tests.support.at_door",
        "tests.support.relabelling",
        "tests.promises.kinds",
        "tests.promises.commands",
        "sqlalchemy.dialects.sqlite",
        "tests.support.frozen",
    ]
)
OURS = ("CONCORD_", "MLFLOW_", "PREFECT_")


def own_environment() -> dict[str, str]:
    """The environment of a command as a user would run it: without what other tests have set up in this process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return kept | {"PYTHONPATH": os.getcwd()}
