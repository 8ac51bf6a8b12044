"""A run that is repeated is answered by its memo, without Prefect and MLflow, and never once anything has changed."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tests import world
from tests.support.people import changed, tables_of_plan, write_tables

Change = Callable[[Path, str], object]


@dataclass(frozen=True)
class Ran:
    """A plan whose run has ended in a home with stores of its own, and that run's summary."""

    plan: world.Plan
    home: Path
    summary: world.Summary

    def read(self) -> world.Summary | None:
        return world.Memo(self.plan, self.home).read()


@pytest.fixture(scope="module")
def made() -> dict[str, Ran]:
    """The one run of all tests here."""
    return {}


@pytest.fixture
def ran(
    made: dict[str, Ran], plain_home: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Ran:
    """The run, its folder as it was left, in its own place."""
    monkeypatch.delenv(world.ADDRESS_VARIABLE, raising=False)
    folder = tmp_path_factory.getbasetemp() / "memo"
    home, kept = folder / "home", folder.with_name("memo-kept")
    monkeypatch.setenv(world.STORE, f"sqlite:///{home / 'mlflow.db'}")
    if not made:
        shutil.copytree(plain_home, home)
        plan = world.parse_plan(tables_of_plan(write_tables(folder / "data")))
        made["ran"] = Ran(plan, home, world.start(plan, home))
        shutil.copytree(folder, kept)
    shutil.rmtree(folder)
    shutil.copytree(kept, folder)
    return made["ran"]


def edited(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"!")


def commit_within_a_tick(home: Path, _: str) -> None:
    """A commit that leaves the file's size and time as they were, as one in the same tick of its clock does."""
    file = home / "mlflow.db"
    before = file.stat()
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE experiments SET last_update_time = 1")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert file.stat().st_size == before.st_size


CHANGES: dict[str, Change] = {
    "a released label": lambda home, session: edited(next((home / "released" / session / "labels").iterdir())),
    "the student": lambda home, session: edited(home / "released" / session / "student.skops"),
    "a file beside them": lambda home, session: (home / "released" / session / "more.txt").touch(),
    "the ledger": lambda home, _: world.Ledger.of(home).recap("people", 9.0, 4e-5, "a wider cap"),
    "who signs": lambda home, _: (home / "vault" / "secrets" / world.SIGNING_SECRET).unlink(),
    "MLflow, within a tick of the clock": commit_within_a_tick,
    "MLflow, at this moment": lambda home, _: (home / "mlflow.db-journal").write_bytes(b"begun"),
    "an artifact": lambda home, _: next(file for file in (home / "mlartifacts").rglob("*") if file.is_file()).unlink(),
    "MLflow's store": lambda home, _: (home / "mlflow.db").unlink(),
    "the memo": lambda home, _: edited(next((home / "results").glob("ended-*"))),
    "the memo's seal": lambda home, _: next((home / "results").glob("ended-*")).write_bytes(b"short"),
    "the domain's key": lambda home, _: (home / "vault" / "secrets" / "domains" / "people").unlink(),
    "a session's key": lambda home, session: (home / "vault" / "secrets" / "sessions" / session).unlink(),
    "the private table": lambda home, _: edited(home.parent / "data" / "private.csv"),
    "the public table": lambda home, _: (home.parent / "data" / "public.parquet").unlink(),
    "the test table": lambda home, _: edited(home.parent / "data" / "test.parquet"),
}


def test_a_repeated_run_says_what_a_full_one_says_and_does_nothing(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    full = world.start(ran.plan, ran.home, start_from="certify")
    before = {file: file.stat().st_mtime_ns for file in ran.home.rglob("*") if file.is_file()}
    monkeypatch.setattr(world.flows_api, "engine", None)  # calling it fails
    again = world.run(ran.plan, home=ran.home).summary
    assert json.loads(again.model_dump_json(exclude={"stages"})) == json.loads(full.model_dump_json(exclude={"stages"}))
    assert all(stage.cached for stage in again.stages)
    text = world.Memo(ran.plan, ran.home).file.read_bytes()[world.SEAL_BYTES :]
    assert {stage["seconds"] for stage in json.loads(text)["stages"]} <= {0.0}  # those of private stages are not kept
    assert (again.asked_now, again.spent_now["epsilon"], ran.summary.asked_now > 0) == (0, 0.0, True)
    assert {file: file.stat().st_mtime_ns for file in ran.home.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_is_given_back_once_anything_has_changed(ran: Ran, change: str) -> None:
    assert ran.read() is not None
    CHANGES[change](ran.home, ran.summary.session)
    assert ran.read() is None


def test_nothing_is_given_back_to_another_run(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    memo, other = world.Memo(ran.plan, ran.home), world.Memo(changed(ran.plan, student__refused="drop"), ran.home)
    assert other.read() is None
    other.file.write_bytes(memo.file.read_bytes())
    assert other.read() is None
    for variable in (world.ADDRESS_VARIABLE, world.STORE):  # whose owner wants every run on its record
        with monkeypatch.context() as patch:
            patch.setenv(variable, "http://127.0.0.1:1/api")
            assert memo.read() is None
    assert memo.read() is not None
    shutil.copytree(ran.home, elsewhere := ran.home.with_name("elsewhere"))
    monkeypatch.setenv(world.STORE, f"sqlite:///{elsewhere / 'mlflow.db'}")
    assert world.Memo(ran.plan, elsewhere).read() is None


def test_nothing_is_given_back_once_another_key_signs(
    ran: Ran, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = Ed25519PrivateKey.generate()
    file = tmp_path / "key.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    file.chmod(0o600)
    monkeypatch.setenv("CONCORD_SIGNING_KEY", str(file))
    assert ran.read() is None
    assert world.start(ran.plan, ran.home).certificate_digest
    assert ran.read() is not None


def test_nothing_is_kept_of_a_run_that_something_changed(ran: Ran) -> None:
    """A table while it lasted, or its certificate before its memo was written."""
    memo, summary = world.Memo(ran.plan, ran.home), ran.summary
    memo.file.unlink()
    before = memo.tables()
    memo.write(summary.model_copy(update={"certificate_digest": "0" * 64}), before)
    assert not memo.file.exists()
    edited(ran.home.parent / "data" / "private.csv")
    memo.write(summary, before)
    assert not memo.file.exists()
