"""A home of an earlier version is backed up, upgraded once, and usable; a home of a later version is left alone."""

import errno
import os
import shutil
import sqlite3
from pathlib import Path

import pytest

from concord.artifacts.errors import EnvironmentFailed, NotVerified, WrongInput
from concord.artifacts.home.whole import FORMAT, UNFINISHED, check_format
from concord.artifacts.ledger.database import Entries
from concord.artifacts.ledger.ledger import Ledger
from concord.tasks.door.checkpoint import Checkpoint, PublicSource, write_checkpoint
from concord.tasks.door.erase import upgrade
from concord.tasks.door.release import Stores
from tests.artifacts.ledger.openings import CAP, opening
from tests.artifacts.ledger.test_chain import lines
from tests.support.console import concord
from tests.support.published import world

OLD = Path(__file__).parent / "ledger-format-1.sql"
"""The ledger after a run with 40 teachers and a cutoff of 4, before homes had a format."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home of format 1: domains `one` and `two`, each with a session that learned from the same private file."""
    home = tmp_path / "home"
    small = world(home)
    door = Stores.of(home)
    for name in ("one", "two"):
        door.ledger.name_domain(name, unit="one row", neighbours="add or remove one unit", **CAP)
        door.ledger.open_session(opening(f"{name}-1", domain=name, commitment=name))
        own = PublicSource(path="public.parquet", digests=("digest",), batches=small.batches)
        private = ("file of both", f"file of {name}")
        recipe = Checkpoint(plan=small.plan, encoding=small.encoding, teachers=(), sources=(own,), private=private)
        write_checkpoint(door.vault, f"{name}-1", recipe)
    return home


def backups(home: Path) -> list[Path]:
    return sorted((home / "backups").glob("*/ledger.db"))


def test_an_old_ledger_reads_as_it_was_written(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "ledger.db") as database:
        database.executescript(OLD.read_text())
    database.close()
    ledger = Ledger.of(tmp_path)
    ledger.verify()
    (session,) = ledger.sessions("people")
    assert (session.status, session.asked, session.refused, session.teachers) == ("spent", 22, 4, 40)
    before = lines(tmp_path)
    upgrade(tmp_path)
    assert lines(tmp_path) == before
    assert lines(backups(tmp_path)[0].parent) == before
    ledger.check_holding("elsewhere", ["any file"])


def test_the_private_files_of_known_sessions_are_put_on_the_record(home: Path) -> None:
    before = lines(home)
    upgrade(home)
    ledger = Ledger.of(home)
    held = {
        name: [remark.about for remark in ledger.remarks(name) if remark.kind == "holds"] for name in ("one", "two")
    }
    assert held == {"one": ["file of both", "file of one"], "two": ["file of both", "file of two"]}
    assert [domain.name for domain in ledger.linked("two")] == ["one"]  # they share a file: now that is on record
    with pytest.raises(WrongInput, match="belongs to domain 'one'"):
        ledger.check_holding("three", ["file of one"])
    assert lines(home)[: len(before)] == before
    assert ledger.total("one") == ledger.session("one-1").reserved
    (copy,) = backups(home)
    assert lines(copy.parent) == before
    assert (copy.stat().st_mode & 0o777, copy.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_it_is_done_once(home: Path) -> None:
    upgrade(home)
    after = lines(home)
    upgrade(home)
    assert lines(home) == after
    assert len(backups(home)) == 1
    assert check_format(home) == FORMAT


@pytest.mark.parametrize("dying", [0, 1, 2, 3])
def test_what_was_interrupted_is_finished_and_the_copy_is_of_before(
    home: Path, monkeypatch: pytest.MonkeyPatch, dying: int
) -> None:
    before, true, asked = lines(home), Ledger.hold, 0

    def hold(ledger: Ledger, domain: str, files: list[str]) -> None:
        nonlocal asked
        asked += 1
        if asked > dying:
            raise KeyboardInterrupt
        true(ledger, domain, files)

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "hold", hold)
        with pytest.raises(KeyboardInterrupt):
            upgrade(home)
    assert check_format(home) == 1
    upgrade(home)
    assert [lines(copy.parent) for copy in backups(home)] == [before]
    assert len(Ledger.of(home).remarks("two")) == 2


def test_nothing_is_written_before_the_copy_is_there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = lines(home)

    def torn(_: Entries, file: Path) -> bool:
        file.write_bytes(b"half of it")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Entries, "back_up", torn)
        with pytest.raises(KeyboardInterrupt):
            upgrade(home)
    assert lines(home) == before
    assert backups(home) == []
    upgrade(home)
    assert lines(backups(home)[0].parent) == before


def test_a_death_before_the_copy_has_its_name_leaves_it_to_be_made(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = lines(home)

    def dying(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", dying)
        with pytest.raises(KeyboardInterrupt):
            upgrade(home)
    assert lines(home) == before
    assert backups(home) == []
    upgrade(home)
    assert [lines(copy.parent) for copy in backups(home)] == [before]


def test_a_copy_of_before_the_upgrade_is_restored_first(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(home, tmp_path / "old")
    monkeypatch.setattr(os, "environ", {**os.environ, "CONCORD_WITNESS": str(tmp_path / "witness")})
    upgrade(home)
    shutil.rmtree(home)
    (tmp_path / "old").rename(home)
    with pytest.raises(NotVerified, match="older copy"):
        upgrade(home)
    assert concord("restore", "--reason", "the disk died", "--home", str(home))[0] == 0
    assert check_format(home) == FORMAT
    assert [Ledger.of(home).session(name).status for name in ("one-1", "two-1")] == ["closed", "closed"]


def test_a_disk_that_is_full_at_the_end_is_one_sentence(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true = os.replace

    def full(source: Path, target: Path) -> None:
        if Path(target).name == "format":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        true(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(EnvironmentFailed, match=r"cannot be written: No space left"):
            upgrade(home)
    upgrade(home)
    assert check_format(home) == FORMAT


def test_a_new_home_is_of_this_format(tmp_path: Path) -> None:
    assert check_format(tmp_path) == FORMAT
    assert set(os.listdir(tmp_path)) == {"format", UNFINISHED}


def test_a_later_versions_home_is_left_alone(home: Path) -> None:
    before = lines(home)
    (home / "format").write_text(f"{FORMAT + 1}\n")
    for command in (upgrade, check_format):
        with pytest.raises(NotVerified, match=f"is of format {FORMAT + 1} and this version of concord knows {FORMAT}"):
            command(home)
    assert lines(home) == before


def test_a_format_that_is_no_number_stops(home: Path) -> None:
    (home / "format").write_text("two")
    with pytest.raises(NotVerified, match="must hold the number of a format"):
        upgrade(home)
