"""Nothing private is published, and no private value is told to the operator: on success and on every failure path.

Marked values, names and counts are planted in the private table. After each run every byte of what is published is
searched for them, for keys, votes and plain digests of private files; the operator's side for values, keys and votes.
"""

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import tasks.certify
import tasks.track
from artifacts.cipher import KEY
from artifacts.errors import BudgetRefused, ConcordError, EnvironmentFailed, NotVerified, WrongInput
from artifacts.ledger import Ledger
from artifacts.plan import Plan
from artifacts.schemas import labels_schema
from artifacts.sections import StudentPlan
from artifacts.vault import Vault
from flows.erasure import erased, show_erasure
from flows.outcome import Summary
from flows.start import start, start_extension, start_study
from tasks.ending import close, forget
from tasks.release import Door
from tests import canary
from tests.canary import (
    NAME,
    ROWS,
    VALUE,
    Marks,
    canary_tables,
    leaks,
    moments_between,
    operated,
    published,
    vote_files,
)
from tests.people import changed, people, write_plan

GUARANTEE = {"session", "epsilon", "delta", "unit", "neighbours", "mechanism"}


@dataclass
class Scene:
    """A home folder, a plan over canaries, and what the console was told."""

    home: Path
    tables: dict[str, Any]
    capture: pytest.CaptureFixture[str]
    log: pytest.LogCaptureFixture
    told: list[str] = field(default_factory=list)

    @property
    def private(self) -> Path:
        return Path(self.tables["folder"], self.tables["data"]["private"])

    def plan(self, **changes: Any) -> Plan:
        return changed(self.tables, **changes)

    def run(self, *, new_session: bool = False, start_from: str | None = None, **changes: Any) -> Summary:
        return start(self.plan(**changes), self.home, new_session=new_session, start_from=start_from)

    def fails(self, error: type[BaseException], **changes: Any) -> str:
        """What a run that must fail says; nothing got out by it."""
        with pytest.raises(error) as failed:
            self.run(**changes)
        self.told.append(str(failed.value))
        self.nothing_got_out()
        return str(failed.value)

    def nothing_got_out(self, marks: Marks | None = None) -> None:
        """Of `marks`; by default, of all that the home has made of the private folder by now."""
        marks = marks or Marks.of(self.private, self.home)
        assert leaks(published(self.home), marks.with_names()) == []
        assert leaks(operated(self.home), marks) == []
        console = "".join((*self.capture.readouterr(), self.log.text, *self.told))
        assert marks.found(console.encode()) == set()
        assert [path for path in (self.home / "vault").rglob("*") if path.stat().st_mode & 0o077] == []


