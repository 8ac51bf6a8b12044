"""Cells: the fixed rules by which any cell becomes a number, a truth value, a date, a word or a null.

Each rule looks at one cell alone and cannot fail: whatever does not fit becomes null, and a label that is not declared
becomes the first declared class. So no row can change another row, a column's type or the exit status.

A rule converts, compares and chooses; it does no arithmetic. Depending on the length of a frame, Polars may leave out a
sum that looks neutral, or multiply instead of dividing: `value + 0.0` may keep −0.0 in a long frame and not in a frame
of one row. A conversion has one exact or nearest result, and a choice copies bits. Arithmetic is left to NumPy
(`numbers_of`, tasks.data.matrix). tests/privacy/test_row_alone.py compares rows alone and in a table to the bit.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

import numpy as np
import polars as pl
from numpy.typing import NDArray

from concord.artifacts.schemas import (
    COMMAS,
    LABEL,
    NULL_WORDS,
    USUAL_SPELLING,
    Bounds,
    Column,
    Encoding,
    Hashed,
    Kind,
    OneHot,
    Passed,
    Scaled,
    TextFormat,
)
from concord.tasks.data.concord_student import (
    DAY,
    DAYS,
    FALSE,
    LARGEST,
    TICKS,
    TRUE,
    WITHOUT_SECONDS,
    ZONED,
    bucket,
    composed,
    iso_rule,
    truth_words,
)
from concord.tasks.units.identifiers import TRUTHS, WHOLE, decoded, names_as_text

OURS = "concord."
"""Prefix of the names of columns that are added to cast rows."""

ANY_WORD: tuple[str, ...] = ()
"""Words of a missing cell in columns of labels: none, not even those of the CSV format, so that the empty cell alone is
missing. Any word, such as `-`, may be a class."""
USUAL: Mapping[str, Collection[str]] = MappingProxyType({})
"""No column has its own words of a missing cell."""
DATE_FORMATS = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f")
Type = pl.DataType
Numbers = NDArray[np.float64]

WordPlaces = NDArray[np.integer] | slice
"""Index of each cell's word in a list of words; or a slice, if cells are not listed by their words."""

BAG = {"binary": True, "norm": None, "alternate_sign": False}
"""How words are hashed, for digests and in the matrix: by presence, not by count."""


def kind_of(dtype: Type) -> Kind | None:
    """The kind of a column of that type; None if it cannot be a feature."""
    if dtype == pl.Null:
        return "null"
    if dtype.is_numeric():
        return "numeric"
    if dtype == pl.Boolean:
        return "boolean"
    if isinstance(dtype, pl.Date | pl.Datetime):
        return "date"
    if isinstance(dtype, pl.String | pl.Categorical | pl.Enum):
        return "categorical"
    return "list" if isinstance(dtype, pl.Array) and _is_number(dtype.inner) else None


def cast_rows(frame: pl.DataFrame, encoding: Encoding) -> pl.DataFrame:
    """Rows with the encoding's columns, each of its fixed type, in order; a column that is absent is null.

    If the label column is there, LABEL is added: the index of the declared class, or a number, moved within its bounds.
    Casting twice changes nothing.
    """
    columns, stored = [column for column in encoding.columns if column.kind != "null"], frame.schema
    cells = [_cell(column, stored.get(column.name, pl.Null())).alias(column.name) for column in columns]
    if encoding.label in stored:
        cells.append(_declared(encoding.label, stored[encoding.label], encoding))
    absent = [pl.lit(None).alias(name) for name in encoding.features if name not in stored]
    return frame.with_columns(absent).select(cells)


def cast_columns(cells: pl.DataFrame, columns: Iterable[Column]) -> pl.DataFrame:
    """Only these columns, cast as `cast_rows` does."""
    stored = cells.schema
    return cells.select(_cell(column, stored[column.name]).alias(column.name) for column in columns)


def cast_labels(cells: pl.Series, encoding: Encoding) -> NDArray[np.uint16]:
    """Only the label column, cast as `cast_rows` does: class indices (rows,)."""
    words, places = distinct(cells.to_frame("label"))["label"]
    indices = words.to_frame("label").select(_declared("label", words.dtype, encoding)).to_series()
    return indices.to_numpy()[places]


