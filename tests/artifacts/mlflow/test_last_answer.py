"""What MLflow answered last is given back while nothing changed that it looks at, and never after."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.world import STORE, LastAnswer, Tracked, Vault

ANSWER = Tracked("run", "models:/ward-student/1", champion=True)
QUESTION = {"domain": "ward", "files": {"report.html": "a" * 64}}
REPORT = "mlartifacts/ward/report.html"
KEPT = "results/shown-ward-1"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(STORE, raising=False)
    (tmp_path / REPORT).parent.mkdir(parents=True)
    (tmp_path / REPORT).touch()
    commit(tmp_path, "CREATE TABLE runs (number)")
    last(tmp_path).keep(lambda: ANSWER)
    return tmp_path


def last(home: Path, session: str = "ward-1", **question: object) -> LastAnswer:
    return LastAnswer(home, Vault(home / "vault"), session, {**QUESTION, **question})


def commit(home: Path, statement: str) -> None:
    with closing(sqlite3.connect(home / "mlflow.db")) as database, database:
        database.execute(statement)


def test_it_is_given_back_to_the_same_question_alone(home: Path) -> None:
    assert last(home).still_true() == ANSWER
    assert last(home, files={"report.html": "b" * 64}).still_true() is None
    (home / "results" / "shown-ward-2").write_bytes((home / KEPT).read_bytes())
    assert last(home, "ward-2").still_true() is None


def commit_within_a_tick(home: Path) -> None:
    """A commit that leaves the file's size and time as they were, as one in the same tick of its clock does."""
    before = (home / "mlflow.db").stat()
    commit(home, "INSERT INTO runs VALUES (1)")
    os.utime(home / "mlflow.db", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (home / "mlflow.db").stat().st_size == before.st_size


def sealed_as_a_file_is(home: Path) -> None:
    """Whoever puts a file of rows to a session may choose what its digest is of: that must seal nothing."""
    trace, said = last(home)._trace(), {"run_id": "another", "model_uri": "models:/other/1", "champion": True}
    parts = ["last answer", json.dumps(["ward-1", QUESTION, said], sort_keys=True), str(trace)]
    rows = home / "rows.csv"
    rows.write_bytes(b"".join(len(part.encode()).to_bytes(8, "little") + part.encode() for part in parts))
    (home / KEPT).write_text(json.dumps(said | {"seal": Vault(home / "vault").digest_file(rows)}))


def saying(**other: object) -> Callable[[Path], object]:
    """The kept answer with another value in it."""
    return lambda home: (home / KEPT).write_text(json.dumps(json.loads((home / KEPT).read_text()) | other))


CHANGES: dict[str, Callable[[Path], object]] = {
    "a commit within a tick": commit_within_a_tick,
    "a journal": lambda home: (home / "mlflow.db-journal").write_bytes(b"begun"),
    "no file": lambda home: (home / REPORT).unlink(),
    "no store": lambda home: (home / "mlflow.db").unlink(),
    "another answer": saying(champion=False),
    "a seal of other letters": saying(seal="é"),
    "a seal of half a letter": saying(seal="\ud800"),
    "nested": lambda home: (home / KEPT).write_text("[" * 200_000),
    "no JSON": lambda home: (home / KEPT).write_text("[1"),
    "no answer": lambda home: (home / KEPT).write_text("[1]"),
    "sealed as a file is": sealed_as_a_file_is,
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_is_not_given_back_once_anything_changed(home: Path, change: str) -> None:
    CHANGES[change](home)
    assert last(home).still_true() is None


def test_a_store_of_others_and_a_copied_home_are_asked_anew(
    home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path_factory.mktemp("copy") / "home"
    shutil.copytree(home, there)
    assert (last(home).still_true(), last(there).still_true()) == (ANSWER, None)
    monkeypatch.setenv(STORE, "http://127.0.0.1:1")
    assert last(home).still_true() is None
    last(home).keep(lambda: pytest.fail("it was asked for what is not kept"))


def test_nothing_is_kept_that_changed_while_it_was_asked(home: Path) -> None:
    def ask() -> Tracked:
        commit(home, "INSERT INTO runs VALUES (2)")
        return Tracked("another", "models:/ward-student/2")

    for asked, kept in ((ask, None), (lambda: None, None), (lambda: ANSWER, ANSWER)):
        last(home).keep(asked)
        assert last(home).still_true() == kept
