"""An encoding as scikit-learn's own parts, so that a published student needs nothing of Concord.

    raw cells ─ Cells ─┬ numbers   ─ (signed_log) ─ SimpleImputer ─ clip ─ StandardScaler ─┐
                       ├ missing   ─ MissingIndicator ────────────────────────────────────┤
                       ├ words     ─ (OrdinalEncoder) ─ OneHotEncoder ────────────────────┼─ float32 ─ student
                       └ lists     ─ MaxAbsScaler ────────────────────────────────────────┘

Assumes      the encoding is public
Guarantees   the matrix is that of `concord.tasks.data.encode`, to the bit: the same arithmetic in the same order
Not covered  moments with a time zone as words. Checked by tests/tasks/student/test_parts.py
"""

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, OneHotEncoder, OrdinalEncoder, StandardScaler

from concord.artifacts.schemas import Column, Encoding, OneHot, Passed, Scaled
from concord.tasks.student.concord_student import Cells, signed_log

Part = tuple[str, Any, list[str]]
"""An entry of a ColumnTransformer: its name, what it does, and the columns it does it to."""


def published_student(encoding: Encoding, learned: Any) -> Pipeline:
    """The pipeline from raw public columns to class names, whose last step was fitted on the encoding's matrix."""
    single = FunctionTransformer(np.require, kw_args={"dtype": "float32"})
    return Pipeline([("encode", published_encoding(encoding)), ("float32", single), ("student", learned)])


def published_encoding(encoding: Encoding) -> ColumnTransformer:
    """The encoding as a fitted transformer of raw rows, (rows, encoding.width)."""
    parts, numeric = [], {}
    for columns in _alike(encoding.columns):
        parts += _parts(columns)
        if isinstance(columns[0], Scaled):
            numeric[parts[-1 - columns[0].missing][0]] = columns
    nothing = pd.DataFrame({name: pd.Series([None], dtype=object) for name in encoding.features})
    whole = ColumnTransformer(parts, sparse_threshold=0, verbose_feature_names_out=False).fit(nothing)
    for name, columns in numeric.items():
        _settle(whole.named_transformers_[name], columns)
    for column in encoding.columns:
        if isinstance(column, Passed) and column.element == "uint8":
            scaler = whole.named_transformers_[column.name]["scale"]
            scaler.max_abs_ = scaler.scale_ = np.full(column.size, 255.0)
    return whole


def _alike(columns: Sequence[Column]) -> Iterator[list[Any]]:
    """Columns in order, those together that one part encodes: numbers in a row that are all there."""

    def shape(numbered: tuple[int, Column]) -> tuple[object, ...]:
        at, column = numbered
        return (column.kind, column.log) if isinstance(column, Scaled) and not column.missing else (at,)

    for _, alike in groupby(enumerate(columns), shape):
        yield [column for _, column in alike]


def _parts(columns: list[Any]) -> list[Part]:
    """What encodes these columns; nothing of a column without values."""
    names = [column.name for column in columns]
    match columns[0]:
        case Scaled() as first:
            numbers = (names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}", _numbers(columns), names)
            missing = make_pipeline(Cells(first.kind), MissingIndicator(features="all"))
            return [numbers, *([(f"{first.name} missing", missing, names)] * first.missing)]
        case OneHot() as first:
            return [(first.name, _words(first), names)]
        case Passed() as first:
            scale = [("scale", MaxAbsScaler())] * (first.element == "uint8")
            return [(first.name, Pipeline([("cells", Cells(first.element, first.size)), *scale]), names)]
    return []


def _numbers(columns: list[Scaled]) -> Pipeline:
    low, high = (np.array([getattr(column, end) for column in columns]) for end in ("low", "high"))
    return Pipeline(
        [
            ("cells", Cells(columns[0].kind)),
            *([("log", FunctionTransformer(signed_log))] * columns[0].log),
            ("fill", SimpleImputer(strategy="median", keep_empty_features=True)),
            ("clip", FunctionTransformer(np.clip, kw_args={"a_min": low, "a_max": high})),
            ("scale", StandardScaler()),
        ]
    )


def _settle(numbers: Pipeline, columns: list[Scaled]) -> None:
    """Give the parts of a pipeline of numbers the statistics of the public rows, which they were not fitted on."""
    fill, mean, scale = (np.array([getattr(column, name) for column in columns]) for name in ("fill", "mean", "scale"))
    numbers["fill"].statistics_ = fill
    numbers["scale"].mean_, numbers["scale"].scale_, numbers["scale"].var_ = mean, scale, scale**2


def _words(column: OneHot) -> Pipeline:
    """One column a word; where missing ones have a column too, a word that is not known is one."""
    vocabulary = np.array([*column.vocabulary, None], dtype=object)[:-1]
    known = {"handle_unknown": "ignore", "sparse_output": False, "dtype": np.float32}
    if not column.missing:
        return make_pipeline(Cells(column.kind), OneHotEncoder(categories=[vocabulary], **known))
    end = len(vocabulary)
    ranks = OrdinalEncoder(categories=[vocabulary], handle_unknown="use_encoded_value", unknown_value=end)
    return make_pipeline(Cells(column.kind), ranks, OneHotEncoder(categories=[np.arange(end + 1.0)], **known))
