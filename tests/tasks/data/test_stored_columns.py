"""Sound: no cell of a stored column, whatever its bits, decides how a run ends or what another cell becomes; and a
column has the same cells, to the bit, whether its file holds each word once or each cell by itself."""

import struct
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import world
from tests.support.raw import CELLS, TYPES, Cell, column, exact
from tests.support.rules import CODES, COLUMNS, ENCODING

KNOWN = [stored for stored in TYPES if world.polars_type(stored) != pl.Unknown]
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
    return pl.concat(world.open_private(str(path)).frames({"c": "data.features"}))["c"]


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
            frames = world.open_private(str(written(tmp_path / "t.arrow", made))).frames({"c": "data.features"})
            assert [cell for frame in frames for cell in frame["c"]] == [None] * len(cells)


def test_decimals_become_the_nearest_number_however_wide_their_type_is() -> None:
    """A writer widens a column over one long number: no other cell may change by that."""
    numbers = [Decimal(10 * at + 1).scaleb(-20) * (-1) ** at * 7**at for at in range(40)]
    short = world.read_column("c", pa.array(numbers, pa.decimal128(38, 20)), pa.decimal128(38, 20))
    wide = world.read_column("c", pa.array(numbers, pa.decimal256(76, 20)), pa.decimal256(76, 20))
    assert exact(short.cast(pl.String).cast(pl.Float64)) == exact(wide)
    assert wide.to_list() == [float(number) for number in numbers]


# Words ----------------------------------------------------------------------------------------------------------------

ODD = [*CELLS, b"a", b"Rome", b" Rome ", b"7", b"7.0", b"\\xff", b"\xff"]
"""Cells of any bits; the last two are mended to the same word."""


def table(cells: Sequence[bytes | None]) -> pa.Table:
    """A table whose columns are all those cells, as text of any bytes."""
    return pa.table({name: column(pa.string(), cells) for name in (*ENCODING.features, ENCODING.label)})


def words_written(path: Path, cells: Sequence[bytes | None], rows: int, **how: Any) -> Path:
    pq.write_table(table(cells), path, row_group_size=rows, **how)
    return path


def read_words(path: Path, rows: int) -> Iterator[pl.DataFrame]:
    (file,) = world.find_files(str(path), world.PRIVATE)
    names = (*ENCODING.features, ENCODING.label)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.data_files, "ROWS_IN_MEMORY", rows)
        yield from file.frames(names, once=names)


def coded(frames: Iterator[pl.DataFrame]) -> list[tuple[bytes, int]]:
    """What each row becomes: its codes and its class."""
    return [
        (row.tobytes(), int(index))
        for raw in frames
        for row, index in zip(CODES.of_raw(raw, COLUMNS), world.cast_labels(raw["label"], ENCODING), strict=True)
    ]


@pytest.mark.parametrize("rows", [999, 4096])
def test_cells_have_the_same_codes_however_a_file_holds_them(tmp_path: Path, rows: int) -> None:
    """Each odd cell many times, so that its words are few; in row groups that frames are cut across."""
    cells = ODD * 100
    once = words_written(tmp_path / "once.parquet", cells, 4000)
    each = words_written(tmp_path / "each.parquet", cells, 2999, use_dictionary=False)
    first = next(read_words(once, 4096))
    assert all(isinstance(dtype, pl.Enum) for dtype in first.dtypes)
    assert {dtype for raw in read_words(each, rows) for dtype in raw.dtypes} == {pl.String()}
    together = coded(read_words(once, rows))
    assert together == coded(read_words(each, rows))
    assert len(set(together)) > 10
    assert [raw.height for raw in read_words(once, rows)] == [raw.height for raw in read_words(each, rows)]
    cast = [
        row.tobytes() for raw in read_words(each, rows) for row in CODES.of(world.cast_rows(raw, ENCODING)).astype("u1")
    ]
    assert cast == [row for row, _ in together]


def test_a_word_by_the_dictionary_of_another_row_group_would_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: all chunks of a frame are read by the first one's words."""
    path = words_written(tmp_path / "t.parquet", [b"a"] * 1000 + [b"7"] * 1000, 1000)
    true = coded(read_words(path, 4096))

    def by_the_first(name: str, parts: Sequence[Any]) -> pl.Series:
        return world.words_as_enum(name, [(parts[0][0], places) for _, places in parts])

    monkeypatch.setattr(world.data_files, "words_as_enum", by_the_first)
    assert coded(read_words(path, 4096)) != true


def test_columns_of_many_words_and_of_other_types_are_read_cell_by_cell(tmp_path: Path) -> None:
    many = [str(at).rjust(20, "0") for at in range(1000)]
    columns = {"few": ["a", "b"] * 500, "many": many, "number": list(range(1000)), "bytes": [b"a"] * 1000}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=500)
    footer = pq.read_metadata(tmp_path / "t.parquet")
    assert world.columns_by_words(footer, [*columns, "absent"]) == ["few"]
    pq.write_table(pa.table(columns), tmp_path / "plain.parquet", use_dictionary=["many"])
    assert world.columns_by_words(pq.read_metadata(tmp_path / "plain.parquet"), columns) == []
    assert world.data_stored_columns.columns_by_words(footer, []) == []


def test_a_column_whose_writer_went_over_to_pages_without_words_is_read_cell_by_cell(tmp_path: Path) -> None:
    """Arrow cannot give the words of such pages. None of the writers here makes both kinds; others do, as words grow
    many: what a footer then says is made up of a true one."""
    encoded: dict[str, Any] = {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"}
    pq.write_table(pa.table({"c": ["a", "b"] * 500}), tmp_path / "delta.parquet", **encoded)
    with pytest.raises(OSError, match="Not yet implemented"):
        pq.ParquetFile(tmp_path / "delta.parquet", read_dictionary=["c"]).read()
    pq.write_table(pa.table({"c": ["a", "b"] * 500}), tmp_path / "t.parquet")
    own = pq.read_metadata(tmp_path / "t.parquet").row_group(0).column(0)
    known = {name: getattr(own, name) for name in ("has_dictionary_page", "total_uncompressed_size", "num_values")}
    for encodings, read_once in ((own.encodings, True), ((*own.encodings, "DELTA_BYTE_ARRAY"), False)):
        chunk: Any = SimpleNamespace(encodings=encodings, **known)
        assert world.data_stored_columns._of_few_words(chunk) == read_once
