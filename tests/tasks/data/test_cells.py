"""Cells: every rule gives every cell of every type a value or a null, one for each row, and looks at no other row."""

import io
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from concord.artifacts.schemas import Encoding, OneHot, Passed, Scaled
from concord.tasks.data.cells import LABEL, canonical_id, cast_rows, cell, class_index
from concord.tasks.data.matrix import encode
from concord.tasks.data.tables import find_files
from tests.support.raw import exact

LEAST, MOST = -(2**63), 2**63 - 1
WHOLE = [0, 1, -1, 2**31, 2**62, LEAST, MOST, None]
WORDS = [
    *("", "\x00", "💥", "١٢٣", "true", "nan", "1e999", "+-0007", "-007.000", "0" * 9999 + "1", "9" * 400),
    *("9999-12-31", "0000-00-00", "99999-01-01", "-262144-01-01", "2020-02-30", "2020-01-01 25:00:00"),
    *("2020-01-01T00:00:00.123456789123", "1970-01-01 00:00:00." + "9" * 30, None),
]
NUMBERS = [0.0, -0.0, 1e308, 5e-324, float("nan"), float("inf"), -float("inf"), 2.0**63, 1e19, None]
MOMENTS = [
    pl.Series(WHOLE, dtype=pl.Int64).cast(pl.Datetime(unit, zone))
    for unit in ("ms", "us", "ns")
    for zone in (None, "Europe/Paris")
]
COLUMNS = [
    *MOMENTS,
    *(pl.Series(WHOLE, dtype=pl.Int64).cast(pl.Duration(unit)) for unit in ("ms", "us", "ns")),
    pl.Series([0, 2**31 - 1, -(2**31), None], dtype=pl.Int32).cast(pl.Date),
    pl.Series([0, 86_399_999_999_999, None], dtype=pl.Int64).cast(pl.Time),
    pl.Series(WHOLE, dtype=pl.Int64),
    pl.Series([0, 2**64 - 1, None], dtype=pl.UInt64),
    pl.Series([2**126, None], dtype=pl.Int128),
    pl.Series(NUMBERS, dtype=pl.Float64),
    pl.Series(NUMBERS, dtype=pl.Float32),
    pl.Series(["1.5", "9" * 28 + "." + "9" * 5, None]).str.to_decimal(scale=5),
    pl.Series(WORDS, dtype=pl.String),
    pl.Series(WORDS, dtype=pl.Categorical),
    pl.Series([b"\xff\x00", b"", None], dtype=pl.Binary),
    pl.Series([None, None], dtype=pl.Null),
    pl.Series([True, False, None]),
    pl.Series([[1.0, 2.0], [], None, [None, float("nan")]]),
    pl.Series([["a"], None]),
    pl.Series([[1, 2], None], dtype=pl.Array(pl.Int64, 2)),
    pl.Series([{"a": 1}, None]),
    pl.Series([[[1]], None]),
]
RULES: dict[str, Callable[[pl.DataType], pl.Expr]] = {
    "numeric": lambda dtype: cell("c", dtype, "numeric"),
    "boolean": lambda dtype: cell("c", dtype, "boolean"),
    "date": lambda dtype: cell("c", dtype, "date"),
    "categorical": lambda dtype: cell("c", dtype, "categorical"),
    "identity": lambda dtype: canonical_id("c", dtype),
    "class": lambda dtype: class_index("c", dtype, ("a", "b")),
}
KINDS = (
    Scaled(kind="numeric", name="c", mean=0, scale=1, fill=0, low=-1, high=1, missing=True),
    Scaled(kind="date", name="c", mean=0, scale=1, fill=0, low=-1, high=1, missing=True),
    OneHot(name="c", vocabulary=("a", "0"), missing=True),
    Passed(name="c", element="uint8", size=2),
    Passed(name="c", element="float32", size=2),
)


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.dtype))
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_gives_each_cell_what_it_would_get_alone(column: pl.Series, rule: str) -> None:
    frame, made = column.alias("c").to_frame(), RULES[rule](column.dtype).alias("c")
    together = frame.select(made).to_series()
    alone = [frame.slice(row, 1).select(made).to_series() for row in range(frame.height)]
    assert exact(together) == [bits for cell in alone for bits in exact(cell)]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: str(column.dtype))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.kind} {getattr(kind, 'element', '')}")
def test_rows_of_any_type_become_as_many_rows_of_numbers(column: pl.Series, kind: Scaled | OneHot | Passed) -> None:
    encoding = Encoding(columns=(kind,), label="y", classes=("a", "b"))
    frame = pl.DataFrame({"c": column, "y": column})
    cast = cast_rows(frame, encoding)
    assert cast.columns == ["c", LABEL]
    assert encode(cast, encoding).shape == (frame.height, encoding.width)
    assert cast[LABEL].null_count() == 0


def test_moments_that_can_be_written_are_the_same_word_however_they_are_stored() -> None:
    for unit in ("ms", "us", "ns"):
        moments = (
            pl.Series("c", ["1970-01-01 00:00:01", "2262-04-11 00:00:00"]).str.to_datetime().cast(pl.Datetime(unit))
        )
        words = moments.to_frame().select(canonical_id("c", moments.dtype)).to_series()
        assert words.to_list() == ["1970-01-01 00:00:01", "2262-04-11"]


def test_a_number_of_fifty_digits_does_not_stop_the_table(tmp_path: Path) -> None:
    sink = io.BytesIO()
    table = pa.table({"c": pa.array([Decimal("1.5"), Decimal(10) ** 50])})
    assert pa.types.is_decimal256(table.schema.field("c").type)
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    path = tmp_path / "t.arrow"
    path.write_bytes(sink.getvalue())
    (frame,) = find_files(str(path), "data.private")[0].frames(["c"])
    assert frame["c"].to_list() == [1.5, 1e50]