def cast_numbers(cells: pl.Series, largest: float = LARGEST) -> Numbers:
    """A label that is a number (rows,), NaN where there is none, or none within ±`largest`."""
    return numbers_of(cells.to_frame("label").select(number("label", cells.dtype, largest)).to_series(), "numeric")


def steps_between(numbers: Numbers, bounds: Bounds, steps: int) -> NDArray[np.uint32]:
    """The places (rows,) of numbers between bounds, in whole steps from the lower one: 0 to `steps`.

    A number beyond a bound, or infinite, counts as the bound, and NaN as the middle. Each is computed by itself, by
    operations whose result is fixed to the bit.
    """
    low, high = bounds
    within = np.where(np.isnan(numbers), (low + high) / 2, np.clip(numbers, low, high))
    return np.rint((within - low) / (high - low) * steps).astype(np.uint32)


def distinct(rows: pl.DataFrame) -> dict[str, tuple[pl.Series, WordPlaces]]:
    """For each column of text, its distinct words and the index (rows,) of each cell's word.

    A column of another type is returned as it is, with a slice in place of indices.
    """
    columns = dict[str, tuple[pl.Series, WordPlaces]]()
    for cells in rows.get_columns():
        if isinstance(cells.dtype, pl.Enum):
            words, numbers = cells.dtype.categories, cells.to_physical().cast(pl.UInt32)
            columns[cells.name] = words.extend_constant(None, 1), numbers.fill_null(len(words)).to_numpy()
        elif cells.dtype == pl.String:
            text = cells.to_arrow(compat_level=pl.CompatLevel.oldest()).dictionary_encode(null_encoding="encode")
            columns[cells.name] = pl.Series(text.dictionary, dtype=pl.String), text.indices.to_numpy()
        else:
            columns[cells.name] = cells, slice(None)
    return columns


def cell(name: str, dtype: Type, kind: Kind) -> pl.Expr:
    """The cells of column `name` as `kind` (not list), or null."""
    match kind:
        case "numeric":
            return number(name, dtype)
        case "boolean":
            return truth(name, dtype)
        case "date":
            return date(name, dtype)
        case _:
            return text(name, dtype)


def is_read(dtype: Type, kind: Kind) -> bool:
    """Whether cells of that type are read as `kind` (not list); if not, `cell` makes each of them null, or, of bytes,
    a word in hexadecimal digits that nobody declares."""
    match kind:
        case "numeric" | "boolean":
            return _is_number(dtype) or _is_text(dtype)
        case "date":
            return isinstance(dtype, pl.Date | pl.Datetime) or _is_text(dtype)
        case _:
            return _is_number(dtype) or _is_text(dtype) or isinstance(dtype, pl.Date | pl.Datetime)


def number(name: str, dtype: Type, largest: float = LARGEST) -> pl.Expr:
    """Float64 of numbers, truth values and text that reads as a number, within ±`largest`; NaN is none."""
    if not is_read(dtype, "numeric"):
        return nothing(name, pl.Float64())
    written = _is_text(dtype) or dtype.is_decimal()  # read as the double nearest to what is written
    value = (_words(name) if written else pl.col(name)).cast(pl.Float64, strict=False)
    return pl.when(value == 0).then(0.0).when(value.abs() <= largest).then(value)  # −0.0 is 0.0


def truth(name: str, dtype: Type) -> pl.Expr:
    """Boolean of truth values, their usual words (TRUE, FALSE), and the numbers 0 and 1."""
    if _is_text(dtype):
        word = _words(name)
        return pl.when(word.is_in(TRUE)).then(True).when(word.is_in(FALSE)).then(False)
    if _is_number(dtype):
        value = pl.col(name).cast(pl.Float64, strict=False)
        return pl.when(value == 1).then(True).when(value == 0).then(False)
    return nothing(name, pl.Boolean())


