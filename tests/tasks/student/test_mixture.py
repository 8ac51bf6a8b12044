"""Mixture: it finds dependence that tables show, and resists noise. Any tables give one: test_sketch_planner.py."""

from itertools import combinations

import numpy as np
import pytest

from tests.world import UPDATES, Floats, Ints, Mixture, NoisyTables, fitted_mixture

SIZES = (4, 3, 5)


def tables(rows: Ints, noise: float, seed: int = 0) -> NoisyTables:
    """Noisy tables of rows (rows, columns) of groups."""
    source = np.random.default_rng(seed)
    pairs = {}
    for one, other in combinations(range(len(SIZES)), 2):
        counts = np.zeros((SIZES[one], SIZES[other]))
        np.add.at(counts, (rows[:, one], rows[:, other]), 1)
        pairs[one, other] = counts + source.normal(0, noise, counts.shape)
    margins = [
        np.maximum(0, np.bincount(rows[:, at], minlength=size) + source.normal(0, noise, size))
        for at, size in enumerate(SIZES)
    ]
    alike = [np.eye(size) for size in SIZES]
    return NoisyTables(
        float(len(rows)), margins, [max(noise, 0.1)] * 3, pairs, dict.fromkeys(pairs, max(noise, 0.1)), alike
    )


def dependent(rows: int) -> Ints:
    """Rows whose second column follows the first, and whose third is drawn by itself."""
    source = np.random.default_rng(1)
    first = source.integers(0, 4, rows)
    second = np.where(source.random(rows) < 0.8, first % 3, source.integers(0, 3, rows))
    return np.column_stack([first, second, source.integers(0, 5, rows)])


def shares(found: Mixture, one: int, other: int) -> Floats:
    return (found.parts[one].T * found.weights) @ found.parts[other]


@pytest.mark.parametrize(("noise", "error"), [(0.0, 0.004), (30.0, 0.01)])
def test_it_has_the_dependence_that_tables_show(noise: float, error: float) -> None:
    rows = dependent(20_000)
    found = fitted_mixture(tables(rows, noise), UPDATES)
    truth = np.zeros((4, 3))
    np.add.at(truth, (rows[:, 0], rows[:, 1]), 1 / len(rows))
    independent = np.outer(truth.sum(1), truth.sum(0))
    assert np.abs(shares(found, 0, 1) - truth).max() < error < np.abs(independent - truth).max() / 3
    drawn = found.draw(5_000, np.random.default_rng(0))
    counted = np.zeros((4, 3))
    np.add.at(counted, (drawn[:, 0], drawn[:, 1]), 1 / len(drawn))
    assert np.abs(counted - truth).max() < 0.02


def test_updates_lower_the_misfit() -> None:
    given = tables(dependent(5_000), 5.0)

    def misfit(found: Mixture) -> float:
        return float(sum(((given.units * shares(found, *at) - table) ** 2).sum() for at, table in given.pairs.items()))

    few, more, many = (misfit(fitted_mixture(given, updates)) for updates in (1, 60, 600))
    assert many < more < few / 5
