"""Odd cells: a run ends as it would without them. No cell of the private table decides the exit status."""

import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.people import people, write_plan, write_tables
from tests.support.raw import Cell, column

COLUMNS: dict[str, tuple[pa.DataType, tuple[bytes, bytes], Cell]] = {
    "vector": (pa.list_(pa.float32(), 2), (struct.pack("<ff", 1, 2), struct.pack("<ff", 3, 4)), None),
    "word": (pa.dictionary(pa.int8(), pa.string()), (b"\x00", b"\x05"), b"\x01"),
    "note": (pa.string_view(), (b"a", b"b"), b"\xff"),
    "price": (pa.decimal128(5, 2), (bytes([1, 0]), bytes([7, 0])), (10**30).to_bytes(16, "little")),
    "day": (pa.date64(), (bytes(8), struct.pack("<q", 86_400_000)), struct.pack("<q", 86_400_001)),
}
"""Features by type, with two good cells and one that the type does not allow."""


def with_columns(table: pa.Table, *, odd: bool) -> pa.Table:
    """The table with a column of each type, whose last cell is odd."""
    for name, (stored, good, bad) in COLUMNS.items():
        cells: list[Cell] = [good[row % 2] for row in range(table.num_rows)]
        table = table.append_column(name, column(stored, [*cells[:-1], bad] if odd else cells))
    return table.append_column("hour", column(pa.time32("s"), [struct.pack("<i", 86_400)] * table.num_rows))


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".parquet", ".arrow"])
def test_a_run_over_cells_that_their_types_do_not_allow_ends_as_without_them(
    tmp_path: Path, concord: Callable[..., tuple[int, str, str]], suffix: str
) -> None:
    folder = write_tables(tmp_path / "data")
    public = with_columns(people(300, 2).drop("outcome", "person").to_arrow(), odd=False).drop_columns("hour")
    pq.write_table(public, folder / "public.parquet")
    ends = []
    for odd in (False, True):
        table = with_columns(people(6000, 1).to_arrow(), odd=odd)
        path = folder / f"private-{odd}{suffix}"
        if suffix == ".parquet":
            # a Parquet writer looks up the words of dictionaries and views, which may lead nowhere
            pq.write_table(table, path)
        else:
            with pa.ipc.new_file(str(path), table.schema) as writer:
                writer.write_table(table)
        plan = write_plan(folder, data__private=path.name, data__test=None, privacy__domain=f"people-{odd}")
        ends.append(concord("run", str(plan), "--json")[0])
    assert ends == [0, 0]
