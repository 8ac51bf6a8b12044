"""Encode: learn the encoding of rows as numbers from public rows and the plan; stage the public stream in batches.

Means, medians and vocabularies come from an even sample of the public rows (`systematic_sample`), and their sums are
exact, so that the same table gives the same encoding however it is divided into files.

Assumes      what it reads is public: the plan, the public table
Guarantees   nothing here depends on a private row
Not covered  public rows that are private ones in disguise. Checked by tests/tasks/data/test_encode.py
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from concord.artifacts.errors import WrongInput, quoted
from concord.artifacts.home.vault import Staged
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import (
    FEATURES_FIELD,
    NULL_WORDS,
    SCHEMA_FIELD,
    Column,
    Empty,
    Encoding,
    Hashed,
    Kind,
    OneHot,
    Passed,
    PublicBatch,
    Ref,
    Scaled,
)
from concord.artifacts.table_schema import DeclaredCategories, DeclaredColumn, DeclaredText, TableSchema
from concord.tasks.data.cells import (
    OURS,
    cast_numbers,
    cast_rows,
    cell,
    class_index,
    class_names,
    group_word,
    numbers_of,
)
from concord.tasks.data.concord_student import signed_log
from concord.tasks.data.tables import Table, are_dates, open_public

SAMPLE = 1 << 18
"""Most public rows in a sample."""
VOCABULARY = 100
"""Words kept of a category, the most frequent first; the others count as missing."""
SKEWED = 2.0
"""Skewness beyond which a number is encoded by its logarithm: money, counts and bytes, but not ages."""


def learn_columns(
    table: Table, features: Sequence[str], categories: Sequence[str] = (), texts: Sequence[str] = ()
) -> tuple[Column, ...]:
    """A column of the encoding for each feature. Raises WrongInput if the table cannot give one.

    categories   columns whose numbers are codes: they are parsed as categories, and so are their dates as text
    texts        columns of free text, whose words are hashed
    """
    kinds = table.kinds(features)
    kinds |= {name: "categorical" for name in categories if kinds.get(name) == "numeric"}
    for name in texts:
        if kinds[name] not in ("categorical", "null"):
            raise WrongInput(f"data.text must name text columns, but {name!r} is {kinds[name]} in {table.field}")
    lists = {
        name: Passed(name=name, element="uint8" if dtype.inner == pl.UInt8 else "float32", size=dtype.size)
        for name in features
        if kinds[name] == "list" and isinstance(dtype := table.type_of(name), pl.Array)
    }
    fixed: dict[str, Column] = {**lists, **{name: Hashed(name=name) for name in texts}}
    others = [name for name in features if name not in fixed]
    sample = systematic_sample(table.frames(others)) if others else pl.DataFrame()
    words = [name for name in others if kinds[name] == "categorical" and name not in categories]
    fixed |= {name: Empty(name=name) for name in words if are_dates(sample[name])}
    return tuple(fixed.get(name) or learn_column(sample, name, kinds[name]) for name in features)


def learn_column(sample: pl.DataFrame, name: str, kind: Kind) -> Column:
    """The encoding of one column of any kind but list."""
    cells = sample.select(cell(name, sample[name].dtype, kind).alias(name)).to_series()
    if cells.null_count() == cells.len():
        return Empty(name=name)
    missing = cells.null_count() > 0
    if kind == "numeric" or kind == "boolean" or kind == "date":
        numbers = np.sort(numbers_of(cells.drop_nulls(), kind))
        log = abs(pl.Series(numbers).skew() or 0) > SKEWED
        values = signed_log(numbers) if log else numbers
        mean = math.fsum(values.tolist()) / len(values)
        scale = math.sqrt(math.fsum(np.square(values - mean).tolist()) / len(values)) or 1.0
        fill, low, high = (float(values[at]) for at in (len(values) // 2, 0, -1))
        public: dict[str, Any] = {"mean": mean, "scale": scale, "fill": fill, "low": low, "high": high}
        return Scaled(kind=kind, name=name, log=log, missing=missing, **public)
    counts = cells.drop_nulls().value_counts().sort("count", name, descending=[True, False])
    rare = counts.height > VOCABULARY
    return OneHot(name=name, vocabulary=tuple(counts[name].head(VOCABULARY)), missing=missing or rare)


def systematic_sample(frames: Iterator[pl.DataFrame], most: int = SAMPLE) -> pl.DataFrame:
    """Every s-th row, s being the least power of two that keeps at most `most` rows; it does not depend on frames."""
    stride, first = 1, 0
    kept: list[pl.DataFrame] = []
    for frame in frames:
        offset = -first % stride
        kept.append(frame.slice(offset).gather_every(stride))
        first += frame.height
        while sum(part.height for part in kept) > most:
            kept = [pl.concat(kept, how="vertical_relaxed").gather_every(2)]
            stride *= 2
    return pl.concat(kept, how="vertical_relaxed")


def public_features(plan: Plan) -> tuple[Table, tuple[str, ...]]:
    """The plan's public table, and its columns that are features. Raises WrongInput if it does not fit the plan."""
    table = open_public(plan.path("public"), form=plan.data.format)
    spoken_for = {plan.data.label, plan.data.unit}
    features = plan.data.features or tuple(name for name in table.columns if name not in spoken_for)
    if not features:
        raise WrongInput(f"data.public must hold at least one feature column, got {plan.data.public}")
    for key, listed_in in (("categories", plan.data.categories), ("text", plan.data.text)):
        if others := [name for name in listed_in or () if name not in features]:
            raise WrongInput(f"data.{key} must be features, got {others[0]!r}; they are {quoted(features)}")
    if odd := [name for name in features if not name or name.startswith(OURS)]:
        why = f"since a column of {plan.data.public} is named {odd[0]!r}: name all, and none as those here are named"
        raise WrongInput(f"data.features must list the features, {why}")
    names = class_names(plan.data.classes)
    if names and names.count(twice := max(names, key=names.count)) > 1:
        raise WrongInput(f"data.classes must differ however they are stored, got two that both read as {twice!r}")
    return table, features


