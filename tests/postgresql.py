"""A PostgreSQL server of the test's own, from Debian's packages: started on a socket, gone at the end."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def server() -> Iterator[str]:
    """A database URL, without its driver. Skips the test, with the reason, where no server can be started."""
    binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not binaries:
        pytest.skip("PostgreSQL is not installed in /usr/lib/postgresql")
    pytest.importorskip("psycopg")
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    as_owner = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if as_owner:
        shutil.chown(folder, "postgres")
    data, options = folder / "data", f"-k {folder} -c listen_addresses= -c fsync=off"
    control = [*as_owner, str(binaries[-1] / "pg_ctl"), "-D", str(data), "-w"]
    try:
        _run([*as_owner, str(binaries[-1] / "initdb"), "-D", str(data), "-U", "concord", "-A", "trust", "-E", "UTF8"])
        _run([*control, "-o", options, "-l", str(folder / "log"), "start"])
        yield f"concord@/postgres?host={folder}"
        _run([*control, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        pytest.skip(f"PostgreSQL cannot be started: {done.stderr.decode(errors='replace').strip()}")
