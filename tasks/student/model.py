"""The published student: a scikit-learn pipeline from raw public columns to class names, and its file.

The pipeline consists of scikit-learn's parts, so that a published student does not need Concord.

    raw cells ─ Cells ─┬ numbers   ─ (signed_log) ─ SimpleImputer ─ clip ─ StandardScaler ─┐
                       ├ missing   ─ MissingIndicator ────────────────────────────────────┤
                       ├ words     ─ (OrdinalEncoder) ─ OneHotEncoder ────────────────────┼─ float32 ─ student
                       ├ text      ─ SimpleImputer ─ ravel ─ HashingVectorizer ───────────┤
                       └ lists     ─ MaxAbsScaler ────────────────────────────────────────┘

Assumes      the encoding is public
Guarantees   the matrix is that of `concord.tasks.data.encode`, to the bit: the same arithmetic in the same order
Not covered  moments with a time zone as words. Checked by tests/tasks/student/test_parts.py

The file is skops', which holds arrays and names of types and no code (unlike a pickle), brought to one canonical form:
the same student gives the same bytes, so that its digest can be recomputed from any copy.
"""

import io
import itertools
import json
import re
import warnings
import zipfile
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import PurePosixPath
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, OneHotEncoder, OrdinalEncoder, StandardScaler

from concord.artifacts.errors import NotVerified, WrongInput, quoted
from concord.artifacts.schemas import Column, Encoding, Hashed, OneHot, Passed, Scaled
from concord.tasks.data import concord_pictures, concord_student
from concord.tasks.data.concord_student import Cells, signed_log
from concord.tasks.data.encode import BAG
from concord.tasks.student import concord_published, concord_tallied
from concord.tasks.student.concord_published import Published
from concord.tasks.student.fitted import check_fitted, parts_of, strangers

Encoder = tuple[str, Any, list[str]]
"""An entry of a ColumnTransformer: its name, its transformer, and its columns."""


def published_student(encoding: Encoding, learned: Any) -> Pipeline:
    """The pipeline from raw public columns to class names, whose last step was fitted on the encoding's matrix."""
    single = FunctionTransformer(np.require, kw_args={"dtype": "float32"})
    return Published([("encode", published_encoding(encoding)), ("float32", single), ("student", learned)])


def published_encoding(encoding: Encoding) -> ColumnTransformer:
    """The encoding as a fitted transformer of raw rows, (rows, encoding.width)."""
    parts: list[Encoder] = []
    learned: dict[int, list[Any]] = {}
    for columns in _alike(encoding.columns):
        found = _parts(columns)
        learned |= {len(parts): columns} if found else {}
        parts += found
    nothing = pd.DataFrame({name: pd.Series([None], dtype=object) for name in encoding.features})
    whole = ColumnTransformer(named(parts), sparse_threshold=0, verbose_feature_names_out=False).fit(nothing)
    for at, columns in learned.items():
        _settle(whole.transformers_[at][1], columns)
    return whole


def named(parts: Iterable[Encoder]) -> list[Encoder]:
    """The parts under names that scikit-learn takes, which a column's may not be: each once, none of its own
    parameters, and without two underscores together."""
    taken, found = set(ColumnTransformer([]).get_params(deep=False)), []
    for wanted, part, columns in parts:
        name = re.sub("__+", "_", wanted)
        while name in taken:
            name += "'"
        taken.add(name)
        found.append((name, part, columns))
    return found


def _alike(columns: Sequence[Column]) -> Iterator[list[Any]]:
    """Columns in order, grouped by the part that encodes them: adjacent numbers without missing cells share one."""

    def shape(numbered: tuple[int, Column]) -> tuple[object, ...]:
        at, column = numbered
        return (column.kind, column.log) if isinstance(column, Scaled) and not column.missing else (at,)

    for _, alike in groupby(enumerate(columns), shape):
        yield [column for _, column in alike]


