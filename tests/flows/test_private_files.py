"""Which domain a private file is of, and that it is no public one: told by the bytes of files that hold a row."""

from pathlib import Path

import polars as pl
import pytest

from concord.artifacts.errors import WrongInput
from concord.artifacts.plan import Plan
from concord.flows.run import Private, check_not_private, running
from concord.tasks.data.tables import find_files
from concord.tasks.door.admit import claim
from tests.support.people import changed, people, tables_of_plan, write_tables


def plan_of(folder: Path, domain: str, seed: int, rows: int, suffix: str = ".csv") -> Plan:
    """A plan over two private files: one of its own, and one of so many rows that are the same for every domain."""
    found = tables_of_plan(write_tables(folder))
    parts = folder / "parts"
    parts.mkdir()
    write(people(50, seed), parts / f"monday{suffix}")
    write(people(9, 77).head(rows), parts / f"tuesday{suffix}")
    found["data"]["private"], found["privacy"]["domain"] = str(parts), domain
    return changed(found)


def write(table: pl.DataFrame, file: Path) -> None:
    if file.suffix == ".csv":
        table.write_csv(file)
    elif file.suffix == ".parquet":
        table.write_parquet(file)
    else:
        table.write_ipc(file)


def named(plan: Plan, home: Path) -> Private:
    """The private table of a run that claimed its files for its domain."""
    with running(plan, home) as run:
        private = Private.of(run, ())
        claim(run.stores, plan, private.with_rows)
    return private


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow"])
def test_a_part_without_rows_belongs_to_nobody(home: Path, tmp_path: Path, suffix: str) -> None:
    assert len(named(plan_of(tmp_path / "a", "clinic-a", 1, 0, suffix), home).table.digests) == 2
    named(plan_of(tmp_path / "b", "clinic-b", 2, 0, suffix), home)  # as it goes with one row more in the part:
    named(plan_of(tmp_path / "c", "clinic-c", 3, 1, suffix), home)


def test_a_part_with_rows_belongs_to_the_domain_that_named_it_first(home: Path, tmp_path: Path) -> None:
    named(plan_of(tmp_path / "a", "clinic-a", 1, 3), home)
    with pytest.raises(WrongInput, match="belongs to domain 'clinic-a'"):
        named(plan_of(tmp_path / "b", "clinic-b", 2, 3), home)


def test_a_private_file_with_rows_is_no_public_one(home: Path, tmp_path: Path) -> None:
    private = named(plan_of(tmp_path / "a", "clinic-a", 1, 0), home)
    monday, tuesday = private.table.digests
    check_not_private("--public", [tuesday], private.with_rows)
    with pytest.raises(WrongInput, match=r"must not hold a file of data\.private"):
        check_not_private("--public", [monday], private.with_rows)


@pytest.mark.parametrize("text", ["", "\n", " \n\n", "\r\n"])
def test_blank_lines_are_no_rows(tmp_path: Path, text: str) -> None:
    (tmp_path / "part.csv").write_text(f"age,label\n{text}")
    (file,) = find_files(str(tmp_path / "part.csv"), "data.private")
    assert not file.holds_rows()
    (tmp_path / "part.csv").write_text(f"age,label\n{text}1,yes")
    assert file.holds_rows()
