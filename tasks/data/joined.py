"""Joined numbers: all numbers of a row together, as the nearest of public centres, in whole numbers alone.

    the fine code of each number ─ its level: the mean public score of that code ─ the nearest centre

Sums over single columns cannot show what columns say together. Where public rows lie in clusters, sums over the cells
of a few hundred centres can. A score is (number − public mean) / public deviation, at most FARTHEST either way; a level
is a whole number of 1/UNIT of it. A row's cell follows from its codes alone: a row of the public sample that is
repaired gets the cell of its new codes.

Whether public rows cluster is `unclustered`, R: the variance that cells leave on held-out rows, over what cells leave
if each column of the same rows is permuted by itself. It is near 1 for columns that are independent of one another.

Assumes      cells are cast (tasks.data.cells); the sample is public
Guarantees   a row has exactly one cell, whatever its numbers are: a missing one has the level 0, the mean. Distances
             are sums of products of whole numbers, exact in doubles in any order: no row changes another's cell
Not covered  clusters that only words show, or that only few of many columns do. Checked by
             tests/tasks/data/test_joined.py and, alone against in company, by tests/privacy/test_row_alone.py
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field, model_validator

from concord.artifacts.schemas import Column, Frozen, Scaled
from concord.tasks.data.cells import numbers_of
from concord.tasks.data.concord_student import signed_log
from concord.tasks.data.encode import systematic_sample
from concord.tasks.data.vectors import ROWS_AT_A_TIME, SEED, Ints, centres_of, nearest, numbers_in, written

UNIT = 1024
"""Whole steps of a score."""
FARTHEST = 3
"""Largest score, either way: a single odd number must not decide a row's cell."""
LARGEST_LEVEL = FARTHEST * UNIT
LEAST_NUMBERS = 2
"""Fewest columns of numbers that are joined."""
LEAST_ROWS = 200
"""Fewest public rows whose numbers are joined: with fewer, R is a matter of chance."""
ROWS_OF_A_CELL = 4
"""Fewest public rows for each centre."""
MOST_LEARNED = 1 << 14
"""Most public rows that centres are learned from."""
CLUSTERED, COLUMNS_OF_ALL = 0.55, 50
"""Largest R at which the numbers of a table are joined, or 1 − columns/COLUMNS_OF_ALL if that is more: with few columns
little of the budget is taken from each. Of tables below it none lost half a point at ε = .1, 1 or 4, and banana (two
columns, .92) gained 10 to 17; twonorm (20, .88), Adult (14, .88), spambase (57, .70) and ring (20, 1.03) are above
it, and lost .4 to .8 (tests/benchmarks/TRIED.md)."""
TRIED_ROWS, TRIED_CELLS, ROWS_OF_A_TRIED_CELL = 4000, 60, 40
"""Most rows and most cells by which R is measured, and fewest rows for each cell."""
RATIO_IN_WORDS = (
    "R is the variance that cells leave of held-out public rows, divided by what they leave once each column is "
    "permuted by itself"
)

Level = Annotated[int, Field(ge=-LARGEST_LEVEL, le=LARGEST_LEVEL)]


class JoinedField(Frozen):
    """All numbers of a row, by the nearest of `centres`, the first of equals: code start + its number.

    columns  the fine fields of the numbers
    levels   of each of them, the level of each of its codes
    centres  levels (cells, columns), as 16 bits each in base 64
    """

    kind: Literal["joined"] = "joined"
    name: str = "all numbers together"
    start: int
    columns: Annotated[tuple[int, ...], Field(min_length=1)]
    levels: tuple[tuple[Level, ...], ...]
    centres: str

    @model_validator(mode="after")
    def distances_are_exact(self) -> Self:
        """Products of levels and centres must be whole numbers that doubles hold."""
        points = self.points
        if not len(points) or np.abs(points).max() > LARGEST_LEVEL or len(self.levels) != len(self.columns):
            raise ValueError("joined numbers need the levels of each column, and centres among them")
        return self

    @property
    def points(self) -> Ints:
        """The centres (cells, columns)."""
        return numbers_in(self.centres, len(self.columns))

    @property
    def size(self) -> int:
        """Number of codes."""
        return len(self.points)

    def of(self, codes: Sequence[NDArray[np.integer]]) -> NDArray[np.int32]:
        """The code (rows,) of rows, from their code in each of the columns, from 0: (columns, rows)."""
        points, tables = self.points, [np.array(levels, np.int64) for levels in self.levels]
        cells = np.empty(len(codes[0]), np.int64)
        for first in range(0, len(cells), ROWS_AT_A_TIME):
            rows = slice(first, first + ROWS_AT_A_TIME)
            features = np.column_stack([table[code[rows]] for table, code in zip(tables, codes, strict=True)])
            cells[rows] = nearest(features, points)
        return (self.start + cells).astype(np.int32)

    def part(self, columns: Mapping[int, int], start: int, cells: int) -> "JoinedField | None":
        """The field of some columns, by their new numbers, and of the first `cells` centres, which lie far apart; None
        if it has none of the columns."""
        kept = [place for place, at in enumerate(self.columns) if at in columns]
        if not kept:
            return None
        points = self.points[: max(1, cells), kept]
        return JoinedField(
            start=start,
            columns=tuple(columns[self.columns[place]] for place in kept),
            levels=tuple(self.levels[place] for place in kept),
            centres=written(points),
        )


