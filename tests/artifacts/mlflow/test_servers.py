"""A server that the environment names is asked before anything depends on it, and told in one sentence."""

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

import pytest

from tests.world import EnvironmentFailed, check_answers

VARIABLE = "MLFLOW_TRACKING_URI"


class Forbidding(BaseHTTPRequestHandler):
    """It wants to know first who asks."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.send_error(401)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def port() -> Iterator[int]:
    """Where a server listens while the test lasts."""
    Forbidding.asked.clear()
    server = HTTPServer(("127.0.0.1", 0), Forbidding)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_server_that_refuses_the_question_has_answered(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"http://auditor:horse@127.0.0.1:{port}/")
    check_answers(VARIABLE)
    assert len(Forbidding.asked) == 1


def test_where_nobody_answers_is_told_without_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "http://auditor:horse@127.0.0.1:9/mlflow")
    with pytest.raises(EnvironmentFailed) as raised:
        check_answers(VARIABLE)
    assert str(raised.value).startswith("MLFLOW_TRACKING_URI names http://127.0.0.1:9/mlflow, but no server answers")


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg2", "mysql+pymysql"])
def test_a_database_server_that_is_not_there_is_told_at_once(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow tries for 100 seconds."""
    monkeypatch.setenv(VARIABLE, f"{scheme}://auditor:horse@127.0.0.1:9/mlflow")
    with pytest.raises(EnvironmentFailed, match=r"names [a-z0-9+]*://127\.0\.0\.1:9/mlflow, but no server answers"):
        check_answers(VARIABLE)


def test_a_database_server_is_asked_no_more_than_to_answer(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"postgresql://auditor:horse@127.0.0.1:{port}/mlflow")
    check_answers(VARIABLE)
    assert Forbidding.asked == []


@pytest.mark.parametrize("url", ["", "sqlite:////srv/mlflow.db", "databricks", "postgresql:///mlflow?host=/run"])
def test_what_is_no_server_is_not_asked(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[object]()
    monkeypatch.setattr(socket, "create_connection", asked.append)
    monkeypatch.setattr(socket.socket, "connect", lambda _, address: asked.append(address))
    monkeypatch.setenv(VARIABLE, url)
    check_answers(VARIABLE)
    assert asked == []
