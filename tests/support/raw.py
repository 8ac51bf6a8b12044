"""Columns of every Arrow type from any bits, and cells compared by their bits."""

import functools
import struct
from collections.abc import Sequence

import numpy as np
import polars as pl
import pyarrow as pa
from hypothesis import strategies as st
from pyarrow import types

Cell = bytes | None
"""The bits of a cell: as many as its type takes, cut or filled up with zeros; in text, the text. None is null."""

DICTIONARY = (b"a", b"\xff\xfe", b"7.0", b"-0", b"", b"true", b"2020-01-02", b"Rome")

TYPES: tuple[pa.DataType, ...] = (
    *(pa.null(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64()),
    *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64()),
    *(pa.decimal32(5, 2), pa.decimal64(18, 0), pa.decimal128(5, 2), pa.decimal128(38, 38), pa.decimal128(9, -3)),
    *(pa.decimal256(30, 2), pa.decimal256(76, 20), pa.date32(), pa.date64()),
    *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.month_day_nano_interval()),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "Europe/Paris", "+05:30")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()),
    *(pa.binary(3), pa.uuid(), pa.bool8(), pa.json_(pa.string()), pa.opaque(pa.int64(), "odd", "nobody")),
    *(pa.dictionary(index, pa.string()) for index in (pa.int8(), pa.uint64())),
    *(pa.dictionary(pa.int32(), words) for words in (pa.large_string(), pa.string_view(), pa.int64(), pa.binary())),
    *(pa.list_(number, 2) for number in (pa.float32(), pa.uint8(), pa.bool_(), pa.float16())),
    *(pa.list_(pa.int64()), pa.large_list(pa.float64()), pa.list_(pa.string()), pa.list_(pa.string(), 2)),
    *(pa.list_view(pa.int8()), pa.large_list_view(pa.int8()), pa.list_(pa.list_(pa.int8(), 2), 2)),
    *(pa.struct([("a", pa.float64())]), pa.run_end_encoded(pa.int32(), pa.float64())),
    pa.sparse_union([pa.field("a", pa.int64()), pa.field("b", pa.string())]),
)

NUMBERS = (0.0, -0.0, 5e-324, -1e-310, 1.0, 1.5, -0.1, 1e100, -1e101, 1.7e308, np.inf, -np.inf, 2.0**53, 2.0**63, 1e19)
NANS = (0x7FF8000000000001, 0x7FF0000000000001, 0xFFFFFFFFFFFFFFFF)
WHOLE = (0, 1, -1, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 2**62, 86_399_999, 86_400_000, 719_163, -719_163)
WORDS = (
    *("", " ", "a", " a ", "-0", "-0.0", "+-0007", "007", "1e-400", "1e999", "9007199254740993", "0." + "3" * 40),
    *("nan", "inf", "true", "FALSE", "1", "0x10", "1_0", "e\u0301", "\u00e9", "\u0661\u0662", "a\x00b", "\U0001f4a5"),
    *("1970-01-01", "9999-12-31", "0000-00-00", "99999-01-01", "-0001-01-01", "2020-02-30", "2020-01-01 24:00:00"),
    *("2020-01-01T00:00:00.123456789123", "2016-12-31 23:59:60", "x" * 300, "-" + "9" * 400),
)
CELLS: tuple[Cell, ...] = (
    None,
    *(struct.pack("<d", number) for number in NUMBERS),
    *(struct.pack("<f", number) * 2 for number in NUMBERS if abs(number) < 1e38),
    *(struct.pack("<e", number) for number in (-0.0, 6e-8, 7.5, np.inf)),
    *(number.to_bytes(8, "little") for number in NANS),
    *(number.to_bytes(8, "little", signed=True) for number in WHOLE),
    *(number.to_bytes(32, "little", signed=True) for number in (10**38, -(10**38), 10**20, 10**75, -1)),
    *(struct.pack("<iiii", *view) for view in ((100, 0, 7, 5), (-5, 0, 0, 0), (13, 0, 0, 2**31 - 1))),
    *(word.encode() for word in WORDS),
    *(b"\xff", b"a\xfe", b"\xed\xa0\x80", b"\xc0\x80", b"\x80" * 40),
)
"""Odd numbers, times and words, and bits that are not valid."""