def joinable(columns: Sequence[Column]) -> list[Scaled]:
    """The columns of numbers that are joined: those in which public rows differ; none if there are too few."""
    numbers = [column for column in columns if isinstance(column, Scaled) and column.kind == "numeric"]
    numbers = [column for column in numbers if column.low < column.high]
    return numbers if len(numbers) >= LEAST_NUMBERS else []


def public_scores(sample: pl.DataFrame, columns: Sequence[Scaled]) -> Ints:
    """The scores of cast public rows in whole steps (rows, columns), 0 if missing."""
    scores = np.zeros((sample.height, len(columns)), np.int64)
    for at, column in enumerate(columns):
        numbers = numbers_of(sample[column.name], column.kind)
        there = ~np.isnan(numbers)
        values = signed_log(numbers[there]) if column.log else numbers[there]
        away = np.clip((values - column.mean) / column.scale, -FARTHEST, FARTHEST)
        scores[there, at] = np.rint(UNIT * away).astype(np.int64)
    return scores


def unclustered(sample: pl.DataFrame, columns: Sequence[Column]) -> float | None:
    """R of cast public rows, by a systematic sample of them, rounded to two decimals; None if numbers or rows are too
    few."""
    numbers = joinable(columns)
    if not numbers or sample.height < LEAST_ROWS:
        return None
    draw = np.random.default_rng(SEED)
    tried = draw.permutation(public_scores(systematic_sample(iter([sample]), TRIED_ROWS), numbers))
    permuted = np.column_stack([draw.permutation(column) for column in tried.T])
    there, by_chance = (_left(rows) for rows in (tried, permuted))
    return round(there / max(1, by_chance), 2)


def most_ratio(columns: int) -> float:
    """The largest R at which the numbers of a table of so many columns are joined."""
    return round(max(CLUSTERED, 1 - columns / COLUMNS_OF_ALL), 2)  # as R is: 1 - 16 / 50 is below .68


def clustered(ratio: float | None, columns: int) -> bool:
    """Whether the numbers of a table of so many columns are joined at that R."""
    return ratio is not None and ratio <= most_ratio(columns)


def _left(rows: Ints) -> int:
    """The sum of squares that cells of the first half of the rows leave in the other half."""
    learned, held_out = np.array_split(rows, 2)
    centres = centres_of(learned, min(TRIED_CELLS, len(rows) // ROWS_OF_A_TRIED_CELL))
    return int(((held_out - centres[nearest(held_out, centres)]) ** 2).sum())


def learn_joined(scores: Ints, codes: Sequence[Ints], field: dict[int, int], start: int, most: int) -> JoinedField:
    """The joined field with at most `most` centres.

    scores  of public rows (rows, columns)
    codes   of the same rows in each column, from 0: (columns, rows)
    field   the fine field of each column, and its number of codes
    """
    levels = [_levels(score, code, size) for score, code, size in zip(scores.T, codes, field.values(), strict=True)]
    features = np.column_stack([table[code] for table, code in zip(levels, codes, strict=True)])
    few = features[:: -(-len(features) // MOST_LEARNED)]
    centres = centres_of(few, max(1, min(most, len(features) // ROWS_OF_A_CELL)))
    tables = tuple(tuple(table.tolist()) for table in levels)
    return JoinedField(start=start, columns=tuple(field), levels=tables, centres=written(centres))


def _levels(scores: Ints, codes: Ints, size: int) -> Ints:
    """The mean score of each code (codes,), rounded; 0 of the last, a missing cell, and of codes without rows."""
    sums, rows = np.zeros(size, np.int64), np.maximum(1, np.bincount(codes, minlength=size))
    np.add.at(sums, codes, scores)
    means = (2 * sums + rows) // (2 * rows)
    means[-1] = 0
    return np.asarray(means, np.int64)