def learn_encoding(plan: Plan) -> Encoding:
    """The encoding of the plan's public table. Raises WrongInput if the table does not fit the plan."""
    table, features = public_features(plan)
    columns = learn_columns(table, features, plan.data.categories or (), plan.data.text or ())
    if plan.data.declared is not None:
        columns = as_declared(columns, plan.data.declared)
    elif not any(map(_differs, columns)):
        rule = "data.public must hold a feature in which its rows differ: nothing can be learned from any other"
        raise WrongInput(f"{rule}, but {quoted(features)} have one value each, or none, in {plan.data.public}")
    return _encoding_of(plan, columns)


def reading_encoding(plan: Plan) -> Encoding:
    """The rules by which the private rows of a plan are read for the grid of its schema."""
    return _encoding_of(plan, reading_columns(plan.data.sketched))


def _encoding_of(plan: Plan, columns: tuple[Column, ...]) -> Encoding:
    data = plan.data
    categories = {column.name: column.vocabulary for column in columns if isinstance(column, OneHot)}
    if data.declared is not None:
        categories |= data.declared.categories
    return Encoding(
        columns=columns,
        label=data.label,
        classes=data.classes,
        bounds=data.bounds,
        unit=data.unit,
        format=data.format,
        words=tuple(column.name for column in columns if not {*NULL_WORDS}.isdisjoint(categories.get(column.name, ()))),
    )


def reading_columns(schema: TableSchema) -> tuple[Column, ...]:
    """The columns of an encoding by which cells are cast for the grid (tasks.data.grid). An undeclared word stays a
    word: it is not missing."""

    def read(column: DeclaredColumn) -> Column:
        given: dict[str, Any] = {"name": column.name, "spelling": column.spelling}
        match column:
            case DeclaredCategories():
                return Hashed(**given)
            case DeclaredText():
                return OneHot(**given, vocabulary=column.words, missing=True, hashed=True)
        return Scaled(**given, kind=column.kind, mean=0, scale=1, fill=0, low=0, high=1, missing=True)

    return tuple(map(read, schema.columns))


def as_declared(columns: Sequence[Column], schema: TableSchema) -> tuple[Column, ...]:
    """The columns with all declared categories or buckets as their vocabulary, whichever the public rows have. A column
    without any value in them has its declared kind: synthetic rows may lack values that a few private rows have."""
    declared = {column.name: column for column in reading_columns(schema)}

    def with_declared(column: Column) -> Column:
        if column.name in schema.categories:
            return OneHot(name=column.name, vocabulary=schema.categories[column.name], missing=True)
        if isinstance(column, Empty) or column.name in schema.hashed:
            return declared[column.name]
        return column.model_copy(update={"spelling": declared[column.name].spelling})

    return tuple(map(with_declared, columns))


def _differs(column: Column) -> bool:
    """Whether public rows may differ in a column; of text and lists the encoding does not say."""
    match column:
        case Scaled():
            return column.missing or column.low < column.high
        case OneHot():
            return column.missing or len(column.vocabulary) > 1
    return not isinstance(column, Empty)


