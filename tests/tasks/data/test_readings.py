"""Readings: what a cell is read as, by the kind of its column, however it is stored and whatever reads it.

That no other cell decides it is asked by tests/privacy/test_row_alone.py.
"""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests import world
from tests.support.rules import CODES, COLUMNS, ENCODING, GRID, SCHEMA

NAN, INF = float("nan"), float("inf")
DAY, FIRST = datetime.date(2020, 1, 2), datetime.datetime(2020, 1, 2)
NOON, LATE = datetime.datetime(2020, 1, 2, 12), datetime.datetime(2020, 1, 3, 0, 29, 59, 500_000)
FOREIGN = [pl.Series([b"\xff"]), pl.Series([["Rome"]]), pl.Series([{"a": "Rome"}]), pl.Series([None])]
"""Cells that are no word, and no number, truth value or date either."""

READ: dict[str, list[tuple[pl.Series, list[Any]]]] = {
    "plain": [
        (pl.Series([1, None]), [1.0, None]),
        (pl.Series([1.5, NAN, INF, -INF, 1e200]), [1.5, *[None] * 4]),
        (pl.Series([" 3.5 ", "1e2", "+4", "old", "", "inf", "1_0"]), [3.5, 100.0, 4.0, *[None] * 4]),
        (pl.Series(["7", "x"], dtype=pl.Categorical), [7.0, None]),
        (pl.Series([True, False]), [1.0, 0.0]),
        (pl.Series([2**64 - 1], dtype=pl.UInt64), [2.0**64]),
        (pl.Series([Decimal("0.1"), Decimal("-0.00")]), [0.1, 0.0]),
        *((odd, [None]) for odd in (*FOREIGN, pl.Series([DAY]), pl.Series([b"7"]), pl.Series([[7]]))),
    ],
    "word": [
        (pl.Series(["Rome", " Rome ", "Oslo", None]), ["Rome", "Rome", "Oslo", None]),
        (pl.Series(["Rome", "Oslo"], dtype=pl.Enum(["Oslo", "Rome"])), ["Rome", "Oslo"]),
        (pl.Series([7, 8]), ["7", "8"]),
        (pl.Series([7.0, 7.5, NAN, INF, 1e300]), ["7", "7.5", None, None, "1e+300"]),
        (pl.Series([DAY]), ["2020-01-02"]),
        *((odd, [None]) for odd in FOREIGN[1:]),
    ],
    "truth": [
        (pl.Series(["true", "False", "1", "0", "maybe", "ja", None]), [True, False, True, False, None, True, None]),
        *((pl.Series([word, f" {word} "]), [bool(known)] * 2) for word, known in world.TRUTH.items()),
        (pl.Series([1, 0, 2]), [True, False, None]),
        (pl.Series([1.0, NAN]), [True, None]),
        *((odd, [None]) for odd in (*FOREIGN, pl.Series([DAY]))),
    ],
    "date": [
        (pl.Series(["2020-01-02", "2020-01-02 12:00:00", "2020-01-02T12:00:00.0"]), [FIRST, NOON, NOON]),
        (pl.Series(["2020-01-02T00:00Z", "2020-01-02T23:59:59.5-00:30", "2020-01-02 12:00"]), [FIRST, LATE, NOON]),
        (pl.Series(["2.1.2020", "0000-00-00", "2020-13-01", None]), [None] * 4),
        (pl.Series(["+12345-01-01", "12345-01-01", "0000-01-01", "-0001-01-01", "99999-12-31 00:00:00"]), [None] * 5),
        (pl.Series(["0001-01-01", "9999-12-31"]), [datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)]),
        (pl.Series([DAY, None]), [FIRST, None]),
        *((pl.Series([NOON]).cast(pl.Datetime(unit)), [NOON]) for unit in ("ms", "us", "ns")),
        (pl.Series([NOON]).dt.replace_time_zone("Europe/Rome"), [NOON - datetime.timedelta(hours=1)]),
        *((odd, [None]) for odd in (*FOREIGN, pl.Series([18263]))),
    ],
    "bytes": [
        (pl.Series([[1, 2], [3], None, [4, None], [300, -1]]), [[1, 2], None, None, [4, 0], [0, 0]]),
        (pl.Series([[1, 2]], dtype=pl.Array(pl.Float32, 2)), [[1, 2]]),
        *((odd, [None]) for odd in (pl.Series([["1", "2"]]), pl.Series([1]), pl.Series([[[1, 2]]]), pl.Series([None]))),
    ],
    "wave": [(pl.Series([[0.5, NAN], [INF, 1e300]]), [[0.5, 0.0], [0.0, 0.0]])],
}


