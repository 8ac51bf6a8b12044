"""Contents: cast rows as bytes of a fixed size, and keyed digests of them.

Assumes      the key is secret
Guarantees   a row's digest depends on its own cells and label alone: equal to the bit, equal digests, whatever other
             rows are there
Not covered  rows that were not cast. Checked by tests/privacy/test_row_alone.py
"""

import math
from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from concord.artifacts.schemas import Column, Encoding, OneHot, Passed, Scaled
from concord.tasks.data.cells import LABEL, word_index
from concord.tasks.data.units import hashed

SHARD = "concord.shard"
"""Name of the column that holds the shard's index in block files."""


def row_digests(rows: pl.DataFrame, encoding: Encoding, key: bytes) -> list[bytes]:
    """Keyed 128-bit digests of cast rows: equal for equal content (features and label) alone."""
    packed = np.hstack([*_packed_columns(rows, encoding), _packed(rows[LABEL].to_numpy())])
    return [hashed(row.tobytes(), key, b"content", 16) for row in packed]


def _packed_columns(rows: pl.DataFrame, encoding: Encoding) -> Iterator[NDArray[np.uint8]]:
    """The cells of each column in a fixed number of bytes, so that two different rows never read the same."""
    for column in encoding.columns:
        if column.kind != "null":
            yield _packed(_numbers(column, rows))
            yield _packed(rows[column.name].is_null().to_numpy())


def _numbers(column: Column, rows: pl.DataFrame) -> NDArray[np.generic]:
    """A column's cells as numbers of fixed size, zero where null: (rows,), or (rows, size) of a list."""
    cells = rows[column.name]
    match column:
        case OneHot():
            return rows.select(word_index(column.name, column.vocabulary)).to_series().fill_null(0).to_numpy()
        case Passed():
            arrays = np.zeros((rows.height, column.size), dtype=column.element)
            arrays[cells.is_not_null().to_numpy()] = cells.drop_nulls().to_numpy()
            return arrays
        case Scaled(kind="date"):
            return cells.dt.timestamp("us").fill_null(0).to_numpy()
    return cells.cast(pl.Float64).fill_null(0).to_numpy()


def _packed(numbers: NDArray[np.generic]) -> NDArray[np.uint8]:
    cells = np.ascontiguousarray(numbers).reshape(len(numbers), math.prod(numbers.shape[1:]))
    return cells.view(np.uint8)
