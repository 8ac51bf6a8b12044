"""A unit that was erased stays erased: whatever is learned from its domain's table later leaves its rows out."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests import world
from tests.support.doors import KEYS
from tests.support.homes import door_of, name_domain
from tests.support.people import UNIT, changed, people, tables_of_plan, write_tables
from tests.support.secret_labels import public_rows, tables

KEY = bytes(32)


@pytest.fixture
def door(tmp_path: Path) -> world.Stores:
    return door_of(tmp_path / "home", "people")


def plan_over(folder: Path, table: pl.DataFrame, **changes: object) -> world.Plan:
    return changed(tables_of_plan(write_tables(folder, table)), **changes)


def units_left(door: world.Stores) -> world.Erased:
    return world.Erased.of(door.vault, "people", world.erased_units(door, "people"))


def shards(rows: world.PrivateRows, folder: str) -> list[bytes]:
    return [rows.vault.read(ref) for ref in world.split(rows, folder)]


def one_a_unit(rows: world.PrivateRows, folder: str) -> list[bytes]:
    return [frame.write_ipc(None).getvalue() for frame in world.one_row_a_unit(rows, folder)]


@pytest.mark.parametrize("read", [shards, one_a_unit])
def test_a_table_that_still_holds_it_reads_as_one_that_does_not(
    door: world.Stores, tmp_path: Path, read: Callable[[world.PrivateRows, str], list[bytes]]
) -> None:
    """Some of its rows are nobody's, and are left out as ever."""
    world.erase(door, "people", UNIT)
    table = people(600, 1).with_columns(person=pl.when(pl.col("visits") < 7).then(pl.col("person")))
    tables = {"whole": table, "cut": table.filter(pl.col("person").is_null() | (pl.col("person") != UNIT))}
    assert len(tables["cut"]) < len(table)

    def found(name: str, left_out: world.Erased) -> list[bytes]:
        plan = plan_over(tmp_path / name, tables[name])
        return read(world.PrivateRows(plan, world.learn_encoding(plan), door.vault, KEY, left_out), "rows")

    left_out = units_left(door)
    assert (
        found("whole", left_out) == found("cut", world.NOBODY) == found("cut", left_out) != found("whole", world.NOBODY)
    )


def test_all_units_at_once_may_come_back_and_other_domains_keep_theirs(door: world.Stores) -> None:
    name_domain(door, "census")
    world.erase(door, "people", None)
    assert world.erased_units(door, "people") == ()
    world.erase(door, "people", UNIT)
    assert len(world.erased_units(door, "people")) == 1
    assert world.erased_units(door, "census") == world.erased_units(door, "unheard of") == ()
    assert not door.vault.has_secret("domains/unheard of")


def test_its_features_are_no_public_rows_either(door: world.Stores, tmp_path: Path) -> None:
    table, vault = people(600, 1), door.vault
    gone = table["person"].unique().sort()[:40]
    vault.make_secret("domains/people")
    left_out = tuple(map(world.Erased.of(vault, "people").digest, gone))

    def made_public(name: str, rows: pl.DataFrame, digests: tuple[str, ...]) -> list[tuple[object, ...]]:
        plan = changed(tables(tmp_path / name, rows))
        return public_rows(world.with_public(plan, vault, [name], digests)).rows()

    found = made_public("whole", table, left_out)
    assert found == made_public("cut", table.filter(~pl.col("person").is_in(gone.implode())), ())
    assert found != made_public("whole", table, ())


GERMAN = world.TextFormat(separator=";", decimal=",")
WRITTEN: list[tuple[str, str, list[world.TextFormat]]] = [
    ("1.234", "utf-8", [world.TextFormat(thousands=".", decimal=","), world.COMMAS]),
    ("1,5", "utf-8", [GERMAN, world.TextFormat(separator=";")]),
    ("1'234", "utf-8", [world.TextFormat(thousands="'"), world.COMMAS]),
    ("1 234,5", "utf-8", [GERMAN.model_copy(update={"thousands": " "}), world.TextFormat(separator=";")]),
    *(
        ("José", stored, [world.TextFormat.model_validate({"encoding": each}) for each in KEYS["encoding"]])
        for stored in ("utf-8", "latin-1", "cp1250")
    ),
]
"""Units, the encoding of the file, and formats that may be declared of it."""


@pytest.mark.parametrize(("unit", "stored", "forms"), WRITTEN)
def test_no_format_that_is_declared_later_brings_a_unit_back(
    door: world.Stores, tmp_path: Path, unit: str, stored: str, forms: list[world.TextFormat]
) -> None:
    world.erase(door, "people", unit)
    (tmp_path / "t.csv").write_text(f"person\n{unit}\nsomebody\n", encoding=stored)
    for form in forms:
        frames = world.rows_with_units(
            world.open_private(str(tmp_path / "t.csv"), form, "person"), {}, units_left(door)
        )
        assert [owner.to_list() for _, owner in frames] == [[b"somebody"]]