def _parts(columns: list[Any]) -> list[Encoder]:
    """The entries that encode these columns; none for a column without values."""
    names = [column.name for column in columns]
    match columns[0]:
        case Scaled() as first:
            low, high = (np.array([getattr(column, end) for column in columns]) for end in ("low", "high"))
            steps = [
                ("cells", Cells(first.kind)),
                *([("log", FunctionTransformer(signed_log))] * first.log),
                ("fill", SimpleImputer(strategy="median", keep_empty_features=True)),
                ("clip", FunctionTransformer(np.clip, kw_args={"a_min": low, "a_max": high})),
                ("scale", StandardScaler()),
            ]
            numbers = (names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}", Pipeline(steps), names)
            missing = make_pipeline(Cells(first.kind), MissingIndicator(features="all"))
            return [numbers, *([(f"{first.name} missing", missing, names)] * first.missing)]
        case OneHot() as first:
            vocabulary = np.array([*first.vocabulary, None], dtype=object)[:-1]
            known = {"handle_unknown": "ignore", "sparse_output": False, "dtype": np.float32}
            if not first.missing:
                words = OneHotEncoder(categories=[vocabulary], **known)
                return [(first.name, make_pipeline(Cells(first.kind), words), names)]
            end = len(vocabulary)  # missing cells have a column too, so unknown words count as missing
            ranks = OrdinalEncoder(categories=[vocabulary], handle_unknown="use_encoded_value", unknown_value=end)
            words = OneHotEncoder(categories=[np.arange(end + 1.0)], **known)
            return [(first.name, make_pipeline(Cells(first.kind), ranks, words), names)]
        case Hashed() as first:
            whole = SimpleImputer(missing_values=None, strategy="constant", fill_value="", keep_empty_features=True)
            bag = HashingVectorizer(n_features=first.size, **BAG)
            return [(first.name, make_pipeline(Cells("categorical"), whole, FunctionTransformer(np.ravel), bag), names)]
        case Passed() as first:
            scale = [("scale", MaxAbsScaler())] * (first.element == "uint8")
            return [(first.name, Pipeline([("cells", Cells(first.element, first.size)), *scale]), names)]
    return []


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


ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every entry of the file: the earliest a zip archive can hold."""


def dump(student: Any) -> bytes:
    """The file of a student: the same student gives the same bytes."""
    import skops.io

    for part in parts_of(student):
        getattr(part, "__dict__", {}).pop("_stop_words_id", None)  # an address, which scikit-learn finds again
    return canonical_file(skops.io.dumps(student))


def canonical_file(file: bytes) -> bytes:
    """A skops file without the parts that differ between writes: addresses, times, and memory between fields."""
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(parts.pop("schema.json"))
    names = _Names(parts)
    names.visit(schema)
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for old, new in names.files.items():
            archive.writestr(zipfile.ZipInfo(new, ZIP_EPOCH), _without_padding(parts[old]))
        archive.writestr(zipfile.ZipInfo("schema.json", ZIP_EPOCH), json.dumps(schema))
    return whole.getvalue()


def _without_padding(part: bytes) -> bytes:
    """An array's file with zeros between the fields of its records. NumPy leaves uninitialised memory there, which must
    not be published by a process that has seen private rows."""
    if not part.startswith(np.lib.format.MAGIC_PREFIX):
        return part
    array = np.load(io.BytesIO(part), allow_pickle=False)
    if array.dtype.names is None:
        return part
    clean, file = np.zeros(array.shape, array.dtype), io.BytesIO()
    for field in array.dtype.names:
        clean[field] = array[field]
    np.save(file, clean, allow_pickle=False)
    return file.getvalue()


class _Names:
    """New names for the nodes and files of a skops schema, in order of appearance: skops names them by address."""

    def __init__(self, parts: Container[str]) -> None:
        self.parts = parts
        self.files: dict[str, str] = {}
        self._nodes: dict[int, int] = {}
        self._number = itertools.count(1)  # skops takes 0 for no number

    def visit(self, node: Any) -> None:
        """Rename within `node`, in place."""
        if isinstance(node, dict):
            self._rename(node)
        for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            self.visit(part)

    def _rename(self, node: dict[str, Any]) -> None:
        if isinstance(file := node.get("file"), str) and file in self.parts:
            node["file"] = self.files.setdefault(file, f"{len(self.files)}{PurePosixPath(file).suffix}")
        if isinstance(old := node.get("__id__"), int):
            fresh = next(self._number)
            # CPython decides which equal constants share an address, so each becomes a node of its own.
            node["__id__"] = fresh if node.get("__loader__") == "JsonNode" else self._nodes.setdefault(old, fresh)


def modules_needed(types: Iterable[str]) -> list[ModuleType]:
    """The modules of a student's own types, whose files are published with it."""
    named = {name.split(".")[0] for name in types}
    some = (concord_published, concord_tallied, concord_pictures)
    return [concord_student, *(part for part in some if part.NAME in named)]


@strangers()
def load(file: bytes, planned: str | None = None) -> Any:
    """The student in a file. Raises NotVerified if it holds untrusted types, or values that no student has; `planned`
    as in `trusted_types`."""
    import skops.io  # loads all of scikit-learn, and its tests' tools

    from concord.tasks.student.trust import trusted_types

    with zipfile.ZipFile(io.BytesIO(file)) as archive:  # Concord packs none, and a stranger's might fill memory
        if (held := sum(part.file_size for part in archive.infolist())) > len(file):
            raise NotVerified(f"the student's file holds {held:,} bytes in its {len(file):,}: Concord packs no student")
    student = skops.io.loads(file, trusted=trusted_types(file, planned))
    check_fitted(student)
    return student


class AnyRows(Published):
    """A loaded student that takes rows as they come: a polars or pandas frame, an Arrow table, a dict for one row, a
    list of dicts, or a NumPy array (rows, columns) with columns in the order of `feature_names_in_`."""

    def _looked_over(self, X: Any) -> Any:
        return super()._looked_over(self._framed(X))

    def _framed(self, rows: Any) -> Any:
        if isinstance(rows, pa.Table):
            return pl.from_arrow(rows)
        names = [str(name) for name in self.feature_names_in_]
        if isinstance(rows, np.ndarray):
            if rows.ndim not in (1, 2) or rows.shape[-1] != len(names):
                rule = f"rows must be an array of {len(names)} columns, as feature_names_in_ lists them"
                raise WrongInput(f"{rule} ({quoted(names)}), got one of shape {rows.shape}")
            rows = [dict(zip(names, row, strict=True)) for row in np.atleast_2d(rows).tolist()]
        listed = [rows] if isinstance(rows, Mapping) else rows
        if not (isinstance(listed, list) and all(isinstance(row, Mapping) for row in listed)):
            return rows
        held = dict.fromkeys(str(key) for row in listed for key in row)
        if (absent := [name for name in names if name not in held]) and (others := sorted(held.keys() - {*names})):
            warnings.warn(f"no row has {quoted(absent)}, which counts as missing, but {quoted(others)}", stacklevel=4)
        return pd.DataFrame({name: pd.Series([row.get(name) for row in listed], dtype=object) for name in names})
