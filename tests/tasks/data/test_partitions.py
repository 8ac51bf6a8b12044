"""Folders by NAME=VALUE: a table whose paths name columns is refused in one sentence, which shows no private path."""

from pathlib import Path

import polars as pl
import pytest

from tests.support.sources import plan_over, ward
from tests.world import PRIVATE, WrongInput, find_files, parse_plan, private_table


def write(folder: Path, path: str, rows: pl.DataFrame) -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    rows.write_csv(file) if file.suffix == ".csv" else rows.write_parquet(file)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
@pytest.mark.parametrize("field", ["data.public", "data.test", PRIVATE])
def test_a_folder_whose_paths_name_a_column_is_refused(tmp_path: Path, field: str, suffix: str) -> None:
    write(tmp_path, f"ward/a.{suffix}", ward(3))
    assert len(find_files(str(tmp_path / "ward"), field)) == 1
    write(tmp_path, f"ward/deep/person=CANARY/b.{suffix}", ward(3))
    for root in ("ward", "ward//", "./ward/"):
        with pytest.raises(WrongInput, match=r"NAME=VALUE: write them into the files") as refused:
            find_files(f"{tmp_path}/{root}", field)
        assert "CANARY" not in str(refused.value)


def test_a_folder_above_the_table_may_be_called_anything(tmp_path: Path) -> None:
    write(tmp_path, "run=1/ward/a=b.csv", ward(3))
    for path in ("run=1", "run=1/ward", "run=1/ward/a=b.csv"):
        assert len(find_files(str(tmp_path / path), PRIVATE)) == 1
    assert len(find_files(str(tmp_path / "run=1" / "*" / "*.csv"), PRIVATE)) == 1


def test_where_only_labels_are_secret_no_path_names_them(tmp_path: Path) -> None:
    """A label that decides in which file its row lies moves all other rows, which are known by their places."""
    for label in ("no", "yes"):
        write(tmp_path / "ward", f"label={label}/a.parquet", ward(10))
    tables = plan_over("ward/*/*.parquet", tmp_path).model_dump(exclude_unset=True)
    assert len(private_table(parse_plan(tables)).files) == 2
    tables["privacy"]["secret"] = "labels"
    with pytest.raises(WrongInput, match="must hold the label within its files if"):
        private_table(parse_plan(tables))
    tables["data"]["label"] = "outcome"
    assert len(private_table(parse_plan(tables)).files) == 2