def column(stored: pa.DataType, cells: Sequence[Cell]) -> pa.Array:
    """A column of the type whose cells have these bits, whether the type allows them or not."""
    rows = len(cells)
    bits = [cell or b"" for cell in cells]
    valid = pa.array([cell is not None for cell in cells], pa.bool_()).buffers()[1]
    if isinstance(stored, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(stored, column(stored.storage_type, cells))
    if types.is_null(stored):
        return pa.nulls(rows)
    if types.is_boolean(stored):
        return pa.array([None if cell is None else sum(cell) % 2 == 1 for cell in cells], stored)
    if types.is_dictionary(stored):
        words = column(stored.value_type, DICTIONARY)
        return pa.DictionaryArray.from_arrays(column(stored.index_type, cells), words, safe=False)
    if types.is_string_view(stored) or types.is_binary_view(stored):
        views = b"".join(_view(cell) for cell in bits)
        return pa.Array.from_buffers(stored, rows, [valid, pa.py_buffer(views)])
    if types.is_run_end_encoded(stored):
        ends = pa.array(range(1, rows + 1), stored.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(ends, column(stored.value_type, cells))
    if types.is_struct(stored) or types.is_union(stored):
        children = [column(field.type, cells) for field in stored]
        buffers = [valid] if types.is_struct(stored) else [None, _packed(bits, 1)]
        return pa.Array.from_buffers(stored, rows, buffers, children=children)
    if types.is_list_view(stored) or types.is_large_list_view(stored):
        places = _packed([b""] * rows, 8)  # empty lists: a writer kills the process on invalid offsets
        return pa.Array.from_buffers(stored, rows, [valid, places, places], children=[column(stored.value_type, bits)])
    if types.is_fixed_size_list(stored):
        parts = [cell[at * (len(cell) // 2) :] for cell in bits for at in range(stored.list_size)]
        return pa.Array.from_buffers(stored, rows, [valid], children=[column(stored.value_type, parts)])
    if types.is_list(stored) or types.is_large_list(stored):
        lists = [[cell[at : at + 8] for at in range(0, len(cell), 8)] for cell in bits]
        children = [column(stored.value_type, [part for cell in lists for part in cell])]
        return pa.Array.from_buffers(stored, rows, [valid, _offsets(lists, stored)], children=children)
    if stored.num_buffers == 3:
        return pa.Array.from_buffers(stored, rows, [valid, _offsets(bits, stored), pa.py_buffer(b"".join(bits))])
    return pa.Array.from_buffers(stored, rows, [valid, _packed(bits, stored.bit_width // 8)])


@functools.cache
def cells_of(stored: pa.DataType) -> st.SearchStrategy[Cell]:
    """Odd cells of a type, mostly of its width."""
    width = stored.bit_width // 8 if pa.types.is_primitive(stored) else None
    fitting = [cell for cell in CELLS if width and cell and len(cell) == width]
    return st.one_of(st.sampled_from(fitting or CELLS), st.sampled_from(CELLS), st.binary(max_size=40))


def exact(cells: pl.Series) -> list[bytes | None]:
    """The bits of each cell, None if it is null: −0.0 is not 0.0, and one NaN is not another."""
    known = cells.drop_nulls()
    if isinstance(known.dtype, pl.Enum):
        known = known.cast(pl.String)
    if isinstance(known.dtype, pl.List):
        found = iter([b"".join(bits or b"" for bits in exact(part)) for part in known])
    elif isinstance(known.dtype, pl.String | pl.Binary | pl.Decimal):
        words = known.cast(pl.String) if known.dtype.is_decimal() else known
        found = iter(words.cast(pl.Binary).to_list())
    else:
        found = iter([number.tobytes() for number in known.to_numpy()])
    return [next(found) if there else None for there in cells.is_not_null()]


def _view(cell: bytes) -> bytes:
    """Short bytes as they are; sixteen and more become the view itself, which may point nowhere."""
    return cell[:16] if len(cell) >= 16 else struct.pack("<i12s", min(len(cell), 12), cell)


def _packed(bits: Sequence[bytes], width: int) -> pa.Buffer:
    return pa.py_buffer(b"".join(cell[:width].ljust(width, b"\0") for cell in bits))


def _offsets(cells: Sequence[Sequence[object]], stored: pa.DataType) -> pa.Buffer:
    large = types.is_large_string(stored) or types.is_large_binary(stored) or types.is_large_list(stored)
    ends = np.cumsum([0, *map(len, cells)])
    return pa.py_buffer(ends.astype(np.int64 if large else np.int32).tobytes())
