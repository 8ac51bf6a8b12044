"""deployments/homes.sh, run: three homes and a lead as users whose folders are closed to one another."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.processes import own_environment

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "deployments/homes.sh"
ENVIRONMENT = {**own_environment(), "PYTHONPATH": str(ROOT / ".package"), "PYTHON": sys.executable}
OPENED = """
set -eu
mkdir "$0"
mount --bind "$1" "$0"
mount -t tmpfs -o mode=755 tmpfs "$2"
mkdir -p "$1"
mount --bind "$0" "$1"
shift 2
exec "$@"
"""
"""In a mount namespace of its own: the closed folder $2 is empty and open, but for Python's own $1."""


def reached(folder: Path) -> list[str]:
    """What runs a command so that any user reaches Python: nothing, unless it was installed in somebody's closed
    folder, as /root is."""
    python = Path(sys.base_prefix)
    shut = [parent for parent in reversed(python.parents) if not parent.stat().st_mode & 0o001]
    return (
        [
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            OPENED,
            str(folder / "python"),
            str(python),
            str(shut[0]),
        ]
        if shut
        else []
    )


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that all users reach: pytest's own are closed."""
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def before(folder: Path) -> list[str]:
    """What runs a command so that all users reach Python; skips the test where that cannot be."""
    if os.geteuid():
        pytest.skip("only root becomes other users")
    found = reached(folder)
    user = ["setpriv", "--reuid=64001", "--regid=64001", "--clear-groups", sys.executable, "-c", "import concord"]
    try:
        subprocess.run([*found, *user], cwd="/", env=ENVIRONMENT, check=True, capture_output=True, text=True)
    except FileNotFoundError as missing:
        pytest.skip(f"there is no {missing.filename}, of util-linux")
    except subprocess.CalledProcessError as failed:
        pytest.skip(f"other users cannot run {sys.executable}: {failed.stderr.strip()[-200:]}")
    finally:
        if (folder / "python").exists():
            (folder / "python").rmdir()
    return found


def rehearsed(before: list[str], folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    (folder / "homes.sh").write_text(script)
    command = [*before, "sh", str(folder / "homes.sh"), str(folder / "world")]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=900, check=False)


@pytest.mark.slow
def test_three_homes_and_a_lead_publish_as_users_with_closed_folders(before: list[str], folder: Path) -> None:
    done = rehearsed(before, folder, SCRIPT.read_text())
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("closed       the four folders") == 2
    assert "INFO" not in done.stderr  # Prefect's words: its settings are those of the home
    users = {name: (folder / "world" / name) for name in ("lead", "north", "south", "west")}
    assert len({path.stat().st_uid for path in users.values()} - {0}) == 4
    assert not any((path / ".prefect").exists() for path in users.values())


@pytest.mark.slow
def test_a_folder_that_is_open_is_found(before: list[str], folder: Path) -> None:
    script = SCRIPT.read_text()
    opened = script.replace('mkdir -m 700 "$folder/$name"', 'mkdir -m 755 "$folder/$name"')
    assert opened != script
    done = rehearsed(before, folder, opened)
    assert done.returncode == 1
    assert "lead reads the folder of north" in done.stdout