@pytest.fixture
def scene(home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Scene:
    return Scene(home, canary_tables(tmp_path / "data"), capfd, caplog)


def test_a_run_whose_teachers_tell_and_fail_publishes_nothing_private(scene: Scene) -> None:
    before = datetime.now(UTC)
    summary = scene.run(teachers__estimator="tests.canary.Teller")
    assert summary.answered > 0
    scene.nothing_got_out()
    for path in (scene.home / "released").rglob("*.arrow"):
        schema = pa.ipc.open_file(path).schema
        told = {name.decode(): value.decode() for name, value in schema.metadata.items()}
        assert set(told) == GUARANTEE
        assert schema.equals(labels_schema(2, told), check_metadata=True)
    door = max(path.stat().st_mtime for path in vote_files(scene.home))
    assert list(moments_between(published(scene.home), before.timestamp(), door)) == []
    assert list(moments_between(published(scene.home), door, datetime.now(UTC).timestamp()))  # they would be seen


@pytest.mark.slow
def test_noisy_counts_are_published_and_votes_are_not(scene: Scene) -> None:
    summary = scene.run(labeling__mechanism="noisy_votes", labeling__cutoff=None, student__refused="soft")
    assert summary.answered == summary.asked
    scene.nothing_got_out()


@pytest.mark.slow
def test_what_goes_wrong_after_a_run_tells_nothing(scene: Scene) -> None:
    """Each of these is found out at another place: vault, private table, ledger, test table, MLflow."""
    scene.run()
    votes = vote_files(scene.home)[0]
    whole = votes.read_bytes()
    votes.write_bytes(bytes(9) + whole[9:])
    assert "not what was written" in scene.fails(NotVerified)
    votes.write_bytes(whole)
    assert "--new-session" in scene.fails(BudgetRefused, teachers__count=61)
    file = next(scene.private.iterdir())
    rows = file.read_bytes()
    file.write_bytes(rows + f"{VALUE}-unit-new,1,{VALUE}-shade,1,yes,{VALUE}-note\n".encode())
    assert "version" in scene.fails(NotVerified)
    file.write_bytes(rows)
    test = Path(scene.plan().path("test"))
    pl.read_parquet(test).with_columns(outcome=pl.lit("perhaps")).write_parquet(test)
    assert "data.test" in scene.fails(WrongInput)
    test.unlink()
    (scene.home / "mlflow.db").write_bytes(b"no database")
    assert "MLflow" in scene.fails(EnvironmentFailed, data__test=None, student__seed=1)


@pytest.mark.slow
def test_the_end_of_a_session_tells_nothing_and_does_not_name_who_was_erased(scene: Scene) -> None:
    stays_open: dict[str, Any] = {
        "labeling__mechanism": "noisy_votes",
        "labeling__cutoff": None,
        "labeling__queries": 600,
    }
    summary = scene.run(**stays_open)
    marks, door = Marks.of(scene.private, scene.home), Door.of(scene.home)
    with pytest.raises(WrongInput) as open_still:
        forget(door, summary.session)
    close(door, summary.session, give_back=True)
    assert forget(door, summary.session)
    scene.told.append(str(open_still.value))
    assert "forgotten" in scene.fails(BudgetRefused, **stays_open)
    told = erased(scene.home, "people", f"{VALUE}-unit-p1-17")
    show_erasure(told)
    scene.told.append(json.dumps(told))
    with pytest.raises(WrongInput) as unheard_of:
        erased(scene.home, "nobody's", f"{VALUE}-unit-p1-17")
    scene.told.append(str(unheard_of.value))
    scene.nothing_got_out(marks)
    gone = {name: mark for name, mark in marks.literals.items() if name.startswith(("a private", "the key sessions/"))}
    assert any(name.startswith("the key") for name in gone)
    assert leaks([scene.home / "vault"], Marks(gone, {})) == []


@pytest.mark.slow
def test_an_encrypted_vault_keeps_what_is_private_from_whoever_has_the_disk(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, base64.b64encode(bytes(range(32))).decode())
    scene.run()
    for key in (None, base64.b64encode(bytes(32)).decode()):
        with monkeypatch.context() as other:
            other.delenv(KEY) if key is None else other.setenv(KEY, key)
            with pytest.raises(ConcordError) as refused:
                scene.run(student__seed=1)
            scene.told.append(str(refused.value))
    votes = vote_files(scene.home)[0]
    whole = votes.read_bytes()
    votes.write_bytes(whole[:-9] + bytes(9))
    with pytest.raises(NotVerified, match="not what was written") as changed:
        scene.run(start_from="release")
    votes.write_bytes(whole)
    scene.told.append(str(changed.value))
    scene.nothing_got_out()
    assert leaks([scene.home / "vault"], Marks(Marks.of(scene.private, scene.home).literals, {})) == []


@pytest.mark.parametrize("step", ["begin_batch", "commit_batch"])
@pytest.mark.slow
def test_a_door_that_is_killed_tells_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    step_of_old = getattr(Ledger, step)

    def dying(*arguments: Any, **named: Any) -> None:
        if step == "commit_batch":
            raise KeyboardInterrupt
        step_of_old(*arguments, **named)
        raise ArithmeticError(f"{VALUE}: {arguments}")  # a bug at the door, with votes in its message

    monkeypatch.setattr(Ledger, step, dying)
    scene.fails(KeyboardInterrupt if step == "commit_batch" else EnvironmentFailed)
    monkeypatch.undo()
    assert scene.run().answered > 0
    scene.nothing_got_out()


@pytest.mark.parametrize("mechanism", ["sparse_vector", "published", "confident", "laplace_votes"])
@pytest.mark.slow
def test_every_mechanism_publishes_nothing_private(scene: Scene, mechanism: str) -> None:
    cutoff = 4 if mechanism in ("sparse_vector", "published") else None
    scene.run(labeling__mechanism=mechanism, labeling__cutoff=cutoff, student__refused="soft")
    scene.nothing_got_out()


@pytest.mark.slow
def test_an_extended_session_publishes_nothing_private(scene: Scene, tmp_path: Path) -> None:
    first = scene.run(labeling__mechanism="noisy_votes", labeling__cutoff=None, labeling__queries=600)
    people(150, 9).drop("outcome", "person").write_parquet(tmp_path / "more.parquet")
    assert start_extension(first.session, tmp_path / "more.parquet", scene.home).asked_now > 0
    scene.nothing_got_out()
    start_study(first.session, StudentPlan(refused="drop"), scene.home)
    scene.nothing_got_out()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("runner", "estimator", "status"),
    [("threads", "Teller", 0), ("threads", "Glutton", 1), ("processes", "Native", 0), ("processes", "Glutton", 1)],
)
def test_the_command_leaves_nothing_private_in_its_console_and_in_prefect(
    tmp_path: Path, runner: str, estimator: str, status: int
) -> None:
    """A process and a Prefect server of its own, whose database and logs are below the home folder."""
    folder, home = tmp_path / "data", tmp_path / "home"
    private, few = canary_tables(folder)["data"]["private"], {"teachers__count": 60, "teachers__block": 30}
    talking = {"teachers__estimator": f"tests.canary.{estimator}", "teachers__runner": runner}
    plan = write_plan(folder, data__private=private, **few, **talking)
    command = [sys.executable, "-c", "from flows.cli import main; main()", "run", str(plan), "--home", str(home)]
    ended = subprocess.run(command, check=False, capture_output=True, env=os.environ | {"PYTHONPATH": os.getcwd()})
    assert ended.returncode == status, ended.stderr.decode()
    marks = Marks.of(folder / private, home)
    assert list((home / "prefect").glob("*.db"))
    assert leaks(published(home), marks.with_names()) == []
    assert leaks(operated(home), marks) == []
    assert marks.found(ended.stdout + ended.stderr) == set()


