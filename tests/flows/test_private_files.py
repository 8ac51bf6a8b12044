"""Which domain a private file is of, and that it is no public one: by real path, inode and address, never by content.

A table cut by day or person holds one row a file. If equal content decided how a run ends, whoever supplies a public
file with a guess of such a row would learn whether it is right. The console alone notes it.
"""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import concord
from tests import world
from tests.support.openings import opening
from tests.support.people import changed, people, tables_of_plan, write_tables
from tests.support.sentences import facts, says
from tests.support.sources import asked_of, database

GUESS = people(2, 77).head(1)
"""The row of one private file, and a guess of it."""


def plan_of(folder: Path, domain: str, *, seed: Any = 1, **changes: Any) -> world.Plan:
    """A plan over two private files: one of many rows, and one of a single row that is the same for every domain."""
    found = tables_of_plan(write_tables(folder))
    parts = folder / "parts"
    parts.mkdir()
    people(50, seed).write_csv(parts / "monday.csv")
    GUESS.write_csv(parts / "tuesday.csv")
    found["data"]["private"], found["privacy"]["domain"] = str(parts), domain
    return changed(found, **changes)


def named(plan: world.Plan, home: Path, session: str = "") -> world.PrivateFiles:
    """The private table of a run that claimed its files for its domain, and opened a session if that has a name."""
    with world.running(plan, home) as run:
        own = world.PublicSource(path=run.plan.path("public"), digests=run.table("public").digests, batches=())
        private = world.PrivateFiles.of(run, [own])
        world.claim(run.stores, plan, private.files)
        if session:
            asked = opening(session, domain=plan.privacy.domain, commitment=session)
            run.stores.ledger.open_session(asked)
            files, contents = private.files, private.table.digests
            encoding = world.learn_encoding(plan)
            kept = world.Checkpoint(
                plan=plan, encoding=encoding, teachers=(), sources=(), files=files, private=contents
            )
            world.write_checkpoint(run.stores, session, kept)
    return private


NAMES: dict[str, Callable[[Path, Path], object]] = {
    "a symlink": lambda file, other: other.symlink_to(file),
    "a hard link": os.link,
    "a new name": Path.rename,
    "a copy": shutil.copy,
}
"""How a file gets another name."""
LINKS = ("a symlink", "a hard link")
TUESDAY = "parts/tuesday.csv"


@pytest.mark.parametrize("field", ["public", "test"])
@pytest.mark.parametrize("guess", [GUESS, GUESS.with_columns(visits=pl.col("visits") + 1)], ids=["right", "wrong"])
def test_a_guess_of_a_private_file_ends_the_run_the_same_right_or_wrong(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], guess: pl.DataFrame, field: str
) -> None:
    """Before: WrongInput, and exit status 2, if and only if the guess was right."""
    plan = plan_of(tmp_path / "a", "clinic-a", **{f"data__{field}": "guess.csv"})
    guess.write_csv(tmp_path / "a" / "guess.csv")
    named(plan, home)
    noted = f"a file of data.{field} holds the same bytes as one of data.private" in capsys.readouterr().err
    assert noted == guess.equals(GUESS)


@pytest.mark.parametrize("field", ["public", "test"])
@pytest.mark.parametrize("link", LINKS)
def test_a_private_file_is_no_public_one_by_any_of_its_names(home: Path, tmp_path: Path, field: str, link: str) -> None:
    for name in (TUESDAY, "alias.csv"):
        plan = plan_of(tmp_path / name, "clinic-a", **{f"data__{field}": name})
        NAMES[link](tmp_path / name / TUESDAY, tmp_path / name / "alias.csv")
        with pytest.raises(world.WrongInput, match=facts(f"data.{field}", "file of data.private")):
            named(plan, home)


@pytest.mark.parametrize("link", LINKS)
def test_a_private_file_is_read_once_by_whichever_of_its_names(home: Path, tmp_path: Path, link: str) -> None:
    """Before, each of its rows was two units, at the price of one."""
    plan = plan_of(tmp_path / "a", "clinic-a", data__private="parts/**/**/*.csv")
    assert len(named(plan, home).table.files) == 2
    NAMES[link](tmp_path / "a" / TUESDAY, tmp_path / "a" / "parts/latest.csv")
    with pytest.raises(world.WrongInput, match=facts("data.private", "link", "twice")):
        named(plan, home)


@pytest.mark.parametrize("rows", [0, 1])
def test_a_copy_in_another_domain_does_not_end_its_run(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: int
) -> None:
    """Before: refused if that file held a row, and not if it held none."""
    for domain in ("clinic-a", "clinic-b"):
        plan = plan_of(tmp_path / domain, domain, seed=ord(domain[-1]))
        GUESS.head(rows).write_csv(tmp_path / domain / TUESDAY)
        named(plan, home, f"{domain}-1")
    assert says(capsys.readouterr().err, "clinic-a", "data.private", "bytes")