@pytest.mark.parametrize("name", READ)
def test_a_cell_is_read_by_the_kind_of_its_column_and_has_the_codes_of_what_it_is_read_as(name: str) -> None:
    """The encoding, the codes that are learned, and the grid of a declared schema read by one rule."""
    names = {name, "hashed"} if name == "word" else {name}
    others = [pl.lit(None).alias(other) for other in ENCODING.features if other not in names]
    for cells, due in READ[name]:
        read = world.cast_rows(cells.alias(name).to_frame(), ENCODING)[name]
        assert read.to_list() == [
            word if name != "word" or word == "Rome" else None for word in due
        ]  # it knows no other
        plain = pl.Series(due, strict=False)
        alike = [pl.DataFrame(dict.fromkeys(names, each)).with_columns(others) for each in (cells, plain)]
        codes = [CODES.of_raw(raw, COLUMNS).tolist() for raw in alike]
        assert codes[0] == codes[1], cells
        if name in SCHEMA.names:
            in_grid = [GRID.of_raw(raw, world.reading_columns(SCHEMA)).tolist() for raw in alike]
            assert in_grid[0] == in_grid[1], cells


CLASSES = ("no", "yes", "3")
LABELS: list[tuple[pl.Series, tuple[str, ...], list[int]]] = [
    (pl.Series(["yes", " yes", "3", "03", "YES", "", None, "no"]), CLASSES, [1, 1, 2, 2, 0, 0, 0, 0]),
    (pl.Series([3, 4]), CLASSES, [2, 0]),
    (pl.Series([3.0, 3.5, NAN]), CLASSES, [2, 0, 0]),
    (pl.Series([True, False]), ("False", "True"), [1, 0]),
    (pl.Series([b"yes", b"\xff"]), CLASSES, [1, 0]),
    *((odd, CLASSES, [0]) for odd in (pl.Series([["yes"]]), pl.Series([DAY]), pl.Series([None]))),
]


def test_labels_of_every_type_and_the_first_class_for_all_others() -> None:
    for cells, classes, due in LABELS:
        encoding = ENCODING.model_copy(update={"classes": classes})
        assert world.cast_rows(cells.alias("label").to_frame(), encoding)[world.LABEL].to_list() == due


DECLARED: dict[str, Any] = {
    "number": world.DeclaredRange(kind="numeric", name="x", low=0, high=1e6, whole=False),
    "date": world.DeclaredRange(kind="date", name="x", low=0, high=40_000, whole=True),
    "truth": world.DeclaredTruth(kind="boolean", name="x"),
    "categories": world.DeclaredCategories(kind="categorical", name="x", words=("1", "2020-01-01")),
    "text": world.DeclaredText(kind="text", name="x"),
}
WORDS, MOMENT = ["1", "true", "2020-01-01"], datetime.datetime(2020, 1, 1)
STORED: dict[str, pa.Array] = {
    "integers": pa.array([0, 1]),
    "decimals": pa.array([0, 1], pa.decimal128(20, 2)),
    "doubles": pa.array([0.0, 1.0]),
    "truth values": pa.array([False, True]),
    "words": pa.array(WORDS),
    "words of a dictionary": pa.array(WORDS).dictionary_encode(),
    "bytes": pa.array([b"1", b"true"]),
    "dates": pa.array([MOMENT.date()]),
    "moments": pa.array([MOMENT], pa.timestamp("us")),
    "moments of a zone": pa.array([MOMENT], pa.timestamp("ms", "Europe/Berlin")),
    "lists": pa.array([[1.0, 2.0]]),
}


@pytest.mark.parametrize("declared", DECLARED)
def test_a_column_of_which_no_cell_would_be_read_is_refused_before_it_is_charged(declared: str) -> None:
    """Whatever is declared, and whatever type is stored: else each of its cells counts as missing, at full price.

    That a file stores it as null follows from its cells, which are private: it is never refused.
    """
    schema = world.TableSchema(columns=(DECLARED[declared],), undeclared=())
    grid, (narrow,) = world.grid_of(schema), world.grid_of(schema).fine
    world.check_stored(schema, {"x": world.polars_type(pa.null())})
    for cells in STORED.values():
        dtype = world.polars_type(cells.type)
        found = grid.of_raw(pl.DataFrame([world.read_column("x", cells, cells.type)]), world.reading_columns(schema))[
            :, narrow
        ]
        read = (found != grid.span(narrow).stop - 1).any() and dtype != pl.Binary  # of which words are digits
        if read and not (declared == "text" and dtype.is_temporal()):
            world.check_stored(schema, {"x": dtype})
        else:
            with pytest.raises(world.WrongInput, match="stores the column 'x'"):
                world.check_stored(schema, {"x": dtype})


@pytest.mark.parametrize("kind", [pa.null(), pa.time64("us"), pa.list_(pa.string())])
def test_a_column_of_which_no_cell_is_read_is_named_where_words_are_sought(tmp_path: Path, kind: pa.DataType) -> None:
    path = str(tmp_path / "test.parquet")
    pyarrow.parquet.write_table(pa.table({"size": [1, 2], "hour": pa.nulls(2, kind)}), path)
    with pytest.raises(world.WrongInput, match="'hour' holds nothing"):
        world.classes_of(path, "hour")
    with pytest.raises(world.WrongInput, match=r"data\.groups .*'hour' has 1"):
        world.grouping(path, ["hour"], ENCODING)
