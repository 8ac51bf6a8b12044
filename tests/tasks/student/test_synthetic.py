"""Synthetic rows: margins that least squares find, a mixture that has the dependence of tables, groups and codes that
nest, and values that lie in their cells. That any sums give rows: test_sketch_planner.py.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import polars as pl
import pytest

from tests import world
from tests.support.declared import WAGES

# Margins --------------------------------------------------------------------------------------------------------------

WAGE_GRID = world.grid_of(WAGES)
STEPS, COUNT = 1024, 1100


def exact(units: int, seed: int = 3) -> tuple[list[world.Floats], world.Ints]:
    """Counts by column of narrow cells, and the sums of all views with the count."""
    source = np.random.default_rng(seed)
    counts, tables = [], {}
    for wide, narrow in zip(WAGE_GRID.coarse, WAGE_GRID.fine, strict=True):
        size = WAGE_GRID.fields[narrow].size
        own = source.multinomial(units, source.dirichlet(np.full(size, 0.3)))
        counts.append(own.astype(np.float64))
        tables[narrow] = own
        if wide != narrow:
            tables[wide] = np.bincount(world.groups_of(WAGE_GRID.fields[narrow], WAGE_GRID.fields[wide]), own)
    sums = np.concatenate([tables[at] for at in range(WAGE_GRID.width)]) * STEPS
    return counts, np.append(sums, units * COUNT).astype(np.int64)


def of(sums: world.Ints, scale: float) -> world.Margins:
    return world.margins_of(WAGE_GRID, sums, steps=STEPS, scale=scale, count=COUNT)


def test_noise_is_averaged_over_both_views_and_all_totals() -> None:
    counts, sums = exact(30_000)
    noise = np.random.default_rng(4)
    units, wide_errors, plain = [], [], []
    wide, narrow = WAGE_GRID.coarse[0], WAGE_GRID.fine[0]
    groups = world.groups_of(WAGE_GRID.fields[narrow], WAGE_GRID.fields[wide])
    for _ in range(60):
        noisy = sums + np.rint(noise.normal(0, 50 * STEPS, len(sums))).astype(np.int64)
        found = of(noisy, 50 * STEPS)
        units.append(found.units)
        wide_errors.append(np.bincount(groups, found.counts[0] - counts[0]))
        plain.append(noisy[WAGE_GRID.span(wide)] / STEPS - np.bincount(groups, counts[0]))
    assert abs(np.mean(units) - 30_000) < 4 * 50 / np.sqrt(60)
    assert np.std(units) < 50  # better than the count alone
    assert np.square(wide_errors).mean() < np.square(plain).mean()
    assert found.noise == 50


def wide_range(own: world.Floats) -> tuple[world.Codes, world.Ints, world.Floats]:
    """The grid of a range that is twenty times too wide, exact sums of all its views, and its cells' middles."""
    column = world.DeclaredRange(kind="numeric", name="x", low=0, high=20 * 16_000, whole=False)
    grid = world.grid_of(world.TableSchema(columns=(column,), undeclared=()))
    wide, narrow = grid.fields[grid.coarse[0]], grid.fields[grid.fine[0]]
    assert isinstance(narrow, world.NumberField)
    counts = np.bincount(np.searchsorted(narrow.cuts, own, side="right"), minlength=narrow.size)
    sums = np.concatenate([np.bincount(world.coarser(narrow, wide), counts), counts]) * STEPS
    edges = np.array([0, *narrow.cuts, column.high])
    return grid, np.append(sums, len(own) * COUNT), (edges[1:] + edges[:-1]) / 2


def released(grid: world.Codes, sums: world.Ints, noise: float, source: np.random.Generator) -> world.Floats:
    """Counts of the cells of a column, without missing ones."""
    noisy = sums + np.rint(source.normal(0, noise * STEPS, len(sums))).astype(np.int64)
    return world.margins_of(grid, noisy, steps=STEPS, scale=noise * STEPS, count=COUNT).counts[0][:-1]


