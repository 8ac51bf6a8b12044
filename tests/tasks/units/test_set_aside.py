"""Which units are set aside: by their own names alone; and none of them reaches a shard or a count of learning."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import world
from tests.support.made import frame_of
from tests.support.people import changed, people, tables_of_plan, write_tables
from tests.support.sentences import facts

COLUMNS = ["size", "shade", "visits"]
BY_UNIT = {"test__share": 0.3}
BY_CELLS = {"test__share": 0.3, "test__columns": COLUMNS, "data__unit": None}
ROWS = 600


def planned(folder: Path, private: pl.DataFrame, **changes: object) -> world.Plan:
    write_tables(folder, private)
    return changed(tables_of_plan(folder), **{"teachers__count": 7, "teachers__block": 3, **changes})


@pytest.fixture
def vault(tmp_path: Path) -> world.Vault:
    return world.Vault(tmp_path / "vault")


def key_in(vault: world.Vault) -> bytes:
    return world.derive(vault.make_secret("domains/people"), "split")


def rows_of(plan: world.Plan, vault: world.Vault, part: str) -> pl.DataFrame:
    encoding = world.learn_encoding(plan)
    found = list(
        world.one_row_a_unit(world.PrivateRows(plan, encoding, vault, key_in(vault), part=part), f"rows-{part}")
    )
    return pl.concat(found) if found else pl.DataFrame()


def shards(plan: world.Plan, encoding: world.Encoding, vault: world.Vault, **how: Any) -> pl.DataFrame:
    refs = world.split(world.PrivateRows(plan, encoding, vault, key_in(vault)), "shards", **how)
    return pl.concat([frame_of(ref, vault) for ref in refs])


def aside_of(plan: world.Plan, vault: world.Vault, private: pl.DataFrame) -> list[bool]:
    """For each raw row, whether it is set aside."""
    owners = private["person"].cast(pl.Binary)
    return world.of_part(plan, key_in(vault), world.TEST)(private, owners).to_list()


by_either = pytest.mark.parametrize("changes", [BY_UNIT, BY_CELLS], ids=["by unit", "by cells"])


@by_either
def test_what_is_learned_of_is_the_learning_part_and_all_of_it(
    tmp_path: Path, vault: world.Vault, changes: dict[str, object]
) -> None:
    """Shards of all kinds, one row a unit, and sums; and the test part is the rest."""
    private = people(ROWS, 1).with_columns(pl.Series("size", np.arange(ROWS) / 8))  # each row by its size
    plan = planned(tmp_path / "data", private, **changes)
    aside = pl.Series(aside_of(plan, vault, private))
    assert 0.12 < aside.mean() < 0.48  # type: ignore[operator]  # 256 people's rows are not, with probability 1e-7
    encoding, learned = world.learn_encoding(plan), private.filter(~aside)["size"].to_list()
    for how in ({}, {"aside": 0.3}):
        assert sorted(shards(plan, encoding, vault, **how)["size"]) == learned
    for part in (shards(plan, encoding, vault, share=0.5), rows_of(plan, vault, world.LEARNING)):
        assert set(part["size"]) <= set(learned)
    tested = rows_of(plan, vault, world.TEST)
    assert set(tested["size"]) <= set(private.filter(aside)["size"])
    assert tested.height == (private.filter(aside)["person"].n_unique() if plan.data.unit else int(aside.sum()))
    public = world.cast_rows(pl.read_parquet(plan.path("public")).select(encoding.features), encoding)
    codes = world.learn_codes([public], encoding.columns, coarse=8)
    blocks = world.gather(world.Coding(world.PrivateRows(plan, encoding, vault, key_in(vault)), codes), "units")
    assert sum(pl.read_ipc_stream(vault.read(block)).height for block in blocks) == len(learned)


@by_either
def test_no_row_moves_another_and_no_public_word_moves_any(
    tmp_path: Path, vault: world.Vault, changes: dict[str, object]
) -> None:
    """Names that are digests of cast rows would: 12 % of rows moved when two words of the vocabulary changed places."""
    private = people(ROWS, 1)
    plan = planned(tmp_path / "data", private, **changes)
    before = aside_of(plan, vault, private)
    if plan.data.unit:
        parts = private.with_columns(pl.Series("aside", before)).group_by("person").agg(pl.col("aside").n_unique())
        assert parts["aside"].max() == 1
    order = np.random.default_rng(0).permutation(ROWS)
    assert aside_of(plan, vault, private[order.tolist()]) == [before[at] for at in order]
    assert aside_of(plan, vault, private[:1]) == before[:1]
    public = pl.read_parquet(plan.path("public")).with_columns(shade=pl.lit("pale"))
    public.write_parquet(plan.path("public"))
    assert aside_of(plan, vault, private.with_columns(outcome=pl.lit("no"))) == before


STRANGE = sorted({*world.NULL_WORDS} - {"", "?", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "NaT"})
"""Words of a missing cell that may name a unit."""


@pytest.mark.parametrize("write", [pl.DataFrame.write_parquet, pl.DataFrame.write_ipc, pl.DataFrame.write_csv])
@by_either
def test_no_new_word_of_a_missing_cell_takes_the_name_of_a_unit(
    tmp_path: Path, changes: dict[str, object], write: Callable[[pl.DataFrame, Path], object]
) -> None:
    """Else a unit that was put aside could be learned from later, and is charged in the larger part."""
    named, path = pl.Series([*STRANGE, "NaT", "pale"]), tmp_path / "private.csv"
    write(people(len(named), 1).with_columns(person=named, shade=named), path)
    if "data__unit" in changes:
        ((raw, _),) = world.rows_with_units(world.open_private(str(path)), {"shade": "test.columns"})
        names = world.row_names(raw, ["shade"])
        expected = [len(word).to_bytes(7, "big") + word.encode() for word in named]
        expected[-2] = world.NULL_CELL
    else:
        ((_, names),) = world.rows_with_units(world.open_private(str(path), unit="person"), {})
        expected = [None if word == "NaT" else word.encode() for word in named]
    assert names.to_list() == expected


def test_a_declared_word_is_a_category_in_a_column_that_names_rows(tmp_path: Path) -> None:
    """It was read as a missing cell. Its name stays that of one: else units would move into the other part."""
    rows = people(60, 1).with_columns(shade=pl.Series(["None", "", "n.b.", "-", "pale", " None "] * 10))
    plan = changed(planned(tmp_path, rows, **BY_CELLS), data__format={"missing": ["n.b."]})
    rows.write_csv(tmp_path / "private.csv")
    encoding = world.learn_encoding(plan).model_copy(update={"words": ("shade",)})
    asked = world.columns_asked(plan, encoding)
    ((read, _),) = world.rows_with_units(world.open_private(str(tmp_path / "private.csv"), plan.data.format), asked)
    assert read["shade"][:6].to_list() == ["None", None, None, "-", "pale", "None"]
    usual = world.columns_asked(plan, world.learn_encoding(plan))
    ((before, _),) = world.rows_with_units(world.open_private(str(tmp_path / "private.csv"), plan.data.format), usual)
    assert world.row_names(read, COLUMNS).equals(world.row_names(before, COLUMNS))


def test_cells_have_one_name_in_every_format(tmp_path: Path, vault: world.Vault) -> None:
    private = people(ROWS, 1).with_columns(visits=pl.int_range(pl.len()).replace(3, None))  # names of their own
    plan = planned(tmp_path / "data", private, **{**BY_CELLS, "test__columns": ["visits", "shade"]})
    typed = aside_of(plan, vault, private)
    assert 0 < sum(typed) < ROWS
    words = private.with_columns(pl.col("visits").cast(pl.String), pl.format(" {}\0", "shade").alias("shade"))
    assert aside_of(plan, vault, words) == typed


def test_a_cell_that_says_nothing_is_not_the_one_beside_it(tmp_path: Path, vault: world.Vault) -> None:
    plan = planned(tmp_path / "data", people(ROWS, 1), **{**BY_CELLS, "test__columns": ["shade", "person"]})
    names = [f"p{at}" for at in range(400)]
    nothing = pl.Series([None] * 400, dtype=pl.String)
    first = pl.DataFrame({"shade": names, "person": nothing})
    other = pl.DataFrame({"shade": nothing, "person": names})
    of = world.of_part(plan, key_in(vault), world.TEST)
    assert of(first, nothing).to_list() != of(other, nothing).to_list()


def test_a_division_tells_key_share_and_names_apart(tmp_path: Path, vault: world.Vault) -> None:
    plan = planned(tmp_path / "data", people(ROWS, 1), **BY_CELLS)
    fewer = changed(plan, test__columns=COLUMNS[:2])
    more = changed(plan, test__share=0.31)
    homes = [(plan, vault), (plan, world.Vault(tmp_path / "other")), (fewer, vault), (more, vault)]
    for _, each in homes:
        key_in(each)
    found = [world.division_of(*item) for item in homes]
    assert len({item.commitment for item in found if item}) == 4
    assert world.division_of(plan, vault) == found[0]
    assert world.division_of(plan.model_copy(update={"test": None}), vault) is None


def test_rows_are_named_by_columns_that_every_file_holds(tmp_path: Path, vault: world.Vault) -> None:
    plan = planned(tmp_path / "data", people(60, 1), **BY_CELLS)
    (tmp_path / "parts").mkdir()
    for name, dropped in (("a", []), ("b", ["size"])):
        people(60, 2).drop(dropped).write_parquet(tmp_path / f"parts/{name}.parquet")
    encoding, plan = world.learn_encoding(plan), changed(plan, data__private=str(tmp_path / "parts"))
    with pytest.raises(world.WrongInput, match=facts("'size'", "test.columns")):
        shards(plan, encoding, vault)


def test_a_later_table_that_names_all_units_anew_is_another_division(tmp_path: Path, vault: world.Vault) -> None:
    plan = planned(tmp_path, people(40, 1), **BY_UNIT)
    key_in(vault)
    stored = [uuid.UUID(int=number) for number in range(40)]
    words, commitments = pa.array(list(map(str, stored))), list[str]()
    for ids in (words, words.cast(pa.large_string()), pa.array([each.bytes for each in stored], pa.uuid())):
        pq.write_table(pa.table({"person": ids, "label": pa.array(["a"] * 40)}), plan.path("private"))
        division = world.division_of(plan, vault)
        assert division is not None
        commitments.append(division.commitment)
    assert commitments[0] == commitments[1] != commitments[2]


GERMAN = {"separator": ";", "decimal": ",", "thousands": ".", "encoding": "latin-1"}


def written(folder: Path, **changes: object) -> world.Plan:
    """A plan whose private table is CSV, with digits in groups for the ids of units."""
    plan = planned(folder, people(ROWS, 1), **changes)
    table = people(ROWS, 1).with_columns(person=pl.Series([f"1.{at:03d}" for at in range(ROWS)]))
    table.write_csv(folder / "private.csv", separator=";")
    return changed(plan, data__private=str(folder / "private.csv"), data__format={"separator": ";"})


@by_either
def test_another_format_of_csv_files_is_another_naming_rule(
    tmp_path: Path, vault: world.Vault, changes: dict[str, object]
) -> None:
    """Under one commitment, 84 of 114 test units were in the learning part of the plan with digits in groups."""
    plan, _ = written(tmp_path / "data", **changes), key_in(vault)
    formats: list[dict[str, str]] = [{key: sign} for key, sign in GERMAN.items() if key != "thousands"]
    formats += [{}, GERMAN, {"thousands": " "}, {"encoding": "cp1252"}]
    found = []
    for form in formats:
        people(ROWS, 1).write_csv(plan.path("private"), separator=form.get("separator", ","))
        found.append(world.division_of(changed(plan, data__format=form), vault))
    assert len({item.naming for item in found if item}) == len({item.commitment for item in found if item})
    assert len({item.naming for item in found if item}) == len(formats)


@by_either
def test_the_naming_rule_of_usual_files_is_what_it_always_was(tmp_path: Path, changes: dict[str, object]) -> None:
    plan = written(tmp_path / "data", **changes)
    people(ROWS, 1).write_csv(plan.path("private"))
    field, columns = ("data.unit", ["person"]) if plan.data.unit else ("test.columns", COLUMNS)
    usual = json.dumps({field: [[column, False] for column in columns]})
    assert world.naming_rule(changed(plan, data__format={})) == usual
    people(ROWS, 1).with_columns(pl.col(pl.Float64).cast(pl.String)).write_parquet(tmp_path / "data/same.parquet")
    parquet = changed(plan, data__private=str(tmp_path / "data/same.parquet"), data__format=GERMAN)
    assert world.naming_rule(parquet) == usual  # of files that are not CSV, the format says nothing
