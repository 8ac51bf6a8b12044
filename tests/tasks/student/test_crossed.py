"""Cross tables of public rows, and the sample they are of: by its codes alone, in any order."""

import numpy as np
import polars as pl
import pytest

from tests.support.coded import CODES, one_hot, rows_of
from tests.world import CodeMatrix, CrossedRows, digests, sampled_of, sampled_pairs, student_crossed


def shuffled(rows: CodeMatrix, seed: int) -> CodeMatrix:
    found: CodeMatrix = rows[np.random.default_rng(seed).permutation(len(rows))]
    return found


def cells_of(rows: CodeMatrix) -> pl.DataFrame:
    """Cells that have these codes."""
    cities, teams = np.array(["Rome", "Oslo", "Lima", "Bern"]), np.array(["a", "b"])
    cells = {"age": rows[:, 1] - 5.0, "city": cities[rows[:, 2] - 14], "team": teams[rows[:, 3] - 19]}
    return pl.DataFrame(cells, schema={"age": pl.Float64, "city": pl.String, "team": pl.String})


def test_tables_are_those_of_one_hot_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of rows add up."""
    monkeypatch.setattr(student_crossed, "CHUNK", 7)
    crossed, rows = CrossedRows.of(rows_of(500, 0), CODES)
    hot, values = one_hot(rows), np.random.default_rng(1).normal(size=(3, len(rows)))
    assert len(rows) < 500 == crossed.counts.sum()
    for value, table in zip(values, crossed.tables(list(values)), strict=True):
        weighed = crossed.counts * value
        assert np.allclose(table, hot.T @ (weighed[:, None] * hot))
        assert np.allclose(crossed.totals(value), hot.T @ weighed)
    weights = np.random.default_rng(2).normal(size=crossed.size)
    assert np.allclose(crossed.logits(weights), hot @ weights)


@pytest.mark.parametrize("most", [1, 999, 5000])
def test_a_sample_follows_from_the_rows_and_not_from_their_order(most: int) -> None:
    rows = rows_of(1000, 0)
    found = sampled_pairs(rows, CODES, most)
    assert len(found) == min(most, 1000)
    for seed in range(3):
        other = shuffled(rows, seed)
        assert np.array_equal(sampled_pairs(other, CODES, most), found)
        frames = [cells_of(part) for part in np.array_split(other, [0, 3, 400])]
        assert np.array_equal(sampled_of(frames.copy, CODES, most), found)
    assert np.array_equal(sampled_pairs(found, CODES, most), found)


def test_rows_are_in_the_sample_as_often_as_among_all() -> None:
    rows = np.concatenate([rows_of(900, 0), np.tile(rows_of(1, 5), (900, 1))])
    kinds, counts = np.unique(rows, axis=0, return_counts=True)
    found = sampled_pairs(rows, CODES, 300)
    for kind, count in zip(kinds, counts, strict=True):
        assert abs(int((found == kind).all(axis=1).sum()) - count / 6) <= 1


def test_digests_tell_different_rows_apart() -> None:
    rows = rows_of(2000, 0)
    assert len(np.unique(digests(rows, CODES))) == len(np.unique(rows, axis=0))
