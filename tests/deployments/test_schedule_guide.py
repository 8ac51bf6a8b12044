"""The guide on schedules runs as it is written: server, worker, deployments, and rows that arrive."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from concord.artifacts.ledger.ledger import Ledger
from tests.deployments.services import ROOT, until
from tests.support.ports import own_port

pytestmark = pytest.mark.slow
GUIDE = (ROOT / "deployments/guides/schedule.md").read_text(encoding="utf-8")
(TABLES,) = re.findall(r"^```python\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
SETTINGS, SERVER, WORKER, DEPLOY, BY_HAND, ALERT = re.findall(r"^```sh\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE)
LONG = 240
"""Seconds after which what is waited for is missing, on a machine that does much else."""


class Terminals:
    """Terminals in a folder, each with the guide's settings, but for the port."""

    def __init__(self, folder: Path, prefect: Path) -> None:
        self._folder, port = folder, str(own_port())
        apart = {name: value for name, value in os.environ.items() if not name.startswith(("CONCORD_", "PREFECT_"))}
        self._environment = {**apart, "PREFECT_HOME": str(prefect), "PREFECT_SERVER_API_PORT": port}
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
                os.killpg(running.pid, signal.SIGTERM)
                running.wait(60)

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

    def pools(self) -> list[str]:
        """The names of the server's pools, if it answers."""
        with temporary_settings({PREFECT_API_URL: self.api}), get_client(sync_client=True) as client:
            return [] if client.api_healthcheck() else [pool.name for pool in client.read_work_pools()]

    def automations(self) -> list[str]:
        """The names of the server's automations."""
        with temporary_settings({PREFECT_API_URL: self.api}), get_client(sync_client=True) as client:
            return [found["name"] for found in client.request("POST", "/automations/filter").json()]

    def answers(self) -> bool:
        """Whether the server does."""
        with temporary_settings({PREFECT_API_URL: self.api}), get_client(sync_client=True) as client:
            return client.api_healthcheck() is None


def test_the_example_runs_as_written(tmp_path: Path) -> None:
    """Before, the deployed plan had no tables, and the nightly run named a session of tallies, which cannot answer
    later rows."""
    root, home = tmp_path / "repository", tmp_path / "prefect"
    shutil.copytree(ROOT / "deployments", root / "deployments", ignore=shutil.ignore_patterns("data"))
    (root / ".venv").symlink_to(ROOT / ".venv")
    subprocess.run([sys.executable, "-c", TABLES], cwd=root, check=True)
    terminals = Terminals(root, home)
    with terminals.kept(SERVER, tmp_path / "server.log"):
        until(terminals.answers, LONG, (tmp_path / "server.log").read_text)
        with terminals.kept(WORKER, tmp_path / "worker.log"):
            until(lambda: "concord" in terminals.pools(), LONG, (tmp_path / "worker.log").read_text)
            terminals.typed(DEPLOY)
            terminals.typed(BY_HAND)
        terminals.typed(ALERT)
        assert terminals.automations() == ["concord-refused"]
    (session,) = Ledger.of(root / ".concord").sessions("nightly-hospital")
    first, *later = Ledger.of(root / ".concord").batches(session.id)
    assert (first.first, bool(later), session.status) == (0, True, "open")
