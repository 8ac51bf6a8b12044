"""Servers that the environment names, asked before anything depends on them: their own clients try for minutes, and
end in a traceback, when rows have been answered already. Checked by tests/artifacts/test_servers.py.
"""

import os
import socket
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import urlopen

from artifacts.errors import EnvironmentFailed

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
