"""Frames and columns of Python: containers whose cells have a type keep it, any other is read cell by cell as words.

No type is inferred: NumPy, pandas and Arrow choose one for a list of objects by all of its cells, so that one cell
would decide what every other becomes. A type is that of the container, or there is none.

Assumes      the type of a container is public, as that of a file's column is: what made it may have looked at all cells
Guarantees   a cell of a container becomes the same, to the bit, whatever cells are beside it, and none can make it fail
Not covered  what NumPy or pandas inferred before: an array of doubles in which one missing cell made all ids doubles
             Checked by tests/privacy/test_row_alone.py, and for every container by tests/promises/test_containers.py
"""

from collections.abc import Callable, Collection, Iterable
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa

from concord.artifacts.errors import WrongInput
from concord.tasks.data.cells import kind_of
from concord.tasks.data.stored_columns import plain_cells, polars_type, read_column
from concord.tasks.units.identifiers import word_of

TYPED, WORDED = "biuf", "OSUM"
"""Kinds of NumPy's types whose arrays Arrow takes as they are, and of those that are read cell by cell: text may be of
any characters, and moments may be beyond Arrow's."""
LONGEST_NUMBER = 8
"""Bytes of the longest number that Arrow takes."""
PANDAS_WORDS = ("object", "str", "string")
"""Types of pandas whose cells may be any Python object, or text of any characters."""


def frame_table(frame: Any, field: str, named: Collection[str | None] | None = None) -> pa.Table:
    """A frame as an Arrow table: any object with Arrow's C stream interface (polars, pandas, Arrow, DuckDB).

    named   columns that are read: any other is left out if no cell of its type is read; None for all
    pandas' columns of Python objects and categories become words cell by cell, so that no cell decides the type of its
    column. Raises WrongInput, without a value, if it is not a frame, or naming a column whose cells are not read.
    """
    wrong, names, columns = "", list[str](), list[pa.Array | pa.ChunkedArray]()
    try:
        for name, column in _columns(frame):
            if (cells := _readable(column)) is not None:
                names.append(str(name))
                columns.append(cells)
            elif named is None or name in named:
                dtype = column.cat.categories.dtype if str(column.dtype) == "category" else column.dtype
                rule = f"the column {name!r} holds {dtype}, which no cell is read of"
                wrong = wrong or f"{field}: {rule}: make text of it, or leave it out of the frame or of data.features"
    except Exception as failed:
        kind = type(failed).__name__
        wrong = f"{field} must be a frame of polars or pandas, or an Arrow table, whose columns Arrow knows ({kind})"
    if wrong:
        raise WrongInput(wrong)
    return pa.table(columns, names).combine_chunks()


def check_index(frame: Any, field: str, named: Iterable[str | None]) -> None:
    """Raise WrongInput if a column that is named is the index of a pandas frame, which is no column."""
    columns = {*frame.columns} if hasattr(frame, "iloc") else {}
    for name in named if columns else ():
        if name is not None and name in frame.index.names and name not in columns:
            rule = f"{field} must hold {name!r} as a column, and the frame has it as its index"
            raise WrongInput(f"{rule}: give frame.reset_index()")


def column_of(given: Any, field: str, word: Callable[[Any], str | None] | None = None) -> pl.Series:
    """One column of private cells, from an array, a series, a frame of one column or a list.

    word   how an object becomes a word; by default as `word_of` has it
    Typed cells keep their type, and objects become words one by one. Raises WrongInput by the container alone.
    """
    if type(given).__module__.startswith("pandas.") and not hasattr(given, "iloc"):  # pandas' own array
        import pandas

        given = pandas.Series(given, dtype=given.dtype)
    of_columns = hasattr(given, "columns") or hasattr(given, "column_names")
    if of_columns and (hasattr(given, "iloc") or hasattr(given, "__arrow_c_stream__")):
        columns = list(_columns(given))
        if len(columns) != 1:
            raise _no_column(field, f"a frame of {len(columns)} columns")
        given = columns[0][1]
    if hasattr(given, "iloc"):
        column = _of_pandas(given, word)
    elif isinstance(given, list | tuple | range) or (isinstance(given, pl.Series) and given.dtype == pl.Object):
        column = _worded(given, word)
    elif hasattr(given, "__arrow_c_stream__"):
        column = _undictionaried(pa.chunked_array(given))
    elif hasattr(given, "__arrow_c_array__"):
        column = _undictionaried(pa.chunked_array([pa.array(given)]))
    elif hasattr(given, "__array__"):
        column = _of_array(np.asanyarray(given), field, word)
    else:
        raise _no_column(field, type(given).__name__)
    kind = polars_type(column.type)
    if kind != pl.Binary and kind_of(kind) in (None, "list"):
        raise _no_column(field, f"a column of {column.type}")
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return pl.concat([pl.Series("", [], kind), *(read_column("", chunk, column.type) for chunk in chunks)])