def stage_public(
    path: str, encoding: Encoding, vault: Staged, folder: str, batch_rows: int, field: str = "data.public"
) -> tuple[PublicBatch, ...]:
    """Write the public stream to the vault as cast rows, in batches of exactly `batch_rows` rows (the last smaller).

    Memory is bounded by one batch. Raises WrongInput if the table lacks a feature, or has it in another type.
    """
    table = open_public(path, field, encoding.format)
    table.check(encoding)
    batches: list[PublicBatch] = []
    cast = (cast_rows(frame, encoding) for frame in table.frames(encoding.asked))
    for frame in _even(cast, batch_rows):
        first = batches[-1].first + batches[-1].rows if batches else 0
        ref = write_frame(frame, vault, f"{folder}/batch-{len(batches):05d}.arrow")
        batches.append(PublicBatch(ref=ref, first=first, rows=frame.height))
    return tuple(batches)


def labelled_rows(path: str, encoding: Encoding) -> tuple[pl.DataFrame, NDArray[Any]]:
    """Cast rows of a public labelled table, and their class indices, or numbers (rows,), which bounds do not change.

    Raises WrongInput if the table does not fit, or a label is no number or names a class that is not declared.
    """
    table = open_public(path, "data.test", encoding.format)
    table.check(encoding)
    columns = encoding.asked | {encoding.label: "data.label"}
    raw = pl.concat(table.frames(columns), how="vertical_relaxed")
    if encoding.bounds is not None:
        numbers = cast_numbers(raw[encoding.label])
        if len(odd := raw[encoding.label].filter(np.isnan(numbers))):
            rule = f"data.test must hold a number in every row of {encoding.label!r}"
            raise WrongInput(f"{rule}, got {'a row without one' if odd[0] is None else repr(odd[0])}")
        return cast_rows(raw.drop(encoding.label), encoding), numbers
    index = class_index(encoding.label, raw.schema[encoding.label], encoding.classes)
    foreign = raw.filter(index.is_null())[encoding.label]
    if len(foreign):
        one = "a row without one, which must be left out" if foreign[0] is None else repr(foreign[0])
        rule = f"data.test must name a declared class in every row of {encoding.label!r}, got {one}"
        held = quoted(raw[encoding.label].drop_nulls().unique().sort().to_list())
        raise WrongInput(f"{rule}: the column holds {held}, and data.classes names {', '.join(encoding.classes)}")
    return cast_rows(raw.drop(encoding.label), encoding), raw.select(index).to_series().to_numpy().astype(np.int64)


MOST_GROUPS = 20
"""Most words of a column that makes groups."""


def grouping(path: str, groups: Sequence[str], encoding: Encoding) -> dict[str, pl.Series]:
    """The word of each row of the test table in each column that makes groups; null if it has none.

    Raises WrongInput if the table lacks a column, or one has more than MOST_GROUPS words.
    """
    table = open_public(path, "data.groups", encoding.format)
    asked = {name: SCHEMA_FIELD if name in encoding.words else FEATURES_FIELD for name in groups}
    missing = {name: ("",) if name in encoding.words else NULL_WORDS for name in groups}
    frames = table.frames(asked) if groups else iter([pl.DataFrame()])
    read = pl.concat(
        frame.select(group_word(name, frame.schema[name], missing[name]) for name in groups) for frame in frames
    )
    for name in groups:
        if not 1 < (many := read[name].n_unique()) <= MOST_GROUPS:
            rule = f"data.groups must name columns of data.test with 2 to {MOST_GROUPS} words"
            raise WrongInput(f"{rule}: {name!r} has {many:,}, which make as many groups")
    return {name: read[name] for name in groups}


def write_frame(frame: pl.DataFrame, vault: Staged, path: str) -> Ref:
    """Write a frame to the vault as an Arrow IPC file."""
    table = frame.to_arrow(compat_level=pl.CompatLevel.oldest())
    with vault.create(path) as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.ref


def read_frame(ref: Ref, vault: Staged) -> pl.DataFrame:
    """A frame of the vault. Raises NotVerified if the file is not what was written."""
    return pl.DataFrame(pl.from_arrow(pa.ipc.open_file(pa.BufferReader(vault.read(ref))).read_all()))


def _even(frames: Iterator[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """The same rows in frames of exactly `rows` rows; the last may be smaller."""
    waiting: list[pl.DataFrame] = []
    for frame in frames:
        waiting.append(frame)
        while sum(part.height for part in waiting) >= rows:
            whole = pl.concat(waiting)
            yield whole.head(rows)
            waiting = [whole.slice(rows)]
    rest = pl.concat(waiting)
    if rest.height:
        yield rest