def date(name: str, dtype: Type) -> pl.Expr:
    """Datetime in microseconds, UTC, of dates and ISO text, with a zone or none. Formats are fixed: guessing them would
    depend on other rows."""
    if isinstance(dtype, pl.Date | pl.Datetime):
        moment = _written(name, dtype)
        if isinstance(dtype, pl.Datetime) and dtype.time_zone:
            moment = moment.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return moment.cast(pl.Datetime("us"), strict=False)
    if _is_text(dtype):
        word = _words(name).str.replace(WITHOUT_SECONDS, "${1}:00${2}")
        local = [word.str.to_datetime(form, strict=False, time_unit="us") for form in DATE_FORMATS]
        plain = word.str.replace(ZONED, "${1}T${2}${3}").str.replace("Z$", "+0000")
        utc = plain.str.to_datetime("%Y-%m-%dT%H:%M:%S%.f%z", strict=False, time_unit="us", time_zone="UTC")
        zoned = pl.when(word.str.contains(ZONED)).then(utc.dt.replace_time_zone(None))
        return _within(pl.coalesce(zoned, *local), DAY)
    return nothing(name, pl.Datetime("us"))


def text(name: str, dtype: Type) -> pl.Expr:
    """String of any plain cell, its characters composed (NFC); a whole number reads the same whether it was stored as
    integer or as decimal."""
    if _is_text(dtype):
        return _words(name).map_batches(_composed, return_dtype=pl.String(), is_elementwise=True)
    if dtype.is_float():
        value = pl.col(name)
        whole = pl.when(value == value.round()).then(value.cast(pl.Int64, strict=False)).cast(pl.String)
        return pl.when(value.is_finite()).then(pl.coalesce(whole, value.cast(pl.String)))
    if _is_number(dtype):
        return pl.col(name).cast(pl.String, strict=False)
    if isinstance(dtype, pl.Date | pl.Datetime):
        return _written(name, dtype).cast(pl.String, strict=False)
    return pl.col(name).bin.encode("hex") if dtype == pl.Binary else nothing(name, pl.String())


def bucketed(name: str, dtype: Type, size: int) -> pl.Expr:
    """String of any plain cell, by the name of the one of `size` buckets that it is hashed to."""

    def named(words: pl.Series) -> pl.Series:
        distinct_words = words.drop_nulls().unique().to_list()
        return words.replace({word: bucket(word, size) for word in distinct_words}) if distinct_words else words

    return text(name, dtype).map_batches(named, return_dtype=pl.String(), is_elementwise=True)


def group_word(name: str, dtype: Type, missing: Collection[str] = NULL_WORDS) -> pl.Expr:
    """The word by which a row's cell assigns it to a group; null of words of a missing cell. How a table is stored
    decides which words of those and of truth values it holds, so they are replaced."""
    return text(name, dtype).replace(TRUTHS | dict.fromkeys(missing))


def numbers_of(cells: pl.Series, kind: Kind) -> Numbers:
    """Cast cells of a scaled column, NaN if null: dates in days since 1970, truth values as 0 and 1."""
    if kind == "date":
        return cells.dt.timestamp("us").cast(pl.Float64).to_numpy() / DAY
    return cells.cast(pl.Float64).to_numpy()


def nothing(name: str, dtype: Type) -> pl.Expr:
    """A null for every row, as column `name`. A literal alone would be one row long."""
    return pl.repeat(None, pl.len(), dtype=dtype).alias(name)


def canonical_id(name: str, dtype: Type) -> pl.Expr:
    """Canonical text of a label or an id (tasks.units.identifiers)."""
    words = _identifier(name, dtype)
    return words.map_batches(names_as_text, return_dtype=pl.String(), is_elementwise=True)


def class_index(name: str, dtype: Type, classes: tuple[str, ...]) -> pl.Expr:
    """UInt16 index of the declared class a label names; null if it names none."""
    return _looked_up(canonical_id(name, dtype), class_names(classes), pl.UInt16())


def class_names(classes: tuple[str, ...]) -> list[str]:
    """Canonical texts of declared classes."""
    declared = pl.DataFrame({"c": classes}, schema={"c": pl.String})
    return declared.select(canonical_id("c", pl.String())).to_series().to_list()


