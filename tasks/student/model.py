"""The published student: a scikit-learn pipeline from raw public columns to class names, and its file.

The pipeline consists of scikit-learn's parts, so that a published student does not need Concord: those that encode
rows (tasks.data.matrix), and what was learned from their matrix.

The file is skops', which holds arrays and names of types and no code (unlike a pickle), brought to one canonical form:
the same student gives the same bytes, so that its digest can be recomputed from any copy.
"""

import io
import itertools
import json
import warnings
import zipfile
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import PurePosixPath
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer

from concord.artifacts.errors import ConcordError, NotVerified, WrongInput, quoted
from concord.artifacts.schemas import FEATURES_FIELD, NULL_WORDS, SCHEMA_FIELD, Encoding
from concord.tasks.data import concord_pictures, concord_student
from concord.tasks.data.matrix import published_encoding
from concord.tasks.student import concord_published, concord_tallied
from concord.tasks.student.concord_published import Published


def published_student(encoding: Encoding, learned: Any) -> Pipeline:
    """The pipeline from raw public columns to class names, whose last step was fitted on the encoding's matrix."""
    single = FunctionTransformer(np.require, kw_args={"dtype": "float32"})
    return Published([("encode", published_encoding(encoding)), ("float32", single), ("student", learned)])


@contextmanager
def strangers() -> Iterator[None]:
    """Within the context, whatever a student's file makes fail is one error of ours, without its words."""
    try:
        yield
    except ConcordError:
        raise
    except Exception as failed:  # the author of the file may have intended it
        raise NotVerified(f"the student's file is not one that Concord writes ({type(failed).__name__})") from None


ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every entry of the file: the earliest a zip archive can hold."""


def dump(student: Any) -> bytes:
    """The file of a student: the same student gives the same bytes."""
    import skops.io

    from concord.tasks.student.trust import parts_of

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
            if isinstance(file := node.get("file"), str) and file in self.parts:
                node["file"] = self.files.setdefault(file, f"{len(self.files)}{PurePosixPath(file).suffix}")
            if isinstance(old := node.get("__id__"), int):
                fresh = next(self._number)
                # CPython decides which equal constants share an address, so each becomes a node of its own
                node["__id__"] = fresh if node.get("__loader__") == "JsonNode" else self._nodes.setdefault(old, fresh)
        for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            self.visit(part)


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

    from concord.tasks.student.trust import check_values, trusted_types

    with zipfile.ZipFile(io.BytesIO(file)) as archive:  # Concord packs none, and a stranger's might fill memory
        if (held := sum(part.file_size for part in archive.infolist())) > len(file):
            raise NotVerified(f"the student's file holds {held:,} bytes in its {len(file):,}: Concord packs no student")
    student = skops.io.loads(file, trusted=trusted_types(file, planned))
    check_values(student)
    return student


def columns_read(student: Any) -> dict[str, str]:
    """The columns that a published student reads, each with the field by whose rule the cells of a text file are read:
    a category may be a usual word of a missing cell, such as None."""
    fields = dict.fromkeys(map(str, student.feature_names_in_), FEATURES_FIELD)
    for _, part, names in student["encode"].transformers_:
        if isinstance(part, Pipeline) and part[0].kind == "categorical":
            code = part[1]
            listed = code.categories_[0].tolist() if hasattr(code, "categories_") else getattr(code, "words", ())
            if not {*NULL_WORDS}.isdisjoint([*listed, *getattr(code, "others", ())]):
                fields |= dict.fromkeys(names, SCHEMA_FIELD)
    return fields


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
