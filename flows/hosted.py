"""The process of a server that a command starts for itself. Run as a script that imports nothing of ours:

    python -P hosted.py FACTORY DESCRIPTOR PARENT

It serves the ASGI application that a factory makes, on a socket that its parent has bound and listens on already; the
kernel ends it with the thread that started it. Started and watched by flows/server.py.
"""

import ctypes
import gc
import os
import signal
import socket
import sys

import uvicorn

PR_SET_PDEATHSIG = 1
"""From <linux/prctl.h>: sets the signal that a process gets when the thread that started it ends."""
YOUNG = 100_000
"""Objects that are made before garbage is looked for, as in flows/cli."""


def main(factory: str, descriptor: str, parent: str) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        sys.exit("its parent ended before it began")
    gc.set_threshold(YOUNG)
    config = uvicorn.Config(factory, factory=True, log_level="error", lifespan="on")
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(descriptor))])


if __name__ == "__main__":
    main(*sys.argv[1:])
