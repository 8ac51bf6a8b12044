"""A unit that was erased stays erased: whatever is learned from its domain's table later leaves its rows out."""

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import numpy as np
import polars as pl
import pytest

from tests.promises.test_erasing import UNIT, named
from tests.support.people import changed, people, tables_of_plan, write_tables
from tests.support.secret_labels import public_rows, tables
from tests.world import (
    COMMAS,
    NOBODY,
    Erased,
    Ledger,
    Plan,
    PrivateRows,
    Stores,
    TextFormat,
    Vault,
    erase,
    erased,
    erased_units,
    err,
    learn_encoding,
    one_row_a_unit,
    open_private,
    split,
    start,
    with_public,
)

KEY = bytes(32)


@pytest.fixture
def door(tmp_path: Path) -> Stores:
    door = Stores.of(tmp_path / "home")
    named(door, "people")
    return door


def plan_over(folder: Path, table: pl.DataFrame, **changes: object) -> Plan:
    return changed(tables_of_plan(write_tables(folder, table)), **changes)


def units_left(door: Stores) -> Erased:
    return Erased.of(door.vault, "people", erased_units(door, "people"))


def shards(plan: Plan, vault: Vault, folder: str, left_out: Erased) -> list[bytes]:
    refs = split(PrivateRows(plan, learn_encoding(plan), vault, KEY, left_out), folder)
    return [vault.read(ref) for ref in refs]


def one_a_unit(plan: Plan, vault: Vault, folder: str, left_out: Erased) -> list[bytes]:
    frames = one_row_a_unit(PrivateRows(plan, learn_encoding(plan), vault, KEY, left_out), folder)
    return [frame.write_ipc(None).getvalue() for frame in frames]


READERS: dict[str, Callable[[Plan, Vault, str, Erased], list[bytes]]] = {"split": shards, "one a unit": one_a_unit}


@pytest.mark.parametrize("reader", READERS)
def test_a_table_that_still_holds_it_reads_as_one_that_does_not(door: Stores, tmp_path: Path, reader: str) -> None:
    table = people(600, 1)
    erase(door, "people", UNIT)
    without = table.filter(pl.col("person") != UNIT)
    assert len(without) < len(table)
    whole, cut = plan_over(tmp_path / "whole", table), plan_over(tmp_path / "cut", without)
    read, left_out = READERS[reader], units_left(door)
    found = read(whole, door.vault, "a", left_out)
    assert found == read(cut, door.vault, "b", NOBODY) == read(cut, door.vault, "c", left_out)
    assert found != read(whole, door.vault, "d", NOBODY)


def test_it_is_known_by_its_name_however_the_table_writes_it(door: Stores, tmp_path: Path) -> None:
    erase(door, "people", "007")
    table = people(600, 1).with_columns(person=pl.Series(np.arange(600) % 90))
    whole, cut = (
        plan_over(tmp_path / name, rows) for name, rows in (("a", table), ("b", table.filter(pl.col("person") != 7)))
    )
    assert shards(whole, door.vault, "a", units_left(door)) == shards(cut, door.vault, "b", NOBODY)


def test_rows_of_nobody_are_left_out_as_ever(door: Stores, tmp_path: Path) -> None:
    erase(door, "people", UNIT)
    table = people(600, 1).with_columns(person=pl.when(pl.col("visits") < 4).then(pl.col("person")))
    plan = plan_over(tmp_path / "nulls", table)
    assert shards(plan, door.vault, "a", units_left(door)) == shards(
        plan_over(tmp_path / "cut", table.filter(pl.col("person") != UNIT)), door.vault, "b", NOBODY
    )


def test_all_units_at_once_may_come_back_and_other_domains_keep_theirs(door: Stores) -> None:
    named(door, "census")
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


@pytest.mark.slow
def test_a_further_session_on_the_same_table_does_not_read_it_back(home: Path, tmp_path: Path) -> None:
    table = people(3000, 1).with_columns(size=pl.when(pl.col("person") == UNIT).then(9.75).otherwise("size"))
    plan = plan_over(tmp_path / "data", table, labeling__cutoff=60)
    start(plan, home)
    vault, before = Vault(home / "vault"), len(list((home / "vault/shards/people").rglob("block-*")))
    erased(home, "people", UNIT)
    with err.capture() as opened:
        again = start(plan, home, new_session=True)
    assert "units of domain people are left out" in opened.get()
    assert UNIT not in opened.get()
    blocks = list((home / "vault/shards/people").rglob("block-*"))
    assert len(blocks) == before
    for block in blocks:
        ref = vault.find(str(block.relative_to(vault.root)))
        assert ref is not None
        assert 9.75 not in pl.read_ipc(vault.read(ref))["size"]
    assert Ledger.of(home).session(again.session).asked


@pytest.mark.parametrize(
    ("unit", "form"),
    [
        ("1.234", TextFormat(thousands=".", decimal=",")),
        ("1,5", TextFormat(separator=";", decimal=",")),
        ("1'234", TextFormat(thousands="'")),
        ("1 234,5", TextFormat(separator=";", thousands=" ", decimal=",")),
    ],
)
def test_a_name_of_digits_is_left_out_in_every_format(
    door: Stores, tmp_path: Path, unit: str, form: TextFormat
) -> None:
    erase(door, "people", unit)
    (tmp_path / "t.csv").write_text(f"person\n{unit}\nsomebody\n", encoding="utf-8")
    for how in (form, COMMAS.model_copy(update={"separator": form.separator})):
        frames = open_private(str(tmp_path / "t.csv"), how, "person").owned({}, units_left(door))
        assert [owner.to_list() for _, owner in frames] == [[b"somebody"]]


@pytest.mark.parametrize("stored", ["utf-8", "latin-1", "cp1250"])
@pytest.mark.parametrize("declared", get_args(TextFormat.model_fields["encoding"].annotation))
def test_no_encoding_that_is_declared_later_brings_a_unit_back(
    door: Stores, tmp_path: Path, stored: str, declared: str
) -> None:
    erase(door, "people", "José")
    (tmp_path / "t.csv").write_text("person\nJosé\nsomebody\n", encoding=stored)
    form = TextFormat.model_validate({"encoding": declared})
    frames = open_private(str(tmp_path / "t.csv"), form, "person").owned({}, units_left(door))
    assert [owner.to_list() for _, owner in frames] == [[b"somebody"]]
