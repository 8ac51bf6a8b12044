"""A Dask cluster on this machine for one run, which nobody else can speak to.

Whoever can connect to a scheduler has code run by its workers, and pages of both tell what they do; both listen where
every local user can connect. So they speak to who has a certificate made for this run, and serve no pages.
Checked by tests/promises/test_orphans.py.
"""

from pathlib import Path
from typing import Any

import dask
from distributed import LocalCluster

PAGES = ("distributed.scheduler.http.routes", "distributed.worker.http.routes")


def closed_cluster(workers: int, home: Path) -> Any:
    """So many processes of one thread each, their files in the home folder."""
    with dask.config.set({pages: [] for pages in PAGES}):
        return LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=workers,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            local_directory=str(home),
            security=True,
        )
