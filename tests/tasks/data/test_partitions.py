"""Folders by NAME=VALUE: what a file's path names is a column, by that path alone, and a private one is not shown."""

from pathlib import Path

import polars as pl
import pytest

from concord.artifacts.errors import WrongInput
from concord.artifacts.home.vault import Vault
from concord.artifacts.plan import parse_plan
from concord.tasks.data import files
from concord.tasks.data.files import partition_of
from concord.tasks.data.tables import open_public
from concord.tasks.data.units import private_table
from tests.support.sources import plan_over, read, ward


def write(folder: Path, path: str, rows: pl.DataFrame) -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    rows.write_csv(file) if file.suffix == ".csv" else rows.write_parquet(file)


@pytest.mark.parametrize(
    ("path", "cells"),
    [
        ("year=2020/month=07/a.parquet", (("year", "2020"), ("month", "07"))),
        ("a.parquet", ()),
        ("=x/plain/a.parquet", ()),
        ("town=New%20York%2FEast/a.parquet", (("town", "New York/East"),)),
        ("x=1/x=2/a.parquet", (("x", "2"),)),
        ("a=b=c/year=x.parquet", (("a", "b=c"),)),
        ("odd=%ff%/a.parquet", (("odd", "\\xff%"),)),
        ("void=__HIVE_DEFAULT_PARTITION__/a.parquet", (("void", None),)),
    ],
)
def test_a_path_names_columns(path: str, cells: tuple[tuple[str, str | None], ...]) -> None:
    assert partition_of(f"/data/root=1/{path}", "/data/root=1") == cells


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_kinds_follow_from_all_paths_and_what_a_file_says_of_them_does_not_count(tmp_path: Path, suffix: str) -> None:
    for year, town in (("2020", "Rome"), ("2021", "7")):
        write(tmp_path, f"year={year}/town={town}/a.{suffix}", pl.DataFrame({"x": [1.5, 2.5], "town": ["no", "no"]}))
    table = open_public(str(tmp_path))
    assert table.kinds(["x", "year", "town"]) == {"x": "numeric", "year": "numeric", "town": "categorical"}
    assert pl.concat(table.frames(["year", "town"])).rows() == [("2020", "Rome")] * 2 + [("2021", "7")] * 2


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_a_private_partition_is_read_alone_as_in_company(
    tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault, values = (
        Vault(tmp_path / "vault"),
        ("7", "-0.0", "x%2Fy", "true", "2020-01-02", "__HIVE_DEFAULT_PARTITION__"),
    )
    for value in values:
        write(tmp_path / "all", f"day={value}/unit=u{value}/a.{suffix}", ward(3).drop("unit"))
        write(tmp_path / value, f"day={value}/unit=u{value}/a.{suffix}", ward(3).drop("unit"))

    def cells(folder: str) -> list[tuple[bytes | None, ...]]:
        return read(plan_over(folder, tmp_path, unit="unit"), vault, "day", "c")

    def alone() -> list[tuple[bytes | None, ...]]:
        return sorted((row for value in values for row in cells(value)), key=repr)

    assert sorted(cells("all"), key=repr) == alone()

    honest = files._file

    def typed(path: Path, number: int, root: str, *more: object) -> files.TableFile:
        """The planted fault: words are numbers, if those of all files are."""
        file = honest(path, number, root, *more)  # type: ignore[arg-type]
        said = [part.partition("=")[2] for other in Path(root).rglob("day=*") for part in (other.name,)]
        numbers = all(word.replace(".", "").lstrip("-").isdigit() for word in said)
        cells = tuple(
            (name, str(float(cell or 0)) if numbers and name == "day" else cell) for name, cell in file.partition
        )
        return files.TableFile(file.path, file.format, file.field, file.form, cells, file.called)

    monkeypatch.setattr(files, "_file", typed)
    assert sorted(cells("all"), key=repr) != alone()


def test_a_root_that_is_written_otherwise_names_the_same_columns(tmp_path: Path) -> None:
    write(tmp_path, "ward/town=Rome/a.parquet", ward(3))
    for root in (f"{tmp_path}/ward", f"{tmp_path}//ward//", f"{tmp_path}/./ward/"):
        assert [file.partition for file in files.find_files(root, "data.public")] == [(("town", "Rome"),)]


def test_a_path_of_a_private_table_is_shown_to_nobody(tmp_path: Path) -> None:
    write(tmp_path / "ward", "person=CANARY/a.csv", ward(3).drop("label"))
    (tmp_path / "ward" / "person=CANARY2").mkdir()
    (tmp_path / "ward" / "person=CANARY2" / "b.csv").write_text("other\n1\n")
    with pytest.raises(WrongInput, match=r"data\.unit") as refused:
        read(plan_over("ward", tmp_path, unit="unit"), Vault(tmp_path / "vault"), "c", "label")
    assert "CANARY" not in str(refused.value)
    (tmp_path / "ward" / "person=CANARY2" / "b.odd").write_text("")
    with pytest.raises(WrongInput, match=r"got file \d of") as refused:
        read(plan_over("ward", tmp_path, unit="unit"), Vault(tmp_path / "vault"), "c", "label")
    assert "CANARY" not in str(refused.value)


def test_where_only_labels_are_secret_no_path_names_them(tmp_path: Path) -> None:
    """A label that decides in which file its row lies moves all other rows, which are known by their places."""
    for label in ("no", "yes"):
        write(tmp_path / "ward", f"label={label}/a.parquet", ward(10).drop("label", "unit"))
    tables = plan_over("ward", tmp_path).model_dump(exclude_unset=True)
    assert len(private_table(parse_plan(tables)).files) == 2
    tables["privacy"]["secret"] = "labels"
    with pytest.raises(WrongInput, match="must hold the label within its files if"):
        private_table(parse_plan(tables))
    with pytest.raises(WrongInput, match="got it in their paths"):
        private_table(parse_plan({**tables, "data": {**tables["data"], "private": "ward/*/*.parquet"}}))
    tables["data"]["label"] = "outcome"
    assert len(private_table(parse_plan(tables)).files) == 2
