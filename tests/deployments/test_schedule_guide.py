"""The guide on schedules runs as it is written: server, worker, deployments, and rows that arrive."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.settings import PREFECT_API_AUTH_STRING, PREFECT_API_URL, temporary_settings

from tests.deployments.services import bears, until
from tests.support.pages import ROOT, blocks, page
from tests.support.ports import own_port
from tests.world import Ledger

pytestmark = pytest.mark.slow
GUIDE = page("deployments/guides/schedule.md")
(TABLES,) = blocks("python", page=GUIDE)
PASSWORD, SETTINGS, SERVER, WORKER, DEPLOY, BY_HAND, ALERT = blocks("sh", page=GUIDE)
LONG = 240
"""Seconds after which what is waited for is missing, on a machine that does much else."""


class Terminals:
    """Terminals in a folder, each with the guide's settings, but for the port."""

    def __init__(self, folder: Path, prefect: Path) -> None:
        self._folder, self._prefect, port = folder, prefect, str(own_port())
        apart = {name: value for name, value in os.environ.items() if not name.startswith(("CONCORD_", "PREFECT_"))}
        often = {"PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30"}  # instead of 180: a test is in a hurry
        self._environment = {**apart, **often, "PREFECT_HOME": str(prefect), "PREFECT_SERVER_API_PORT": port}
        subprocess.run(["bash", "-ec", PASSWORD], cwd=folder, check=True)
        self._settings = SETTINGS.replace("4200", port)
        self.api = f"http://127.0.0.1:{port}/api"

    def typed(self, block: str) -> None:
        """Type a block, and wait until it is done."""
        done = self._started(block, subprocess.PIPE)
        printed, _ = done.communicate(timeout=2 * LONG)
        assert done.returncode == 0, printed

    @contextmanager
    def kept(self, block: str, log: Path) -> Iterator[None]:
        """Type a block that keeps its terminal until the end."""
        with log.open("w") as printed:
            running = self._started(block, printed)
            try:
                yield
            finally:
                with suppress(ProcessLookupError):  # it was killed
                    os.killpg(running.pid, signal.SIGTERM)
                running.wait(60)

    def kill(self) -> None:
        """End server, worker and runs as a power cut would."""
        mark = f"PREFECT_HOME={self._prefect}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            if bears(process, mark):
                os.kill(int(process.name), signal.SIGKILL)

    def _started(self, block: str, output: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-ec", self._settings + block],
            cwd=self._folder,
            env=self._environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    @contextmanager
    def client(self) -> Iterator[SyncPrefectClient]:
        """A client of the server."""
        password = (self._folder / "deployments/secrets/prefect_password").read_text().strip()
        settings = {PREFECT_API_URL: self.api, PREFECT_API_AUTH_STRING: f"concord:{password}"}
        with temporary_settings(settings), get_client(sync_client=True) as client:
            yield client

    def answers(self) -> bool:
        """Whether the server does."""
        with self.client() as client:
            return client.api_healthcheck() is None

    def pools(self) -> list[str]:
        """The names of the server's pools, if it answers."""
        with self.client() as client:
            return [] if client.api_healthcheck() else [pool.name for pool in client.read_work_pools()]

    def runs(self, state: str) -> list[str]:
        """The names of the runs in a state."""
        with self.client() as client:
            return [run.name for run in client.read_flow_runs() if run.state_name == state]


@contextmanager
def served(terminals: Terminals, folder: Path) -> Iterator[None]:
    """A server and a worker, as the guide starts them."""
    with terminals.kept(SERVER, folder / "server.log"):
        until(terminals.answers, LONG, (folder / "server.log").read_text)
        with terminals.kept(WORKER, folder / "worker.log"):
            until(lambda: "concord" in terminals.pools(), LONG, (folder / "worker.log").read_text)
            yield


def test_the_example_runs_as_written(tmp_path: Path) -> None:
    """Before, the deployed plan had no tables, the nightly run named a session of tallies, which cannot answer later
    rows, and a run that was killed with worker and server was Running for good, and later ones waited for its place."""
    root = tmp_path / "repository"
    shutil.copytree(ROOT / "deployments", root / "deployments", ignore=shutil.ignore_patterns("data"))
    (root / ".venv").symlink_to(ROOT / ".venv")
    subprocess.run([sys.executable, "-c", TABLES], cwd=root, check=True)
    terminals, killed = Terminals(root, tmp_path / "prefect"), BY_HAND.splitlines()[0].replace("--watch", "")
    with served(terminals, tmp_path):
        terminals.typed(DEPLOY)
        terminals.typed(BY_HAND)
        terminals.typed(ALERT.replace("s/BLOCK/", "s/within: 600/within: 60/; s/BLOCK/"))
        terminals.typed(f"{killed} --param new_session=true")
        until(lambda: terminals.runs("Running"), LONG, (tmp_path / "worker.log").read_text)
        terminals.kill()
    (session,) = Ledger.of(root / ".concord").sessions("nightly-hospital")[:1]
    first, *later = Ledger.of(root / ".concord").batches(session.id)
    assert (first.first, bool(later), session.status) == (0, True, "open")
    with served(terminals, tmp_path):
        terminals.typed(BY_HAND.splitlines()[0])
        until(lambda: terminals.runs("Crashed"), LONG, (tmp_path / "server.log").read_text)
