"""Names: one id, one unit, however it is written, in files of one type; or the run stops before anything is spent."""

import datetime as dt
import itertools
import os
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import world
from tests.support.homes import door_of
from tests.support.people import changed, tables_of_plan, write_tables
from tests.support.sentences import facts

INTEGERS = [kind() for kind in (pa.int8, pa.int16, pa.int32, pa.int64, pa.uint8, pa.uint16, pa.uint32, pa.uint64)]
TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())]
BYTES = [pa.binary(), pa.large_binary(), pa.binary_view()]
ROME = "Europe/Rome"
Cell = tuple[pa.DataType, Any]


def texts(*words: str) -> list[Cell]:
    """The words in every type of text and bytes; the first as wide bytes as well, filled up with zeros."""
    stored = [(kind, word) for word in words for kind in (TEXTS if word == words[0] else TEXTS[:1])]
    raw = [(kind, word.encode()) for word in words for kind in (BYTES if word == words[0] else BYTES[:1])]
    return [*stored, *raw, (pa.binary(40), words[0].encode().ljust(40, b"\0"))]


def numbers(value: str, kinds: Iterable[pa.DataType]) -> list[Cell]:
    """The number in each of the types."""
    return [
        (
            kind,
            int(value) if pa.types.is_integer(kind) else float(value) if pa.types.is_floating(kind) else Decimal(value),
        )
        for kind in kinds
    ]


def moments(moment: dt.datetime, units: Sequence[str], zones: Sequence[str | None]) -> list[Cell]:
    return [
        (pa.timestamp(unit, zone), moment.replace(tzinfo=dt.UTC if zone else None)) for unit in units for zone in zones
    ]


EXACT = [pa.float64(), pa.decimal128(9, 2), pa.decimal128(38, 4), pa.decimal64(12, 3), pa.decimal256(60, 5)]
NOON = dt.datetime(2020, 7, 2, 12, 0, 0, 500_000)
SAME: dict[str, list[Cell]] = {
    "7": [
        *numbers("7", [*INTEGERS, pa.float32(), *EXACT]),
        *texts("7", "007", "7.0", " +7.00 ", "7e0", "0.7E+01", "7."),
    ],
    "0": [*numbers("0", INTEGERS), *numbers("-0.0", [pa.float32(), *EXACT]), *texts("0", "-0", "-0.00", "+.0", "0e7")],
    "7.5": [*numbers("7.50", [pa.float32(), *EXACT]), *texts("7.5", "7.50", "75e-1", "+07.5")],
    "0.1": [*numbers("0.1", [pa.float32(), *EXACT]), *texts("0.1", ".1", "1e-1")],
    "1000": [*numbers("1000", [*INTEGERS[1:4], pa.float32(), *EXACT]), *texts("1000", "1e3", "1E+03", "1.000e3")],
    "10^19": [*numbers(str(10**19), [pa.uint64(), pa.float64(), pa.decimal128(38, 0)]), *texts(str(10**19), "1e19")],
    "2^53 + 1": [*numbers(str(2**53 + 1), [pa.int64(), pa.float64(), pa.decimal128(20, 2)]), *texts(str(2**53 + 1))],
    "true": [(pa.bool_(), True), *texts("true", "True", "TRUE")],
    "é": texts("Zoé", "Zoe\u0301", " Zoe\u0301\t"),
    "not UTF-8": [*((kind, b"Zo\xe9") for kind in [*TEXTS[:2], *BYTES, pa.binary(3)]), (pa.binary(5), b"Zo\xe9\0\0")],
    "a day": [
        *((kind, NOON.date()) for kind in (pa.date32(), pa.date64())),
        *moments(dt.datetime(2020, 7, 2), ("s", "ms", "us", "ns"), (None, "UTC")),
        *texts("2020-07-02", "2020-07-02 00:00:00", "2020-07-02T00:00:00.000Z", "2020-07-02 02:00:00+02:00"),
    ],
    "a moment": [
        *moments(NOON, ("ms", "us", "ns"), (None, "UTC", ROME, "America/New_York")),
        *texts("2020-07-02 12:00:00.5", "2020-07-02T12:00:00.500000000", "2020-07-02 14:00:00.50+02:00"),
    ],
}


def array(kind: pa.DataType, *cells: Any) -> pa.Array:
    """An array of a type; text may be given as bytes that are not UTF-8."""
    if pa.types.is_dictionary(kind):
        return pa.array(cells, kind.value_type).dictionary_encode().cast(kind)
    if kind in (pa.string(), pa.large_string()) and isinstance(cells[0], bytes):
        return pa.array(cells, {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}[kind]).view(kind)
    return pa.array(cells, kind)


def write(path: Path, ids: pa.Array) -> Path:
    """A file of a table with the column `person`."""
    table = pa.table({"person": ids})
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    return path


