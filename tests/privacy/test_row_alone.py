"""A row alone: what a private row becomes is the same, to the bit, whatever rows, frames and files it comes with.

Law 8, for every door (tests/support/doors.py) and every rule (tests/support/rules.py). Rows of any bits, lines of any
signs and objects of any type are read alone and in company; what the door hands on (cells, types, names of units) and
what each rule makes of that (values, matrix, codes, cells of a grid, digest, unit, shard) are compared as bytes.
"""

import csv
import functools
import io
from collections.abc import Callable, Collection, Iterable
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import HashingVectorizer

from tests import world
from tests.support.doors import DOORS, KEYS, OBJECTS, formats, frames_of, lines
from tests.support.raw import CELLS, Cell, exact
from tests.support.rules import through_the_rules

LENGTHS = (*range(1, 19), 31, 32, 33, 63, 64, 65, 127, 128, 129)
PLACES = ("first", "middle", "last")
STORED = (pa.float64(), pa.string(), pa.timestamp("us"), pa.float32(), pa.int64(), pa.uint64(), pa.date32())
LONG = (255, 256, 257, 1023, 1024, 1025, 4095, 4097, 65_535, 65_536, 65_537)
BY_DAY = (257, 1025, 65_537)
"""The first lengths beyond a bound; the others are taken with --exhaustive alone."""
Bits = tuple[Any, ...]


def became(door: str, folder: Path, way: Any, rows: list[Any], *, whole: bool) -> list[Bits]:
    """What each row becomes: its cells with their types, its unit's name; on the `whole`, what any rule makes of it."""
    found: list[Bits] = []
    for frame, owner in DOORS[door].read(folder, way, rows):
        rules = through_the_rules(frame["c"]).values() if whole else []
        types = [pl.String() if isinstance(dtype, pl.Enum) else dtype for dtype in frame.dtypes]
        cells = [exact(cells) for cells in frame.get_columns()]
        found += [(types, *row) for row in zip(*cells, owner, *rules, strict=True)]
    return found


def check_alone(
    door: str, folder: Path, cases: int, phases: Collection[Phase] = tuple(Phase), *, whole: bool = False
) -> None:
    """Two rows among as many of another, of all lengths at which libraries change how they compute."""
    made = DOORS[door]

    @settings(max_examples=cases, phases=phases)
    @given(st.data(), made.ways, st.sampled_from(LENGTHS), st.floats(0, 1))
    def holds(data: st.DataObject, way: Any, length: int, where: float) -> None:
        other, odd, second = (data.draw(made.rows(way)) for _ in range(3))
        company = [other] * length
        company[-1] = second
        company[round(where * (length - 1))] = odd
        alone = {repr(row): became(door, folder, way, [row], whole=whole) for row in (other, odd, second)}
        assert all(len(alone[repr(row)]) == made.is_row(way, row) for row in (other, odd, second))
        due = sorted((bits for row in company for bits in alone[repr(row)]), key=repr)
        found = sorted(became(door, folder, way, company, whole=whole), key=repr)
        assert len(found) == len(due)
        assert not next(((one, other) for one, other in zip(found, due, strict=True) if one != other), None)

    holds()


CASES = {"columns": 200, "files": 40, "text": 60, "query": 3, "frame": 5}


@pytest.mark.parametrize("door", DOORS)
def test_a_row_is_read_the_same_alone_as_in_company(tmp_path: Path, door: str) -> None:
    check_alone(door, tmp_path, CASES[door])


def test_every_rule_makes_the_same_of_a_cell_of_any_bits_alone_as_in_company(tmp_path: Path, exhaustive: bool) -> None:
    check_alone("columns", tmp_path, 600 if exhaustive else 60, whole=True)


@pytest.mark.slow
@pytest.mark.parametrize("door", ["files", "text", "query", "frame"])
def test_a_row_of_any_door_becomes_the_same_by_every_rule(tmp_path: Path, door: str, exhaustive: bool) -> None:
    check_alone(door, tmp_path, (5 if exhaustive else 2) * CASES[door], whole=True)


@functools.cache
def by_itself(stored: pa.DataType, cell: Cell) -> list[Bits]:
    return became("columns", Path(), stored, [cell], whole=True)


