"""Odd cells: a release of any kind ends as it would without them. No cell of the private table decides the exit status.

That it ends well without them is in test_canary_kinds.py.
"""

import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.promises.runs import READERS, Run
from tests.support.people import people, tables_of_plan, write_tables
from tests.support.raw import Cell, column
from tests.world import Ledger

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


def written(table: pa.Table, path: Path) -> str:
    """The name of a file of the table. A Parquet writer looks up the words of dictionaries and views, which may lead
    nowhere."""
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    return path.name


def tables(folder: Path, suffix: str) -> dict[str, Any]:
    """A plan, as nested tables, whose private table has odd cells."""
    found = tables_of_plan(write_tables(folder))
    public = with_columns(people(300, 2).drop("outcome", "person").to_arrow(), odd=False).drop_columns("hour")
    pq.write_table(public, folder / "public.parquet")
    del found["data"]["test"]
    found["data"]["private"] = written(with_columns(people(6000, 1).to_arrow(), odd=True), folder / f"private{suffix}")
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("run", "suffix"),
    [
        pytest.param(run, suffix, id=f"{run.name}{suffix}")
        for run in READERS
        for suffix in ((".arrow", ".parquet") if run.name in ("stable", "tallies") else (".arrow",))
        if not run.labels
    ],
)
def test_no_kind_of_release_ends_by_cells_that_their_types_do_not_allow(
    tmp_path: Path, plain_home: Path, run: Run, suffix: str
) -> None:
    found = tables(tmp_path / "data", suffix)
    if run.tables(found).get("labeling", {}).get("mechanism") == "tallies":  # which know no lists
        found["data"]["features"] = ["size", *(name for name in COLUMNS if name != "vector")]
    run.ask(run.plan(found), plain_home)
    assert all(session.asked for session in Ledger.of(plain_home).sessions("people"))


@pytest.mark.parametrize("name", ["note", "price", "day"])
def test_a_reader_that_trusts_the_types_would_end_by_them(name: str) -> None:
    """The planted bug: a reader that checks each cell, and so ends by one private row."""
    for odd in (False, True):
        one = with_columns(people(50, 1).to_arrow(), odd=odd).select([name])
        one.validate()
        if odd:
            with pytest.raises((pa.ArrowException, UnicodeError)):
                one.validate(full=True)
        else:
            one.validate(full=True)
