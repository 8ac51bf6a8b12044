"""What can go wrong, by the exit status it ends in, and addresses that lead nowhere.

Every message is one sentence for the person at the console. Servers that the environment names are asked before
anything depends on them: their own clients try for minutes; and in the address of an SQLite database a `?` begins
options, so that a path with one is written as SQLite's own file address. Checked by tests/artifacts/test_errors.py and
tests/artifacts/mlflow/test_servers.py.
"""

import os
import socket
from http.client import HTTPException
from pathlib import Path
from typing import ClassVar
from urllib.error import HTTPError
from urllib.parse import quote, unquote, urlsplit, urlunsplit
from urllib.request import urlopen


class ConcordError(Exception):
    """The root: whoever catches it prints the sentence and leaves with `exit_status`.

    It carries its sentence and nothing else: what it was raised over may hold private values, which `from None` hides
    from tracebacks alone. Some picklers, and so Prefect's results, keep both attributes.
    """

    exit_status: ClassVar[int] = 1
    __context__ = __cause__ = property(lambda _: None, lambda _, __: None)


class EnvironmentFailed(ConcordError):
    """The machine refused: disk, permission, server. Nothing is wrong with the plan."""

    exit_status = 1


class WrongInput(ConcordError):
    """The plan or a public table is wrong: names the field, the value and the rule."""

    exit_status = 2


class BudgetRefused(ConcordError):
    """The domain's budget does not cover what was asked, or a further session was not asked for."""

    exit_status = 3


class NotVerified(ConcordError):
    """Something that was written is not what was written: fail closed, spend nothing."""

    exit_status = 4


PATIENCE = 10.0
"""Seconds a server has to answer."""
PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306}
"""Servers that are asked, and where they listen if the address does not say."""


def check_answers(variable: str) -> None:
    """Raise EnvironmentFailed if the environment variable names an HTTP or database server and nothing answers there.

    A server that refuses the question, such as one that wants a password first, has answered.
    """
    url = urlsplit(os.environ.get(variable, ""))
    kind = url.scheme.partition("+")[0]
    if kind not in PORTS or not url.hostname:
        return
    place = urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2], query=""))  # without a password
    try:
        if kind.startswith("http"):
            with urlopen(f"{place.rstrip('/')}/health", timeout=PATIENCE):
                return
        with socket.create_connection((url.hostname, url.port or PORTS[kind]), timeout=PATIENCE):
            return
    except HTTPError:
        return
    except (OSError, HTTPException) as failed:
        reason = getattr(failed, "reason", failed)
    raise EnvironmentFailed(f"{variable} names {place}, where no server answers ({reason}): start it, or name another")


def sqlite_address(file: Path, driver: str = "") -> str:
    """The address of a database file, by an absolute path; `driver` where it is not the usual one."""
    if "?" not in str(file):
        return f"sqlite{driver and '+'}{driver}:///{file}"
    return f"sqlite+{driver or 'pysqlite'}:///file:{quote(str(file))}?uri=true"


def sqlite_file(address: str) -> Path | None:
    """The database file that an address means, where it is SQLite's."""
    kind, _, place = address.partition(":///")
    database, _, options = place.partition("?")
    if kind.partition("+")[0] != "sqlite" or not database:
        return None
    if database.startswith("file:") and "uri=true" in options.split("&"):
        return Path(unquote(database.removeprefix("file:")))
    return Path(database)
