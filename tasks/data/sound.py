"""Read files so that no cell affects another cell or the exit status: CSV line by line, stored columns cell by cell.

Lines. The first line has the names of the columns and is public, as is its ending. If that is a lone carriage return,
every line break of the file ends a line, as in old programs' files; if not, only a line feed does, and a lone carriage
return is a blank within its cell. A line longer than LONGEST_LINE is cut there, also the first one. Blanks around cells
are ignored, within quotes and outside. Bytes that are no character are escaped. Separator and quote are those that the
plan declares (TextFormat) and depend on nothing in a file; a quote ends with its line. Line breaks within quotes are
read only in public files, if declared: in a private file, a quote that one row leaves open would swallow the next row.
Checked by tests/tasks/data/test_lines.py and tests/privacy/test_text_alone.py.

Stored columns. The type that a column is read as follows from its stored type, which is public; a cell's value follows
from that cell. A cell that its type does not allow is null, text that is not UTF-8 is escaped, and a column of a type
that cannot be a feature is null in every row, its cells unread. A column that Arrow finds valid is taken as it is. In
any other, each cell is checked separately, so that a bad one does not affect others. Checked by
tests/tasks/data/test_sound.py.
"""

import csv
import json
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice, product
from typing import Any, NamedTuple, TextIO, get_args

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray
from pyarrow import types

from concord.artifacts.schemas import COMMAS, AnyPath, TextFormat
from concord.tasks.data.names import ESCAPED

SHOWN_NAMES = 20
SEPARATORS: tuple[str, ...] = get_args(TextFormat.model_fields["separator"].annotation)
LONGEST_LINE = 1 << 20
"""Most characters of a line; a byte that is not UTF-8 is escaped by four."""


def csv_names(path: AnyPath, form: TextFormat = COMMAS) -> list[str]:
    """Column names of a CSV file: the cells of its first line without blanks around them."""
    with _opened(path, form, newline="") as file:
        return [name.strip() for name in split_line(file.readline(LONGEST_LINE), form)]


def read_rows(path: AnyPath, form: TextFormat = COMMAS, *, strict: bool = False) -> Iterator[list[str]]:
    """The cells of every line after the first that is not blank, one row per line. Only if `strict`, for a public file,
    may cells hold line breaks, and only then does it raise UnicodeDecodeError or csv.Error."""
    if strict and form.quoted_line_breaks:
        return islice(_records(path, form), 1, None)
    return (split_line(line, form) for line in read_lines(path, form, strict=strict))


def read_lines(path: AnyPath, form: TextFormat = COMMAS, *, strict: bool = False) -> Iterator[str]:
    """Every line after the first that is not blank. Raises UnicodeDecodeError only if `strict`."""
    with _opened(path, form, newline="") as file:
        lone = file.readline(LONGEST_LINE).endswith("\r")
    with _opened(path, form, newline="" if lone else "\n", errors="strict" if strict else ESCAPED) as file:
        lines = iter(partial(_line, file, "\r\n" if lone else "\n"), "")
        next(lines, None)
        yield from (line for line in lines if line.strip() or form.separator in line)


def split_line(line: str, form: TextFormat = COMMAS) -> list[str]:
    """The cells of one line. No content can fail or affect another line; an unreadable line has no cells."""
    csv.field_size_limit(LONGEST_LINE)  # the limit is global, and a library may have changed it
    try:
        return next(csv.reader([line.rstrip("\r\n").replace("\r", " ")], **_dialect(form)), [])
    except csv.Error:
        return []


def _dialect(form: TextFormat) -> dict[str, Any]:
    quoting = {"quotechar": form.quote} if form.quote else {"quoting": csv.QUOTE_NONE}
    return {"delimiter": form.separator, "skipinitialspace": True, **quoting}


def _records(path: AnyPath, form: TextFormat) -> Iterator[list[str]]:
    """The rows of a public file, with its first one, allowing line breaks within quotes."""
    csv.field_size_limit(LONGEST_LINE)
    with _opened(path, form, newline="", errors="strict") as file:
        yield from (row for row in csv.reader(file, strict=True, **_dialect(form)) if any(row) or len(row) > 1)


def declare_to_find(name: str, path: AnyPath, form: TextFormat) -> str:
    """The end of a message about a column missing from a CSV file: a format in which it would be found, if any."""
    for separator, encoding in product(SEPARATORS, ("utf-8", "cp1252")):
        if name in csv_names(path, form.model_copy(update={"separator": separator, "encoding": encoding})):
            keys = {"separator": separator, "encoding": encoding}
            other = ", ".join(f"{key} = {json.dumps(sign)}" for key, sign in keys.items() if getattr(form, key) != sign)
            return f"; it has it if the plan declares data.format = {{ {other} }}" if other else ""
    return f"; its cells are cut at {form.separator!r}, as data.format says"


