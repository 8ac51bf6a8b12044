"""Task runners for teachers: threads, a Dask cluster on this machine, or one of the operator's.

Anyone who can connect to a Dask scheduler can run code on its workers, and the web pages of both show what they do. The
processes of a cluster made here listen on ports that every local user can reach: they accept only a certificate made
for this run, and serve no pages. A cluster named by its address is authenticated by certificates as well.

Assumes      the certificates' authority is the operator's own, made for this cluster: Dask accepts any certificate of
             it, whatever host that names
Guarantees   nothing is sent to a scheduler unencrypted. Before anything begins, each worker of
             a named cluster has shown that it runs these versions of Concord, Python and the packages that a
             certificate lists, and sees this very home. Only paths, keyed digests and settings are sent: no key of the
             vault, and no password but the one by which a worker reports its tasks to Prefect's server
Not covered  what a worker may read: one that sees the home sees the vault. Workers that join later: the versions of
             one are not asked; one that does not see the home fails, and computes nothing else. Processors, whose last
             bits may differ. Checked by tests/flows/test_cluster.py and tests/promises/test_orphans.py
"""

import os
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from prefect.context import FlowRunContext
from prefect.settings import (
    PREFECT_SERVER_API_AUTH_STRING,
    PREFECT_SERVER_DATABASE_CONNECTION_URL,
    PREFECT_SERVER_DATABASE_PASSWORD,
    PREFECT_SERVER_DOCKET_URL,
    temporary_settings,
)
from prefect.task_runners import TaskRunner, ThreadPoolTaskRunner

from concord.artifacts.certificate import library_versions
from concord.artifacts.errors import ConcordError, EnvironmentFailed
from concord.artifacts.home.vault import Vault
from concord.artifacts.learners import TeachersPlan
from concord.flows import server
from concord.flows.cache import SealedResults
from concord.flows.ending import NOTHING_LOST, shield_workers

QUIET = {"PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL"}
"""Environment of workers, whose console is the command's: what fails, the run says. They log to a server as before."""
PAGES = ("distributed.scheduler.http.routes", "distributed.worker.http.routes")
START_SECONDS = 30
"""Seconds to wait for a scheduler and its first worker."""
HERE = ("127.0.0.1", "::1", "localhost")
TLS = ("ca_file", "client_cert", "client_key")
SERVERS_OWN: dict[Any, Any] = {
    PREFECT_SERVER_API_AUTH_STRING: None,
    PREFECT_SERVER_DATABASE_CONNECTION_URL: None,
    PREFECT_SERVER_DATABASE_PASSWORD: None,
    PREFECT_SERVER_DOCKET_URL: "memory://",
}
"""Settings that may hold a server's secret, and their values while flows run, since tasks are sent all settings."""


@contextmanager
def at_work(home: Path, teachers: TeachersPlan | None) -> Iterator[None]:
    """Within the context, the active flow run keeps results of its tasks in the home, and maps stages over the workers
    that the teachers' plan names; without one, over threads. Tasks are sent no secret of Prefect's server. Raises
    EnvironmentFailed as `task_runner`, and if the scheduler goes meanwhile."""
    active = FlowRunContext.get()
    if active is None:
        raise AssertionError("a run of ours is a flow's")
    runner = ThreadPoolTaskRunner() if teachers is None else task_runner(teachers, home)
    results = active.result_store.model_copy(update={"result_storage": SealedResults(home=home)})
    try:
        with (
            temporary_settings(SERVERS_OWN),
            runner,
            active.model_copy(update={"task_runner": runner, "result_store": results}),
        ):
            yield
    except CancelledError:  # as Dask ends all tasks of a scheduler that it has lost
        lost = "the connection to the scheduler of runner = 'dask' was lost"
        raise EnvironmentFailed(f"{lost}: {NOTHING_LOST} once it answers") from None


