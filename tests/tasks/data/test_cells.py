"""Cells of types that few files hold. That no row touches another is asked by tests/privacy/test_row_alone.py."""

import io
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa

from tests.world import canonical_id, find_files


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
