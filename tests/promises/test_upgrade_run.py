"""A home of a real earlier version, with code taken from the repository's history, still works and spends nothing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.homes import charged, labels_of
from tests.support.people import write_plan, write_tables

ROOT = Path(__file__).parents[2]
EARLIER = "8d1cc71"
"""The last version whose homes have no format."""
STARTS = 4
"""Attempts to start that version: it has Prefect start a server, and Prefect gives up after five seconds."""


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """A folder with the code of that version."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    code = tmp_path / "earlier"
    code.mkdir()
    archive = subprocess.run(["git", "-C", str(ROOT), "archive", EARLIER], capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"the history does not reach back to {EARLIER}")
    subprocess.run(["tar", "x", "-C", str(code)], input=archive.stdout, check=True)
    return code


def concord(code: Path, *arguments: str) -> str:
    """The output of that version's command line, in its own process."""
    is_package = (code / ".package").is_dir()  # earlier versions were three folders at the top
    module = "concord.flows.cli" if is_package else "flows.cli"
    command = [sys.executable, "-c", f"from {module} import main; main()", *arguments]
    alone = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "MLFLOW_"))}
    environment = {**alone, "PYTHONPATH": str(code / ".package" if is_package else code)}
    for _ in range(STARTS):
        done = subprocess.run(command, cwd=code, env=environment, capture_output=True, text=True, check=False)
        if "httpx.ReadTimeout" not in done.stderr:
            break
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_home_of_an_earlier_version_goes_on(earlier: Path, tmp_path: Path) -> None:
    small = {"teachers__count": 40, "teachers__block": 20, "labeling__cutoff": 4}
    plan, home = write_plan(write_tables(tmp_path / "data"), **small), tmp_path / "home"
    before = json.loads(concord(earlier, "run", str(plan), "--home", str(home), "--json"))
    labels, spent = labels_of(home, before["session"]), charged(home)
    assert not (home / "format").exists()

    after = json.loads(concord(ROOT, "run", str(plan), "--home", str(home), "--json"))
    assert (after["session"], after["asked_now"]) == (before["session"], 0)
    assert (labels_of(home, before["session"]), charged(home)) == (labels, spent)
    assert len(list((home / "backups").glob("format-1-*/ledger.db"))) == 1
    assert "FAIL" not in concord(ROOT, "verify", "--home", str(home))
