"""MLflow's pages are for the operator alone: any user of MLflow can make it read any file of its owner's."""

import json
import shutil
import socket
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, ProxyHandler, Request, build_opener

import pytest

from tests.world import EnvironmentFailed, Page

SEARCH, CREATE = (f"/api/2.0/mlflow/experiments/{verb}" for verb in ("search", "create"))


@pytest.fixture(scope="module")
def page(mlflow_database: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """The pages of a store without runs."""
    home = tmp_path_factory.mktemp("page")
    shutil.copy(mlflow_database, home / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
        shown = Page(home, 0)
        yield shown
        shown.stop()


def ask(address: str, body: object = None, **headers: str) -> tuple[int, str]:
    """Status and text of the answer to a new browser."""
    sent = None if body is None else json.dumps(body).encode()
    asked = Request(address, sent, {"Content-Type": "application/json", **headers})
    try:
        with build_opener(ProxyHandler({}), HTTPCookieProcessor()).open(asked, timeout=240) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as refused:
        with refused:
            return refused.code, refused.read().decode()


@pytest.mark.slow
def test_the_address_opens_them(page: Page) -> None:
    status, text = ask(page.address)
    assert (status, "location.replace" in text) == (200, True)
    token = page.address.split("token=")[1].split("#")[0]
    status, text = ask(f"http://127.0.0.1:{page.port}/", Cookie=f"concord={token}")
    assert (status, "<!doctype html" in text.lower(), "<title>MLflow" in text) == (200, True, True)


def test_clients_of_mlflow_ask_with_the_token(page: Page) -> None:
    token = page.address.split("token=")[1].split("#")[0]
    assert ask(f"http://127.0.0.1:{page.port}{SEARCH}", {"max_results": 1}, Authorization=f"Bearer {token}")[0] == 200


def test_nobody_else_is_answered(page: Page) -> None:
    bodies = (None, {"name": "another", "artifact_location": "/home/of/the/vault"})
    unknown: tuple[dict[str, str], ...] = ({}, {"Cookie": "concord="}, {"Authorization": "Bearer "})
    for path in ("/", SEARCH, CREATE, "/get-artifact?path=x&run_uuid=x", "/?token=", "/?token=x"):
        for body, headers in product(bodies, unknown):
            assert ask(f"http://127.0.0.1:{page.port}{path}", body, **headers)[0] == 403, (path, body, headers)


def test_a_port_that_is_taken_is_an_error_and_not_asked(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(EnvironmentFailed, match=f"--port {port} cannot be had"):
            Page(tmp_path, port)


def test_another_error_does_not_blame_the_port(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file") as failed:
        Page(tmp_path / "gone", 0)  # where its log cannot be
    assert "--port" not in str(failed.value)


def test_nothing_of_an_audit_view_sends_text_elsewhere(page: Page) -> None:
    known = {"Authorization": f"Bearer {page.address.split('token=')[1].split('#')[0]}"}
    assistant = [f"/ajax-api/3.0/mlflow/assistant/{what}" for what in ("message", "config", "skills/install")]
    for path in (*assistant, "/gateway/mlflow/v1/chat/completions", "/gateway/proxy/x/y"):
        address = f"http://127.0.0.1:{page.port}{path}"
        status, text = ask(address, {"message": "x"}, **known)
        assert status in (403, 404, 501), (path, text)
        assert "disabled" in text or "Switched off" in text, (path, text)
        assert path not in assistant or ask(address, **known)[1] == "{}", path
