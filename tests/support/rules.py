"""Every rule by which a private row becomes something, applied to a column that stands for each column in turn."""

import math
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from tests import world
from tests.support.raw import exact

KEY = bytes(range(32))
PLAIN = world.Scaled(kind="numeric", name="plain", mean=0.1, scale=3, fill=-0.7, low=-1e30, high=1e30, missing=True)
BUCKETS = world.DeclaredText(kind="text", name="hashed", buckets=32)
COLUMNS: tuple[world.Column, ...] = (
    PLAIN,
    PLAIN.model_copy(update={"name": "log", "log": True}),
    PLAIN.model_copy(update={"name": "truth", "kind": "boolean"}),
    PLAIN.model_copy(update={"name": "date", "kind": "date", "low": -1e9, "high": 1e9}),
    world.OneHot(name="word", vocabulary=("a", "0", "-0.5", "Rome", "1970-01-01"), missing=True),
    world.OneHot(name="hashed", vocabulary=BUCKETS.words, missing=True, hashed=True),
    world.Passed(name="bytes", element="uint8", size=2),
    world.Passed(name="wave", element="float32", size=2),
    world.Hashed(name="text", size=16),
)
ENCODING = world.Encoding(columns=COLUMNS, label="label", classes=("a", "0", "true"))
WITHIN = world.Encoding(columns=(), label="label", classes=(), bounds=(-1e3, 7.7))
VECTORS: dict[str, Any] = {"view": "values", "length": 2, "low": -0.5}
CODES = world.Codes(
    fields=(
        world.NumberField(kind="numeric", name="plain", start=0, cuts=(-1.0, -0.0, 5e-324, 1.5)),
        world.NumberField(kind="numeric", name="plain", start=6, cuts=(-1e100, -0.1, 0.0, 1.0, 1.5, 2.0**53, 1e100)),
        world.NumberField(kind="boolean", name="truth", start=15, cuts=(1.0,)),
        world.NumberField(kind="date", name="date", start=18, cuts=(-719_162.0, 0.0, 16_801.5)),
        world.WordField(name="word", start=23, words=("0", "a")),
        world.VectorField(name="bytes", start=27, element="uint8", high=255.0, centres="AAAAAAAA/wABAP8A", **VECTORS),
        world.VectorField(
            name="wave", start=31, element="float32", high=2.5, centres="AAAAAGYAZgBnAGYA/wD/AA==", **VECTORS
        ),
        world.JoinedField(
            start=36,
            columns=(1, 2, 3),
            levels=((-3072, -5, -4, 0, 1, 2, 2900, 3072, 0), (-1, 1, 0), (-3072, 7, 8, 3072, 0)),
            centres=world.written(np.array([[0, 0, 0], [1, 1, 7], [1, -1, 8], [-3072, 1, -3072], [2900, -1, 3072]])),
        ),
    ),
    coarse=(0, 2, 3, 4, 5, 6),
    fine=(1, 2, 3, 4, 5, 6),
)

SCHEMA = world.TableSchema(
    columns=(
        world.DeclaredRange(kind="numeric", name="plain", low=-1e3, high=1e9, whole=False),
        world.DeclaredRange(kind="numeric", name="log", low=-3, high=90, whole=True),
        world.DeclaredTruth(kind="boolean", name="truth"),
        world.DeclaredRange(kind="date", name="date", low=-719_162, high=20_000.5, whole=False),
        world.DeclaredCategories(kind="categorical", name="word", words=("a", "0", "-0.5", "Rome", "1970-01-01")),
        BUCKETS,
    ),
    undeclared=(),
)
GRID = world.grid_of(SCHEMA)


def through_the_rules(read: pl.Series) -> dict[str, list[bytes | None]]:
    """What each rule makes of the cells, as bits: values, numbers, matrix, codes, digest, unit and shard."""
    raw = pl.DataFrame([read.alias(name) for name in (*ENCODING.features, ENCODING.label)])
    rows = world.cast_rows(raw, ENCODING)
    units = raw.select(world.canonical_id("plain", read.dtype).cast(pl.Binary)).to_series()
    found = {name: exact(rows[name]) for name in rows.columns if name != "log"}
    again = world.cast_rows(rows, ENCODING)
    assert all(exact(again[name]) == found[name] for name in again.columns if name != "log")
    for name, kind in (("plain", "numeric"), ("date", "date")):
        found[f"{name} as a number"] = in_rows(world.numbers_of(rows[name], kind))  # type: ignore[arg-type]
    matrix = world.encode(rows, ENCODING)
    assert np.isfinite(matrix).all()
    found["matrix"] = in_rows(matrix)
    codes, spans = CODES.of(rows), [CODES.span(at) for at in range(CODES.width)]
    assert all(span.start <= code < span.stop for row in codes for code, span in zip(row, spans, strict=True))
    found["codes"] = in_rows(codes)
    assert in_rows(CODES.of_raw(raw, COLUMNS).astype(np.int32)) == found["codes"]
    found["cells of a grid"] = in_rows(GRID.of_raw(raw, world.reading_columns(SCHEMA)).astype(np.int32))
    places = world.steps_between(world.cast_numbers(raw[ENCODING.label], math.inf), (-1e3, 7.7), 1 << 16)
    found["label as a number"] = in_rows(places)
    found["label within bounds"] = in_rows(world.cast_rows(raw, WITHIN)[world.LABEL].to_numpy())
    assert in_rows(world.cast_labels(raw[ENCODING.label], ENCODING)) == in_rows(rows[world.LABEL].to_numpy())
    found["digest"] = list(world.row_digests(rows, ENCODING, KEY))
    found["unit"] = units.to_list()
    found["shard"] = exact(world.shards_of(units.fill_null(b""), KEY, 1000))
    return found


def in_rows(numbers: NDArray[np.generic]) -> list[bytes | None]:
    return [row.tobytes() for row in numbers]
