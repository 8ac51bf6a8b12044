"""A unit that was erased stays erased: whatever is learned from its domain's table later leaves its rows out."""

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from tests.support.doors import KEYS
from tests.support.homes import door_of, name_domain
from tests.support.people import UNIT, changed, people, tables_of_plan, write_tables
from tests.support.secret_labels import public_rows, tables
from tests.world import (
    COMMAS,
    NOBODY,
    Erased,
    Plan,
    PrivateRows,
    Stores,
    TextFormat,
    erase,
    erased_units,
    learn_encoding,
    one_row_a_unit,
    open_private,
    rows_with_units,
    split,
    with_public,
)

KEY = bytes(32)


@pytest.fixture
def door(tmp_path: Path) -> Stores:
    return door_of(tmp_path / "home", "people")


def plan_over(folder: Path, table: pl.DataFrame, **changes: object) -> Plan:
    return changed(tables_of_plan(write_tables(folder, table)), **changes)


def units_left(door: Stores) -> Erased:
    return Erased.of(door.vault, "people", erased_units(door, "people"))


def shards(rows: PrivateRows, folder: str) -> list[bytes]:
    return [rows.vault.read(ref) for ref in split(rows, folder)]


def one_a_unit(rows: PrivateRows, folder: str) -> list[bytes]:
    return [frame.write_ipc(None).getvalue() for frame in one_row_a_unit(rows, folder)]


@pytest.mark.parametrize("read", [shards, one_a_unit])
def test_a_table_that_still_holds_it_reads_as_one_that_does_not(
    door: Stores, tmp_path: Path, read: Callable[[PrivateRows, str], list[bytes]]
) -> None:
    """Some of its rows are nobody's, and are left out as ever."""
    erase(door, "people", UNIT)
    table = people(600, 1).with_columns(person=pl.when(pl.col("visits") < 7).then(pl.col("person")))
    tables = {"whole": table, "cut": table.filter(pl.col("person").is_null() | (pl.col("person") != UNIT))}
    assert len(tables["cut"]) < len(table)

    def found(name: str, left_out: Erased) -> list[bytes]:
        plan = plan_over(tmp_path / name, tables[name])
        return read(PrivateRows(plan, learn_encoding(plan), door.vault, KEY, left_out), "rows")

    left_out = units_left(door)
    assert found("whole", left_out) == found("cut", NOBODY) == found("cut", left_out) != found("whole", NOBODY)


def test_all_units_at_once_may_come_back_and_other_domains_keep_theirs(door: Stores) -> None:
    name_domain(door, "census")
    erase(door, "people", None)
    assert erased_units(door, "people") == ()
    erase(door, "people", UNIT)
    assert len(erased_units(door, "people")) == 1
    assert erased_units(door, "census") == erased_units(door, "unheard of") == ()
    assert not door.vault.has_secret("domains/unheard of")


def test_its_features_are_no_public_rows_either(door: Stores, tmp_path: Path) -> None:
    table, vault = people(600, 1), door.vault
    gone = table["person"].unique().sort()[:40]
    vault.make_secret("domains/people")
    left_out = tuple(map(Erased.of(vault, "people").digest, gone))

    def made_public(name: str, rows: pl.DataFrame, digests: tuple[str, ...]) -> list[tuple[object, ...]]:
        plan = changed(tables(tmp_path / name, rows))
        return public_rows(with_public(plan, vault, [name], digests)).rows()

    found = made_public("whole", table, left_out)
    assert found == made_public("cut", table.filter(~pl.col("person").is_in(gone.implode())), ())
    assert found != made_public("whole", table, ())


GERMAN = TextFormat(separator=";", decimal=",")
WRITTEN: list[tuple[str, str, list[TextFormat]]] = [
    ("1.234", "utf-8", [TextFormat(thousands=".", decimal=","), COMMAS]),
    ("1,5", "utf-8", [GERMAN, TextFormat(separator=";")]),
    ("1'234", "utf-8", [TextFormat(thousands="'"), COMMAS]),
    ("1 234,5", "utf-8", [GERMAN.model_copy(update={"thousands": " "}), TextFormat(separator=";")]),
    *(
        ("José", stored, [TextFormat.model_validate({"encoding": each}) for each in KEYS["encoding"]])
        for stored in ("utf-8", "latin-1", "cp1250")
    ),
]
"""Units, the encoding of the file, and formats that may be declared of it."""


@pytest.mark.parametrize(("unit", "stored", "forms"), WRITTEN)
def test_no_format_that_is_declared_later_brings_a_unit_back(
    door: Stores, tmp_path: Path, unit: str, stored: str, forms: list[TextFormat]
) -> None:
    erase(door, "people", unit)
    (tmp_path / "t.csv").write_text(f"person\n{unit}\nsomebody\n", encoding=stored)
    for form in forms:
        frames = rows_with_units(open_private(str(tmp_path / "t.csv"), form, "person"), {}, units_left(door))
        assert [owner.to_list() for _, owner in frames] == [[b"somebody"]]