def names(path: Path, erased: world.Erased = world.NOBODY) -> list[bytes | None]:
    frames = world.rows_with_units(world.open_private(str(path), unit="person"), {}, erased)
    return [name for _, owner in frames for name in owner]


def in_parquet(kind: pa.DataType) -> bool:
    return not (kind in (pa.string_view(), pa.binary_view()) or str(kind).startswith("decimal64"))


def is_id(kind: pa.DataType) -> bool:
    """Whether ids may be stored so."""
    return kind in INTEGERS or is_words(kind)


def is_words(kind: pa.DataType) -> bool:
    return kind in (*TEXTS, *BYTES) or (pa.types.is_fixed_size_binary(kind) and not pa.types.is_decimal(kind))


FORMS = [("arrow", value) for value in SAME] + [("parquet", value) for value in ("7.5", "a day", "not UTF-8")]


@pytest.mark.parametrize(("form", "value"), FORMS)
def test_an_id_is_one_unit_in_any_two_files_of_one_type(tmp_path: Path, form: str, value: str) -> None:
    """In any two types; each spelling of a type has that name in a file of its own."""
    cells = [(kind, cell) for kind, cell in SAME[value] if is_id(kind) and (form == "arrow" or in_parquet(kind))]
    files = [write(tmp_path / f"{at}.{form}", array(*cell)) for at, cell in enumerate(cells)]
    alone = {(is_words(kind), *names(file)) for file, (kind, _) in zip(files, cells, strict=True)}
    assert len(alone) == len({is_words(kind) for kind, _ in cells})
    assert all(name is not None for _, name in alone)
    first_of_types = {kind: at for at, (kind, _) in reversed([*enumerate(cells)])}
    for first, other in itertools.combinations(sorted(first_of_types.values()), 2):
        both = tmp_path / f"{first}-{other}"
        both.mkdir()
        for at in (first, other):
            os.link(files[at], both / files[at].name)
        if is_words(cells[first][0]) != is_words(cells[other][0]):
            with pytest.raises(world.WrongInput, match=facts("data.unit", "one type")):
                names(both)
        else:
            found = names(both)
            assert len(found) == 2
            assert len({*found, None}) == 2, (cells[first], cells[other])


@pytest.mark.parametrize("value", [value for value in SAME if value != "2^53 + 1"])
def test_a_label_is_one_class_in_any_type(value: str) -> None:
    """Text, as CSV files and plans have it, and every type that keeps the number or the moment."""
    exact = [(kind, cell) for kind, cell in SAME[value] if not (value == "0.1" and pa.types.is_float32(kind))]
    columns = [world.read_column("c", array(*cell), cell[0]) for cell in exact]
    found = {column.to_frame().select(world.canonical_id("c", column.dtype)).item() for column in columns}
    assert len({*found, None}) == 2


def test_a_csv_file_names_units_as_others_do(tmp_path: Path) -> None:
    for value, cells in SAME.items():
        words = [cell for kind, cell in cells if kind == pa.string() and isinstance(cell, str)]
        path = tmp_path / f"{len(value)}.csv"
        path.write_text("person,x\n" + "".join(f"{word},1\n" for word in words))
        stored = write(tmp_path / "t.arrow", array(pa.string(), *words)) if words else path
        assert len(set(names(path))) == (1 if words else 0)
        assert names(path) == names(stored)


LIKE: dict[str, pa.Array] = {
    "large integers": array(pa.int64(), *range(2**53 - 9, 2**53 + 9), 2**63 - 1, 2**63 - 2, -(2**63)),
    "long digits": array(pa.string(), *(f"20240101{at:012}" for at in range(99))),
    "UUIDs": pa.array([bytes(15) + bytes([at]) for at in range(128, 256)], pa.uuid()),
    "words": array(
        pa.string(), "a", "A", "á", "a b", "ab", "7a", "１", "1_0", "1,0", "1e99999", "x²", "x2", "0x7", "e5"
    ),
    "raw bytes": array(pa.binary(12), *(b"\x65\xfa\xff\x01secret!" + bytes([at]) for at in range(128, 256))),
}


@pytest.mark.parametrize("like", LIKE)
def test_ids_that_are_merely_alike_stay_apart(tmp_path: Path, like: str) -> None:
    found = names(write(tmp_path / "t.arrow", LIKE[like]))
    assert None not in found
    assert len(set(found)) == len(LIKE[like])


def test_what_says_that_there_is_nothing_names_nobody_in_any_file(tmp_path: Path) -> None:
    words = ["", " ", "NA", "nan", "None", None]
    nothing = [array(pa.string(), *words), array(pa.binary(), *(word and word.encode() for word in words))]
    for ids in [*nothing, array(pa.int64(), None, None), pa.nulls(3)]:
        assert set(names(write(tmp_path / "t.arrow", ids))) == {None}