@pytest.mark.parametrize("shape", ["normal", "gamma", "lognormal"])
def test_a_range_that_is_much_too_wide_puts_nobody_where_nobody_is(shape: str) -> None:
    """Noise is that of five columns at ε = 1; its median counts, of deviation, median and 95 % quantile."""
    source = np.random.default_rng(1)
    drawn_of = {"normal": (3000, 800), "gamma": (2, 1500), "lognormal": (7.8, 0.6)}
    grid, sums, middles = wide_range(getattr(source, shape)(*drawn_of[shape], 9000).clip(0))

    def said(counts: world.Floats) -> list[float]:
        mean, total = np.average(middles, weights=counts), counts.cumsum() / counts.sum()
        deviation = np.average((middles - mean) ** 2, weights=counts) ** 0.5
        return [deviation, *np.interp([0.5, 0.95], total, middles)]

    found = [said(released(grid, sums, 42, source)) for _ in range(15)]
    assert np.median(found, axis=0) == pytest.approx(said(released(grid, sums, 1e-3, source)), rel=0.1)


def test_many_equal_numbers_stay_in_a_tail() -> None:
    """A heap of 400 units is less than ten deviations of the noise, as tails are; narrow cells are shrunk."""
    source = np.random.default_rng(2)
    grid, sums, _ = wide_range(np.append(source.normal(3000, 800, 8200).clip(1), np.repeat([0.0, 1e9], 400)))
    found = np.array([released(grid, sums, 42, source)[[0, -1]] for _ in range(15)])
    assert (np.median(found, axis=0) > 200).all()


# The mixture ----------------------------------------------------------------------------------------------------------

OF_GROUPS = (4, 3, 5)


def noisy_tables(rows: world.Ints, noise: float, seed: int = 0) -> world.NoisyTables:
    """Noisy noisy_tables of rows (rows, columns) of groups."""
    source = np.random.default_rng(seed)
    pairs = {}
    for one, other in combinations(range(len(OF_GROUPS)), 2):
        counts = np.zeros((OF_GROUPS[one], OF_GROUPS[other]))
        np.add.at(counts, (rows[:, one], rows[:, other]), 1)
        pairs[one, other] = counts + source.normal(0, noise, counts.shape)
    margins = [
        np.maximum(0, np.bincount(rows[:, at], minlength=size) + source.normal(0, noise, size))
        for at, size in enumerate(OF_GROUPS)
    ]
    alike = [np.eye(size) for size in OF_GROUPS]
    return world.NoisyTables(
        float(len(rows)), margins, [max(noise, 0.1)] * 3, pairs, dict.fromkeys(pairs, max(noise, 0.1)), alike
    )


def dependent(rows: int) -> world.Ints:
    """Rows whose second column follows the first, and whose third is drawn by itself."""
    source = np.random.default_rng(1)
    first = source.integers(0, 4, rows)
    second = np.where(source.random(rows) < 0.8, first % 3, source.integers(0, 3, rows))
    return np.column_stack([first, second, source.integers(0, 5, rows)])


def shares_of(found: world.Mixture, one: int, other: int) -> world.Floats:
    return (found.parts[one].T * found.weights) @ found.parts[other]


@pytest.mark.parametrize(("noise", "error"), [(0.0, 0.004), (30.0, 0.01)])
def test_it_has_the_dependence_that_tables_show(noise: float, error: float) -> None:
    rows = dependent(20_000)
    found = world.fitted_mixture(noisy_tables(rows, noise), world.UPDATES)
    truth = np.zeros((4, 3))
    np.add.at(truth, (rows[:, 0], rows[:, 1]), 1 / len(rows))
    independent = np.outer(truth.sum(1), truth.sum(0))
    assert np.abs(shares_of(found, 0, 1) - truth).max() < error < np.abs(independent - truth).max() / 3
    drawn = found.draw(5_000, np.random.default_rng(0))
    counted = np.zeros((4, 3))
    np.add.at(counted, (drawn[:, 0], drawn[:, 1]), 1 / len(drawn))
    assert np.abs(counted - truth).max() < 0.02


