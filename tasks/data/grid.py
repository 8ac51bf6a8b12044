"""The grid: the cells in which private rows are counted if there is no public table, from the declared schema alone.

A number has a narrow view, and a wide one of WIDE cells if it has more than twice as many; a truth value, a category
and hashed text have one view. All later codes are groups of narrow cells, found in released sums: `recoded` looks them
up, so that the table is read once. Synthetic rows and stand-ins are cells, and hold a value in each (`values_in`), so
that any learner can use them.

Assumes      the schema was declared, not read off private rows; cells that get values are synthetic or public, and so
             is the generator's seed: it is no privacy noise
Guarantees   a row has exactly one cell of each view, whatever its cells are, found cell by cell, by comparisons and
             look-ups with declared numbers and words. A number beyond its range is in the cell at that end; one that is
             infinite, beyond 1e100, NaN or unreadable is missing. A word that was not declared has a cell of its own;
             text without declared words has the cell of its bucket, which follows from that text alone. A value lies in
             its cell, so that it is read as that cell again; a number lies within its declared range
Not covered  whether ranges and categories are true: wrong ones cost accuracy, never privacy; where in its cell a
             private value lies. Checked by tests/tasks/data/test_grid.py, tests/tasks/student/test_synthetic.py
             and, alone against in company, by tests/privacy/test_row_alone.py
"""

import hashlib
from collections.abc import Mapping, Sequence
from decimal import Decimal, localcontext
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from concord.artifacts.table_schema import (
    DeclaredCategories,
    DeclaredRange,
    DeclaredText,
    TableSchema,
    varies,
)
from concord.tasks.data.codes import CodedField, CodeMatrix, Codes, NumberField, WordField, coarser
from concord.tasks.data.concord_student import DAY

NARROW = 1024
"""Most cells of a number, nearly: half of them even and half geometric, because even ones alone fail on heavy tails."""
WIDE = 32
"""Cells of a number's wide view: sums of many narrow ones would be too noisy."""
OUTSIDE = 0.1
"""Share of a column outside its declared categories or range from which the schema may be wrong."""
MUCH, MOST = 1 / 3, 3 / 4
"""Share of a column that is missing, or at one end of its range, from which the schema may be wrong; and at an end that
is a single whole number, which may be frequent, such as 0 of a count."""
CLOSEST = 1e-9
"""First geometric cut, as a share of the range."""
UNDECLARED = "undeclared"
"""The word of an undeclared cell in synthetic rows, unless that is declared."""
STAND_INS = 4096
"""Rows that stand in for public ones before anything is released."""


def grid_of(schema: TableSchema) -> Codes:
    """The grid as codes: `fine` are the narrow views, `coarse` the wide ones, or the only ones. Columns for which the
    schema allows one value are left out."""
    fields, coarse, fine = list[CodedField](), list[int](), list[int]()
    start = 0
    for column in filter(varies, schema.columns):
        views: list[CodedField]
        if isinstance(column, DeclaredCategories | DeclaredText):
            views = [WordField(name=column.name, start=start, words=column.words)]
        else:
            narrow = grid_cuts(column) if isinstance(column, DeclaredRange) else np.ones(1)
            views = [_number(column.kind, column.name, start, narrow)]
            if len(narrow) + 1 > 2 * WIDE:
                views.insert(0, _number(column.kind, column.name, start, narrow[wide_places(len(narrow) + 1)]))
                views[1] = views[1].model_copy(update={"start": start + views[0].size})
        coarse.append(len(fields))
        fields += views
        fine.append(len(fields) - 1)
        start += sum(view.size for view in views)
    return Codes(fields=tuple(fields), coarse=tuple(coarse), fine=tuple(fine))


def _number(kind: str, name: str, start: int, cuts: NDArray[np.float64]) -> NumberField:
    return NumberField.model_validate({"kind": kind, "name": name, "start": start, "cuts": cuts.tolist()})


