"""Tables: three formats, one meaning; every fault of a public table told in one sentence."""

from datetime import date
from itertools import permutations
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests import world
from tests.support.sources import plan_over, ward

FRAME = pl.DataFrame({"age": [30, 41, None], "city": ["Rome", "Bonn", None], "active": [True, None, False]})
NAMES = ("t.parquet", "t.arrow", "t.csv")


def write(frame: pl.DataFrame, path: Path) -> None:
    match path.suffix:
        case ".parquet":
            frame.write_parquet(path)
        case ".arrow":
            frame.write_ipc(path)
        case ".csv":
            frame.write_csv(path)


@pytest.mark.parametrize("name", NAMES)
def test_every_format_as_file_folder_and_glob(tmp_path: Path, name: str) -> None:
    write(FRAME, tmp_path / name)
    (tmp_path / "_SUCCESS").touch()
    for hidden in (".ipynb_checkpoints", "_temporary/0"):  # a private row would be read twice, and be two units
        (tmp_path / hidden).mkdir(parents=True)
        write(FRAME, tmp_path / hidden / name)
    for path in (tmp_path / name, tmp_path, tmp_path / "t.*", tmp_path / "**" / "t.*"):
        table = world.open_public(str(path))
        assert table.names == ("age", "city", "active")
        assert table.kinds(table.names) == {"age": "numeric", "city": "categorical", "active": "boolean"}
        read = pl.concat(table.frames(["city", "age"]))
        assert read.columns == ["city", "age"]
        assert read["city"].to_list() == FRAME["city"].to_list()
        assert read["age"].cast(pl.Int64).to_list() == FRAME["age"].to_list()
    write(FRAME.clear(), tmp_path / name)  # a private table may be empty
    frames = world.open_private(str(tmp_path / name)).frames({"age": "data.features"})
    assert [frame.height for frame in frames] in ([], [0])


KINDS: dict[str, tuple[object, list[Any]]] = {
    "numeric": (1, [pl.Int64, pl.Float64, pl.UInt8, pl.Decimal(38, 3), pl.Null]),
    "date": (date(2026, 11, 30), [pl.Date, pl.Datetime("us", "Europe/Rome"), pl.Datetime("ns"), pl.Null]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_files_may_store_a_column_in_several_types_of_one_kind(tmp_path: Path, kind: str) -> None:
    """As parts do that pandas writes: whole numbers are doubles in the part in which one is missing."""
    cell, types = KINDS[kind]
    for number, pair in enumerate(permutations(types, 2)):
        for at, dtype in enumerate(pair):
            cells = pl.Series([None if dtype == pl.Null else cell, None]).cast(dtype)
            put(tmp_path, f"{number}/{at}.parquet", pl.DataFrame({"seen": cells, "visits": [1, 2]}))
        table = world.open_public(str(tmp_path / str(number)))
        kinds = table.kinds(table.names)
        assert kinds["seen"] == kind
        assert [column.kind for column in world.learn_columns(table, table.names)] == [kind, "numeric"]
        assert world.ONE_VALUE not in world.remarks_on(table, kinds).get("seen", "")


def test_a_text_column_is_what_all_of_it_is(tmp_path: Path) -> None:
    rows = ["1,1,2020-01-02,x,,True"] * 100_000 + ["3.5,Rome, 2020-01-02 03:04:05 , NA,nan,false"]
    (tmp_path / "t.csv").write_text("a,b,c,d,e,f\n" + "\n".join(rows))
    table = world.open_public(str(tmp_path / "t.csv"))
    kinds = {"a": "numeric", "b": "categorical", "c": "date", "d": "categorical", "e": "null", "f": "boolean"}
    assert table.kinds(list("abcdef")) == kinds


def test_a_file_nobody_may_open_is_the_environment_s_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv").write_text("age\n1\n")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(world.EnvironmentFailed, match="Permission denied"):
        world.open_public(str(tmp_path / "t.csv"))


def test_frames_are_small_however_long_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world.data_files, "ROWS_IN_MEMORY", 10)
    (tmp_path / "t.csv").write_text("age\n" + "\n".join(map(str, range(35))))
    frames = list(world.open_private(str(tmp_path / "t.csv")).frames({"age": "data.features"}))
    assert [frame.height for frame in frames] == [10, 10, 10, 5]
    assert pl.concat(frames)["age"].cast(pl.Int64).to_list() == list(range(35))


def put(folder: Path, path: str, rows: pl.DataFrame) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    write(rows, folder / path)


def test_a_folder_above_the_table_may_be_called_anything(tmp_path: Path) -> None:
    put(tmp_path, "run=1/ward/a=b.csv", ward(3))
    for path in ("run=1", "run=1/ward", "run=1/ward/a=b.csv"):
        assert len(world.find_files(str(tmp_path / path), world.PRIVATE)) == 1
    assert len(world.find_files(str(tmp_path / "run=1" / "*" / "*.csv"), world.PRIVATE)) == 1


def test_where_only_labels_are_secret_no_path_names_them(tmp_path: Path) -> None:
    """A label that decides in which file its row lies moves all other rows, which are known by their places."""
    for label in ("no", "yes"):
        put(tmp_path / "ward", f"label={label}/a.parquet", ward(10))
    tables = plan_over("ward/*/*.parquet", tmp_path).model_dump(exclude_unset=True)
    assert len(world.private_table(world.parse_plan(tables)).files) == 2
    tables["privacy"]["secret"] = "labels"
    with pytest.raises(world.WrongInput, match="must hold the label within its files if"):
        world.private_table(world.parse_plan(tables))
    tables["data"]["label"] = "outcome"
    assert len(world.private_table(world.parse_plan(tables)).files) == 2