# Rows -----------------------------------------------------------------------------------------------------------------


def of_range(name: str, low: float, high: float, *, whole: bool = False, kind: str = "numeric") -> world.DeclaredRange:
    return world.DeclaredRange.model_validate({"kind": kind, "name": name, "low": low, "high": high, "whole": whole})


SCHEMA = world.TableSchema(
    columns=(
        of_range("age", 17, 90, whole=True),
        of_range("wage", -1e3, 1e6),
        of_range("gain", 0, 99_999, whole=True),
        of_range("tiny", 0.1, 0.3),
        of_range("far", 1e12, 1e12 + 1),
        of_range("huge", -1e100, 1e100),
        world.DeclaredTruth(kind="boolean", name="member"),
        of_range("day", -20_000, 20_000, whole=True, kind="date"),
        of_range("moment", 10_000, 20_000, kind="date"),
        world.DeclaredCategories(kind="categorical", name="sex", words=("Female", "Male", "undeclared")),
    ),
    undeclared=(),
)
GRID = world.grid_of(SCHEMA)


SIZES = [GRID.fields[at].size for at in GRID.fine]


def margins(units: float = 30_000, sizes: Sequence[int] = SIZES) -> world.Margins:
    """Skewed counts, with missing cells."""
    source = np.random.default_rng(0)
    return world.Margins(units, 57.0, tuple(units * source.dirichlet(np.full(size, 0.2)) for size in sizes))


EVERY = {
    "skewed": margins(),
    "nothing": world.Margins(1.0, 57.0, tuple(np.full(size, 1 / size) for size in SIZES)),
    "missing cells": world.Margins(
        500.0, 57.0, tuple(np.where(np.arange(size) == size - 1, 500.0, 0.0) for size in SIZES)
    ),
}


@pytest.mark.parametrize("found", EVERY.values(), ids=EVERY)
@pytest.mark.parametrize(("bins", "most"), [(4, 6), (32, 34)])
def test_groups_of_tables_are_few_enough_and_later_codes_nest_in_them(
    found: world.Margins, bins: int, most: int
) -> None:
    coarse = world.table_codes(GRID, found, bins, most)
    assert all(field.size <= most for field in coarse)
    codes = world.label_codes(GRID, found, coarse, bins)
    for at, group in zip(GRID.fine, coarse, strict=True):
        own = [field for field in codes.fields if field.name == group.name]
        assert all(len(world.groups_of(GRID.fields[at], field)) == GRID.fields[at].size for field in own)
        cuts = [field.cuts for field in (group, *own) if isinstance(field, world.NumberField)]
        assert cuts[:1] == cuts[1:2]
        assert {*cuts[0]} <= {*cuts[-1]} if cuts else True
    assert sum(codes.fields[at].size for at in codes.fine) <= world.MOST_CODES
    assert bins >= world.FINER_FROM or codes.coarse != codes.fine


def test_frequent_cells_and_words_are_groups_of_their_own() -> None:
    found = margins()
    age, sex = np.full(GRID.fields[GRID.fine[0]].size, 100.0), np.array([20_000.0, 9_500, 100, 300, 100])
    age[5] = 15_000.0
    counts = (age, *found.counts[1:-1], sex)
    coarse = world.table_codes(GRID, world.Margins(30_000, 57.0, counts), 8, 34)
    first, last = coarse[0], coarse[-1]
    assert isinstance(first, world.NumberField)
    assert {22.0, 23.0} <= {*first.cuts}
    assert isinstance(last, world.WordField)
    assert last.words == ("Female", "Male")


def test_more_units_or_less_noise_give_finer_tables() -> None:
    assert world.bins_of(margins(30_000), 65.0) == 21
    assert world.bins_of(margins(30_000), 535.0) == 7
    assert world.bins_of(margins(1), 1e9) == 4
    assert world.bins_of(margins(1e12), 1.0) == 32