def word_index(name: str, vocabulary: tuple[str, ...]) -> pl.Expr:
    """Int32 index of a word in the vocabulary; null if it is not there."""
    return _looked_up(pl.col(name), vocabulary, pl.Int32())


def clean_text(
    frame: pl.DataFrame,
    form: TextFormat = COMMAS,
    names: Collection[str] = (),
    missing: Mapping[str, Collection[str]] = USUAL,
) -> pl.DataFrame:
    """Cells of a text file: outer blanks cut off, words for nothing made null, and numbers written plainly.

    names     columns whose cells are names and no amounts: `1.234` stays as it is in every format
    missing   words of a missing cell in columns that have their own, in place of NULL_WORDS
    """
    null = {name: [*missing.get(name, NULL_WORDS), *form.missing] for name in frame.columns}
    null |= {name: [""] for name, words_of_missing in missing.items() if words_of_missing == ANY_WORD}
    words = {name: pl.col(name).str.strip_chars() for name in frame.columns}
    cells = frame.select(pl.when(~word.is_in(null[name])).then(word).alias(name) for name, word in words.items())
    for pattern, sign, by in form.rules:
        for cell in (pl.col(name) for name in cells.columns if name not in names):
            plain = cell.str.replace_all(sign, by, literal=True)
            cells = cells.with_columns(pl.when(cell.str.contains(f"^(?:{pattern})$")).then(plain).otherwise(cell))
    return cells


def kinds_of_text(column: pl.Series, among: Iterable[Kind]) -> set[Kind]:
    """Which of the kinds every cell of a cleaned text column can be read as."""
    frame = column.to_frame("c")
    read = {kind: frame.select(cell("c", pl.String(), kind)).to_series().null_count() for kind in among}
    if not column.is_in([*TRUTHS, *TRUTHS.values(), "0", "1"]).all():  # other words may be categories, such as yes, f
        read.pop("boolean", None)
    return {kind for kind, nulls in read.items() if nulls == column.null_count()}


def spelled(column: Scaled | OneHot | Hashed, dtype: Type) -> pl.Expr:
    """Cells of a column whose data dictionary says how they are written, or null."""
    spelling, name, usual = column.spelling, column.name, column.model_copy(update={"spelling": USUAL_SPELLING})
    absent = [value for value in spelling.absent if isinstance(value, float)]

    def read(cells: pl.Series) -> pl.Series:
        rows = cells.alias(name).to_frame()
        if not isinstance(column, Scaled):
            word = text(name, dtype)
            rows = rows.select(pl.when(~word.is_in(spelling.absent)).then(word).alias(name))
        elif column.kind == "boolean" and dtype != pl.Boolean:
            truths = truth_words(spelling.true, spelling.false, spelling.absent)
            truth_of_word = text(name, dtype).replace_strict(truths, default=None, return_dtype=pl.Float64)
            rows = rows.select(truth_of_word.alias(name))
        elif spelling.dates and _is_text(dtype):
            rows = rows.select(_words(name).str.replace(*iso_rule(spelling.dates)))
        values = rows.select(_cell(usual, rows.schema[name]).alias(name))
        if column.kind == "numeric":
            values = values.select(pl.when(~pl.col(name).is_in(absent)).then(name).alias(name))
        if column.kind == "date":
            moments = [round(day * DAY) for day in absent]
            values = values.select(pl.when(~pl.col(name).dt.timestamp("us").is_in(moments)).then(name).alias(name))
        return values.to_series()

    result = {"numeric": pl.Float64(), "boolean": pl.Boolean(), "date": pl.Datetime("us")}
    return pl.col(column.name).map_batches(read, result.get(column.kind, pl.String()), is_elementwise=True)


def is_padded(column: pl.Series) -> bool:
    """Whether some cell of a cleaned text column is digits that begin with a needless zero, as codes do: no amount."""
    return bool(column.str.contains("^[+-]?0[0-9]").any())


def _declared(name: str, dtype: Type, encoding: Encoding) -> pl.Expr:
    if encoding.bounds is not None:  # a missing number is the middle, as in `steps_between`
        low, high = encoding.bounds
        return number(name, dtype, math.inf).clip(low, high).fill_null((low + high) / 2).alias(LABEL)
    return class_index(name, dtype, encoding.classes).fill_null(0).alias(LABEL)


