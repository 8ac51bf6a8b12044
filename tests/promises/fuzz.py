"""Made-up faults, the same for every seed: plans and tables that are nearly right."""

import datetime
import decimal
import io
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from tests.support.people import people

SECRET = "CANARY"
"""A word in every table: no message about a private table may contain it."""
FORMATS = ("csv", "arrow", "parquet")
ODD: tuple[Any, ...] = (
    None,
    "",
    0,
    -1,
    2**63,
    1.5,
    float("inf"),
    float("nan"),
    True,
    [],
    {},
    ["a", "a"],
    "a\nb",
    "é" * 999,
)


def table() -> pa.Table:
    """Forty people; one shade in four is the canary."""
    frame = people(40, 1).to_arrow()
    shades = [SECRET if at % 4 == 0 else shade for at, shade in enumerate(frame["shade"].to_pylist())]
    return frame.set_column(frame.column_names.index("shade"), "shade", pa.array(shades))


COLUMNS: tuple[Callable[[int], pa.Array], ...] = (
    lambda rows: pa.array([SECRET.encode() + b"\xff"] * rows, pa.binary()),
    lambda rows: pa.Array.from_buffers(pa.string(), rows, pa.array([b"\xff\xfe"] * rows, pa.binary()).buffers()),
    lambda rows: pa.array([[1, 2]] * rows, pa.list_(pa.int64())),
    lambda rows: pa.array([[1, None]] * rows, pa.list_(pa.int64(), 2)),
    lambda rows: pa.array([{"a": SECRET}] * rows, pa.struct([("a", pa.string())])),
    lambda rows: pa.array([[(SECRET, 1)]] * rows, pa.map_(pa.string(), pa.int64())),
    lambda rows: pa.array([SECRET] * rows).dictionary_encode(),
    lambda rows: pa.array([SECRET * 50_000] + [None] * (rows - 1), pa.large_string()) if rows else pa.array([], "str"),
    pa.nulls,
    lambda rows: pa.array([float("nan"), float("inf"), -0.0, 1e308][:rows] + [0.0] * max(0, rows - 4)),
    lambda rows: pa.array([2**64 - 1] * rows, pa.uint64()),
    lambda rows: pa.array([decimal.Decimal("1.5")] * rows, pa.decimal128(20, 2)),
    lambda rows: pa.array([decimal.Decimal(10**60)] * rows, pa.decimal256(70, 0)),
    lambda rows: pa.array([datetime.time(1)] * rows, pa.time64("ns")),
    lambda rows: pa.array([10**18] * rows, pa.duration("ns")),
    lambda rows: pa.array([2**62] * rows, pa.timestamp("s", tz="Europe/Berlin")),
    lambda rows: pa.array([-719_163] * rows, pa.date32()),
    lambda rows: pa.array([1.5] * rows, pa.float16()),
    lambda rows: pa.array([True, None] * rows, pa.bool_())[:rows],
)


def reshaped(rng: random.Random, whole: pa.Table) -> pa.Table:
    """A table with changed columns: of other types, doubled, without a name, without rows, or missing."""
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(whole.num_columns) if whole.num_columns else 0
        match rng.randrange(6) if whole.num_columns else 0:
            case 0:
                whole = whole.append_column(rng.choice(["", " ", "size", "x" * 999, "a\nb", "é"]), _column(rng, whole))
            case 1:
                whole = whole.remove_column(at)
            case 2:
                whole = whole.slice(0, rng.choice([0, 1, 2]))
            case 3:
                whole = whole.select([])
            case _:
                whole = whole.set_column(at, whole.column_names[at], _column(rng, whole))
    return whole


def _column(rng: random.Random, whole: pa.Table) -> pa.Array:
    return rng.choice(COLUMNS)(whole.num_rows)


def written(whole: pa.Table, form: str) -> bytes:
    """The bytes of a file in that format, without columns that it cannot hold."""
    sink = io.BytesIO()
    for _ in range(whole.num_columns + 1):
        try:
            sink = io.BytesIO()
            if form == "csv":
                pyarrow.csv.write_csv(whole, sink)
            elif form == "parquet":
                pyarrow.parquet.write_table(whole, sink)
            else:
                with pa.ipc.new_file(sink, whole.schema) as file:
                    file.write_table(whole)
            break
        except (pa.ArrowException, UnicodeError):
            whole = whole.remove_column(whole.num_columns - 1)
    return sink.getvalue()


def damaged(rng: random.Random, data: bytes) -> bytes:
    """The bytes cut short, with flipped bits, partly doubled, or with other bytes inserted."""
    at, length = rng.randrange(len(data) + 1), rng.choice([1, 2, 8, 64])
    match rng.randrange(4):
        case 0:
            return data[:at]
        case 1:
            flipped = bytearray(data)
            for _ in range(length):
                flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            return bytes(flipped)
        case 2:
            return data[:at] + data[at : at + length] * 2 + data[at + length :]
    return data[:at] + rng.randbytes(length) + data[at:]


def table_file(seed: int, folder: Path) -> Path:
    """A table that is nearly right, in one of the formats."""
    rng = random.Random(seed)
    form = rng.choice(FORMATS)
    data = written(reshaped(rng, table()) if rng.random() < 0.6 else table(), form)
    if rng.random() < 0.5 and data:
        data = damaged(rng, data)
    file = folder / f"table-{seed}.{form}"
    file.write_bytes(data)
    return file


def bent(seed: int, tables: dict[str, Any]) -> dict[str, Any]:
    """Nested tables of a plan with some values changed, removed, moved or added."""
    rng = random.Random(seed)
    for _ in range(rng.randint(1, 3)):
        section = rng.choice(sorted(tables))
        keys = tables[section]
        value = rng.choice(ODD)
        if not isinstance(keys, dict) or rng.random() < 0.15:
            tables = {**tables, section: value}
        elif rng.random() < 0.3:
            tables = {**tables, section: {**keys, rng.choice(["size", "epsilonn", "params", "", "share"]): value}}
        elif keys:
            key = rng.choice(sorted(keys))
            left = {name: item for name, item in keys.items() if name != key}
            tables = {**tables, section: left if rng.random() < 0.3 else {**keys, key: value}}
    return tables
