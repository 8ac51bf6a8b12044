"""A server that a command starts for itself, in a process of its own. Run as a script, which imports nothing of ours:

    python -P hosted.py APPLICATION DESCRIPTOR PARENT

It serves the ASGI application, or the factory of one that `()` ends, on a socket that its parent has bound, and listens
on, already; and the kernel ends it with the thread that started it. Started and watched by flows/server.py.
"""

import ctypes
import os
import signal
import socket
import sys

import uvicorn

PR_SET_PDEATHSIG = 1
"""Of <linux/prctl.h>: the signal that a process gets when the thread that started it ends."""


def end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, or end now if it has."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("its parent ended before it began")


def main(application: str, descriptor: str, parent: str) -> None:
    end_with(int(parent))
    config = uvicorn.Config(
        application.removesuffix("()"), factory=application.endswith("()"), log_level="error", lifespan="on"
    )
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(descriptor))])


if __name__ == "__main__":
    main(*sys.argv[1:])
