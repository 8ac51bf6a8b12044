"""Servers that the environment names, asked before anything depends on them: their own clients try for minutes, and
end in a traceback, when rows have been answered already. Checked by tests/artifacts/test_servers.py.
"""

import os
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlsplit, urlunsplit
from urllib.request import urlopen

from artifacts.errors import EnvironmentFailed

PATIENCE = 10.0
"""Seconds a server has to answer."""


def check_answers(variable: str) -> None:
    """Raise EnvironmentFailed where the environment variable names an HTTP server and nothing answers there.

    A server that refuses the question, such as one that wants a password first, has answered.
    """
    url = urlsplit(os.environ.get(variable, ""))
    if url.scheme not in ("http", "https"):
        return
    place = urlunsplit(url._replace(netloc=url.netloc.rpartition("@")[2], query=""))  # without a password
    try:
        with urlopen(f"{place.rstrip('/')}/health", timeout=PATIENCE):
            return
    except HTTPError:
        return
    except (OSError, HTTPException) as failed:
        reason = getattr(failed, "reason", failed)
    raise EnvironmentFailed(f"{variable} names {place}, where no server answers ({reason}): start it, or name another")