@pytest.mark.parametrize("link", ["the file itself", "a new name", *LINKS])
def test_a_file_belongs_to_the_domain_that_named_it_first_by_any_of_its_names(
    home: Path, tmp_path: Path, link: str
) -> None:
    named(plan_of(tmp_path / "a", "clinic-a"), home, "clinic-a-1")
    file, other = tmp_path / "a" / TUESDAY, tmp_path / "b" / TUESDAY
    plan = plan_of(tmp_path / "b", "clinic-b", seed=2)
    if link in NAMES:
        other.unlink()
        NAMES[link](file, other)
    else:
        plan = plan.model_copy(update={"data": plan.data.model_copy(update={"private": str(file)})})
    with pytest.raises(world.WrongInput, match=facts("data.private", "'clinic-a'")):
        named(plan, home)


@pytest.mark.parametrize("field", ["public", "private"])
def test_the_inode_of_a_file_that_was_replaced_is_free_for_another(home: Path, tmp_path: Path, field: str) -> None:
    """A table that is written anew every night, beside it and then renamed, leaves its inode to some other file."""
    named(plan_of(tmp_path / "a", "clinic-a"), home, "clinic-a-1")
    plan = plan_of(tmp_path / "b", "clinic-b", seed=2, data__public="next.csv")
    people(9, 5).write_csv(tmp_path / "b" / "next.csv")
    anew = tmp_path / "a" / "anew.csv"
    GUESS.write_csv(anew)
    again = tmp_path / "b" / ("next.csv" if field == "public" else TUESDAY)
    os.link(tmp_path / "a" / TUESDAY, tmp_path / "kept")  # so that its inode is that of the next file
    again.unlink()
    anew.replace(tmp_path / "a" / TUESDAY)
    (tmp_path / "kept").rename(again)
    named(plan, home)


def test_neither_what_a_file_holds_nor_how_many_hold_rows_is_on_record(home: Path, tmp_path: Path) -> None:
    """Before, the ledger had an entry for each file that held a row, with a digest of its bytes, keyed by the vault."""
    plan = plan_of(tmp_path / "a", "clinic-a")
    first = named(plan, home)
    GUESS.head(0).write_csv(tmp_path / "a" / TUESDAY)
    second, ledger = named(plan, home), world.Ledger.of(home)
    assert [remark.kind for remark in ledger.remarks("clinic-a")] == ["secret", "holds", "holds"]
    held = (remark.about for remark in ledger.remarks("clinic-a") if remark.kind == "holds")
    assert world.names_held(world.Vault(home / "vault"), first.files) == tuple(held)
    assert first.files == second.files
    assert first.table.digests[0] == second.table.digests[0]
    assert first.table.digests[1] != second.table.digests[1]


@pytest.mark.slow
@pytest.mark.parametrize("link", NAMES)
def test_extend_takes_a_guess_of_the_private_file_and_no_other_name_of_it(
    session: str, plan: world.Plan, home: Path, tmp_path: Path, link: str
) -> None:
    """Before: WrongInput for the right guess alone."""
    private, other = Path(plan.path("private")), tmp_path / "another-name.csv"
    NAMES[link](private, other)
    if link == "a copy":
        assert world.start_extension(session, other, home).asked_now > 0
        return
    with pytest.raises(world.WrongInput, match=facts("--public", "data.private", "published")):
        world.start_extension(session, other, home)
    if link == "a new name":
        other.rename(private)


@pytest.mark.slow
def test_extend_goes_on_if_the_private_table_was_taken_away(
    session: str, plan: world.Plan, home: Path, arriving: Path
) -> None:
    private = Path(plan.path("private"))
    private.rename(private.with_name("away"))
    try:
        assert world.start_extension(session, arriving, home).asked_now == 150
    finally:
        private.with_name("away").rename(private)


def test_a_query_belongs_to_the_domain_that_named_it_first_whatever_it_finds(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: only while it found the same rows."""
    for domain in ("clinic-a", "clinic-b"):
        rows = people(20, ord(domain[-1]))
        source = asked_of(monkeypatch, database(tmp_path / "ward.db", rows.rows(), rows.columns))
        plan = plan_of(tmp_path / domain, domain, data__private=source, data__version=domain)
        if domain == "clinic-a":
            named(plan, home)
    with pytest.raises(world.WrongInput, match=facts("data.private", "'clinic-a'")):
        named(plan, home)


def test_a_private_frame_is_no_public_one(home: Path, tmp_path: Path) -> None:
    """Frames have no name: the same object is refused, and an equal one is noted."""
    frame = people(10, 1)
    with pytest.raises(world.WrongInput, match=facts("data.test", "frame of data.private")):
        concord.run(tables_of_plan(write_tables(tmp_path)), private=frame, test=frame, home=home)
