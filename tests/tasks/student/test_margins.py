"""Margins: least squares, totals and the simplex. That any numbers give a result: test_sketch_planner.py."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import nnls

from tests.support.declared import WAGES
from tests.world import (
    Codes,
    DeclaredRange,
    Floats,
    Ints,
    Margins,
    NumberField,
    TableSchema,
    coarser,
    drawn,
    grid_of,
    groups_of,
    margins_of,
    nearest_margins,
)

GRID = grid_of(WAGES)
STEPS, COUNT = 1024, 1100


def exact(units: int, seed: int = 3) -> tuple[list[Floats], Ints]:
    """Counts by column of narrow cells, and the sums of all views with the count."""
    source = np.random.default_rng(seed)
    counts, tables = [], {}
    for wide, narrow in zip(GRID.coarse, GRID.fine, strict=True):
        size = GRID.fields[narrow].size
        own = source.multinomial(units, source.dirichlet(np.full(size, 0.3)))
        counts.append(own.astype(np.float64))
        tables[narrow] = own
        if wide != narrow:
            tables[wide] = np.bincount(groups_of(GRID.fields[narrow], GRID.fields[wide]), own)
    sums = np.concatenate([tables[at] for at in range(GRID.width)]) * STEPS
    return counts, np.append(sums, units * COUNT).astype(np.int64)


def of(sums: Ints, scale: float) -> Margins:
    return margins_of(GRID, sums, steps=STEPS, scale=scale, count=COUNT)


def test_without_noise_margins_are_the_counts() -> None:
    counts, sums = exact(30_000)
    found = of(sums, 1e-3)
    assert found.units == pytest.approx(30_000)
    for own, estimated in zip(counts, found.counts, strict=True):
        assert estimated == pytest.approx(own, abs=1e-3)


def test_noise_is_averaged_over_both_views_and_all_totals() -> None:
    counts, sums = exact(30_000)
    noise = np.random.default_rng(4)
    units, wide_errors, plain = [], [], []
    wide, narrow = GRID.coarse[0], GRID.fine[0]
    groups = groups_of(GRID.fields[narrow], GRID.fields[wide])
    for _ in range(60):
        noisy = sums + np.rint(noise.normal(0, 50 * STEPS, len(sums))).astype(np.int64)
        found = of(noisy, 50 * STEPS)
        units.append(found.units)
        wide_errors.append(np.bincount(groups, found.counts[0] - counts[0]))
        plain.append(noisy[GRID.span(wide)] / STEPS - np.bincount(groups, counts[0]))
    assert abs(np.mean(units) - 30_000) < 4 * 50 / np.sqrt(60)
    assert np.std(units) < 50  # better than the count alone
    assert np.square(wide_errors).mean() < np.square(plain).mean()
    assert found.noise == 50


def wide_range(own: Floats) -> tuple[Codes, Ints, Floats]:
    """The grid of a range that is twenty times too wide, exact sums of all its views, and its cells' middles."""
    column = DeclaredRange(kind="numeric", name="x", low=0, high=20 * 16_000, whole=False)
    grid = grid_of(TableSchema(columns=(column,), undeclared=()))
    wide, narrow = grid.fields[grid.coarse[0]], grid.fields[grid.fine[0]]
    assert isinstance(narrow, NumberField)
    counts = np.bincount(np.searchsorted(narrow.cuts, own, side="right"), minlength=narrow.size)
    sums = np.concatenate([np.bincount(coarser(narrow, wide), counts), counts]) * STEPS
    edges = np.array([0, *narrow.cuts, column.high])
    return grid, np.append(sums, len(own) * COUNT), (edges[1:] + edges[:-1]) / 2


def released(grid: Codes, sums: Ints, noise: float, source: np.random.Generator) -> Floats:
    """Counts of the cells of a column, without missing ones."""
    noisy = sums + np.rint(source.normal(0, noise * STEPS, len(sums))).astype(np.int64)
    return margins_of(grid, noisy, steps=STEPS, scale=noise * STEPS, count=COUNT).counts[0][:-1]


@pytest.mark.parametrize("shape", ["normal", "gamma", "lognormal"])
def test_a_range_that_is_much_too_wide_puts_nobody_where_nobody_is(shape: str) -> None:
    """Noise is that of five columns at ε = 1; its median counts, of deviation, median and 95 % quantile."""
    source = np.random.default_rng(1)
    drawn_of = {"normal": (3000, 800), "gamma": (2, 1500), "lognormal": (7.8, 0.6)}
    grid, sums, middles = wide_range(getattr(source, shape)(*drawn_of[shape], 9000).clip(0))

    def said(counts: Floats) -> list[float]:
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


@pytest.mark.parametrize("total", [0.5, 3.0, 100.0])
def test_the_nearest_counts_without_a_negative_part_are_found(total: float) -> None:
    source = np.random.default_rng(1)
    for _ in range(20):
        counts = source.normal(0, 5, 6)
        heavy = 1e5  # holds the total in a least-squares problem without negative parts
        rows, wanted = np.vstack([np.eye(6), np.full(6, heavy)]), np.append(counts, heavy * total)
        assert nearest_margins(counts, total) == pytest.approx(nnls(rows, wanted)[0], abs=1e-4)


def test_drawn_places_are_as_frequent_as_their_shares_to_within_one() -> None:
    source = np.random.default_rng(2)
    for weights, size in product(([1.0, 2, 0, 7], [0.0, 0, 0], [1e-300, 1]), (0, 1, 7, 1000)):
        found = drawn(np.array(weights), size, source)
        shares = np.array(weights) if sum(weights) else np.ones(len(weights))
        assert (
            np.abs(np.bincount(found, minlength=len(weights)) - size * shares / shares.sum()).max(initial=0) < 1 + 1e-9
        )
