"""A row alone: what a private row becomes is the same, to the bit, whatever rows, frames and files it comes with.

Law 8. Columns of every Arrow type are made of any bits; every rule of tasks.data.cells, the matrix that teachers learn
from, the codes that tallies add up, the cells of a declared grid, the digest, the unit's name and the shard of a row
are compared as bytes, alone against in company.
"""

import functools
import math
import struct
from collections.abc import Collection, Iterable
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.feature_extraction.text import HashingVectorizer

from tests.privacy.test_neighbouring_tables import from_least
from tests.support.raw import CELLS, TYPES, Cell, cells_of, column, exact
from tests.world import (
    LABEL,
    Codes,
    Column,
    DeclaredCategories,
    DeclaredRange,
    DeclaredText,
    DeclaredTruth,
    Encoding,
    Hashed,
    NumberField,
    OneHot,
    Passed,
    Scaled,
    TableSchema,
    VectorField,
    WordField,
    canonical_id,
    cast_labels,
    cast_numbers,
    cast_rows,
    data_cells,
    encode,
    grid_of,
    numbers_of,
    polars_type,
    read_column,
    reading_columns,
    row_digests,
    shards_of,
    steps_between,
    text,
)

KEY = bytes(range(32))
PLAIN = Scaled(kind="numeric", name="plain", mean=0.1, scale=3, fill=-0.7, low=-1e30, high=1e30, missing=True)
BUCKETS = DeclaredText(kind="text", name="hashed", buckets=32)
COLUMNS: tuple[Column, ...] = (
    PLAIN,
    PLAIN.model_copy(update={"name": "log", "log": True}),
    PLAIN.model_copy(update={"name": "truth", "kind": "boolean"}),
    PLAIN.model_copy(update={"name": "date", "kind": "date", "low": -1e9, "high": 1e9}),
    OneHot(name="word", vocabulary=("a", "0", "-0.5", "Rome", "1970-01-01"), missing=True),
    OneHot(name="hashed", vocabulary=BUCKETS.words, missing=True, hashed=True),
    Passed(name="bytes", element="uint8", size=2),
    Passed(name="wave", element="float32", size=2),
    Hashed(name="text", size=16),
)
ENCODING = Encoding(columns=COLUMNS, label="label", classes=("a", "0", "true"))
WITHIN = Encoding(columns=(), label="label", classes=(), bounds=(-1e3, 7.7))
VECTORS: dict[str, Any] = {"view": "values", "length": 2, "low": -0.5}
CODES = Codes(
    fields=(
        NumberField(kind="numeric", name="plain", start=0, cuts=(-1.0, -0.0, 5e-324, 1.5)),
        NumberField(kind="numeric", name="plain", start=6, cuts=(-1e100, -0.1, 0.0, 1.0, 1.5, 2.0**53, 1e100)),
        NumberField(kind="boolean", name="truth", start=15, cuts=(1.0,)),
        NumberField(kind="date", name="date", start=18, cuts=(-719_162.0, 0.0, 16_801.5)),
        WordField(name="word", start=23, words=("0", "a")),
        VectorField(name="bytes", start=27, element="uint8", high=255.0, centres="AAAAAAAA/wABAP8A", **VECTORS),
        VectorField(name="wave", start=31, element="float32", high=2.5, centres="AAAAAGYAZgBnAGYA/wD/AA==", **VECTORS),
    ),
    coarse=(0, 2, 3, 4, 5, 6),
    fine=(1, 2, 3, 4, 5, 6),
)

SCHEMA = TableSchema(
    columns=(
        DeclaredRange(kind="numeric", name="plain", low=-1e3, high=1e9, whole=False),
        DeclaredRange(kind="numeric", name="log", low=-3, high=90, whole=True),
        DeclaredTruth(kind="boolean", name="truth"),
        DeclaredRange(kind="date", name="date", low=-719_162, high=20_000.5, whole=False),
        DeclaredCategories(kind="categorical", name="word", words=("a", "0", "-0.5", "Rome", "1970-01-01")),
        BUCKETS,
    ),
    undeclared=(),
)
GRID = grid_of(SCHEMA)

LENGTHS = (*range(1, 19), 31, 32, 33, 63, 64, 65, 127, 128, 129)
PLACES = ("first", "middle", "last")
STORED = (pa.float64(), pa.string(), pa.timestamp("us"), pa.float32(), pa.int64(), pa.uint64(), pa.date32())
LONG = (255, 256, 257, 1023, 1024, 1025, 4095, 4097, 65_535, 65_536, 65_537)

PLAIN_CELLS = (None, b"a", struct.pack("<d", 1.5), bytes(8))


columns = st.sampled_from(TYPES).flatmap(lambda stored: st.tuples(st.just(stored), cells_of(stored), cells_of(stored)))


class Became(NamedTuple):
    """What rows became: columns of bits, one for every rule."""

    rules: dict[str, list[bytes | None]]

    def row(self, at: int) -> dict[str, bytes | None]:
        return {rule: found[at] for rule, found in self.rules.items()}


def became(stored: pa.DataType, cells: list[Cell]) -> Became:
    """What every rule makes of a stored column, which stands for each column of the table in turn."""
    if polars_type(stored) == pl.Unknown:
        return through_the_rules(pl.Series([None] * len(cells), dtype=pl.Null))
    return through_the_rules(read_column("c", column(stored, cells), stored))


