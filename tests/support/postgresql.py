"""A temporary PostgreSQL server for a test, from Debian's packages, on a socket or a loopback port."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.ports import own_port


@contextmanager
def server(password: str | None = None) -> Iterator[str]:
    """A database URL, without its driver. Skips the test, with the reason, if no server can be started.

    password   required of all clients, on a port; without one, anyone who reaches the socket may connect
    """
    programs = binaries()
    pytest.importorskip("psycopg")
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    as_owner = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if as_owner:
        shutil.chown(folder, "postgres")
    data, port = folder / "data", own_port()
    listen = "" if password is None else "127.0.0.1"
    options = f"-k {folder} -c listen_addresses={listen} -p {port} -c fsync=off"
    control = [*as_owner, str(programs / "pg_ctl"), "-D", str(data), "-w"]
    secret = folder / "password"
    secret.write_text(password or "none is asked")
    entry = ["-A", "trust"] if password is None else ["-A", "scram-sha-256", f"--pwfile={secret}"]
    try:
        _run([*as_owner, str(programs / "initdb"), "-D", str(data), "-U", "concord", "-E", "UTF8", *entry])
        _run([*control, "-o", options, "-l", str(folder / "log"), "start"])
        yield f"concord@/postgres?host={folder}&port={port}" if password is None else f"concord@127.0.0.1:{port}"
        _run([*control, "-m", "immediate", "stop"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def binaries() -> Path:
    """The folder of the server's programs. Skips the test if they are not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not found:
        pytest.skip("PostgreSQL is not installed in /usr/lib/postgresql")
    return found[-1]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    if done.returncode:
        pytest.skip(f"PostgreSQL cannot be started: {done.stderr.decode(errors='replace').strip()}")