def quoted(names: Sequence[str]) -> str:
    """Names in quotes; the first, if there are many."""
    more = f" and {len(names) - SHOWN_NAMES} more" if len(names) > SHOWN_NAMES else ""
    return ", ".join(map(repr, names[:SHOWN_NAMES])) + more


def _line(file: TextIO, ends: str) -> str:
    """The next line, cut at LONGEST_LINE; empty at the end of the file."""
    line = rest = file.readline(LONGEST_LINE)
    while rest and rest[-1] not in ends:
        rest = file.readline(LONGEST_LINE)
    return line


def _opened(path: AnyPath, form: TextFormat, newline: str, errors: str = ESCAPED) -> TextIO:
    encoding = "utf-8-sig" if form.encoding == "utf-8" else form.encoding
    file: TextIO = path.open(encoding=encoding, errors=errors, newline=newline)
    return file


def parquet_footer(path: AnyPath) -> pyarrow.parquet.FileMetaData:
    """The footer of a Parquet file with its Arrow schema hidden by renaming its entry. A reader would cast all cells to
    that schema, and fail if one does not fit, such as a null vector of a fixed size."""
    with path.open("rb") as file:
        file.seek(-8, os.SEEK_END)
        size = int.from_bytes(file.read(4), "little")
        file.seek(-8 - size, os.SEEK_END)
        footer = file.read().replace(b"ARROW:schema", b"another name")
    return pyarrow.parquet.read_metadata(pa.BufferReader(b"PAR1" + footer))


DAY_MILLISECONDS = 86_400_000
"""Milliseconds."""

DECIMAL_DIGITS = 38
"""Most digits of a polars decimal, before and after its point together."""

WholeNumbers = NDArray[np.int64]


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


def sound(name: str, column: pa.Array, stored: pa.DataType) -> pl.Series:
    """A column as the type that `stored` is read as. Raises ArrowInvalid if its layout is damaged.

    stored   the type in the file's schema: a reader may have read vectors of a fixed size as lists
    """
    column.validate()
    cells = pl.Series(name, _sound(column))
    dtype = polars_type(stored)
    return _of_size(cells, dtype) if isinstance(dtype, pl.Array) else cells


def _sound(column: pa.Array) -> pa.Array:
    if isinstance(column.type, pa.BaseExtensionType):
        return _sound(column.storage)
    if types.is_dictionary(column.type):
        return _decoded(column)
    return _known(column.type).read(column)


def _rule(stored: pa.DataType) -> Rule | None:
    return next((rule for rule in SOUND_RULES if rule.fits(stored)), None)


def _known(stored: pa.DataType) -> Rule:
    rule = _rule(stored)
    if rule is None:
        raise pa.ArrowInvalid(f"the schema states another type than {stored}")
    return rule


def _as_it_is(column: pa.Array) -> pa.Array:
    """Cells that are valid, in the type they are read into."""
    into = _listed(column.type)
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


def sound_words(column: pa.DictionaryArray) -> tuple[pa.Array, WholeNumbers]:
    """The words of a dictionary column, and the index of each cell's word; −1 if it has none."""
    words, numbers = _sound(column.dictionary), column.indices
    places = numbers.fill_null(0).to_numpy() if numbers.null_count else numbers.to_numpy()
    known = (places >= 0) & (places < len(words))
    if numbers.null_count:
        known &= numbers.is_valid().to_numpy(zero_copy_only=False)
    return words, places if known.all() and places.dtype == np.int32 else np.where(known, places.astype(np.int64), -1)


def _decoded(column: pa.DictionaryArray) -> pa.Array:
    """The word of each cell of a dictionary column; null if its index is not valid."""
    words, places = sound_words(column)
    return words.take(pa.array(places, mask=places < 0))


def _of_size(cells: pl.Series, dtype: pl.Array) -> pl.Series:
    """Lists as vectors; a list of another length is null."""
    sized = pl.when(pl.col(cells.name).list.len() == dtype.size).then(cells.name)
    return cells.to_frame().select(sized.list.to_array(dtype.size)).to_series()


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


def _listed(stored: pa.DataType) -> pa.DataType:
    """A type that polars reads correctly: from slices of vectors it reads none if one is null, so they become lists."""
    return pa.large_list(stored.value_type) if _is_vector(stored) else _known(stored).into(stored)


BYTES_OF = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary(), pa.string_view(): pa.binary_view()}
"""Types of text, and the same cells without the promise that they are UTF-8."""

SOUND_RULES = (
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
