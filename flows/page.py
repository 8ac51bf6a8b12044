"""The audit view: MLflow's pages over the store of a home, in a process of this command's own, for those who have the
address that `concord ui` prints.

Assumes      other users of the machine may connect to its port; anyone whom MLflow's server answers can have it read
             any file of its owner's, the vault too: an experiment's files may be anywhere
Guarantees   it answers only requests with a random token: in the address, which sets a cookie, or as a bearer token, as
             MLflow's clients send it. Nothing of it can send text elsewhere: the gateway is switched off, and the
             assistant, for which MLflow has no switch, is not answered
Not covered  root; other processes of the same user. Checked by tests/promises/test_own_page.py
"""

import hmac
import os
import secrets
from importlib import import_module
from pathlib import Path
from typing import Any

from concord.artifacts.settings import STORE, Settings
from concord.flows.server import Hosted

MLFLOW = "mlflow.server.fastapi_app"
TOKEN = "CONCORD_UI_TOKEN"
ALONE = {"MLFLOW_ENABLE_AI_GATEWAY": "false", "MLFLOW_ENABLE_REMOTE_ASSISTANT": "false"}
"""An audit view has no model of others beside it."""
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


def application() -> Guarded:
    """MLflow's server, guarded: made in the process of its own (flows/hosted.py)."""
    return Guarded(import_module(MLFLOW).app, os.environ.pop(TOKEN))


class Page(Hosted):
    """MLflow's pages, which open `at` a fragment. Raises EnvironmentFailed if the port is taken."""

    def __init__(self, home: Path, port: int, at: str = "#/experiments") -> None:
        token, log = secrets.token_hex(32), home / "mlflow-server.log"
        ended = f"MLflow's server, which this command started, has ended: see {log}"
        environment = {**os.environ, **ALONE, STORE: Settings.now().store_of(home), TOKEN: token}
        super().__init__("concord.flows.page:application", environment, log, ended, port)
        self.address = f"http://127.0.0.1:{self.port}/?token={token}{at}"