def _looked_up(words: pl.Expr, listed: Iterable[str], dtype: Type) -> pl.Expr:
    # from the last to the first, so that the first of two equal words wins
    index = {word: at for at, word in reversed(list(enumerate(listed)))}
    return words.replace_strict(list(index), list(index.values()), default=None, return_dtype=dtype)


def _cell(column: Column, dtype: Type) -> pl.Expr:
    match column:
        case Scaled() | OneHot() | Hashed() if column.spelling != USUAL_SPELLING and dtype != pl.Null:
            return spelled(column, dtype)
        case Scaled():
            return cell(column.name, dtype, column.kind)
        case OneHot(hashed=True):
            return bucketed(column.name, dtype, len(column.vocabulary))
        case OneHot():
            word = text(column.name, dtype)
            return pl.when(word.is_in(column.vocabulary)).then(word)
        case Hashed():
            return text(column.name, dtype)
        case Passed():
            return _listed(column, dtype)
    raise AssertionError(f"a column without values has no cells: {column.name!r}")


def _listed(column: Passed, dtype: Type) -> pl.Expr:
    """An array of the column's size; a list of another length is null, an element that does not fit is zero."""
    element = pl.UInt8() if column.element == "uint8" else pl.Float32()
    if not (isinstance(dtype, pl.Array | pl.List) and _is_number(dtype.inner)):
        return nothing(column.name, pl.Array(element, column.size))
    value = pl.element().cast(element, strict=False)
    fits = value.is_finite() if column.element == "float32" else value.is_not_null()
    cells = pl.col(column.name).arr.to_list() if isinstance(dtype, pl.Array) else pl.col(column.name)
    sized = pl.when(cells.list.len() == column.size).then(cells)
    return sized.list.eval(pl.when(fits).then(value).otherwise(0)).list.to_array(column.size)


def _identifier(name: str, dtype: Type) -> pl.Expr:
    """Any plain cell as text without loss."""
    if dtype == pl.Binary:
        return pl.col(name).map_batches(decoded, return_dtype=pl.String(), is_elementwise=True)
    if dtype.is_float():
        value, whole = pl.col(name), pl.col(name).cast(pl.Int64, strict=False)
        digits = pl.when(whole.is_between(-WHOLE, WHOLE) & (whole.cast(dtype) == value)).then(whole).cast(pl.String)
        return pl.when(value.is_finite()).then(pl.coalesce(digits, value.cast(pl.String)))
    if isinstance(dtype, pl.Datetime) and dtype.time_zone:
        moment = _written(name, dtype).dt.convert_time_zone("UTC")
        return moment.dt.replace_time_zone(None).cast(pl.String, strict=False)
    return text(name, dtype)


def _written(name: str, dtype: Type) -> pl.Expr:
    """Dates and moments that can be written down; those before the year 1 or after 9999, polars may panic over."""
    unit = dtype.time_unit if isinstance(dtype, pl.Datetime) else "D"
    return pl.col(name) if unit == "ns" else _within(pl.col(name), TICKS[unit])  # 64 bits of ns reach no further


def _within(moment: pl.Expr, day: int) -> pl.Expr:
    """Moments of the years 1 to 9999, others null; `day` is the length of a day in their unit."""
    return pl.when(moment.to_physical().is_between(day * DAYS[0], day * (DAYS[1] + 1), closed="left")).then(moment)


def _composed(words: pl.Series) -> pl.Series:
    odd = words.filter(words.str.contains(r"[^\x00-\x{2FF}]")).unique()  # composing changes no letter below U+0300
    changed = {word: plain for word in odd if (plain := composed(word)) != word}
    return words.replace(changed) if changed else words


def _words(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.String).str.strip_chars()


def _is_number(dtype: object) -> bool:
    return isinstance(dtype, pl.DataType) and (dtype.is_numeric() or dtype == pl.Boolean)


def _is_text(dtype: Type) -> bool:
    return isinstance(dtype, pl.String | pl.Categorical | pl.Enum)
