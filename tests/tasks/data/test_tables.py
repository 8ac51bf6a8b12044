"""Tables: three formats, one meaning; every fault of a public table told in one sentence."""

from pathlib import Path

import polars as pl
import pytest

from tests.support.sources import plan_over, ward
from tests.world import (
    PRIVATE,
    EnvironmentFailed,
    WrongInput,
    data_csv_files,
    data_files,
    find_files,
    open_private,
    open_public,
    parse_plan,
    private_table,
)

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
    for path in (tmp_path / name, tmp_path, tmp_path / "t.*"):
        table = open_public(str(path))
        assert table.names == ("age", "city", "active")
        assert table.kinds(table.names) == {"age": "numeric", "city": "categorical", "active": "boolean"}
        read = pl.concat(table.frames(["city", "age"]))
        assert read.columns == ["city", "age"]
        assert read["city"].to_list() == FRAME["city"].to_list()
        assert read["age"].cast(pl.Int64).to_list() == FRAME["age"].to_list()


def test_a_text_column_is_what_all_of_it_is(tmp_path: Path) -> None:
    rows = ["1,1,2020-01-02,x,,True"] * 100_000 + ["3.5,Rome, 2020-01-02 03:04:05 , NA,nan,false"]
    (tmp_path / "t.csv").write_text("a,b,c,d,e,f\n" + "\n".join(rows))
    table = open_public(str(tmp_path / "t.csv"))
    kinds = {"a": "numeric", "b": "categorical", "c": "date", "d": "categorical", "e": "null", "f": "boolean"}
    assert table.kinds(list("abcdef")) == kinds


CELLS = [
    '1, "Ann"',
    '1, "Ann, Bo" ',
    '1 ,\t"A""n"',
    '1,A"n"n',
    '1,"A"n',
    '"1"," Ann "',
    "1,",
    "1,Ann\r",
    "1,A\rn",
    "1,'Ann'",
]


@pytest.mark.parametrize("line", CELLS)
def test_a_cell_of_a_csv_file_is_the_same_in_public_as_in_private(tmp_path: Path, line: str) -> None:
    """A category that the encoding learned with its quotes would be met without them."""
    (tmp_path / "t.csv").write_bytes(f"age,city\n7,Bonn\n{line}\n8,Oslo\n".encode())
    public = pl.concat(open_public(str(tmp_path)).frames(["age", "city"])).rows()
    assert len(public) == 3
    assert public == read_private(tmp_path / "t.csv", "age", "city")


def test_a_file_nobody_may_open_is_the_environment_s_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.csv").write_text("age\n1\n")

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(EnvironmentFailed, match="Permission denied"):
        open_public(str(tmp_path / "t.csv"))


def read_private(path: Path, *columns: str) -> list[tuple[object, ...]]:
    frames = list(open_private(str(path)).frames(dict.fromkeys(columns, "data.features")))
    return pl.concat(frames).rows() if frames else []


LINES = {
    b"1,Rome\n": ("1", "Rome"),
    b"1,Rome\r\n": ("1", "Rome"),
    b' 1 ,"Ro,""me"\n': ("1", 'Ro,"me'),
    b'1,"Rome\n': ("1", "Rome"),
    b"1\n": ("1", None),
    b",?\n": (None, None),
    b"1,Rome,2,3\n": ("1", "Rome"),
    b"1,\xffR\n": ("1", "\\xffR"),
    b"1,a\x00b\n": ("1", "a\x00b"),
    b"1," + b"x" * 140_000 + b"\n": ("1", "x" * 140_000),
    b"1,Ro\rme\n": ("1", "Ro me"),
    b'1,"Ro\rme"\n': ("1", "Ro me"),
    b'1, "Ro,me" \n': ("1", "Ro,me"),
}


@pytest.mark.parametrize(("line", "cells"), LINES.items(), ids=[repr(line[:12]) for line in LINES])
def test_a_line_is_a_row_and_touches_no_other(tmp_path: Path, line: bytes, cells: tuple[object, ...]) -> None:
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfage,city\n7,Bonn\n" + line + b"\n8,Oslo")
    assert read_private(tmp_path / "t.csv", "age", "city") == [("7", "Bonn"), cells, ("8", "Oslo")]


def test_a_line_without_end_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_csv_files, "LONGEST_LINE", 10)
    (tmp_path / "t.csv").write_bytes(b"age,city\n1," + b"x" * 100 + b",3\n8,Oslo\n")
    assert read_private(tmp_path / "t.csv", "age", "city") == [("1", "x" * 8), ("8", "Oslo")]


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_private_table_has_no_rows(tmp_path: Path, name: str) -> None:
    write(FRAME.clear(), tmp_path / name)
    assert read_private(tmp_path / name, "age", "city") == []


def test_frames_are_small_however_long_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_files, "ROWS_IN_MEMORY", 10)
    (tmp_path / "t.csv").write_text("age\n" + "\n".join(map(str, range(35))))
    frames = list(open_private(str(tmp_path / "t.csv")).frames({"age": "data.features"}))
    assert [frame.height for frame in frames] == [10, 10, 10, 5]
    assert pl.concat(frames)["age"].cast(pl.Int64).to_list() == list(range(35))


def put(folder: Path, path: str, rows: pl.DataFrame) -> None:
    (folder / path).parent.mkdir(parents=True, exist_ok=True)
    write(rows, folder / path)


def test_a_folder_above_the_table_may_be_called_anything(tmp_path: Path) -> None:
    put(tmp_path, "run=1/ward/a=b.csv", ward(3))
    for path in ("run=1", "run=1/ward", "run=1/ward/a=b.csv"):
        assert len(find_files(str(tmp_path / path), PRIVATE)) == 1
    assert len(find_files(str(tmp_path / "run=1" / "*" / "*.csv"), PRIVATE)) == 1


def test_where_only_labels_are_secret_no_path_names_them(tmp_path: Path) -> None:
    """A label that decides in which file its row lies moves all other rows, which are known by their places."""
    for label in ("no", "yes"):
        put(tmp_path / "ward", f"label={label}/a.parquet", ward(10))
    tables = plan_over("ward/*/*.parquet", tmp_path).model_dump(exclude_unset=True)
    assert len(private_table(parse_plan(tables)).files) == 2
    tables["privacy"]["secret"] = "labels"
    with pytest.raises(WrongInput, match="must hold the label within its files if"):
        private_table(parse_plan(tables))
    tables["data"]["label"] = "outcome"
    assert len(private_table(parse_plan(tables)).files) == 2
