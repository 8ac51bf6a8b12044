"""Statistics of public columns: the means, medians and vocabularies that rows are encoded by.

They come from an even sample of at most SAMPLE public rows (all of them, where there are no more), and their sums are
exact, so that the same table gives the same encoding however it is cut. Checked by tests/tasks/test_encode.py.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from artifacts.encoding import Column, Empty, Kind, OneHot, Passed, Scaled
from tasks.cells import cell
from tasks.tables import PublicTable

SAMPLE = 1 << 18
VOCABULARY = 100
"""Words kept of a category, the most frequent first; the others count as missing."""

SKEWED = 2.0
"""Skewness beyond which a number is encoded by its logarithm: money, counts and bytes, but not ages."""

DAY = 86_400_000_000
"""Microseconds."""

Numbers = NDArray[np.float64]


def learn_columns(table: PublicTable, features: Sequence[str]) -> tuple[Column, ...]:
    """A column of the encoding for each feature. Raises WrongInput where the table cannot give one."""
    kinds = table.kinds(features)
    lists = {
        name: Passed(name=name, element="uint8" if dtype.inner == pl.UInt8 else "float32", size=dtype.size)
        for name in features
        if kinds[name] == "list" and isinstance(dtype := table.type_of(name), pl.Array)
    }
    others = [name for name in features if name not in lists]
    sample = systematic_sample(table.frames(others)) if others else pl.DataFrame()
    return tuple(lists.get(name) or learn_column(sample, name, kinds[name]) for name in features)


def learn_column(sample: pl.DataFrame, name: str, kind: Kind) -> Column:
    """The encoding of one column, of a kind that is not list."""
    cells = sample.select(cell(name, sample.schema[name], kind).alias(name)).to_series()
    if cells.null_count() == cells.len():
        return Empty(name=name)
    missing = cells.null_count() > 0
    if kind == "numeric" or kind == "boolean" or kind == "date":
        return _scaled(cells.drop_nulls(), name, kind, missing=missing)
    counts = cells.drop_nulls().value_counts().sort("count", name, descending=[True, False])
    rare = counts.height > VOCABULARY
    return OneHot(name=name, vocabulary=tuple(counts[name].head(VOCABULARY)), missing=missing or rare)


def systematic_sample(frames: Iterator[pl.DataFrame], most: int = SAMPLE) -> pl.DataFrame:
    """Every s-th row, s being the least power of two that keeps at most `most` rows, however rows come in frames."""
    stride, first = 1, 0
    kept: list[pl.DataFrame] = []
    for frame in frames:
        offset = -first % stride
        kept.append(frame.slice(offset).gather_every(stride))
        first += frame.height
        while sum(part.height for part in kept) > most:
            kept = [pl.concat(kept).gather_every(2)]
            stride *= 2
    return pl.concat(kept)


def numbers_of(cells: pl.Series, kind: Kind) -> Numbers:
    """Cast cells of a scaled column, NaN where null: dates in days since 1970, truth values as 0 and 1."""
    if kind == "date":
        return cells.dt.timestamp("us").cast(pl.Float64).to_numpy() / DAY
    return cells.cast(pl.Float64).to_numpy()


def signed_log(numbers: Numbers) -> Numbers:
    """±ln(1 + |x|): what is spread over powers of ten, evenly; zero stays zero.

    Logarithms are taken one by one: those of many at once may differ in the last bit by where a number lies.
    """
    return np.copysign([math.log1p(number) for number in np.abs(numbers).tolist()], numbers)


def _scaled(cells: pl.Series, name: str, kind: Literal["numeric", "boolean", "date"], *, missing: bool) -> Scaled:
    numbers = np.sort(numbers_of(cells, kind))
    log = abs(pl.Series(numbers).skew() or 0) > SKEWED
    values = (signed_log(numbers) if log else numbers).tolist()
    mean = math.fsum(values) / len(values)
    scale = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return Scaled(
        kind=kind,
        name=name,
        log=log,
        mean=mean,
        scale=scale or 1.0,
        fill=values[len(values) // 2],
        low=values[0],
        high=values[-1],
        missing=missing,
    )
