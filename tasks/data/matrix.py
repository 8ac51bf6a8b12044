"""The matrix of features: cast rows as numbers, by the very transformers that encode raw rows for a published student.

    raw cells ─ Cells ─┬ numbers   ─ (signed_log) ─ SimpleImputer ─ clip ─ StandardScaler ─┐
                       ├ missing   ─ MissingIndicator ────────────────────────────────────┤
                       ├ words     ─ (OrdinalEncoder) ─ OneHotEncoder ────────────────────┼─ float32 ─ student
                       ├ text      ─ SimpleImputer ─ ravel ─ HashingVectorizer ───────────┤
                       └ lists     ─ MaxAbsScaler ────────────────────────────────────────┘

Assumes      the encoding is public
Guarantees   a row is encoded by itself, to the bit: by the same arithmetic in the same order, alone or in a table, by
             any caller
Not covered  moments with a time zone as words. Checked by tests/tasks/student/test_parts.py, and alone against in
             company by tests/privacy/test_row_alone.py

Rows are identified by keyed digests of their cast columns, packed in bytes of a fixed size (`row_digests`).
Assumes      the key is secret
Guarantees   a row's digest depends on its own cells and label alone: rows with equal bits have equal digests, whatever
             other rows are there
Not covered  rows that were not cast. Checked by tests/privacy/test_row_alone.py
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, groupby
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, OneHotEncoder, OrdinalEncoder, StandardScaler

from concord.artifacts.home.vault import hashed
from concord.artifacts.schemas import LABEL, USUAL_SPELLING, Column, Encoding, Hashed, OneHot, Passed, Scaled
from concord.tasks.data.cells import BAG, WordPlaces, distinct, word_index
from concord.tasks.data.concord_student import Cells, Spelled, signed_log

Matrix = NDArray[np.float32]

Encoder = tuple[str, Any, list[str]]
"""An entry of a ColumnTransformer: its name, its transformer, and its columns."""
SLICE = 1 << 14
"""Rows encoded at a time: transformers hold several copies of their input, in double precision."""


def encode(rows: pl.DataFrame, encoding: Encoding) -> Matrix:
    """Cast rows as a float32 matrix (rows, encoding.width). Besides it, memory is bounded by one slice of rows."""
    matrix = np.zeros((rows.height, encoding.width), dtype=np.float32)
    valued = [column.name for column in encoding.columns if column.kind != "null"]
    encoder = _transformer_of(encoding.spelled(lambda _: USUAL_SPELLING))  # the cells are cast already
    with config_context(transform_output="default"):
        for first in range(0, rows.height, SLICE):  # scikit-learn refuses an empty slice
            cells = rows.slice(first, SLICE).select(valued).cast({pl.Boolean: pl.Float64})
            _fill(matrix[first : first + SLICE], cells, encoder)
    return matrix


def _fill(matrix: Matrix, cells: pl.DataFrame, encoder: ColumnTransformer) -> None:
    """Write encoded cells to their part of the matrix (rows, width). Of text, each distinct word is encoded once."""
    start = 0
    for _, part, names in encoder.transformers_:
        if part == "drop":  # columns without values
            continue
        columns: pl.DataFrame | pl.Series = cells.select(names)
        places: WordPlaces = slice(None)
        if len(names) == 1:
            columns, places = distinct(pl.DataFrame(columns))[names[0]]
        encoded = part.transform(pl.DataFrame(columns))
        stop = start + encoded.shape[1]
        matrix[:, start:stop] = (encoded if isinstance(encoded, np.ndarray) else encoded.toarray())[places]
        start = stop


def published_encoding(encoding: Encoding) -> ColumnTransformer:
    """The encoding as a fitted transformer of raw rows, (rows, encoding.width)."""
    parts: list[Encoder] = []
    learned: dict[int, list[Any]] = {}
    for columns in _alike(encoding.columns):
        encoders = _parts(columns)
        learned |= {len(parts): columns} if encoders else {}
        parts += encoders
    whole = column_transformer(parts, encoding.features)
    for at, columns in learned.items():
        _settle(whole.transformers_[at][1], columns)
    return whole


_transformer_of = lru_cache(maxsize=8)(published_encoding)


def column_transformer(parts: Iterable[Encoder], features: Sequence[str]) -> ColumnTransformer:
    """The parts as one transformer of raw rows with these columns; it is fitted to no rows, since it learns nothing.

    Parts get names that scikit-learn accepts, since the name of a column may not be one: unique, no parameter of the
    transformer, and without double underscores.
    """
    taken, named = set(ColumnTransformer([]).get_params(deep=False)), list[Encoder]()
    for wanted, part, columns in parts:
        name = re.sub("__+", "_", wanted)
        while name in taken:
            name += "'"
        taken.add(name)
        named.append((name, part, columns))
    nothing = pl.DataFrame({name: pl.Series([None], dtype=pl.String) for name in features})
    return ColumnTransformer(named, sparse_threshold=0, verbose_feature_names_out=False).fit(nothing)


def _alike(columns: Sequence[Column]) -> Iterator[list[Any]]:
    """Columns in order, grouped by the part that encodes them: adjacent numbers without missing cells share one."""

    def shape(numbered: tuple[int, Column]) -> tuple[object, ...]:
        at, column = numbered
        usual = isinstance(column, Scaled) and not column.missing and column.spelling == USUAL_SPELLING
        return (column.kind, column.log) if isinstance(column, Scaled) and usual else (at,)

    for _, alike in groupby(enumerate(columns), shape):
        yield [column for _, column in alike]


def _parts(columns: list[Any]) -> list[Encoder]:
    """The entries that encode these columns; none for a column without values."""
    names = [column.name for column in columns]
    match columns[0]:
        case Scaled() as first:
            low, high = (np.array([getattr(column, end) for column in columns]) for end in ("low", "high"))
            steps = [
                ("cells", clean(first)),
                *([("log", FunctionTransformer(signed_log))] * first.log),
                ("fill", SimpleImputer(strategy="median", keep_empty_features=True)),
                ("clip", FunctionTransformer(np.clip, kw_args={"a_min": low, "a_max": high})),
                ("scale", StandardScaler()),
            ]
            numbers = (names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}", Pipeline(steps), names)
            missing = make_pipeline(clean(first), MissingIndicator(features="all"))
            return [numbers, *([(f"{first.name} missing", missing, names)] * first.missing)]
        case OneHot() as first:
            vocabulary = np.array([*first.vocabulary, None], dtype=object)[:-1]
            options = {"handle_unknown": "ignore", "sparse_output": False, "dtype": np.float32}
            if not first.missing:
                words = OneHotEncoder(categories=[vocabulary], **options)
                return [(first.name, make_pipeline(clean(first), words), names)]
            end = len(vocabulary)  # missing cells have a column too, so unknown words count as missing
            ranks = OrdinalEncoder(categories=[vocabulary], handle_unknown="use_encoded_value", unknown_value=end)
            words = OneHotEncoder(categories=[np.arange(end + 1.0)], **options)
            return [(first.name, make_pipeline(clean(first), ranks, words), names)]
        case Hashed() as first:
            whole = SimpleImputer(missing_values=None, strategy="constant", fill_value="", keep_empty_features=True)
            bag = HashingVectorizer(n_features=first.size, **BAG)
            return [(first.name, make_pipeline(Cells("categorical"), whole, FunctionTransformer(np.ravel), bag), names)]
        case Passed() as first:
            scale = [("scale", MaxAbsScaler())] * (first.element == "uint8")
            return [(first.name, Pipeline([("cells", Cells(first.element, first.size)), *scale]), names)]
    return []


def clean(column: Column) -> Cells:
    """The transformer that reads the cells of a column without lists."""
    hashed = isinstance(column, OneHot) and column.hashed
    given = ("hashed", len(column.vocabulary)) if isinstance(column, OneHot) and hashed else (column.kind, 1)
    if isinstance(column, Scaled | OneHot) and column.spelling != USUAL_SPELLING:
        return Spelled(*given, **column.spelling.model_dump())
    return Cells(*given)


def _settle(part: Pipeline, columns: list[Any]) -> None:
    """Give a part the statistics of the public rows, which it was not fitted on."""
    match columns[0]:
        case Scaled():
            fill, mean, scale = (
                np.array([getattr(one, name) for one in columns]) for name in ("fill", "mean", "scale")
            )
            part["fill"].statistics_ = fill
            part["scale"].mean_, part["scale"].scale_, part["scale"].var_ = mean, scale, scale**2
        case Passed(element="uint8") as bytes_:
            part["scale"].max_abs_ = part["scale"].scale_ = np.full(bytes_.size, 255.0)


def hashed_words(cells: pl.Series, buckets: int) -> NDArray[np.uint8]:
    """Buckets of the words of each cell, (rows, buckets) of 0 or 1; all 0 for a null."""
    if cells.is_empty():
        return np.zeros((0, buckets), dtype=np.uint8)
    words = HashingVectorizer(n_features=buckets, **BAG)
    return np.asarray(words.transform(cells.fill_null("")).astype(np.uint8).toarray())


def row_digests(rows: pl.DataFrame, encoding: Encoding, key: bytes) -> list[bytes]:
    """Keyed 128-bit digests of cast rows: equal only for equal content (features and label)."""
    valued = [column for column in encoding.columns if column.kind != "null"]
    cells = ((_numbers(column, rows), rows[column.name].is_null().to_numpy()) for column in valued)
    columns = [*chain.from_iterable(cells), rows[LABEL].to_numpy()]
    packed = np.empty(rows.height, [(str(at), cells.dtype, cells.shape[1:]) for at, cells in enumerate(columns)])
    for at in reversed(range(len(columns))):
        packed[str(at)] = columns.pop()  # freed as soon as it is packed
    return hashed(packed.view(f"V{packed.itemsize}").tolist(), key, b"content", 16)


def _numbers(column: Column, rows: pl.DataFrame) -> NDArray[np.generic]:
    """A column's cells as numbers of fixed size, zero if null: (rows,), or (rows, size) of a list."""
    cells = rows[column.name]
    match column:
        case OneHot():
            return rows.select(word_index(column.name, column.vocabulary)).to_series().fill_null(0).to_numpy()
        case Hashed():
            return hashed_words(rows[column.name], column.size)
        case Passed():
            arrays = np.zeros((rows.height, column.size), dtype=column.element)
            arrays[cells.is_not_null().to_numpy()] = cells.drop_nulls().to_numpy()
            return arrays
        case Scaled(kind="date"):
            return cells.dt.timestamp("us").fill_null(0).to_numpy()
    return cells.cast(pl.Float64).fill_null(0).to_numpy()
