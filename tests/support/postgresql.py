"""A temporary PostgreSQL server for a test, from Debian's packages, on a socket or a loopback port."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.ports import own_port


@dataclass(frozen=True)
class Server:
    """A server that is running.

    address   its database URL, without the driver
    socket    the path of its socket
    control   the beginning of the commands that start and stop it; its last word is the data's folder
    options   its settings, as words of a command
    """

    address: str
    socket: Path
    control: list[str]
    options: str

    def start(self) -> None:
        """Start it. Skips the test, with the reason, if it cannot be started."""
        _run([*self.control, "-o", self.options, "-l", f"{self.control[-1]}.log", "start"])

    def die(self) -> None:
        """End its processes at once: what they have not written to the disk is lost."""
        _run([*self.control, "-m", "immediate", "stop"])


@contextmanager
def server(password: str | None = None) -> Iterator[str]:
    """A database URL, without its driver. Skips the test, with the reason, if no server can be started.

    password   required of all clients, on a port; without one, anyone who reaches the socket may connect
    """
    with running(password, "fsync=off") as started:
        yield started.address


@contextmanager
def running(password: str | None, *settings: str) -> Iterator[Server]:
    """A server with those settings; see `server`."""
    programs = binaries()
    pytest.importorskip("psycopg")
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    as_owner = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    if as_owner:
        shutil.chown(folder, "postgres")
    data, port = folder / "data", own_port()
    listen = "" if password is None else "127.0.0.1"
    options = f"-k {folder} -c listen_addresses={listen} -p {port}" + "".join(f" -c {each}" for each in settings)
    secret = folder / "password"
    secret.write_text(password or "none is asked")
    entry = ["-A", "trust"] if password is None else ["-A", "scram-sha-256", f"--pwfile={secret}"]
    address = f"concord@/postgres?host={folder}&port={port}" if password is None else f"concord@127.0.0.1:{port}"
    started = Server(
        address, folder / f".s.PGSQL.{port}", [*as_owner, str(programs / "pg_ctl"), "-w", "-D", str(data)], options
    )
    try:
        _run([*as_owner, str(programs / "initdb"), "-D", str(data), "-U", "concord", "-E", "UTF8", *entry])
        started.start()
        yield started
        started.die()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def empty(address: str, kept: int = 0) -> None:
    """Take the ledger on a server back to its first entries; to none at all, not even their table, for 0."""
    import psycopg

    durably = f"postgresql://{address}&options=-csynchronous_commit%3Don"
    with psycopg.connect(durably, autocommit=True) as connection:
        connection.execute(f"DELETE FROM entries WHERE seq > {kept}" if kept else "DROP TABLE IF EXISTS entries")


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
