"""New processes, forked from a server that has loaded their modules. A process has only one such server, which loads
the modules that its first user asks for, so all ask here; and the library by which what they change can be recorded.
"""

import os
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from tests.support.preloaded import library
from tests.world import ADDRESS_VARIABLE


class Fresh(ForkServerContext):
    """The context of that server."""

    def Process(self, *given: Any, **named: Any) -> ForkServerProcess:  # type: ignore[override]  # noqa: N802  # its name
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("LD_PRELOAD", str(library()))
            forkserver.ensure_running()
        return ForkServerProcess(*given, **named)


FRESH = Fresh()
FRESH.set_forkserver_preload(
    [
        "pytest",
        "concord.flows.learn",
        "tests.support.openings",
        "tests.support.at_door",
        "tests.support.relabelling",
        "tests.promises.walks",
        "tests.promises.commands",
        "sqlalchemy.dialects.sqlite",
        "tests.support.frozen",
        "concord.artifacts.mlflow.write",  # and what a run loads only once it publishes: seconds for each process
        "concord.tasks.student.trust",
        "jinja2",
        "matplotlib.backends.backend_svg",
        "mlflow.sklearn",
        "mlflow.store.model_registry.sqlalchemy_store",
        "mlflow.store.tracking.sqlalchemy_store",
        "mpl_toolkits.mplot3d",
        "sklearn.linear_model",
        "skops.io",
    ]
)
OURS = ("CONCORD_", "MLFLOW_", "PREFECT_")


def own_environment() -> dict[str, str]:
    """The environment of a command as a user would run it: without what other tests have set up in this process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return kept | {"PYTHONPATH": os.getcwd()}


def alone(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    """A home folder, in an environment that names no server yet."""
    for name in (ADDRESS_VARIABLE, "PREFECT_API_AUTH_STRING", "NO_PROXY", "no_proxy"):
        patch.delenv(name, raising=False)
    patch.setenv("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "300")
    (folder / "home" / "prefect").mkdir(parents=True)
    return folder / "home"
