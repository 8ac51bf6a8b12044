"""Words: columns of text of which each distinct word is processed once.

A Parquet file stores most columns of words with a dictionary: each word once, and for each cell the index of its word.
If the footer shows that, such columns are read as an Enum; the words of other columns of text are found by
`tasks.data.cells.distinct`. A result that depends on a cell alone may be computed once per word, with the same bits.

Assumes      the writer decides which words are in a dictionary, and that reveals nothing else of a cell
Guarantees   cells are the same to the bit whether a column comes as an Enum or as text, words that are not UTF-8 are
             escaped in the same way, and none can make reading fail
Not covered  time and memory of reading. Checked by tests/tasks/data/test_words.py
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

StoredColumns = Mapping[str, pa.Array | pa.ChunkedArray]
"""Columns by name; dictionary columns are in chunks."""
SizedColumns = tuple[int, StoredColumns]
"""A number of rows, and their columns."""

BYTES_A_CELL = 4
"""Most bytes per cell of a column with few words, before compression."""
MOST_WORD_BYTES = 1 << 30
"""Most bytes of words read at once."""
WORDS_AND_NUMBERS = {"PLAIN", "PLAIN_DICTIONARY", "RLE_DICTIONARY", "RLE", "BIT_PACKED"}
"""Encodings of pages from which Arrow can read a dictionary. Writers change to others if there are many words."""
CELLS_A_WORD = 4
"""Least number of cells per word for a column to become an Enum."""


def words_as_enum(name: str, parts: Sequence[tuple[pa.Array, NDArray[np.integer]]]) -> pl.Series:
    """A dictionary column as an Enum of its words, or as text if there are too many words for its cells.

    parts   parts of the column, as `tasks.data.sound.sound_words` returns them
    """
    words = pa.concat_arrays([pa.array([], pa.large_string()), *(own for own, _ in parts)])
    firsts = np.cumsum([0, *(len(own) for own, _ in parts)])
    places = [at + np.where(at < 0, 0, first) if first else at for (_, at), first in zip(parts, firsts, strict=False)]
    found = np.concatenate([np.empty(0, np.int32), *places])
    if len(words) * CELLS_A_WORD > len(found):
        return pl.Series(name, words.take(pa.array(found, mask=found < 0)), pl.String)
    once = words.dictionary_encode()  # escaped words may be equal
    if len(once.dictionary) < len(words):
        found = np.append(once.indices.fill_null(-1).to_numpy(), -1)[found]
    cells = pl.Series(name, pa.array(found, mask=found < 0)) if found.min(initial=0) < 0 else pl.Series(name, found)
    return cells.cat.to(pl.Enum(pl.Series(once.dictionary, dtype=pl.String)))


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


def parquet_batches(
    opened: Callable[[], Any],
    footer: pyarrow.parquet.FileMetaData,
    columns: Sequence[str],
    rows: int,
    once: Collection[str],
) -> Iterator[SizedColumns]:
    """Columns of a Parquet file, `rows` rows at a time; those in `once` as dictionaries, if the file has them so.

    opened   opens the file
    """
    streamed: dict[str, Any] = {"metadata": footer, "pre_buffer": False}  # else the whole file is in memory
    types = {"binary_type": pa.large_binary(), "list_type": pa.LargeListType}
    words = columns_by_words(footer, set(columns) & set(once))
    others = [name for name in columns if name not in words]
    with pyarrow.parquet.ParquetFile(opened(), **streamed, **types) as file:
        plain = sized_columns(file.iter_batches(rows, columns=others))
        if not words:
            yield from plain
            return
        if not others:
            plain = ((min(rows, footer.num_rows - first), {}) for first in range(0, footer.num_rows, rows))
        with pyarrow.parquet.ParquetFile(opened(), **streamed, read_dictionary=words) as same:
            yield from _beside(plain, same.iter_batches(rows, columns=words))


def sized_columns(batches: Iterable[pa.RecordBatch]) -> Iterator[SizedColumns]:
    """The columns of each batch."""
    return ((batch.num_rows, _by_name(batch)) for batch in batches)


def _beside(plain: Iterator[SizedColumns], words: Iterator[pa.RecordBatch]) -> Iterator[SizedColumns]:
    """Join batches of plain columns with the same rows of dictionary columns.

    Batches of dictionary columns end where dictionaries change, which depends on cells and must not affect other rows.
    """
    held: list[pa.RecordBatch] = []
    for height, columns in plain:
        while sum(each.num_rows for each in held) < height:
            held.append(next(words))
        table = pa.Table.from_batches(held)
        yield height, {**columns, **_by_name(table.slice(0, height))}
        held = table.slice(height).to_batches()


def _by_name(rows: pa.RecordBatch | pa.Table) -> StoredColumns:
    return dict(zip(rows.schema.names, rows.columns, strict=True))
