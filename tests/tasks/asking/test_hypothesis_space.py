"""The class of hypotheses a plan names: its columns, its public cut points, and what is refused."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.people import changed, tables_of_plan, write_tables
from tests.world import (
    CUTS,
    Encoding,
    HypothesesPlan,
    HypothesisClass,
    PublicBatch,
    Vault,
    candidates,
    cut_points,
    hypothesis_space,
    learn_encoding,
    parse_plan,
    public_matrix,
    stage_public,
)


@pytest.fixture
def world(tmp_path: Path) -> tuple[Encoding, tuple[PublicBatch, ...], Vault]:
    plan = changed(tables_of_plan(write_tables(tmp_path / "data")))
    encoding, vault = learn_encoding(plan), Vault(tmp_path / "vault")
    return encoding, stage_public(plan.path("public"), encoding, vault, "public", 128), vault


World = tuple[Encoding, tuple[PublicBatch, ...], Vault]


def space(world: World, name: str, *features: str) -> HypothesisClass:
    plan = HypothesesPlan(hypotheses=name, features=features or None)
    encoding, batches, vault = world
    return hypothesis_space(plan, encoding, public_matrix(batches, encoding, vault), "student")


def test_stumps_look_at_every_column_or_those_that_are_named_and_need_no_cut_points(world: World) -> None:
    stumps, named = space(world, "stumps"), space(world, "stumps", "shade=light", "shade=dark")
    assert (stumps.columns, stumps.grid) == (tuple(range(world[0].width)), None)
    assert [world[0].outputs[at] for at in named.columns] == ["shade=light", "shade=dark"]


def test_how_many_hypotheses_may_relabel_private_rows_follows_from_public_ones(world: World) -> None:
    """Without cut points the number of stumps is that of the rows: it would tell, by time or by a refusal."""
    tables = tables_of_plan(Path("data"))
    for name, features in (("stumps", ["size"]), ("stumps", None), ("rectangles", ["size", "visits"])):
        asked = parse_plan({**tables, "relabel": {"hypotheses": name, "features": features}})
        relabels = candidates(asked, *world)
        assert relabels is not None
        assert relabels.bound is not None


def test_cut_points_are_public_quantiles(world: World) -> None:
    squares = space(world, "rectangles", "size", "visits")
    X = public_matrix(world[1], *world[::2])[:, squares.columns]
    assert squares.grid is not None
    for column, points in zip(X.T, squares.grid, strict=True):
        assert len(points) <= CUTS
        assert points[0] == column.min()
        assert set(points) <= set(column.astype(float))
    share = np.mean(X[:, 0] < squares.grid[0][CUTS // 2])
    assert share == pytest.approx(0.5, abs=0.02)
    few = {(0.0, 0.0, 0.0, 0.0, 1.0): [0.0, 1.0], (1.0, 1.0, 1.0, 2.0, 3.0): [1.0]}  # however rare; equal ones once
    assert [cut_points(np.array(numbers, dtype=np.float32)[:, None], 2) for numbers in few] == [
        [cuts] for cuts in few.values()
    ]