def _columns(frame: Any) -> Iterable[tuple[Any, Any]]:
    """The columns of a frame, each with its name: of pandas, of polars, or of Arrow."""
    if hasattr(frame, "iloc"):
        return [(name, frame.iloc[:, place]) for place, name in enumerate(frame.columns)]
    if isinstance(frame, pl.DataFrame):
        return [(column.name, column) for column in frame.get_columns()]
    table = pa.RecordBatchReader.from_stream(frame).read_all()
    return zip(table.column_names, table.columns, strict=True)


def _readable(column: Any) -> pa.Array | pa.ChunkedArray | None:
    """The cells of a frame's column; None if its type is none whose cells are read: by the type alone, which says of
    the intervals of `pandas.cut` as well that each would be a missing cell."""
    if isinstance(column, pa.ChunkedArray):
        return _undictionaried(column)
    try:
        if isinstance(column, pl.Series):
            return None if column.dtype == pl.Object else _undictionaried(pa.chunked_array(column))
        dtype = column.cat.categories.dtype if str(column.dtype) == "category" else column.dtype
        return None if str(dtype).startswith("interval") else _of_pandas(column)
    except (pa.ArrowException, TypeError, ValueError):
        return None


def _of_pandas(column: Any, word: Callable[[Any], str | None] | None = None) -> pa.Array | pa.ChunkedArray:
    """A column of pandas: typed cells as they are, categories by their words, and objects word by word."""
    if str(column.dtype) == "category":  # pandas would give integers as doubles if a cell is missing
        codes = column.cat.codes.to_numpy()
        return _worded(column.cat.categories, word).take(pa.array(codes, mask=codes < 0))
    of_numpy = isinstance(column.dtype, np.dtype) and column.dtype.kind != "O"
    is_typed = of_numpy or column.dtype.kind == "M" or hasattr(column.array, "__arrow_array__")
    if is_typed and str(column.dtype) not in PANDAS_WORDS:
        stored = pa.array(column, from_pandas=True)
        return _undictionaried(stored) if isinstance(stored, pa.ChunkedArray) else stored
    return _worded(column, word)  # column.isna() fails as a whole if one cell is a signaling NaN


def _of_array(cells: Any, field: str, word: Callable[[Any], str | None] | None) -> pa.Array:
    if cells.ndim == 2 and cells.shape[1] == 1:
        cells = cells[:, 0]
    if cells.ndim != 1 or cells.dtype.kind not in TYPED + WORDED:
        raise _no_column(field, f"an array of {cells.ndim} dimensions and dtype {cells.dtype}")
    if cells.dtype.kind in WORDED or not cells.dtype.isnative or cells.dtype.itemsize > LONGEST_NUMBER:
        return _worded(cells, word)
    return pa.array(cells)


def _no_column(field: str, got: str) -> WrongInput:
    kinds = "text, numbers, truth values or dates"
    return WrongInput(f"{field} must be one column of {kinds} (an array, a series or a list), got {got}")


def _worded(cells: Iterable[Any], word: Callable[[Any], str | None] | None) -> pa.Array:
    """Words of cells, each by itself; a cell that cannot be read is missing, whatever it raises."""

    def surely(cell: Any) -> str | None:
        try:
            return (word or word_of)(cell)
        except MemoryError:  # the fault of the machine, not of the cell
            raise
        except Exception:
            return None

    return pa.array(map(surely, cells), pa.large_string())


def _undictionaried(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Words in place of their numbers: a file cannot hold two dictionaries of one column. A number that leads nowhere
    is a missing cell."""
    if not pa.types.is_dictionary(column.type):
        return column
    chunks = [plain_cells(chunk) for chunk in column.chunks]
    return pa.chunked_array(chunks, chunks[0].type if chunks else column.type.value_type)