def headless(private: Path) -> None:
    """The first line is a row, and two of its cells are alike."""
    (private / f"{NAME}-0.csv").write_text(f"{VALUE}-1,{VALUE}-2,{VALUE}-1\n" * 9)


def another_format(private: Path) -> None:
    (private / f"{NAME}-0.csv").write_bytes(f"PAR1 {VALUE}".encode())
    for other in ("1", "2"):
        (private / f"{NAME}-{other}.csv").unlink()


def without_the_label(private: Path) -> None:
    for path in private.iterdir():
        path.write_text(path.read_text().replace("outcome", f"{NAME}-{VALUE}", 1))


def half_a_table(private: Path) -> None:
    table = canary.private_rows()
    for path in private.iterdir():
        table.write_parquet(path, compression="uncompressed", row_group_size=1000)
    rows = path.read_bytes()
    path.write_bytes(rows[:4] + b"?" * 20000 + rows[20004:])


@pytest.mark.parametrize("spoil", [headless, another_format, without_the_label, half_a_table])
def test_a_private_table_that_cannot_be_read_tells_nothing(scene: Scene, spoil: Callable[[Path], None]) -> None:
    spoil(scene.private)
    scene.fails(ConcordError)


def odd_types(rows: pl.DataFrame) -> pl.DataFrame:
    marked = pl.concat_str(pl.lit(f"{VALUE}-"), "visits")
    return rows.with_columns(
        size=pl.struct(marked, "size"), shade=pl.concat_list(marked), visits=marked.cast(pl.Binary)
    ).with_columns(person=pl.col("person").cast(pl.Categorical))


def test_private_types_of_every_kind_are_read_and_told_to_nobody(scene: Scene) -> None:
    shutil.rmtree(scene.private)
    scene.private.mkdir()
    odd_types(canary.private_rows()).write_parquet(scene.private / f"{NAME}-0.parquet")
    assert scene.run().asked > 0
    scene.nothing_got_out()


@pytest.mark.slow
def test_a_fit_that_prints_as_compiled_code_does_or_leaves_the_program_changes_nothing(scene: Scene) -> None:
    for fault in ("Native", "Quitter"):
        scene.run(teachers__estimator=f"tests.canary.{fault}", data__version=fault, new_session=True)
    scene.nothing_got_out()


def test_a_machine_that_gives_out_tells_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "MemoryError" in scene.fails(EnvironmentFailed, teachers__estimator="tests.canary.Glutton")

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device", f"/disk/{VALUE}")

    monkeypatch.setattr("artifacts.vault.os.fsync", full)
    assert "No space left" in scene.fails(EnvironmentFailed)


def test_planted_leaks_are_found_in_the_files_they_reach(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    summary = scene.run()
    described = tasks.certify.describe
    monkeypatch.setattr(
        "tasks.certify.describe",
        lambda *arguments: described(*arguments).model_copy(update={"data_version": f"1 ({ROWS:,} rows)"}),
    )
    file = next(scene.private.iterdir())
    monkeypatch.setattr("tasks.track._digest", lambda _: hashlib.sha256(file.read_bytes()).hexdigest())
    scene.run(start_from="certify")
    votes = vote_files(scene.home)[0]
    (scene.home / "results" / "votes").write_text(
        json.dumps({"votes": canary.votes_in(votes, Vault(scene.home / "vault")).tolist()}, indent=2)
    )
    key = (scene.home / "vault" / "secrets" / "sessions" / summary.session).read_bytes()
    (scene.home / "results" / "key").write_text(json.dumps({"key": base64.b64encode(key).decode()}))
    marks = Marks.of(scene.private, scene.home)
    found = leaks([*published(scene.home), *operated(scene.home)], marks)
    for where, what in (
        ("certificate.json", f"rows, {ROWS}"),
        ("report.html", f"rows, {ROWS}"),
        ("mlflow.db", f"rows, {ROWS}"),
        ("mlflow.db", f"sha256 of {file.name}"),
        ("results/votes", "votes"),
        ("results/key", summary.session),
    ):
        assert any(where in leak and what in leak for leak in found), f"{what} in {where} was not found"