def through_the_rules(read: pl.Series) -> Became:
    names = (*ENCODING.features, ENCODING.label)
    raw = pl.DataFrame([read.alias(name) for name in names])
    rows = cast_rows(raw, ENCODING)
    units = raw.select(canonical_id("plain", read.dtype).cast(pl.Binary)).to_series()
    found = {name: exact(rows[name]) for name in rows.columns if name != "log"}
    for name, kind in (("plain", "numeric"), ("date", "date")):
        found[f"{name} as a number"] = in_rows(numbers_of(rows[name], kind))  # type: ignore[arg-type]
    found["matrix"] = in_rows(encode(rows, ENCODING))
    found["codes"] = in_rows(CODES.of(rows))
    found["codes of what is not cast"] = in_rows(CODES.of_raw(raw, COLUMNS).astype(np.int32))
    found["cells of a grid"] = in_rows(GRID.of_raw(raw, reading_columns(SCHEMA)).astype(np.int32))
    found["label as a number"] = in_rows(
        steps_between(cast_numbers(raw[ENCODING.label], math.inf), (-1e3, 7.7), 1 << 16)
    )
    found["label within bounds"] = in_rows(cast_rows(raw, WITHIN)[LABEL].to_numpy())
    found["label alone"] = in_rows(cast_labels(raw[ENCODING.label], ENCODING))
    assert found["codes of what is not cast"] == found["codes"]
    assert found["label alone"] == in_rows(rows[LABEL].to_numpy())
    found["digest"] = list(row_digests(rows, ENCODING, KEY))
    found["unit"] = units.to_list()
    found["shard"] = exact(shards_of(units.fill_null(b""), KEY, 1000))
    return Became(found)


def in_rows(numbers: NDArray[np.generic]) -> list[bytes | None]:
    return [row.tobytes() for row in numbers]


@functools.cache
def alone(stored: pa.DataType, cell: Cell) -> dict[str, bytes | None]:
    return became(stored, [cell]).row(0)


def check_alone(cases: int, phases: Collection[Phase] = tuple(Phase)) -> None:
    @settings(max_examples=cases, phases=phases)
    @given(columns, st.sampled_from(PLAIN_CELLS), st.sampled_from(LENGTHS), st.floats(0, 1))
    def holds(typed: tuple[pa.DataType, Cell, Cell], other: Cell, rows: int, where: float) -> None:
        stored, odd, second = typed
        company = [other] * rows
        company[-1] = second
        company[round(where * (rows - 1))] = odd
        together = became(stored, company)
        assert {len(found) for found in together.rules.values()} == {rows}
        for at, cell in enumerate(company):
            assert together.row(at) == alone(stored, cell), f"row {at}"

    alone.cache_clear()
    holds()


@pytest.mark.parametrize("cases", [60, pytest.param(500, marks=pytest.mark.slow)])
def test_a_cell_of_any_bits_becomes_the_same_alone_as_in_company(cases: int) -> None:
    check_alone(cases)


def test_the_planted_number_that_is_counted_from_the_least_of_its_column_is_rejected(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By as many cases as are always searched."""
    monkeypatch.setattr(data_cells, "number", from_least)
    with pytest.raises(AssertionError, match="row "):
        check_alone(60, [Phase.generate])
    alone.cache_clear()  # of what the fault made


@pytest.mark.parametrize(
    ("rows", "place", "kinds"),
    [
        *((65, place, STORED[:3]) for place in PLACES[:2]),
        *(
            pytest.param(rows, place, STORED, marks=pytest.mark.slow)
            for rows, place in zip(LONG, cycle(PLACES), strict=False)
        ),
    ],
)
def test_odd_cells_become_the_same_in_frames_of_any_length(
    rows: int, place: str, kinds: tuple[pa.DataType, ...]
) -> None:
    """All odd cells of a type in one long frame, at its start, its end and in the middle of cells that are plain."""
    at = {"first": 0, "middle": (rows - 1) // 2, "last": max(0, rows - len(CELLS))}[place]
    for stored in kinds:
        cells = ([b"1.5\x00\x00\x00\x00\x00"] * at + [*CELLS] + [b"1.5\x00\x00\x00\x00\x00"] * rows)[:rows]
        together = became(stored, cells)
        for place_of, cell in enumerate(cells[at : at + len(CELLS)], start=at):
            assert together.row(place_of) == alone(stored, cell), (stored, cell)


def test_words_that_are_weighed_by_how_many_rows_have_them_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: what is usual for text, where a word counts less if other rows hold it as well."""
    note, other = (pl.Series("c", [text]) for text in ("a cough again", "a cough"))
    assert through_the_rules(pl.concat([note, other])).row(0) == through_the_rules(note).row(0)

    transform = HashingVectorizer.transform

    def weighed(words: HashingVectorizer, cells: Iterable[str]) -> Any:
        there = transform(words, cells)
        return there.multiply(1 / np.maximum(there.sum(axis=0), 1)).tocsr()

    monkeypatch.setattr(HashingVectorizer, "transform", weighed)
    together, by_itself = through_the_rules(pl.concat([note, other])).row(0), through_the_rules(note).row(0)
    assert {rule for rule, bits in together.items() if bits != by_itself[rule]} == {"matrix", "digest"}


def test_buckets_that_depend_on_the_words_of_other_rows_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: what most encoders do, which number the words that they find."""
    note, other = (pl.Series("c", [text]) for text in ("a cough again", "a cough"))
    assert through_the_rules(pl.concat([note, other])).row(0) == through_the_rules(note).row(0)

    def numbered(name: str, dtype: pl.DataType, size: int) -> pl.Expr:
        place = text(name, dtype).rank("dense") % size + 1
        return pl.format("bucket {} of {}", place, pl.lit(size))

    monkeypatch.setattr(data_cells, "bucketed", numbered)
    assert through_the_rules(pl.concat([note, other])).row(0) != through_the_rules(note).row(0)
