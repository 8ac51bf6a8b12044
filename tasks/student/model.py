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
import zipfile
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, MaxAbsScaler, OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.utils.metaestimators import available_if

from concord.artifacts.answers import ANSWERS_FORMAT
from concord.artifacts.certificate import Certificate
from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.home.released import content_of, sha256
from concord.artifacts.home.whole import MOVED
from concord.artifacts.schemas import Column, Encoding, Hashed, OneHot, Passed, Scaled
from concord.tasks.data import concord_pictures
from concord.tasks.data.encode import BAG
from concord.tasks.student import concord_student, concord_tallied
from concord.tasks.student.concord_student import Cells, signed_log

Encoder = tuple[str, Any, list[str]]
"""An entry of a ColumnTransformer: its name, its transformer, and its columns."""


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
            numbers = (names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}", _numbers(columns), names)
            missing = make_pipeline(Cells(first.kind), MissingIndicator(features="all"))
            return [numbers, *([(f"{first.name} missing", missing, names)] * first.missing)]
        case OneHot() as first:
            return [(first.name, _words(first), names)]
        case Hashed() as first:
            return [(first.name, _text(first), names)]
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
    """One column per word; if missing cells have a column too, unknown words count as missing."""
    vocabulary = np.array([*column.vocabulary, None], dtype=object)[:-1]
    known = {"handle_unknown": "ignore", "sparse_output": False, "dtype": np.float32}
    if not column.missing:
        return make_pipeline(Cells(column.kind), OneHotEncoder(categories=[vocabulary], **known))
    end = len(vocabulary)
    ranks = OrdinalEncoder(categories=[vocabulary], handle_unknown="use_encoded_value", unknown_value=end)
    return make_pipeline(Cells(column.kind), ranks, OneHotEncoder(categories=[np.arange(end + 1.0)], **known))


def _text(column: Hashed) -> Pipeline:
    """One column per bucket of words."""
    return make_pipeline(
        Cells("categorical"),
        SimpleImputer(missing_values=None, strategy="constant", fill_value="", keep_empty_features=True),
        FunctionTransformer(np.ravel),
        HashingVectorizer(n_features=column.size, **BAG),
    )


ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every entry of the file: the earliest a zip archive can hold."""
OLDER = re.compile(r'"__module__": "(?:concord|tasks)\.')
"""A type of a student that an earlier version published."""


class Encode(TransformerMixin, BaseEstimator):  # type: ignore[misc]  # scikit-learn is untyped
    """First step of students of version 0.1.0: an encoding, as JSON text. `load` replaces it by present parts."""

    def __init__(self, encoding: str) -> None:
        self.encoding = encoding


def dump(student: Any) -> bytes:
    """The file of a student: the same student gives the same bytes."""
    import skops.io

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
    return [concord_student, *(part for part in (concord_tallied, concord_pictures) if part.NAME in named)]


def load(file: bytes, planned: str | None = None) -> Any:
    """The student in a file. Raises NotVerified if it holds untrusted types; `planned` as in `trusted_types`."""
    import skops.io  # loads all of scikit-learn, and its tests' tools

    from concord.tasks.student.trust import trusted_types

    current = _renamed(file) if is_older(file) else file
    student = skops.io.loads(current, trusted=trusted_types(current, planned))
    if current is file:
        return student
    return published_student(Encoding.model_validate_json(student["encode"].encoding), student["student"])


class AnyRows(Pipeline):  # type: ignore[misc]  # scikit-learn is untyped
    """A loaded student that takes rows as they come: a polars or pandas frame, an Arrow table, a dict for one row, a
    list of dicts, or a NumPy array (rows, columns) with columns in the order of `feature_names_in_`."""

    def predict(self, X: Any, **params: Any) -> Any:
        """Class names (rows,)."""
        return super().predict(self._framed(X), **params)

    @available_if(lambda self: hasattr(self.steps[-1][1], "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any, **params: Any) -> Any:
        """Probabilities (rows, classes), in the order of `classes_`."""
        return super().predict_proba(self._framed(X), **params)

    def _framed(self, rows: Any) -> Any:
        if isinstance(rows, pa.Table):
            return pl.from_arrow(rows)
        names = [str(name) for name in self.feature_names_in_]
        if isinstance(rows, np.ndarray):
            rows = [dict(zip(names, row, strict=True)) for row in np.atleast_2d(rows).tolist()]
        listed = [rows] if isinstance(rows, Mapping) else rows
        if not (isinstance(listed, list) and all(isinstance(row, Mapping) for row in listed)):
            return rows
        return pd.DataFrame({name: pd.Series([row.get(name) for row in listed], dtype=object) for name in names})


def read_published(folder: Path) -> tuple[Certificate, bytes]:
    """The certificate and the student's file in a session's published folder, or a copy of it.

    Raises WrongInput if nothing was published there, or only answers to questions; NotVerified if it is no certificate,
    or if the file does not have the certified digest.
    """
    text = b""
    try:
        text = content_of(folder / "certificate.json")
        certificate = Certificate.model_validate_json(text)
        file = content_of(folder / Path(certificate.student.file.path).name)
    except OSError:
        missing = f"{folder.name}: no certificate and student are published in {folder}"
        if others := [*_students_of(folder.name, folder.parent)]:
            missing = f"{folder.name} is a domain, of which one session must be named: {', '.join(others)}"
        raise WrongInput(missing) from None
    except ValueError:
        if ANSWERS_FORMAT.encode() in text:
            raise WrongInput(f"{folder.name}: questions were answered there, and no student is published") from None
        raise NotVerified(f"{folder / 'certificate.json'} is not a certificate") from None
    if sha256(file) != certificate.student.file.digest:
        raise NotVerified(f"the student's file in {folder} is not the one that its certificate names")
    return certificate, file


def _students_of(domain: str, released: Path) -> Iterator[str]:
    """The sessions of a domain that published a student, sorted."""
    for file in sorted(released.glob("*/certificate.json")):
        with suppress(OSError, ValueError):
            if Certificate.model_validate_json(content_of(file)).domain.name == domain:
                yield file.parent.name


def is_older(file: bytes) -> bool:
    """Whether an earlier version published this student, with an encoding of Concord's own types.

    Raises NotVerified if it would unpack to more than it is: Concord packs none, and a stranger's might fill memory.
    """
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        if (held := sum(part.file_size for part in archive.infolist())) > len(file):
            raise NotVerified(f"the student's file holds {held:,} bytes in its {len(file):,}: Concord packs no student")
        return OLDER.search(archive.read("schema.json").decode()) is not None


def _renamed(file: bytes) -> bytes:
    """A student's file with types under their present names."""
    with zipfile.ZipFile(io.BytesIO(file)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    names = re.compile("|".join(map(re.escape, MOVED)))
    pattern = rf'"__module__": "({names.pattern})"'
    schema = re.sub(pattern, lambda found: f'"__module__": "{MOVED[found[1]]}"', parts["schema.json"].decode())
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        for name, part in {**parts, "schema.json": schema.encode()}.items():
            archive.writestr(zipfile.ZipInfo(name, ZIP_EPOCH), part)
    return whole.getvalue()
