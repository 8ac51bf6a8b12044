"""The class of hypotheses that a plan names: its columns and its public cut points."""

from pathlib import Path

import numpy as np
import pytest

from tests import world
from tests.support.people import changed, tables_of_plan, write_tables


@pytest.fixture
def staged(tmp_path: Path) -> tuple[world.Encoding, tuple[world.PublicBatch, ...], world.Vault]:
    plan = changed(tables_of_plan(write_tables(tmp_path / "data")))
    encoding, vault = world.learn_encoding(plan), world.Vault(tmp_path / "vault")
    return encoding, world.stage_public(plan.path("public"), encoding, vault, "public", 128), vault


Staged = tuple[world.Encoding, tuple[world.PublicBatch, ...], world.Vault]


def space(staged: Staged, name: str, *features: str) -> world.HypothesisClass:
    plan = world.HypothesesPlan(hypotheses=name, features=features or None)
    encoding, batches, vault = staged
    return world.hypothesis_space(plan, encoding, world.public_matrix(batches, encoding, vault), "student")


def test_stumps_look_at_every_column_or_those_that_are_named_and_need_no_cut_points(staged: Staged) -> None:
    stumps, named = space(staged, "stumps"), space(staged, "stumps", "shade=light", "shade=dark")
    assert (stumps.columns, stumps.grid) == (tuple(range(staged[0].width)), None)
    assert [staged[0].outputs[at] for at in named.columns] == ["shade=light", "shade=dark"]


def test_how_many_hypotheses_may_relabel_private_rows_follows_from_public_ones(staged: Staged) -> None:
    """Without cut points the number of stumps is that of the rows: it would tell, by time or by a refusal."""
    tables = tables_of_plan(Path("data"))
    for name, features in (("stumps", ["size"]), ("stumps", None), ("rectangles", ["size", "visits"])):
        asked = world.parse_plan({**tables, "relabel": {"hypotheses": name, "features": features}})
        relabels = world.candidates(asked, *staged)
        assert relabels is not None
        assert relabels.bound is not None


def test_cut_points_are_public_quantiles(staged: Staged) -> None:
    squares = space(staged, "rectangles", "size", "visits")
    X = world.public_matrix(staged[1], *staged[::2])[:, squares.columns]
    assert squares.grid is not None
    for column, points in zip(X.T, squares.grid, strict=True):
        assert len(points) <= world.CUTS
        assert points[0] == column.min()
        assert set(points) <= set(column.astype(float))
    share = np.mean(X[:, 0] < squares.grid[0][world.CUTS // 2])
    assert share == pytest.approx(0.5, abs=0.02)
    few = {(0.0, 0.0, 0.0, 0.0, 1.0): [0.0, 1.0], (1.0, 1.0, 1.0, 2.0, 3.0): [1.0]}  # however rare; equal ones once
    assert [world.cut_points(np.array(numbers, dtype=np.float32)[:, None], 2) for numbers in few] == [
        [cuts] for cuts in few.values()
    ]