def task_runner(teachers: TeachersPlan, home: Path) -> TaskRunner[Any]:
    """The task runner of mapped stages. Raises EnvironmentFailed if a cluster cannot be had, or is not safe."""
    workers = os.cpu_count() or 1
    if teachers.runner == "threads":
        return ThreadPoolTaskRunner(max_workers=workers)
    shield_workers()
    try:
        from prefect_dask.task_runners import DaskTaskRunner
    except ImportError:
        raise EnvironmentFailed(
            "runner = 'dask' needs the extra concord[dask]: install it, or take runner = 'threads'"
        ) from None
    if teachers.address is not None:
        security = _credentials(teachers.address)
        _check_workers(teachers.address, security, home)
        return DaskTaskRunner(address=teachers.address, client_kwargs={"security": security})
    made: Any = closed_cluster  # Prefect calls it with `cluster_kwargs`
    return DaskTaskRunner(cluster_class=made, cluster_kwargs={"workers": workers, "home": home})


def closed_cluster(workers: int, home: Path) -> Any:
    """A local cluster of `workers` processes of one thread each, with their files in the home folder. Raises
    EnvironmentFailed if one does not start."""
    import dask
    from distributed import LocalCluster

    settings = {"temporary-directory": str(home), **{pages: [] for pages in PAGES}}  # its scheduler's files too
    with dask.config.set(settings):
        try:
            return LocalCluster(  # type: ignore[no-untyped-call]
                n_workers=workers,
                threads_per_worker=1,
                dashboard_address="127.0.0.1:0",
                local_directory=str(home),
                security=True,
                env=QUIET,
            )
        except RuntimeError as failed:  # as where the machine ends a process for want of memory
            raise EnvironmentFailed(f"the workers of runner = 'dask' did not start: {failed}") from None


def _credentials(address: str) -> Any:
    """The TLS credentials for both directions, from the files that Dask's settings name. Raises EnvironmentFailed."""
    from distributed import Security

    url = urlsplit(address)
    if not server.is_named() and url.hostname not in HERE:
        raise EnvironmentFailed(
            f"teachers.address names {address}, whose workers cannot reach the Prefect server that this command starts "
            f"for itself: start one that they can, and name it by {server.ADDRESS_VARIABLE}"
        )
    security = Security(require_encryption=True)  # type: ignore[no-untyped-call]
    for name in TLS:
        variable = f"DASK_DISTRIBUTED__COMM__TLS__{name.replace('_', '__', name != 'ca_file').upper()}"
        file = getattr(security, f"tls_{name}")
        if file is None or not os.access(file, os.R_OK):
            raise EnvironmentFailed(f"teachers.address names {address}: {variable} must name a file that can be read")
    return security


def _check_workers(address: str, security: Any, home: Path) -> None:
    """Raise EnvironmentFailed unless the scheduler answers and each of its workers runs these versions and sees this
    home. Which worker trains a shard depends on how long others take, so it must not decide a teacher's bits."""
    from distributed import Client

    ours, digest = library_versions(), Vault(home / "vault").digest("cluster")
    try:
        with Client(address, security=security, timeout=START_SECONDS, set_as_default=False) as client:  # type: ignore[no-untyped-call]
            client.wait_for_workers(1, timeout=START_SECONDS)
            shown = client.run(worker_identity, str(home), on_error="return")
    except (OSError, ValueError, TypeError) as failed:  # of TLS, or late; the last at a worker's address
        raise EnvironmentFailed(
            f"teachers.address names {address}, but no scheduler there accepts the connection ({type(failed).__name__})"
        ) from None
    for worker, identity in shown.items():
        theirs, seen = ({}, "") if isinstance(identity, Exception) else identity
        for name, version in ours.items():
            if theirs.get(name) != version:
                has = f"has {name} {theirs[name]}" if name in theirs else f"cannot run {name}"
                raise EnvironmentFailed(f"the worker {worker} {has}, and must have {version}, as this machine has")
        if seen != digest:
            raise EnvironmentFailed(
                f"the worker {worker} does not see the home folder {home} as this machine does: mount it there under "
                "the same path"
            )


def worker_identity(home: str) -> tuple[dict[str, str], str]:
    """A worker's versions, and a digest that can only be made by opening this home's vault."""
    vault = Path(home) / "vault"
    try:
        there = (vault / "secrets" / "installation").is_file()  # opening a missing vault would make one
        return library_versions(), Vault(vault).digest("cluster") if there else ""
    except (ConcordError, OSError):
        return library_versions(), ""
