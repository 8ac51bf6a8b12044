"""The process: its settings are read in one place, set while somebody works and taken back; its threads end."""

import ast
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mlflow.sklearn
import pytest
from mlflow.utils import environment

from tests import world
from tests.house import House
from tests.support.sentences import facts

NAMED = {str(field.validation_alias) for field in world.Settings.model_fields.values()}


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*world.VARIABLES, *NAMED, "HTTP_PROXY", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_the_environment_is_as_before_however_a_block_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "120")
    before = dict(os.environ)
    with world.our_settings(), world.our_settings():
        assert dict(os.environ) == world.VARIABLES | before, "the user's own setting wins"
    assert dict(os.environ) == before
    with pytest.raises(KeyboardInterrupt), world.our_settings():
        raise KeyboardInterrupt
    assert dict(os.environ) == before


def test_the_last_of_several_threads_takes_it_back() -> None:
    before, inside, end = dict(os.environ), threading.Event(), threading.Event()

    def work() -> None:
        with world.our_settings():
            inside.set()
            end.wait(60)

    other = threading.Thread(target=work)
    with world.our_settings():
        other.start()
        assert inside.wait(60)
    assert dict(os.environ) == world.VARIABLES | before
    end.set()
    other.join()
    assert dict(os.environ) == before


def test_no_proxy_is_asked_for_what_is_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example")
    monkeypatch.setenv("NO_PROXY", "example.org")
    with world.our_settings():
        assert os.environ["no_proxy"] == os.environ["NO_PROXY"] == "example.org,127.0.0.1"
    assert (os.environ["NO_PROXY"], os.environ.get("no_proxy")) == ("example.org", None)


def test_mlflows_logs_are_the_users_again() -> None:
    logger = logging.getLogger("mlflow")
    before = logger.level
    with world.in_one_sentence():
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
        world.mlflow_write, "mlflow_signature", lambda *_: {"inputs": None, "outputs": '[{"type": "double"}]'}
    )
    threads = []
    for student in range(2):
        fields = {"columns": (), "example": None, "code": (), "trusted_types": (), "student_file": b""}
        given: Any = (tmp_path, None, SimpleNamespace(student=student, **fields))
        threads.append(threading.Thread(target=world.mlflow_write.save, args=given))
        threads[-1].start()
        assert inside[student].wait(20)
    for student, thread in enumerate(threads):
        go_on[student].set()
        thread.join()
    assert (dict(vars(environment)), [*warnings.filters]) == before


ROOT = Path(__file__).parents[2]
FILLED = {
    *(f"flows/{name}.py" for name in ("server", "page", "install", "cli/app")),
    "artifacts/process.py",
    "tasks/asking/questions.py",
    "tasks/verify/checks.py",
}
"""What fills the environment for Prefect, MLflow and our own processes, or hands it on."""


def test_nobody_else_reads_the_environment() -> None:
    house = House(ROOT)
    readers = {
        path
        for path, tree in house.trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
    }
    assert readers == {*FILLED, "artifacts/settings.py"}


def test_unset_and_empty_variables_leave_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = world.Settings.now()
    assert plain.home == world.HOME
    for variable in NAMED - {"CONCORD_LEDGER"}:
        monkeypatch.setenv(variable, "")
    assert world.Settings.now() == plain


def test_a_ledger_that_is_meant_and_not_named_is_refused_by_the_name_of_its_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the home's own would be spent from, where another was meant."""
    monkeypatch.setenv("CONCORD_LEDGER", "")
    with pytest.raises(world.WrongInput, match=facts("CONCORD_LEDGER", "empty")):
        world.Settings.now()


def test_names_count_in_capitals_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("concord_ledger", "elsewhere")
    assert world.Settings.now().ledger is None


def test_every_variable_is_explained_to_operators() -> None:
    pages = "".join(path.read_text() for path in (ROOT / "README.md", *(ROOT / "deployments").rglob("*.md")))
    assert {variable for variable in NAMED if variable not in pages} == set()


def test_results_are_in_order() -> None:
    with world.Threads(3) as pool:
        assert list(pool.each(lambda item: -item, range(10))) == [-item for item in range(10)]


def test_what_runs_is_stopped_by_a_signal_that_another_thread_gets_and_nothing_else_begins() -> None:
    """A pool of Python's own waits until all is done, and may not even hear of the signal before."""
    begun, ended = list[int](), list[type[BaseException]]()
    running, submitted = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield from range(20)
        submitted.set()  # the signal comes while the pool is waited for, not amid Python's own `submit`

    def work(item: int) -> None:
        begun.append(item)
        try:
            if item == 0:
                running.set()
            if item == 1:
                running.wait(60)
                submitted.wait(60)
                signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            for _ in count():  # for ever
                time.sleep(0.001)
        except BaseException as end:
            ended.append(type(end))
            raise

    with pytest.raises(KeyboardInterrupt), world.Threads(2) as pool:
        list(pool.each(work, items()))
    assert (sorted(begun), ended) == ([0, 1], [world.Abandoned, world.Abandoned])


def test_python_without_docstrings_is_refused() -> None:
    """Published schemas hold them, and what was published with them was called changed."""
    asked = [sys.executable, "-OO", "-m", "concord", "budget"]
    ended = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (1, "", 1)
    assert re.search(facts("concord", "-OO", "PYTHONOPTIMIZE=2"), ended.stderr)


def test_a_clock_in_whose_year_no_student_can_be_written_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run was charged, and then ended in the traceback of the library that writes the student."""
    monkeypatch.setattr(time, "localtime", lambda: time.gmtime(0))
    with pytest.raises(world.EnvironmentFailed, match=facts("clock", 1970, 1980)), world.our_settings():
        pass


def test_an_error_lets_what_was_begun_end() -> None:
    begun, ended = threading.Event(), list[int]()

    def work(item: int) -> int:
        if item == 0:
            begun.wait(60)
            raise ValueError("the first")
        begun.set()
        time.sleep(0.05)
        ended.append(item)
        return item

    def failing() -> None:
        with world.Threads(2) as pool:
            for _ in pool.each(work, range(2)):
                pass

    with pytest.raises(ValueError, match="the first"):
        failing()
    assert ended == [1]
