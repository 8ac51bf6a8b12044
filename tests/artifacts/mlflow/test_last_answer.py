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
Change = Callable[[Path], None]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(STORE, raising=False)
    (tmp_path / "mlartifacts" / "ward").mkdir(parents=True)
    (tmp_path / "mlartifacts" / "ward" / "report.html").touch()
    commit(tmp_path, "CREATE TABLE runs (number)")
    last(tmp_path).keep(lambda: ANSWER)
    return tmp_path


def last(home: Path, **question: object) -> LastAnswer:
    return LastAnswer(home, Vault(home / "vault"), "ward-1", {**QUESTION, **question})


def commit(home: Path, statement: str) -> None:
    with closing(sqlite3.connect(home / "mlflow.db")) as database, database:
        database.execute(statement)


def kept(home: Path) -> Path:
    return home / "results" / "shown-ward-1"


def test_it_is_given_back_to_the_same_question_alone(home: Path) -> None:
    assert last(home).still_true() == ANSWER
    assert last(home, files={"report.html": "b" * 64}).still_true() is None
    (home / "results" / "shown-ward-2").write_bytes(kept(home).read_bytes())
    assert LastAnswer(home, Vault(home / "vault"), "ward-2", QUESTION).still_true() is None


def commit_within_a_tick(home: Path) -> None:
    """A commit that leaves the file's size and time as they were, as one in the same tick of its clock does."""
    before = (home / "mlflow.db").stat()
    commit(home, "INSERT INTO runs VALUES (1)")
    os.utime(home / "mlflow.db", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (home / "mlflow.db").stat().st_size == before.st_size


def begin_to_write(home: Path) -> None:
    (home / "mlflow.db-journal").write_bytes(b"begun")


def lose_a_file(home: Path) -> None:
    (home / "mlartifacts" / "ward" / "report.html").unlink()


def lose_the_store(home: Path) -> None:
    (home / "mlflow.db").unlink()


def say_another(home: Path) -> None:
    kept(home).write_text(json.dumps(json.loads(kept(home).read_text()) | {"champion": False}))


def of_other_letters(home: Path) -> None:
    kept(home).write_text(json.dumps(json.loads(kept(home).read_text()) | {"seal": "é"}))


def of_half_a_letter(home: Path) -> None:
    kept(home).write_text(json.dumps(json.loads(kept(home).read_text()) | {"seal": "\ud800"}))


def nested(home: Path) -> None:
    kept(home).write_text("[" * 200_000)


def no_json(home: Path) -> None:
    kept(home).write_text("[1")


def no_answer(home: Path) -> None:
    kept(home).write_text("[1]")


def sealed_as_a_file_is(home: Path) -> None:
    """Whoever puts a file of rows to a session may choose what its digest is of: that must seal nothing."""
    trace, said = last(home)._trace(), {"run_id": "another", "model_uri": "models:/other/1", "champion": True}
    parts = ["last answer", json.dumps(["ward-1", QUESTION, said], sort_keys=True), str(trace)]
    rows = home / "rows.csv"
    rows.write_bytes(b"".join(len(part.encode()).to_bytes(8, "little") + part.encode() for part in parts))
    kept(home).write_text(json.dumps(said | {"seal": Vault(home / "vault").digest_file(rows)}))


@pytest.mark.parametrize(
    "change",
    [
        commit_within_a_tick,
        begin_to_write,
        lose_a_file,
        lose_the_store,
        say_another,
        of_other_letters,
        of_half_a_letter,
        nested,
        no_json,
        no_answer,
        sealed_as_a_file_is,
    ],
)
def test_it_is_not_given_back_once_anything_changed(home: Path, change: Change) -> None:
    change(home)
    assert last(home).still_true() is None


def test_a_store_of_others_is_asked_each_time(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STORE, "http://127.0.0.1:1")
    assert last(home).still_true() is None
    last(home).keep(lambda: pytest.fail("it was asked for what is not kept"))


def test_a_home_that_was_copied_is_asked_anew(home: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    there = tmp_path_factory.mktemp("copy") / "home"
    shutil.copytree(home, there)
    assert (last(home).still_true(), last(there).still_true()) == (ANSWER, None)


def test_nothing_is_kept_that_changed_while_it_was_asked(home: Path) -> None:
    def ask() -> Tracked:
        commit(home, "INSERT INTO runs VALUES (2)")
        return Tracked("another", "models:/ward-student/2")

    last(home).keep(ask)
    assert last(home).still_true() is None
    last(home).keep(lambda: None)
    assert last(home).still_true() is None
    last(home).keep(lambda: ANSWER)
    assert last(home).still_true() == ANSWER
