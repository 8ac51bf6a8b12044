"""Lines: the first line of a CSV file names its columns; no other decides how the run ends, or what another line is."""

import csv
from pathlib import Path

import polars as pl
import pytest

from tests.world import (
    WrongInput,
    csv_names,
    data_csv_files,
    open_private,
    open_public,
    read_lines,
)

ASKED = {"size": "data.features", "label": "data.label"}
HEADER = b"size,label,unit"


def ending(folder: Path, *files: bytes) -> list[tuple[object, ...]] | str:
    """The rows of a private table of these files, with their units; or what stops the run."""
    folder.mkdir(exist_ok=True)
    for at, content in enumerate(files):
        (folder / f"{at}.csv").write_bytes(content)
    try:
        frames = open_private(str(folder), unit="unit").owned(ASKED)
        return [(*row, name) for frame, owner in frames for row, name in zip(frame.rows(), owner, strict=True)]
    except WrongInput as wrong:
        return str(wrong)


def test_a_header_is_asked_for_before_names_are_judged(tmp_path: Path) -> None:
    twice = b"size,size,label,unit\n1,2,a,7\n"
    assert "'size' twice" in str(ending(tmp_path / "t", twice))
    assert "1.csv lacks it" in str(ending(tmp_path / "t", twice, b"1,1,a,7\n"))


def test_a_name_that_nobody_asks_for_may_come_twice(tmp_path: Path) -> None:
    assert ending(tmp_path / "t", b"x,x,size,label,unit\n1,2,3,a,7\n") == [("3", "a", "7", b"7")]


ENDS = [b"\n", b"\r\n", b"\r"]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("last", [True, False])
def test_a_file_has_the_same_columns_with_rows_as_without(tmp_path: Path, end: bytes, last: bool) -> None:
    """All of a file whose lines end in a lone carriage return was its first line: its first row decided the status."""
    lines = [HEADER, b"1,a,7", b"2,b,8"]
    for rows in range(3):
        content = end.join(lines[: rows + 1]) + (end if last else b"")
        found = [("1", "a", "7", b"7"), ("2", "b", "8", b"8")]
        assert ending(tmp_path / "t", content) == found[:rows]


def test_a_header_without_end_is_cut_and_its_rest_is_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(data_csv_files, "LONGEST_LINE", 20)
    (tmp_path / "t.csv").write_bytes(HEADER + b"," + b"x" * 99 + b"\n1,a,7\n")
    assert csv_names(tmp_path / "t.csv") == ["size", "label", "unit", "xxxx"]
    assert [line.strip() for line in read_lines(tmp_path / "t.csv")] == ["1,a,7"]


SPELLED = [b"Ann", b'"Ann"', b' "Ann"', b'"Ann" ', b'   "Ann"\t', b"Ann\r", b'" Ann "']


def test_blanks_around_quotes_make_no_other_unit(tmp_path: Path) -> None:
    table = b'size, "label" , "unit" \n' + b"".join(b' "1", a,' + word + b"\n" for word in SPELLED)
    rows = ending(tmp_path / "t", table)
    assert {row[-1] for row in rows} == {b"Ann"}
    assert {row[:2] for row in rows} == {("1", "a")}


@pytest.mark.parametrize("limit", [1, 131_072, 2**40])
def test_a_row_is_what_it_is_whatever_limit_a_library_set(tmp_path: Path, limit: int) -> None:
    before = csv.field_size_limit(limit)
    try:
        assert ending(tmp_path / "t", HEADER + b"\n1," + b"\xff" * 200_000 + b",7\n3,a,8\n") == [
            ("1", "\\xff" * 200_000, "7", b"7"),
            ("3", "a", "8", b"8"),
        ]
    finally:
        csv.field_size_limit(before)


def test_public_columns_are_named_as_private_ones_are(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b'\xef\xbb\xbfsize, "shade" \r\n1,a\r\n2,b\r\n')
    table = open_public(str(tmp_path / "t.csv"))
    assert table.kinds(table.names) == {"size": "numeric", "shade": "categorical"}
    private = open_private(str(tmp_path / "t.csv")).frames(dict.fromkeys(table.names, "data.features"))
    assert pl.concat(table.frames(table.names)).rows() == pl.concat(private).rows() == [("1", "a"), ("2", "b")]
