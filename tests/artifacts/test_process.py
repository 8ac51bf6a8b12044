"""What is set for the process is set while somebody works, and is taken back by the last one, however that ends."""

import logging
import os
import threading
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow.sklearn
import pytest
from mlflow.utils import environment

from tests.world import VARIABLES, in_one_sentence, mlflow_write, our_settings


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "HTTP_PROXY", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_the_environment_is_as_before_however_a_block_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "120")
    before = dict(os.environ)
    with our_settings(), our_settings():
        assert dict(os.environ) == VARIABLES | before, "the user's own setting wins"
    assert dict(os.environ) == before
    with pytest.raises(KeyboardInterrupt), our_settings():
        raise KeyboardInterrupt
    assert dict(os.environ) == before


def test_the_last_of_several_threads_takes_it_back() -> None:
    before, inside, end = dict(os.environ), threading.Event(), threading.Event()

    def work() -> None:
        with our_settings():
            inside.set()
            end.wait(60)

    other = threading.Thread(target=work)
    with our_settings():
        other.start()
        assert inside.wait(60)
    assert dict(os.environ) == VARIABLES | before
    end.set()
    other.join()
    assert dict(os.environ) == before


def test_no_proxy_is_asked_for_what_is_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example")
    monkeypatch.setenv("NO_PROXY", "example.org")
    with our_settings():
        assert os.environ["no_proxy"] == os.environ["NO_PROXY"] == "example.org,127.0.0.1"
    assert (os.environ["NO_PROXY"], os.environ.get("no_proxy")) == ("example.org", None)


def test_mlflows_logs_are_the_users_again() -> None:
    logger = logging.getLogger("mlflow")
    before = logger.level
    with in_one_sentence():
        assert logger.level == logging.CRITICAL
    assert logger.level == before


def test_of_two_threads_that_save_a_student_neither_leaves_mlflow_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first that began ends first: what the second one found is not what there was before."""
    before = dict(vars(environment)), [*warnings.filters]
    inside, go_on = [threading.Event(), threading.Event()], [threading.Event(), threading.Event()]

    def waits(student: int, *_: Any, **__: Any) -> None:
        inside[student].set()
        go_on[student].wait(20)

    monkeypatch.setattr(mlflow.sklearn, "save_model", waits)
    monkeypatch.setattr(
        mlflow_write, "mlflow_signature", lambda *_: {"inputs": None, "outputs": '[{"type": "double"}]'}
    )
    threads = []
    for student in range(2):
        fields = {"columns": (), "example": None, "code": (), "trusted_types": (), "student_file": b""}
        given: Any = (tmp_path, None, SimpleNamespace(student=student, **fields))
        threads.append(threading.Thread(target=mlflow_write.save, args=given))
        threads[-1].start()
        assert inside[student].wait(20)
    for student, thread in enumerate(threads):
        go_on[student].set()
        thread.join()
    assert (dict(vars(environment)), [*warnings.filters]) == before
