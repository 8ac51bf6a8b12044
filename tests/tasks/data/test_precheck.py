"""What a plan would not recognise of the private table: shares, by the very rules that rows are read by."""

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests import world
from tests.support.people import changed, tables_of_plan, tallied, write_tables

ROWS = {
    "size": ["1.5", "x", "", "2"],
    "shade": ["dark", "purple", "NA", "light"],
    "visits": ["1", "2", "3", "4"],
    "outcome": ["yes", "Yes", "no", ""],
    "person": ["a", "", "NA", "b"],
}


def found(folder: Path, rows: dict[str, Any], suffix: str) -> world.Unmatched:
    tables = tables_of_plan(write_tables(folder))
    frame = pl.DataFrame(rows)
    file = folder / f"odd.{suffix}"
    frame.write_csv(file) if suffix == "csv" else frame.write_parquet(file)
    plan = changed(tables, data__private=file.name)
    return world.unmatched(world.private_table(plan), world.learn_encoding(plan))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_shares_by_hand(tmp_path: Path, suffix: str) -> None:
    seen = found(tmp_path, ROWS, suffix)
    assert (seen.label, seen.unit) == (0.5, 0.5)
    assert seen.features["size"] == 0.25
    assert seen.features["shade"] == 0.25
    assert seen.features["visits"] == 0.0


def test_numbers_beyond_their_bounds_are_seen_and_those_at_them_are_not(tmp_path: Path) -> None:
    pl.DataFrame(ROWS | {"cost": ["0", "4.0", "4.01", "much"]}).write_csv(tmp_path / "odd.csv")
    number: dict[str, Any] = {"label": "cost", "classes": None, "bounds": [0.0, 4.0]}
    plan = world.parse_plan(tallied(write_tables(tmp_path), private="odd.csv", **number))
    assert world.unmatched(world.private_table(plan), world.learn_encoding(plan)).label == 0.5


def test_a_table_without_rows_has_no_share(tmp_path: Path) -> None:
    empty = found(tmp_path, {name: pl.Series([], dtype=pl.String) for name in ROWS}, "parquet")
    assert (empty.label, empty.unit, set(empty.features.values())) == (0.0, 0.0, {0.0})


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("classes", [["no", "yes"], [" no", "yes\t"]])
def test_blanks_around_labels_and_classes_do_not_count_and_case_does(
    tmp_path: Path, suffix: str, classes: list[str]
) -> None:
    tables = tables_of_plan(write_tables(tmp_path))
    tables["data"]["classes"] = classes
    spelled = pl.DataFrame(
        ROWS | {"size": [1.5, 2.0, 3.0, 4.0], "visits": [1, 2, 3, 4], "outcome": [" yes", "yes \t", "\u00a0no", "no"]}
    )
    for name, rows in (("private", spelled), ("loud", spelled.with_columns(pl.col("outcome").str.to_uppercase()))):
        file = tmp_path / f"{name}.{suffix}"
        rows.write_csv(file) if suffix == "csv" else rows.write_parquet(file)
    plan = changed(tables, data__private=f"private.{suffix}")
    encoding = world.learn_encoding(plan)
    assert world.unmatched(world.private_table(plan), encoding).label == 0.0
    assert world.labelled_rows(str(tmp_path / f"private.{suffix}"), encoding)[1].tolist() == [1, 1, 0, 0]
    loud = world.private_table(changed(tables, data__private=f"loud.{suffix}"))
    assert world.unmatched(loud, encoding).label == 1.0


def test_what_a_dictionary_declares_to_be_missing_is_not_unknown(tmp_path: Path) -> None:
    ages, days = {"minimum": 0, "maximum": 120}, {"minimum": "2000-01-01", "maximum": "2030-01-01"}
    fields = [
        {"name": "age", "type": "integer", "constraints": ages, "missingValues": ["999", "?!"]},
        {"name": "day", "type": "date", "format": "%d.%m.%Y", "constraints": days},
    ]
    rows = {"age": ["1", "999", "?!", "old"], "day": ["1.2.2020", "31.12.2020", "2020-13-01", ""]}
    pl.DataFrame(rows).with_columns(outcome=pl.lit("yes")).write_csv(tmp_path / "odd.csv")
    declared: dict[str, Any] = {"private": "odd.csv", "schema": {"fields": fields}}
    plan = world.parse_plan(tallied(write_tables(tmp_path), public=None, test=None, unit=None, **declared))
    seen = world.unmatched(world.private_table(plan), world.reading_encoding(plan))
    assert seen.features == {"age": 0.25, "day": 0.25}


@pytest.mark.parametrize("stored", [pl.Binary, pl.List(pl.Int64), pl.Duration])
def test_a_feature_of_which_no_cell_can_be_read_is_refused_by_its_stored_type(tmp_path: Path, stored: Any) -> None:
    """Before, each of its cells was missing or undeclared, at full price; whatever its cells are."""
    tables = tables_of_plan(write_tables(tmp_path))
    encoding = world.learn_encoding(changed(tables))
    odd = pl.DataFrame(ROWS).with_columns(shade=pl.Series([None] * 4, dtype=stored))
    odd.write_ipc(tmp_path / "odd.arrow", compat_level=pl.CompatLevel.oldest())
    with pytest.raises(world.WrongInput, match=r"'shade' in a type that is not read as categorical, in .*odd\.arrow"):
        world.check_types(world.open_private(str(tmp_path / "odd.arrow")), encoding)
    pl.DataFrame(ROWS).write_parquet(tmp_path / "right.parquet")
    world.check_types(world.open_private(str(tmp_path / "right.parquet")), encoding)