def grid_cuts(column: DeclaredRange) -> NDArray[np.float64]:
    """The cuts between a range's cells, ascending: [v, v + 1) for each of at most NARROW whole numbers v; else even
    ones, and geometric ones from the low end."""
    low, high = column.low, column.high
    if column.whole and high - low < NARROW:
        return np.arange(low + 1, high + 1)
    shares = np.union1d(np.linspace(0, 1, NARROW // 2 + 1)[1:-1], geometric_shares())
    cuts = low * (1 - shares) + high * shares  # the difference of two finite numbers may be infinite
    if column.kind == "date" and not column.whole:
        cuts = np.ceil(cuts * DAY) / DAY  # moments are whole microseconds, and a cell without any would have no value
    cuts = np.unique(np.ceil(cuts) if column.whole else cuts)
    return cuts[(cuts > low) & (cuts <= high)]


@lru_cache(maxsize=1)
def geometric_shares() -> tuple[float, ...]:
    """NARROW / 2 geometric cuts between CLOSEST and 1, by decimal arithmetic: NumPy's powers differ between processors,
    and verification computes the grid again."""
    with localcontext(prec=40):
        nats = Decimal(str(CLOSEST)).ln() / (NARROW // 2)
        return tuple(float((nats * left).exp()) for left in range(NARROW // 2, 0, -1))


def wide_places(cells: int) -> NDArray[np.int64]:
    """Which of the cuts between so many narrow cells are cuts of the wide view, too."""
    wide = np.arange(cells) * WIDE // cells
    return np.flatnonzero(wide[1:] != wide[:-1])


def outside_of_schema(step: Mapping[str, Any]) -> tuple[str, ...]:
    """Sentences on columns that do not fit the schema, from the first released step of a sketch: post-processing.

    A column does not fit if more than OUTSIDE of its units are in no declared category, or in the last one of many
    cells of a range; or if more than MUCH, or MOST, and twice an even share are in the first or the last cell of any
    range, which hold all numbers beyond it; or if more than MUCH is missing.
    """
    schema = TableSchema.model_validate(step["schema"])
    grid, sentences = grid_of(schema), list[str]()
    for field in (grid.fields[at] for at in grid.fine):
        counts = np.array(step["sums"][field.start : field.start + field.size]) / step["question"]["steps"]
        noise = step["scale"] / step["question"]["steps"] / max(1.0, step["units"])
        places = {"is missing, or not written as declared": (-1, MUCH)}
        if isinstance(field, WordField) and field.name not in schema.hashed:
            places["is no declared category"] = (-2, OUTSIDE)
        elif isinstance(field, NumberField) and field.kind != "boolean":
            single = field.kind == "numeric" and bool((np.diff(field.cuts) == 1).all())
            end = max(MOST if single else MUCH, 2 / (field.size - 1))
            places["lies in the first cell of its range, or below"] = (0, end)
            last = OUTSIDE if field.size > NARROW // 2 else end
            places["lies in the last cell of its range, or beyond"] = (-2, last)
        for where, (at, most) in places.items():
            if (share := counts[at] / max(1.0, step["units"])) > most + 3 * noise:
                sentences.append(f"about {min(1.0, share):.0%} of {field.name!r} {where}: data.schema may be wrong")
    return tuple(sentences)


def with_tables(grid: Codes, groups: Sequence[NDArray[np.int64]]) -> Codes:
    """The grid and a field for each pair of its columns, by groups of their narrow cells.

    groups   by column, the group of each narrow cell (cells,), from 0
    """
    by_field = {at: tuple(group.tolist()) for at, group in zip(grid.fine, groups, strict=True)}
    return grid.with_pairs(by_field, combinations(grid.fine, 2))


def recoded(rows: CodeMatrix, grid: Codes, codes: Codes) -> CodeMatrix:
    """The codes (rows, F) of rows by their grid cells (rows, grid's fields): of the grid's pairs, or of other codes,
    whose cuts are cuts of the grid and whose words are words of it."""
    if codes.pairs:
        return codes.completed(rows)
    narrow = {grid.fields[at].name: at for at in grid.fine}
    regrouped = np.empty((len(rows), codes.width), np.int32, order="F")
    for at, field in enumerate(codes.fields):
        place = narrow[field.name]
        code_of_cell = (groups_of(grid.fields[place], field) + field.start).astype(np.int32)
        regrouped[:, at] = code_of_cell[rows[:, place] - grid.fields[place].start]
    return regrouped


def groups_of(narrow: CodedField, field: CodedField) -> NDArray[np.int64]:
    """The code of `field`, from 0, for each narrow cell of the same column (cells,): the one map by which tables of two
    columns, tables of labels and synthetic rows group cells. An undeclared word is a missing cell, as it is to the
    student, which knows declared words alone.

    Raises ValueError if one of its cuts or words is not in the grid.
    """
    if isinstance(narrow, NumberField) and isinstance(field, NumberField):
        if not set(field.cuts) <= set(narrow.cuts):
            raise ValueError(f"the cuts of {field.name!r} must be cuts of the grid")
        return coarser(narrow, field)
    if not (isinstance(narrow, WordField) and isinstance(field, WordField) and set(field.words) <= set(narrow.words)):
        raise ValueError(f"the words of {field.name!r} must be declared words")
    places = {word: at for at, word in enumerate(field.words)}
    missing = field.size - 1
    return np.array([*(places.get(word, missing - 1) for word in narrow.words), missing, missing])


def values_in(schema: TableSchema, grid: Codes, cells: CodeMatrix, seed: bytes) -> pl.DataFrame:
    """A table with a value in each cell (rows, the grid's fields), drawn evenly within it; null if it is missing."""
    source = np.random.default_rng([1, *hashlib.sha256(seed).digest()])
    declared = {column.name: column for column in schema.columns}
    values = dict[str, pl.Series]()
    for at in grid.fine:
        field, column = grid.fields[at], declared[grid.fields[at].name]
        places = cells[:, at].astype(np.int64) - field.start
        if isinstance(field, WordField):
            words = [*field.words, apart_from(field.words, UNDECLARED), None]
            values[field.name] = pl.Series(words, dtype=pl.String)[places]
        elif isinstance(field, NumberField):
            values[field.name] = _numbers(column, field, places, source)
    return pl.DataFrame(values)


def apart_from(words: Sequence[str], name: str) -> str:
    """The name, with as many stars behind it as tell it from all of these words."""
    while name in words:
        name += "*"
    return name


def label_points(rows: int, seed: bytes) -> NDArray[np.float64]:
    """For each synthetic row a number in [0, 1): its label is the first class up to which probabilities add to more."""
    return np.random.default_rng([2, *hashlib.sha256(seed).digest()]).random(rows)


def probability_name(label: str, features: Sequence[str]) -> str:
    """The name of the column beside the drawn label that has its probability."""
    return apart_from(features, f"probability of this {label}")


def _numbers(column: Any, field: NumberField, places: NDArray[np.int64], source: np.random.Generator) -> pl.Series:
    """A value in each cell of a number, truth value or date."""
    missing = places == len(field.cuts) + 1
    if not isinstance(column, DeclaredRange):
        return pl.Series(places == 1).set(pl.Series(missing), None)
    unit = DAY if column.kind == "date" and not column.whole else 1
    edges = np.array([column.low, *field.cuts, column.high + column.whole, np.inf])
    edges = np.rint(edges * unit) if unit > 1 else edges  # cuts of moments are whole microseconds
    low, high = edges[places], np.where(missing, np.inf, edges[np.minimum(places + 1, len(edges) - 1)])
    with np.errstate(invalid="ignore"):
        value = low + source.random(len(places)) * (high - low)
    if column.whole or unit > 1:
        value = np.minimum(np.floor(value), np.ceil(high) - 1)
        value = np.maximum(value, np.ceil(low))
    else:
        last = places == len(field.cuts)
        value = np.where(last, np.minimum(value, high), np.minimum(value, np.nextafter(high, -np.inf)))
    values = pl.Series(np.where(missing, 0, value)).set(pl.Series(missing), None)
    if column.kind == "numeric":
        return values.cast(pl.Int64) if column.whole else values
    whole = values.cast(pl.Int64)
    return whole.cast(pl.Datetime("us")) if unit > 1 else whole.cast(pl.Int32).cast(pl.Date)


def stand_ins(schema: TableSchema) -> pl.DataFrame:
    """Rows drawn from the schema alone, each cell of a column about as often as another: what a plan is tried on before
    synthetic rows are released."""
    grid = grid_of(schema)
    cells = np.empty((STAND_INS, grid.width), np.int32, order="F")
    for at, field in enumerate(grid.fields):  # odd strides, so that all combinations of columns occur
        cells[:, at] = np.arange(STAND_INS) * (2 * at + 1) // (1 + at % 3) % field.size + field.start
    return values_in(schema, grid, cells, schema.digest.encode())
