"""Lines: the first line of a CSV file names its columns; no other decides how the run ends, or what another line is.

Of any lines, in every declared format, this is asked by tests/privacy/test_row_alone.py; here stands what lines are.
"""

import csv
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.world import WrongInput, csv_names, data_csv_files, open_private, open_public, read_rows, rows_with_units

HEADER = b"size,label,unit"
Rows = list[tuple[Any, ...]]


def ending(folder: Path, *files: bytes) -> Rows | str:
    """The rows of a private table of these files, with their units; or what stops the run."""
    folder.mkdir(exist_ok=True)
    for at, content in enumerate(files):
        (folder / f"{at}.csv").write_bytes(content)
    try:
        frames = rows_with_units(
            open_private(str(folder), unit="unit"), {"size": "data.features", "label": "data.label"}
        )
        return [(*row, name) for frame, owner in frames for row, name in zip(frame.rows(), owner, strict=True)]
    except WrongInput as wrong:
        return str(wrong)


LINES: dict[bytes, tuple[str | None, ...]] = {
    b"1,Ann": ("1", "Ann"),
    b"1,Ann\r": ("1", "Ann"),
    b'1, "Ann"': ("1", "Ann"),
    b'1, "Ann, Bo" ': ("1", "Ann, Bo"),
    b'1 ,\t"A""n"': ("1", '"A""n"'),
    b' 1 ,"Ro,""me"': ("1", 'Ro,"me'),
    b'1,A"n"n': ("1", 'A"n"n'),
    b'1,"A"n': ("1", "An"),
    b'"1"," Ann "': ("1", "Ann"),
    b"1,": ("1", None),
    b"1,A\rn": ("1", "A n"),
    b'1,"A\rn"': ("1", "A n"),
    b"1,'Ann'": ("1", "'Ann'"),
    b",?": (None, None),
    b"1,a\x00b": ("1", "a\x00b"),
    b"1," + b"x" * 140_000: ("1", "x" * 140_000),
    b'1,"Ann': ("1", "Ann"),
    b"1": ("1", None),
    b"1,Ann,2,3": ("1", "Ann"),
    b"1,\xffA": ("1", "\\xffA"),
}
PRIVATE_ALONE = [*LINES][-4:]
"""Lines that a public table may not have."""


@pytest.mark.parametrize("limit", [1, 131_072, 2**40])
def test_a_line_is_a_row_whatever_limit_a_library_set_and_the_same_in_public_as_in_private(
    tmp_path: Path, limit: int
) -> None:
    """A category that the encoding learned with its quotes would be met without them."""
    before, path = csv.field_size_limit(limit), tmp_path / "t.csv"
    try:
        for line, cells in LINES.items():
            path.write_bytes(b'\xef\xbb\xbfage, "city" \n7,Bonn\n' + line + b"\n8,Oslo\n")
            frames = [open_private(str(path)).frames(dict.fromkeys(("age", "city"), "data.features"))]
            frames += [] if line in PRIVATE_ALONE else [open_public(str(path)).frames(["age", "city"])]
            for read in frames:
                assert pl.concat(read).rows() == [("7", "Bonn"), cells, ("8", "Oslo")], line
    finally:
        csv.field_size_limit(before)


def test_a_header_is_asked_for_before_names_are_judged_and_only_names_that_are_asked_for_must_be_one(
    tmp_path: Path,
) -> None:
    twice = b"size,size,label,unit\n1,2,a,7\n"
    assert "'size' twice" in str(ending(tmp_path / "t", twice))
    assert "1.csv lacks it" in str(ending(tmp_path / "t", twice, b"1,1,a,7\n"))
    assert ending(tmp_path / "u", b"x,x,size,label,unit\n1,2,3,a,7\n") == [("3", "a", "7", b"7")]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("last", [True, False])
def test_a_file_has_the_same_columns_with_rows_as_without(tmp_path: Path, end: bytes, last: bool) -> None:
    """All of a file whose lines end in a lone carriage return was its first line: its first row decided the status."""
    lines = [HEADER, b"1,a,7", b"2,b,8"]
    for rows in range(3):
        content = end.join(lines[: rows + 1]) + (end if last else b"")
        found = [("1", "a", "7", b"7"), ("2", "b", "8", b"8")]
        assert ending(tmp_path / "t", content) == found[:rows]


def test_a_line_without_end_is_cut_and_its_rest_is_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.csv"
    monkeypatch.setattr(data_csv_files, "LONGEST_LINE", 20)
    path.write_bytes(HEADER + b"," + b"x" * 99 + b"\n1,a,7\n")
    assert csv_names(path) == ["size", "label", "unit", "xxxx"]
    assert list(read_rows(path)) == [["1", "a", "7"]]
    path.write_bytes(HEADER + b"\n1," + b"x" * 100 + b",3\n8,Oslo,7\n")
    assert list(read_rows(path)) == [["1", "x" * 18], ["8", "Oslo", "7"]]
