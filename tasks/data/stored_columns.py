"""Columns of Parquet and Arrow files, read so that no cell affects another cell or the exit status.

Cells. The type that a column is read as follows from its stored type, which is public; a cell's value follows
from that cell. A cell that its type does not allow is null, text that is not UTF-8 is escaped, and a column of a type
that cannot be a feature is null in every row, its cells unread. A column that Arrow finds valid is taken as it is. In
any other, each cell is checked separately, so that a bad one does not affect others. Checked by
tests/tasks/data/test_stored_columns.py.

Words. A Parquet file stores most columns of words with a dictionary: each word once, and for each cell the index of its
word. If the footer shows that, such columns are read as an Enum; the words of other columns of text are found by
`tasks.data.cells.distinct`. A result that depends on a cell alone may be computed once per word, with the same bits.

Assumes      the writer decides which words are in a dictionary, and that reveals nothing else of a cell
Guarantees   cells are the same to the bit whether a column comes as an Enum or as text, words that are not UTF-8 are
             escaped in the same way, and none can make reading fail
Not covered  time and memory of reading. Checked by tests/tasks/data/test_stored_columns.py
"""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray
from pyarrow import types

from concord.artifacts.schemas import AnyPath
from concord.tasks.units.identifiers import ESCAPED

DAY_MILLISECONDS = 86_400_000
DECIMAL_DIGITS = 38
"""Most digits of a polars decimal, before and after its point together."""

WholeNumbers = NDArray[np.int64]
SizedColumns = tuple[int, Mapping[str, pa.Array | pa.ChunkedArray]]
"""A number of rows, and their columns by name; dictionary columns are in chunks."""

BYTES_A_CELL = 4
"""Most bytes per cell of a column with few words, before compression."""
MOST_WORD_BYTES = 1 << 30
"""Most bytes of words read at once."""
WORDS_AND_NUMBERS = {"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"}
"""Encodings of pages from which Arrow can read a dictionary. Writers change to others if there are many words."""
CELLS_A_WORD = 4
"""Least number of cells per word for a column to become an Enum."""


def parquet_footer(path: AnyPath) -> pyarrow.parquet.FileMetaData:
    """The footer of a Parquet file with its Arrow schema hidden by renaming its entry. A reader would cast all cells to
    that schema, and fail if one does not fit, such as a null vector of a fixed size."""
    with path.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        size = int.from_bytes(file.read(4), "little")
        file.seek(-8 - size, os.SEEK_END)
        footer = file.read().replace(b"ARROW:schema", b"another name")
    return pyarrow.parquet.read_metadata(pa.BufferReader(b"PAR1" + footer))


class Rule(NamedTuple):
    """A rule for stored types: whether it `fits`, the type they are read `into`, and how to `read` a column."""

    fits: Callable[[pa.DataType], bool]
    into: Callable[[pa.DataType], pa.DataType]
    read: Callable[[pa.Array], pa.Array]


def polars_type(stored: pa.DataType) -> pl.DataType:
    """The type that cells of a stored type are read as; Unknown if they cannot be feature, label or unit."""
    if isinstance(stored, pa.BaseExtensionType):
        return polars_type(stored.storage_type)
    if types.is_dictionary(stored):
        return polars_type(stored.value_type)
    rule = _rule(stored)
    return pl.Unknown() if rule is None else pl.Series(pa.array([], rule.into(stored))).dtype


def read_column(name: str, column: pa.Array, stored: pa.DataType) -> pl.Series:
    """A column as the type that `stored` is read as. Raises ArrowInvalid if its layout is damaged.

    stored   the type in the file's schema: a reader may have read vectors of a fixed size as lists
    """
    column.validate()
    cells = pl.Series(name, plain_cells(column))
    dtype = polars_type(stored)
    if not isinstance(dtype, pl.Array):
        return cells
    sized = pl.when(pl.col(name).list.len() == dtype.size).then(name)  # a list of another length is null
    return cells.to_frame().select(sized.list.to_array(dtype.size)).to_series()


def plain_cells(column: pa.Array) -> pa.Array:
    """The cells in a type that is read (RULES), without dictionaries and extension types."""
    if isinstance(column.type, pa.BaseExtensionType):
        return plain_cells(column.storage)
    if types.is_dictionary(column.type):
        words, places = words_and_places(column)
        return words.take(pa.array(places, mask=places < 0))
    return _rule_for(column.type).read(column)


