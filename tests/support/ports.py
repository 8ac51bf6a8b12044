"""Ports for servers that a test starts; each port is given out once.

The kernel gives any free port from 32768 on to whoever asks, so a port found free may be taken before it is used. The
ports here lie below, with a range for each worker of pytest.
"""

import os
import random
import socket
from contextlib import suppress

GIVEN: set[int] = set()
"""The ports that were given out in this process."""


def own_port() -> int:
    """A free loopback port that no other worker of pytest tries, and that the kernel gives to nobody."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    candidates = set(range(10_000 + 1_000 * worker, 11_000 + 1_000 * worker)) - GIVEN
    for port in random.sample(sorted(candidates), len(candidates)):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            GIVEN.add(port)
            return port
    raise AssertionError("no port of this worker is free")
