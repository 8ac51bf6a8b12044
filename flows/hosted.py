"""The process of a server that a command starts for itself. Run as a script that imports nothing of ours:

    python -P hosted.py APPLICATION DESCRIPTOR PARENT

It serves an ASGI application (or calls a factory, if the name ends in `()`) on a socket that its parent has bound and
listens on already; the kernel ends it with the thread that started it. If the environment has CONCORD_UI_TOKEN, it
answers only requests with that token: in the address, which sets a cookie, or as a bearer token, as MLflow's clients
send MLFLOW_TRACKING_TOKEN. Started and watched by flows/server.py.
"""

import ctypes
import gc
import hmac
import os
import signal
import socket
import sys
from typing import Any

import uvicorn

PR_SET_PDEATHSIG = 1
"""From <linux/prctl.h>: sets the signal that a process gets when the thread that started it ends."""
YOUNG = 100_000
"""Objects that are made before garbage is looked for, as in flows/cli."""


def end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, or end now if it has."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit("its parent ended before it began")


REFUSED = ("/mlflow/assistant", "/mlflow/gateway")
"""Parts of MLflow's server that would send text to a model elsewhere."""


OPENING = b"""<!doctype html><title>Audit view</title><script>
localStorage.setItem("mlflow.assistant.fab.autoOpenedOnFirstLoad_v1", "true");
localStorage.setItem("mlflow.assistant.panelOpen_v1", "false");
location.replace("/" + location.hash);
</script>"""
"""Keeps MLflow's assistant from opening by itself, and goes on to the pages."""


class Guarded:
    """An ASGI application that answers only requests with a token, and none for what is REFUSED."""

    def __init__(self, application: Any, token: str) -> None:
        self.application = application
        self.address, self.bearer, self.cookie = (
            f"{kind}{token}".encode() for kind in ("token=", "Bearer ", "concord=")
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and any(part in scope["path"] for part in REFUSED):
            asked = scope["method"] == "GET"  # of its settings, which are none; a page would complain of no answer
            text = b"{}" if asked else b"Switched off: an audit view sends nothing elsewhere.\n"
            await respond(send, 200 if asked else 404, text, (b"content-type", b"application/json"))
        elif scope["type"] == "lifespan" or self.knows(dict(scope["headers"])):
            await self.application(scope, receive, send)
        elif scope["type"] != "http":
            await send({"type": "websocket.close"})
        elif hmac.compare_digest(scope["query_string"], self.address):
            cookie = self.cookie + b"; Path=/; HttpOnly; SameSite=Strict"
            await respond(send, 200, OPENING, (b"content-type", b"text/html"), (b"set-cookie", cookie))
        else:
            await respond(send, 403, b"Open the address that `concord ui` has printed.\n")

    def knows(self, headers: dict[bytes, bytes]) -> bool:
        """Whether a request with those headers has the token."""
        cookies = headers.get(b"cookie", b"").split(b"; ")
        return hmac.compare_digest(headers.get(b"authorization", b""), self.bearer) or any(
            hmac.compare_digest(cookie, self.cookie) for cookie in cookies
        )


async def respond(send: Any, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def main(application: str, descriptor: str, parent: str) -> None:
    end_with(int(parent))
    gc.set_threshold(YOUNG)
    factory = application.endswith("()")
    config = uvicorn.Config(application.removesuffix("()"), factory=factory, log_level="error", lifespan="on")
    config.load()
    if token := os.environ.pop("CONCORD_UI_TOKEN", None):
        config.loaded_app = Guarded(config.loaded_app, token)
    uvicorn.Server(config).run(sockets=[socket.socket(fileno=int(descriptor))])


if __name__ == "__main__":
    main(*sys.argv[1:])
