"""Sound: no cell of a stored column, whatever its bits, decides how a run ends or what another cell becomes."""

import struct
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.raw import TYPES, Cell, column, exact
from tests.world import open_private, polars_type, read_column

KNOWN = [stored for stored in TYPES if polars_type(stored) != pl.Unknown]
BATCH = 70_000
"""Rows of a batch that is cut when it is read."""


def long_ago(seconds: int) -> bytes:
    return struct.pack("<q", seconds)


FAULTS: dict[str, tuple[pa.DataType, bytes, Cell, object]] = {
    "a null vector": (pa.list_(pa.float32(), 2), struct.pack("<ff", 1, 2), None, None),
    "not UTF-8 in a dictionary": (pa.dictionary(pa.int8(), pa.string()), b"\x00", b"\x01", "\\xff\\xfe"),
    "no word of a dictionary": (pa.dictionary(pa.int8(), pa.string()), b"\x00", b"\x7f", None),
    "no word of a dictionary without a sign": (pa.dictionary(pa.uint8(), pa.string()), b"\x00", b"\x7f", None),
    "a null in a dictionary without a sign": (pa.dictionary(pa.uint32(), pa.string()), bytes(4), None, None),
    "not UTF-8 in a string view": (pa.string_view(), b"a", b"a\xff", "a\\xff"),
    "a view that leads nowhere": (pa.string_view(), b"a", struct.pack("<iiii", 99, 0, 7, 5), None),
    "a decimal beyond its precision": (pa.decimal128(5, 2), b"\x96", (10**20).to_bytes(16, "little"), None),
    "a date with hours": (pa.date64(), long_ago(86_400_000), long_ago(86_400_001), 1),
    "a date beyond all days": (pa.date64(), long_ago(86_400_000), long_ago(2**63 - 1), None),
    "the time 24:00:00": (pa.time32("s"), struct.pack("<i", 1), struct.pack("<i", 86_400), None),
    "a moment beyond milliseconds": (pa.timestamp("s"), long_ago(1), long_ago(2**62), None),
    "a time zone nobody knows": (pa.timestamp("us", "+25:00"), long_ago(1), long_ago(2), 2),
}
NOT_IN_PARQUET = (
    *("no word of a dictionary", "no word of a dictionary without a sign", "a view that leads nowhere"),
    *("a date beyond all days", "a moment beyond milliseconds"),
)
HELD = [
    *((fault, ".arrow") for fault in FAULTS),
    *((fault, ".parquet") for fault in FAULTS if fault not in NOT_IN_PARQUET),
]


def written(path: Path, cells: pa.Array) -> Path:
    """A file of one column `c`; raises what its format cannot hold."""
    table = pa.table({"c": cells})
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=BATCH // 2)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    return path


def read(path: Path) -> pl.Series:
    return pl.concat(open_private(str(path)).frames({"c": "data.features"}))["c"]


@pytest.mark.parametrize("rows", [2, BATCH])
@pytest.mark.parametrize(("fault", "suffix"), HELD)
def test_a_cell_that_its_type_does_not_allow_is_mended_and_stops_nothing(
    tmp_path: Path, fault: str, suffix: str, rows: int
) -> None:
    stored, good, bad, mended = FAULTS[fault]
    without = read(written(tmp_path / f"without{suffix}", column(stored, [good] * (rows - 1))))
    within = read(written(tmp_path / f"within{suffix}", column(stored, [good] * (rows - 1) + [bad])))
    assert exact(within[:-1]) == exact(without)
    assert within.dtype == without.dtype
    assert within.to_physical()[-1] == mended


def test_a_column_of_a_type_that_is_no_feature_is_null_whatever_it_holds(tmp_path: Path) -> None:
    for stored in set(TYPES) - set(KNOWN):
        for cells in ([], [b"\x01"], [b"\x01", b"\xff" * 40, None]):
            made = column(stored, cells)
            frames = open_private(str(written(tmp_path / "t.arrow", made))).frames({"c": "data.features"})
            assert [cell for frame in frames for cell in frame["c"]] == [None] * len(cells)


def test_decimals_become_the_nearest_number_however_wide_their_type_is() -> None:
    """A writer widens a column over one long number: no other cell may change by that."""
    numbers = [Decimal(10 * at + 1).scaleb(-20) * (-1) ** at * 7**at for at in range(40)]
    short = read_column("c", pa.array(numbers, pa.decimal128(38, 20)), pa.decimal128(38, 20))
    wide = read_column("c", pa.array(numbers, pa.decimal256(76, 20)), pa.decimal256(76, 20))
    assert exact(short.cast(pl.String).cast(pl.Float64)) == exact(wide)
    assert wide.to_list() == [float(number) for number in numbers]
