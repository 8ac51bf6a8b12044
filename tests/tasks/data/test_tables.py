"""Tables: three formats, one meaning; every fault of a public table told in one sentence."""

import os
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.sentences import facts
from tests.world import (
    Encoding,
    EnvironmentFailed,
    Scaled,
    WrongInput,
    csv_names,
    data_csv_files,
    data_files,
    open_private,
    open_public,
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


def _nothing(_: Path) -> None:
    pass


def _empty_file(folder: Path) -> None:
    (folder / "t.csv").touch()


def _headings(folder: Path) -> None:
    (folder / "t.csv").write_text("age,city\n")


def _no_rows(folder: Path) -> None:
    FRAME.clear().write_parquet(folder / "t.parquet")


def _torn(folder: Path) -> None:
    FRAME.write_parquet(folder / "t.parquet")
    (folder / "t.parquet").write_bytes((folder / "t.parquet").read_bytes()[:-20])


def _another(folder: Path) -> None:
    (folder / "t.xlsx").write_bytes(b"PK\x03\x04")


def _several(folder: Path) -> None:
    FRAME.write_parquet(folder / "t.parquet")
    FRAME.write_csv(folder / "t.csv")


def _ragged(folder: Path) -> None:
    (folder / "t.csv").write_text("age,city\n1,Rome\n2,Bonn,3\n")


def _not_utf8(folder: Path) -> None:
    (folder / "t.csv").write_bytes(b"age,city\n1,\xff\xfe\n")


def _lacking(folder: Path) -> None:
    FRAME.write_parquet(folder / "a.parquet")
    FRAME.drop("age").write_parquet(folder / "b.parquet")


def _retyped(folder: Path) -> None:
    FRAME.write_parquet(folder / "a.parquet")
    FRAME.with_columns(pl.col("age").cast(pl.String)).write_parquet(folder / "b.parquet")


def _retyped_text(folder: Path) -> None:
    (folder / "a.csv").write_text("age\n1\n")
    (folder / "b.csv").write_text("age\nold\n")


def _nested(folder: Path) -> None:
    pl.DataFrame({"age": [{"years": 3}]}).write_parquet(folder / "t.parquet")


def _twice(folder: Path) -> None:
    (folder / "t.csv").write_text("age,age\n1,2\n")


def _utf16(folder: Path) -> None:
    (folder / "t.csv").write_bytes("age\n1\n".encode("utf-16"))


FAULTS: dict[Callable[[Path], None], str] = {
    _nothing: "is empty",
    _empty_file: "must begin with the names of its columns",
    _utf16: "it is UTF-16",
    _headings: "must hold at least one row",
    _no_rows: "must hold at least one row",
    _torn: "cannot be read as parquet",
    _another: "must be Parquet, Arrow IPC or CSV",
    _several: "must hold files of one format, but ",
    _ragged: "cannot be read as csv",
    _not_utf8: "cannot be read as csv",
    _lacking: "must hold the column 'age'",
    _retyped: "must hold column 'age' as one type in all files",
    _retyped_text: "must hold column 'age' as one type in all files",
    _nested: "got column 'age' of type struct",
    _twice: "must name each column once, got 'age' twice",
}


def read_public(folder: Path) -> None:
    table = open_public(str(folder))
    table.kinds(["age"])
    list(table.frames(["age"]))


@pytest.mark.parametrize(("make", "rule"), FAULTS.items(), ids=[make.__name__[1:] for make in FAULTS])
def test_a_fault_of_a_public_table_is_one_sentence(tmp_path: Path, make: Callable[[Path], None], rule: str) -> None:
    make(tmp_path)
    with pytest.raises(WrongInput) as wrong:
        read_public(tmp_path)
    sentence = str(wrong.value)
    assert sentence.startswith("data.public")
    assert rule in sentence
    assert "\n" not in sentence


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


def test_a_missing_file_is_wrong_input(tmp_path: Path) -> None:
    with pytest.raises(WrongInput, match=r"^data\.test must be a file, .* does not exist$"):
        open_public(str(tmp_path / "none.csv"), "data.test")


def test_a_pipe_is_no_table_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "rows.csv")
    for named in ("rows.csv", "*.csv", ""):
        with pytest.raises(WrongInput, match=r"^data\.test must be a file, "):
            open_public(str(tmp_path / named), "data.test")


def test_a_table_that_changed_its_type_does_not_fit_the_encoding(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("age\nold\n")
    age = Scaled(kind="numeric", name="age", mean=0, scale=1, fill=0, low=0, high=1, missing=False)
    encoding = Encoding(columns=(age,), label="y", classes=("a", "b"))
    with pytest.raises(WrongInput, match=facts("'age'", "a number", "categorical")):
        open_public(str(tmp_path / "t.csv")).check(encoding)


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


def test_bytes_that_are_not_text_in_a_text_column_are_mended(tmp_path: Path) -> None:
    offsets = pa.array([0, 2, 3], pa.int32()).buffers()[1]
    city = pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"\xff\xfea")])
    pq.write_table(pa.table({"city": city}), tmp_path / "t.parquet")
    assert read_private(tmp_path / "t.parquet", "city") == [("\\xff\\xfe",), ("a",)]


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


def test_names_of_a_text_file_are_its_first_line(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b'\xef\xbb\xbf"a b",c\r\n1,2\r\n')
    assert csv_names(tmp_path / "t.csv") == ["a b", "c"]