def rows(
    found: world.Margins, coarse: tuple[world.CodedField, ...], *, pairs: bool = True, noise: float = 65.0
) -> np.ndarray:
    source = np.random.default_rng(1)
    sizes = [field.size for field in coarse]
    tables = [source.normal(0, noise, (one, other)) for at, one in enumerate(sizes) for other in sizes[at + 1 :]]
    return world.synthetic_cells(GRID, found, coarse, world.TwoWay(tables if pairs else [], noise), b"sums")


@pytest.mark.parametrize("found", EVERY.values(), ids=EVERY)
@pytest.mark.parametrize("pairs", [True, False])
def test_values_lie_in_their_cells_and_any_sums_give_rows(found: world.Margins, pairs: bool) -> None:
    cells = rows(found, world.table_codes(GRID, found, 4, 6), pairs=pairs)
    assert cells.shape == (world.ROWS, GRID.width)
    table = world.values_in(SCHEMA, GRID, cells, b"sums")
    assert table.columns == [field.name for field in (GRID.fields[at] for at in GRID.fine)]
    again = GRID.of_raw(table, world.reading_columns(SCHEMA)).astype(np.int32)
    for at, field in enumerate(GRID.fields):
        assert (again[:, at] == cells[:, at]).all(), field.name
    for column in SCHEMA.columns:
        if isinstance(column, world.DeclaredRange) and column.kind == "numeric":
            values = table[column.name].drop_nulls()
            assert values.is_between(column.low, column.high).all()
            assert values.dtype == (pl.Int64 if column.whole else pl.Float64)
    assert table["day"].dtype == pl.Date
    assert table["moment"].dtype == pl.Datetime("us")
    assert table["member"].dtype == pl.Boolean
    assert set(table["sex"].drop_nulls().unique()) <= {"Female", "Male", "undeclared", "undeclared*"}


def test_rows_have_the_margins_and_follow_from_the_sums_alone() -> None:
    found = margins()
    coarse = world.table_codes(GRID, found, 22, 34)
    cells = rows(found, coarse, pairs=False)
    for at, counts in zip(GRID.fine, found.counts, strict=True):
        own = np.bincount(cells[:, at] - GRID.fields[at].start, minlength=len(counts)) / world.ROWS
        assert np.abs(own - counts / found.units).max() < 0.002
    assert (cells == rows(found, coarse, pairs=False)).all()
    other = world.synthetic_cells(GRID, found, coarse, world.TwoWay([], 65.0), b"other sums")
    assert (cells != other).any()
    assert world.values_in(SCHEMA, GRID, cells, b"sums").equals(world.values_in(SCHEMA, GRID, cells, b"sums"))


def test_columns_that_depend_on_each_other_within_a_class_do_so_in_rows() -> None:
    """Each class has a quarter of the units in each column's order, and tables of two columns say nothing."""
    grid, classes = world.grid_of(world.TableSchema(columns=SCHEMA.columns[:2], undeclared=())), 4
    found = margins(sizes=[grid.fields[at].size for at in grid.fine])
    coarse, of_class, labels = world.table_codes(grid, found, 22, 34), list[np.ndarray](), list[np.ndarray]()
    for at, counts, field in zip(grid.fine, found.counts, coarse, strict=True):
        groups = world.groups_of(grid.fields[at], field)
        own = np.bincount(groups, counts, field.size)
        quarter = np.minimum((np.cumsum(own) - own / 2) / own.sum() * classes, classes - 1).astype(int)
        labels.append(own[:, None] * np.eye(classes)[quarter])
        of_class.append(quarter[groups])
    pairs = [np.zeros((coarse[0].size, coarse[1].size))]

    def agreeing(tables: world.TwoWay) -> float:
        cells = world.synthetic_cells(grid, found, coarse, tables, b"sums")
        first, second = (own[cells[:, at] - grid.fields[at].start] for own, at in zip(of_class, grid.fine, strict=True))
        return float((first == second).mean())

    assert agreeing(world.TwoWay(pairs, 1e6)) < 0.4
    assert agreeing(world.TwoWay(pairs, 1e6, labels, 1.0)) > 0.5
