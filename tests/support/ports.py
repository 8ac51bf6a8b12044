"""Ports for what a test starts by itself, of which each is asked for once.

The kernel gives ports from 32768 on to whoever asks for any, and between the look at one that is free and its use
another may be given it. Those of each worker of pytest lie below, in a range of its own.
"""

import os
import random
import socket
from contextlib import suppress

GIVEN: set[int] = set()
"""Those that were given in this process."""


def own_port() -> int:
    """A free port of loopback that no other worker of pytest tries, and the kernel gives to nobody meanwhile."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    candidates = set(range(10_000 + 1_000 * worker, 11_000 + 1_000 * worker)) - GIVEN
    for port in random.sample(sorted(candidates), len(candidates)):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            GIVEN.add(port)
            return port
    raise AssertionError("no port of this worker is free")