KEPT = {"é": 11}
"""Names that are kept of a unit if not one: as a file of one encoding reads in another."""


@pytest.mark.parametrize("value", SAME)
def test_a_unit_is_erased_by_any_of_its_spellings_from_any_file(tmp_path: Path, value: str) -> None:
    door = door_of(tmp_path / "home", "people")
    words = [cell for kind, cell in SAME[value] if kind == pa.string() and isinstance(cell, str)]
    files = [write(tmp_path / f"{at}.arrow", array(*cell)) for at, cell in enumerate(SAME[value]) if is_id(cell[0])]
    for word in words:
        world.erase(door, "people", word)
        assert len(world.erased_units(door, "people")) == KEPT.get(value, 1)
    erased = world.Erased.of(door.vault, "people", world.erased_units(door, "people"))
    assert [len(names(file, erased)) for file in files] == [0 if words else 1] * len(files)


def test_a_uuid_is_erased_by_its_text_however_it_is_stored(tmp_path: Path) -> None:
    door, ids = door_of(tmp_path / "home", "people"), [UUID(int=at * 2**100 + 7) for at in range(1, 4)]
    raw = [each.bytes for each in ids]
    frame = world.frame_table(pd.DataFrame({"person": ids}), "data.private")  # as a database's driver gives them
    stored = [array(pa.uuid(), *raw), array(pa.binary(16), *raw), frame["person"], array(pa.string(), *map(str, ids))]
    files = [write(tmp_path / f"{at}.parquet", cells) for at, cells in enumerate(stored)]
    assert [len({*names(file)} - {None}) for file in files] == [3] * len(files)
    world.erase(door, "people", str(ids[1]))
    erased = world.Erased.of(door.vault, "people", world.erased_units(door, "people"))
    assert [len(names(file, erased)) for file in files] == [2] * len(files)


def named_alone(words: list[str]) -> list[str]:
    frame = pl.DataFrame({"c": words}, schema={"c": pl.String})
    return frame.select(world.canonical_id("c", pl.String())).to_series().to_list()


WORDS = st.one_of(st.text(max_size=9), st.text("0123456789eE+-. :TZ", max_size=12), st.floats().map(repr))


@given(st.lists(WORDS, max_size=9))
def test_a_name_follows_from_its_cell_alone_and_is_its_own(words: list[str]) -> None:
    together = named_alone(words)
    assert together == [name for word in words for name in named_alone([word])]
    assert named_alone(together) == together


@given(st.from_regex(world.PLAIN, fullmatch=True))
def test_a_plain_word_is_its_own_name_by_the_rules_for_odd_ones(word: str) -> None:
    assert world.name_of(word.rstrip("\n")) == word.rstrip("\n")
    assert set(world._named(pl.Series([word.rstrip("\n")]))) == {word.rstrip("\n")}


SPELLINGS = [
    ("0", "0e99999", "-0.0E+123456", "0e00000000000000005"),
    ("1e401", "10e400", "0.1e402", "1" + "0" * 401, "+1" + "0" * 401 + ".0"),
    ("-1e-401", "-0.1e-400", "-." + "0" * 400 + "1"),
    ("1000", "1e0000000000000003"),
    ("2020-01-02 03:04:05", "2020-01-02t03:04:05z", "2020-01-02T03:04:05+00", "2020-01-02 04:04:05 +01"),
    ("2020-01-02 24:00:00",),
    ("1e1234567890",),
]
"""Odd spellings of an id, the first of which is its name."""


def test_odd_spellings_of_an_id_have_one_name() -> None:
    for spelled in SPELLINGS:
        assert set(named_alone([*spelled])) == {spelled[0]}


@given(st.decimals(-(10**12), 10**12, places=6), st.integers(-30, 30))
def test_a_number_has_one_name_in_all_spellings(number: Decimal, shift: int) -> None:
    spelled = [f"{number:f}", f"{number:e}", f"+{abs(number):f}", f"{number.scaleb(-shift):f}e{shift}", f"{number}000"]
    signed = [word for word in spelled[:4] if number >= 0 or word[0] != "+"]
    assert len({world.name_of(word) for word in signed}) == 1


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_is_named_as_its_shortest_text(number: float) -> None:
    name = pl.DataFrame({"c": [number]}).select(world.canonical_id("c", pl.Float64())).item()
    assert name == world.name_of(repr(number))


@pytest.mark.parametrize("classes", [("1", "1.0"), ("true", "True"), ("e\u0301", "é")])
def test_classes_that_read_as_one_are_refused(tmp_path: Path, classes: tuple[str, str]) -> None:
    plan = changed(tables_of_plan(write_tables(tmp_path)), data__classes=[*classes, "2"])
    with pytest.raises(world.WrongInput, match=facts("data.classes", "differ")):
        world.learn_encoding(plan)
