"""Relabel's stages: who is in the secret subset, that ĥ is drawn once and labels it, and what teachers learn from;
and the class of hypotheses that a plan names: its columns and its public cut points."""

from pathlib import Path

import numpy as np
import pytest

from tests.support.people import changed, people, tables_of_plan, write_tables
from tests.support.relabelling import Small
from tests.world import (
    CUTS,
    LABEL,
    SHARD,
    Encoding,
    HypothesesPlan,
    HypothesisClass,
    PublicBatch,
    Vault,
    asking_relabel,
    candidates,
    cut_points,
    hypothesis_space,
    learn_encoding,
    parse_plan,
    public_matrix,
    stage_public,
)


def test_the_subset_holds_one_row_of_each_unit_in_it(tmp_path: Path) -> None:
    private = people(2000, 1)
    subset = Small(tmp_path, private).subset(1.0)
    assert subset.height == private["person"].n_unique()
    some = Small(tmp_path, private).subset(0.3)
    assert 0.24 < some.height / subset.height < 0.36  # four standard deviations at 860 units
    assert set(some.rows()) <= set(subset.rows())


def test_labels_are_those_of_one_hypothesis_and_the_choice_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking_relabel, "resampled", lambda rows, _: rows)
    small = Small(tmp_path, people(2000, 1))
    subset, teachers, first = small.subset(0.3), small.resampled(), small.relabelled()
    assert teachers.drop(LABEL).equals(subset.drop(LABEL))
    changed_labels = (teachers[LABEL] != subset[LABEL]).sum()
    # of the 32 hypotheses the best errs on 72 of 244 rows; e^(−errors/2) draws one that errs on 0.45 of them or more
    # with probability 1.4e-9
    assert 0 < changed_labels < 0.45 * subset.height
    monkeypatch.setattr(asking_relabel, "choose_hypothesis", lambda *_: pytest.fail("it was drawn again"))
    assert small.relabelled() == first


def test_within_a_shard_as_many_rows_are_drawn_as_it_has(tmp_path: Path) -> None:
    small = Small(tmp_path, people(4000, 1))
    subset, teachers = small.subset(0.3), small.resampled()
    assert teachers[SHARD].to_list() == subset[SHARD].to_list()
    theirs = set(subset.drop(LABEL).rows())
    assert set(teachers.drop(LABEL).rows()) <= theirs
    left = len(set(teachers.drop(LABEL).rows())) / len(theirs)
    assert 0.55 < left < 0.72  # 1 − 1/e and a little more, since shards are small


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_few_rows_are_relabelled_as_well(tmp_path: Path, rows: int) -> None:
    teachers = Small(tmp_path, people(600, 1).head(rows)).resampled(share=1.0)
    assert teachers.height == rows
    assert set(teachers[LABEL]) <= {0, 1}


# The class of hypotheses ----------------------------------------------------------------------------------------------


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