@pytest.mark.parametrize(
    ("rows", "place", "kinds"),
    [
        (65, "middle", STORED[:3]),
        *(
            pytest.param(rows, place, STORED, marks=pytest.mark.slow if rows in BY_DAY else pytest.mark.exhaustive)
            for rows, place in zip(LONG, cycle(PLACES), strict=False)
        ),
    ],
)
def test_odd_cells_become_the_same_in_frames_of_any_length(
    rows: int, place: str, kinds: tuple[pa.DataType, ...]
) -> None:
    """All odd cells of a type in one long frame, at its start, its end and in the middle of cells that are plain."""
    at = {"first": 0, "middle": (rows - 1) // 2, "last": max(0, rows - len(CELLS))}[place]
    plain = b"1.5\x00\x00\x00\x00\x00"
    for stored in kinds:
        cells = ([plain] * at + [*CELLS] + [plain] * rows)[:rows]
        together = became("columns", Path(), stored, cells, whole=True)
        for found, cell in list(zip(together, cells, strict=True))[at : at + len(CELLS)]:
            assert [found] == by_itself(stored, cell), (stored, cell)


@pytest.mark.parametrize("door", ["query", "frame"])
def test_every_odd_object_is_read(tmp_path: Path, door: str) -> None:
    assert len(became(door, tmp_path, None, [(cell, "no", "u") for cell in OBJECTS], whole=True)) == len(OBJECTS)


# Planted faults -------------------------------------------------------------------------------------------------------


honest_number = world.number


def from_least(name: str, dtype: pl.DataType, *largest: float) -> pl.Expr:
    """What most scalers do, which learn a column's range from the rows that they find."""
    return honest_number(name, dtype, *largest) - honest_number(name, dtype, *largest).min()


def numbered(name: str, dtype: pl.DataType, size: int) -> pl.Expr:
    """What most encoders do, which number the words that they find."""
    return pl.format("bucket {} of {}", world.text(name, dtype).rank("dense") % size + 1, pl.lit(size))


hashed_words = HashingVectorizer.transform


def weighed(words: HashingVectorizer, cells: Iterable[str]) -> Any:
    """What is usual for text, where a word counts less if other rows hold it as well."""
    there = hashed_words(words, cells)
    return there.multiply(1 / np.maximum(there.sum(axis=0), 1)).tocsr()


honest_column = world.data_frames._of_pandas


def guessed(column: Any, word: Any = None) -> Any:
    """A column of numbers stays one, as a reader that looks at all cells would have it."""
    try:
        return pa.array([None if cell is None else float(cell) for cell in column])
    except (TypeError, ValueError):
        return honest_column(column, word)


def quotes_left_open(path: Path, form: world.TextFormat, **_: Any) -> list[list[str]]:
    """Line breaks within quotes, as a common reader has them."""
    return list(csv.reader(io.StringIO(path.read_text("latin-1")), delimiter=form.separator))[1:]


FAULTS: dict[str, tuple[str, bool, Any, str, Callable[..., Any]]] = {
    "a number from the least of its column": ("columns", True, world.data_cells, "number", from_least),
    "buckets that depend on other words": ("columns", True, world.data_cells, "bucketed", numbered),
    "words weighed by how many rows have them": ("columns", True, HashingVectorizer, "transform", weighed),
    "a column that one bad cell empties": (
        *("columns", False, world.data_stored_columns, "_cells"),
        lambda column: [None] * len(column),
    ),
    "types guessed from cells": ("frame", False, world.data_frames, "_of_pandas", guessed),
    "quotes that run on": ("text", False, world.data_files, "read_rows", quotes_left_open),
}
"""Of each: the door, whether the rules are compared, and what is put in whose place."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    door, whole, owner, name, planted = FAULTS[fault]
    monkeypatch.setattr(owner, name, planted)
    with pytest.raises((AssertionError, world.WrongInput)):
        check_alone(door, tmp_path, 2000, [Phase.generate], whole=whole)


# Lines of text --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["utf-16", "shift_jis", "gb18030", "utf-7", "utf-8-sig"])
def test_no_encoding_in_which_a_byte_could_take_the_next_line_is_known(encoding: Any) -> None:
    with pytest.raises(ValueError, match="encoding"):
        world.TextFormat.model_validate({"encoding": encoding})


@pytest.mark.parametrize("encoding", KEYS["encoding"])
def test_every_byte_of_an_encoding_stays_within_its_line(tmp_path: Path, encoding: str) -> None:
    rows = [bytes([byte]) + b",x,7" for byte in range(256) if byte not in b'\n"']
    rows += [bytes([lead, byte]) + b",x,7" for lead in (0xC3, 0xE2, 0xF0, 0xED) for byte in (0x80, 0x0D, 0x2C)]
    (tmp_path / "t.csv").write_bytes(b"\n".join([b"c,label,unit", *rows, b""]))
    read = frames_of(str(tmp_path / "t.csv"), world.TextFormat.model_validate({"encoding": encoding}))
    assert sum(frame.height for frame, _ in read) == len(rows)


def test_no_rule_for_numbers_changes_whose_a_row_is(tmp_path: Path) -> None:
    """An erased `1.234` was read as `1234`, whom nobody had erased, once digits came in groups."""
    digits = st.from_regex(rb"[+-]?[0-9]{1,3}([.,' ][0-9]{3}){0,2}([.,][0-9]*)?")

    @settings(max_examples=60)
    @given(formats, st.lists(lines | digits, max_size=9))
    def holds(form: world.TextFormat, ids: list[bytes]) -> None:
        numbers = form.model_copy(update={"decimal": ".", "thousands": ""})
        (tmp_path / "t.csv").write_bytes(b"\n".join([b"unit", *ids, b""]))
        opened = (world.open_private(str(tmp_path / "t.csv"), how, "unit") for how in (form, numbers))
        tables = (world.rows_with_units(table, {}) for table in opened)
        first, other = ([name for _, owner in table for name in owner] for table in tables)
        assert first == other

    holds()


def test_words_of_a_number_are_the_same_word_in_all_columns(tmp_path: Path) -> None:
    form = world.TextFormat(separator=";", decimal=",", thousands=".")
    (tmp_path / "t.csv").write_bytes(b"c;label;unit\n1.234,5;-1,50;1.000\n")
    ((frame, owner),) = frames_of(str(tmp_path / "t.csv"), form, "unit")
    assert (frame.rows(), owner) == ([("1234.5", "-1.50")], [b"1"])  # a name is what it is in every format
    assert form.plain("-1.234.567,5e3") == "-1234567.5e3"