def _rule(stored: pa.DataType) -> Rule | None:
    return next((rule for rule in RULES if rule.fits(stored)), None)


def _rule_for(stored: pa.DataType) -> Rule:
    rule = _rule(stored)
    if rule is None:
        raise pa.ArrowInvalid(f"the schema states another type than {stored}")
    return rule


def _as_it_is(column: pa.Array) -> pa.Array:
    """Cells that are valid, in the type they are read into."""
    stored = column.type  # as lists: polars reads no vector of a slice that holds a null
    into = pa.large_list(stored.value_type) if _is_vector(stored) else _rule_for(stored).into(stored)
    return column.cast(into) if _is_valid(column) else pa.array(_cells(column), into)


def _text(column: pa.Array) -> pa.Array:
    if _is_valid(column):
        return column.cast(pa.large_string())
    stored = column.view(BYTES_OF[column.type])
    return pa.array((cell and cell.decode(errors=ESCAPED) for cell in _cells(stored)), pa.large_string())


def _doubles(column: pa.Array) -> pa.Array:
    """The nearest double of each cell: Arrow's own cast is off by one bit for one cell in a hundred."""
    return pa.array((None if cell is None else float(cell) for cell in _cells(column)), pa.float64())


def _days(column: pa.Array) -> pa.Array:
    """The day that a moment stored as a date is in."""
    return (
        _counted(column, lambda time: time // DAY_MILLISECONDS, 2**31 * DAY_MILLISECONDS)
        .cast(pa.int32())
        .view(pa.date32())
    )


def _moments(column: pa.Array) -> pa.Array:
    by = 1000 if column.type.unit == "s" else 1
    return _counted(column, lambda time: time * by, 2**63 // by).view(_utc(column.type))


def _counted(column: pa.Array, count: Callable[[WholeNumbers], WholeNumbers], bound: int) -> pa.Array:
    """Times stored in 64 bits, converted by `count`; null if the stored one is not within ±`bound`."""
    stored = column.view(pa.int64())
    times = stored.fill_null(0).to_numpy()
    fits = (times >= -bound) & (times < bound)
    return pa.array(count(np.where(fits, times, 0)), mask=~fits | stored.is_null().to_numpy(zero_copy_only=False))


def words_and_places(column: pa.DictionaryArray) -> tuple[pa.Array, WholeNumbers]:
    """The words of a dictionary column, and the index of each cell's word; −1 if it has none."""
    words, numbers = plain_cells(column.dictionary), column.indices
    places = numbers.fill_null(0).to_numpy() if numbers.null_count else numbers.to_numpy()
    has_word = (places >= 0) & (places < len(words))
    if numbers.null_count:
        has_word &= numbers.is_valid().to_numpy(zero_copy_only=False)
    is_plain = has_word.all() and places.dtype == np.int32
    return words, places if is_plain else np.where(has_word, places.astype(np.int64), -1)


def _is_valid(column: pa.Array) -> bool:
    try:
        column.validate(full=True)
    except (pa.ArrowException, IndexError):
        return False
    return True


def _cells(column: pa.Array) -> Iterator[Any]:
    """Each cell, or None if it is not valid, checked by itself."""
    for row in range(len(column)):
        cell = column.slice(row, 1)
        yield cell[0].as_py() if _is_valid(cell) else None


def _is_plain(stored: pa.DataType) -> bool:
    return bool(types.is_integer(stored) or types.is_floating(stored) or types.is_boolean(stored))


def _is_bytes(stored: pa.DataType) -> bool:
    tests = (types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary)
    return any(holds(stored) for holds in tests) and not types.is_decimal(stored)


def _is_list(stored: pa.DataType) -> bool:
    return bool(types.is_list(stored) or types.is_large_list(stored)) and _is_plain(stored.value_type)


def _is_vector(stored: pa.DataType) -> bool:
    return bool(types.is_fixed_size_list(stored)) and stored.list_size > 0 and _is_plain(stored.value_type)


def _is_short_decimal(stored: pa.DataType) -> bool:
    return bool(types.is_decimal(stored)) and stored.precision <= DECIMAL_DIGITS and 0 <= stored.scale <= DECIMAL_DIGITS


def _itself(stored: pa.DataType) -> pa.DataType:
    return stored


def _utc(stored: pa.DataType) -> pa.DataType:
    """The type of moments in UTC, whatever time zone the schema names for display."""
    return pa.timestamp("ms" if stored.unit == "s" else stored.unit)


BYTES_OF = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}
"""Types of text, and the same cells without the promise that they are UTF-8."""

RULES = (
    Rule(types.is_null, _itself, _itself),
    Rule(_is_plain, _itself, _as_it_is),
    Rule(BYTES_OF.__contains__, lambda _: pa.large_string(), _text),
    Rule(_is_bytes, lambda _: pa.large_binary(), _as_it_is),
    Rule(_is_short_decimal, lambda stored: pa.decimal128(DECIMAL_DIGITS, stored.scale), _as_it_is),
    Rule(types.is_decimal, lambda _: pa.float64(), _doubles),
    Rule(types.is_date32, _itself, _as_it_is),
    Rule(types.is_date64, lambda _: pa.date32(), _days),
    Rule(types.is_timestamp, _utc, _moments),
    Rule(_is_list, lambda stored: pa.large_list(stored.value_type), _as_it_is),
    Rule(_is_vector, _itself, _as_it_is),
)
"""Rules for every type that is read; in columns of other types, all cells are null."""


def words_as_enum(name: str, parts: Sequence[tuple[pa.Array, NDArray[np.integer]]]) -> pl.Series:
    """A dictionary column as an Enum of its words, or as text if there are too many words for its cells.

    parts   parts of the column, as `words_and_places` returns them
    """
    words = pa.concat_arrays([pa.array([], pa.large_string()), *(dictionary for dictionary, _ in parts)])
    firsts = np.cumsum([0, *(len(dictionary) for dictionary, _ in parts)])
    shifted = [at + np.where(at < 0, 0, first) if first else at for (_, at), first in zip(parts, firsts, strict=False)]
    places = np.concatenate([np.empty(0, np.int32), *shifted])
    if len(words) * CELLS_A_WORD > len(places):
        return pl.Series(name, words.take(pa.array(places, mask=places < 0)), pl.String)
    once = words.dictionary_encode()  # escaped words may be equal
    if len(once.dictionary) < len(words):
        places = np.append(once.indices.fill_null(-1).to_numpy(), -1)[places]
    numbers = pa.array(places, mask=places < 0) if places.min(initial=0) < 0 else places
    return pl.Series(name, numbers).cat.to(pl.Enum(pl.Series(once.dictionary, dtype=pl.String)))


def columns_by_words(footer: pyarrow.parquet.FileMetaData, names: Collection[str]) -> list[str]:
    """The columns of text in `names` that a Parquet file stores with a dictionary of few words in all row groups."""
    leaves = [footer.schema.column(at) for at in range(footer.num_columns)]
    paths, groups = [leaf.path for leaf in leaves], [footer.row_group(at) for at in range(footer.num_row_groups)]
    return [
        leaf.path
        for at, leaf in enumerate(leaves)
        if leaf.path in names and paths.count(leaf.path) == 1 and leaf.logical_type.type == "STRING"
        if all(_of_few_words(group.column(at)) for group in groups)
    ]


def _of_few_words(chunk: pyarrow.parquet.ColumnChunkMetaData) -> bool:
    bound = min(BYTES_A_CELL * chunk.num_values, MOST_WORD_BYTES)
    by_words = chunk.has_dictionary_page and WORDS_AND_NUMBERS.issuperset(chunk.encodings)
    return bool(by_words and chunk.total_uncompressed_size <= bound)


def sized_columns(batches: Iterable[pa.RecordBatch]) -> Iterator[SizedColumns]:
    """The columns of each batch."""
    return ((batch.num_rows, dict(zip(batch.schema.names, batch.columns, strict=True))) for batch in batches)


def with_words(plain: Iterator[SizedColumns], words: Iterator[pa.RecordBatch]) -> Iterator[SizedColumns]:
    """Join batches of plain columns with the same rows of dictionary columns.

    Batches of dictionary columns end where dictionaries change, which depends on cells and must not affect other rows.
    """
    read_ahead: list[pa.RecordBatch] = []
    for height, columns in plain:
        while sum(batch.num_rows for batch in read_ahead) < height:
            read_ahead.append(next(words))
        table = pa.Table.from_batches(read_ahead)
        yield height, {**columns, **dict(zip(table.column_names, table.slice(0, height).columns, strict=True))}
        read_ahead = table.slice(height).to_batches()
