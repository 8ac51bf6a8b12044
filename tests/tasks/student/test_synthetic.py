"""Synthetic rows: groups and codes that nest, values that lie in their cells, and a result whatever was released."""

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from tests.world import (
    FINER_FROM,
    MOST_CODES,
    ROWS,
    CodedField,
    DeclaredCategories,
    DeclaredRange,
    DeclaredTruth,
    Margins,
    NumberField,
    TableSchema,
    TwoWay,
    WordField,
    bins_of,
    grid_of,
    groups_of,
    label_codes,
    reading_columns,
    synthetic_cells,
    table_codes,
    values_in,
)


def of_range(name: str, low: float, high: float, *, whole: bool = False, kind: str = "numeric") -> DeclaredRange:
    return DeclaredRange.model_validate({"kind": kind, "name": name, "low": low, "high": high, "whole": whole})


SCHEMA = TableSchema(
    columns=(
        of_range("age", 17, 90, whole=True),
        of_range("wage", -1e3, 1e6),
        of_range("gain", 0, 99_999, whole=True),
        of_range("tiny", 0.1, 0.3),
        of_range("far", 1e12, 1e12 + 1),
        of_range("huge", -1e100, 1e100),
        DeclaredTruth(kind="boolean", name="member"),
        of_range("day", -20_000, 20_000, whole=True, kind="date"),
        of_range("moment", 10_000, 20_000, kind="date"),
        DeclaredCategories(kind="categorical", name="sex", words=("Female", "Male", "undeclared")),
    ),
    undeclared=(),
)
GRID = grid_of(SCHEMA)


SIZES = [GRID.fields[at].size for at in GRID.fine]


def margins(units: float = 30_000, sizes: Sequence[int] = SIZES) -> Margins:
    """Skewed counts, with missing cells."""
    source = np.random.default_rng(0)
    return Margins(units, 57.0, tuple(units * source.dirichlet(np.full(size, 0.2)) for size in sizes))


EVERY = {
    "skewed": margins(),
    "nothing": Margins(1.0, 57.0, tuple(np.full(size, 1 / size) for size in SIZES)),
    "missing cells": Margins(500.0, 57.0, tuple(np.where(np.arange(size) == size - 1, 500.0, 0.0) for size in SIZES)),
}


@pytest.mark.parametrize("found", EVERY.values(), ids=EVERY)
@pytest.mark.parametrize(("bins", "most"), [(4, 6), (32, 34)])
def test_groups_of_tables_are_few_enough_and_later_codes_nest_in_them(found: Margins, bins: int, most: int) -> None:
    coarse = table_codes(GRID, found, bins, most)
    assert all(field.size <= most for field in coarse)
    codes = label_codes(GRID, found, coarse, bins)
    for at, group in zip(GRID.fine, coarse, strict=True):
        own = [field for field in codes.fields if field.name == group.name]
        assert all(len(groups_of(GRID.fields[at], field)) == GRID.fields[at].size for field in own)
        cuts = [field.cuts for field in (group, *own) if isinstance(field, NumberField)]
        assert cuts[:1] == cuts[1:2]
        assert {*cuts[0]} <= {*cuts[-1]} if cuts else True
    assert sum(codes.fields[at].size for at in codes.fine) <= MOST_CODES
    assert bins >= FINER_FROM or codes.coarse != codes.fine


def test_frequent_cells_and_words_are_groups_of_their_own() -> None:
    found = margins()
    age, sex = np.full(GRID.fields[GRID.fine[0]].size, 100.0), np.array([20_000.0, 9_500, 100, 300, 100])
    age[5] = 15_000.0
    counts = (age, *found.counts[1:-1], sex)
    coarse = table_codes(GRID, Margins(30_000, 57.0, counts), 8, 34)
    first, last = coarse[0], coarse[-1]
    assert isinstance(first, NumberField)
    assert {22.0, 23.0} <= {*first.cuts}
    assert isinstance(last, WordField)
    assert last.words == ("Female", "Male")


def test_more_units_or_less_noise_give_finer_tables() -> None:
    assert bins_of(margins(30_000), 65.0) == 21
    assert bins_of(margins(30_000), 535.0) == 7
    assert bins_of(margins(1), 1e9) == 4
    assert bins_of(margins(1e12), 1.0) == 32


