"""Synthetic labels of lists follow how the lists lie apart."""

import numpy as np
import polars as pl
import pytest

from tests import world

GROUPS, ROWS, CELLS = 3, 600, 60


def test_lists_near_each_other_have_the_same_strong_label_and_like_typical_ones() -> None:
    draw = np.random.default_rng(1)
    group = draw.integers(GROUPS, size=ROWS)
    lists = np.eye(GROUPS, 8)[group] * 8 + draw.normal(size=(ROWS, 8))
    frame = pl.DataFrame({"list": pl.Series(lists, dtype=pl.Array(pl.Float32, 8))})
    codes = world.learn_codes([frame], [world.Passed(name="list", element="float32", size=8)], coarse=8, cells=CELLS)
    rows = codes.of(frame)
    assert len(np.unique(rows)) > 10 * GROUPS  # most cells are parts of a group

    (field,) = codes.fields
    assert isinstance(field, world.VectorField)
    random, points = world.random_logits(codes, rows, GROUPS, draw), field.points
    away = ((points[:, None] - points) ** 2).sum(axis=2) + np.diag(np.full(len(points), np.inf))
    by_cell = np.array([random[rows[:, 0] == cell].mean(axis=0) for cell in range(len(points))])
    apart_from_nearest = ((by_cell - by_cell[away.argmin(axis=1)]) ** 2).mean()
    assert apart_from_nearest < 0.75 * 2 * by_cell.var(axis=0).mean()  # of independent cells it is all of it, about

    (strong,) = world.separated(
        world.principal_components(codes, rows, GROUPS), 0.01 * random, np.full(GROUPS, 1 / GROUPS)
    )
    named = strong.argmax(axis=1)
    assert all(len(np.unique(named[group == each])) == 1 for each in range(GROUPS))
    assert len(np.unique(named)) == GROUPS


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize("distinct", [1, 2])
def test_rows_that_are_alike_have_synthetic_labels_too(classes: int, distinct: int) -> None:
    """As all have if a table holds one list, many times over: labels follow no direction then, and no cluster."""
    lists = np.repeat(np.eye(2, 8)[:distinct], 20, axis=0)
    frame = pl.DataFrame({"list": pl.Series(lists, dtype=pl.Array(pl.Float32, 8))})
    codes = world.learn_codes([frame], [world.Passed(name="list", element="float32", size=8)], coarse=8, cells=CELLS)
    rows, shares = codes.of(frame), np.full(classes, 1 / classes)
    own = world.random_logits(codes, rows, classes, np.random.default_rng(1)) / 10
    tried = world.separated(world.principal_components(codes, rows, classes), own, shares)
    truth = world.clearest(world.with_shares(logits, shares) for logits in tried)
    assert np.allclose(truth.sum(axis=1), 1)
    assert len(np.unique(truth.argmax(axis=1))) == distinct