def rows(found: Margins, coarse: tuple[CodedField, ...], *, pairs: bool = True, noise: float = 65.0) -> np.ndarray:
    source = np.random.default_rng(1)
    sizes = [field.size for field in coarse]
    tables = [source.normal(0, noise, (one, other)) for at, one in enumerate(sizes) for other in sizes[at + 1 :]]
    return synthetic_cells(GRID, found, coarse, TwoWay(tables if pairs else [], noise), b"sums")


@pytest.mark.parametrize("found", EVERY.values(), ids=EVERY)
@pytest.mark.parametrize("pairs", [True, False])
def test_values_lie_in_their_cells_and_any_sums_give_rows(found: Margins, pairs: bool) -> None:
    cells = rows(found, table_codes(GRID, found, 4, 6), pairs=pairs)
    assert cells.shape == (ROWS, GRID.width)
    table = values_in(SCHEMA, GRID, cells, b"sums")
    assert table.columns == [field.name for field in (GRID.fields[at] for at in GRID.fine)]
    again = GRID.of_raw(table, reading_columns(SCHEMA)).astype(np.int32)
    for at, field in enumerate(GRID.fields):
        assert (again[:, at] == cells[:, at]).all(), field.name
    for column in SCHEMA.columns:
        if isinstance(column, DeclaredRange) and column.kind == "numeric":
            values = table[column.name].drop_nulls()
            assert values.is_between(column.low, column.high).all()
            assert values.dtype == (pl.Int64 if column.whole else pl.Float64)
    assert table["day"].dtype == pl.Date
    assert table["moment"].dtype == pl.Datetime("us")
    assert table["member"].dtype == pl.Boolean
    assert set(table["sex"].drop_nulls().unique()) <= {"Female", "Male", "undeclared", "undeclared*"}


@pytest.mark.parametrize("days", [1 / 24, 1.0, 365.0])
def test_every_cell_of_moments_has_a_value_in_it(days: float) -> None:
    schema = TableSchema(columns=(of_range("moment", 14_000, 14_000 + days, kind="date"),), undeclared=())
    grid = grid_of(schema)
    wide, narrow = (grid.fields[at] for at in (*grid.coarse, *grid.fine))
    every = np.arange(narrow.size)
    cells = np.column_stack([groups_of(narrow, wide) + wide.start, every + narrow.start]).astype(np.int32)
    read = grid.of_raw(values_in(schema, grid, cells, b"sums"), reading_columns(schema))
    assert (read == cells).all()


def test_rows_have_the_margins_and_follow_from_the_sums_alone() -> None:
    found = margins()
    coarse = table_codes(GRID, found, 22, 34)
    cells = rows(found, coarse, pairs=False)
    for at, counts in zip(GRID.fine, found.counts, strict=True):
        own = np.bincount(cells[:, at] - GRID.fields[at].start, minlength=len(counts)) / ROWS
        assert np.abs(own - counts / found.units).max() < 0.002
    assert (cells == rows(found, coarse, pairs=False)).all()
    other = synthetic_cells(GRID, found, coarse, TwoWay([], 65.0), b"other sums")
    assert (cells != other).any()
    assert values_in(SCHEMA, GRID, cells, b"sums").equals(values_in(SCHEMA, GRID, cells, b"sums"))


def test_columns_that_depend_on_each_other_within_a_class_do_so_in_rows() -> None:
    """Each class has a quarter of the units in each column's order, and tables of two columns say nothing."""
    grid, classes = grid_of(TableSchema(columns=SCHEMA.columns[:2], undeclared=())), 4
    found = margins(sizes=[grid.fields[at].size for at in grid.fine])
    coarse, of_class, labels = table_codes(grid, found, 22, 34), list[np.ndarray](), list[np.ndarray]()
    for at, counts, field in zip(grid.fine, found.counts, coarse, strict=True):
        groups = groups_of(grid.fields[at], field)
        own = np.bincount(groups, counts, field.size)
        quarter = np.minimum((np.cumsum(own) - own / 2) / own.sum() * classes, classes - 1).astype(int)
        labels.append(own[:, None] * np.eye(classes)[quarter])
        of_class.append(quarter[groups])
    pairs = [np.zeros((coarse[0].size, coarse[1].size))]

    def agreeing(tables: TwoWay) -> float:
        cells = synthetic_cells(grid, found, coarse, tables, b"sums")
        first, second = (own[cells[:, at] - grid.fields[at].start] for own, at in zip(of_class, grid.fine, strict=True))
        return float((first == second).mean())

    assert agreeing(TwoWay(pairs, 1e6)) < 0.4
    assert agreeing(TwoWay(pairs, 1e6, labels, 1.0)) > 0.5
