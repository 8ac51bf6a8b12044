"""Relabel's stages: who is in the secret subset, that ĥ is drawn once and labels it, and what teachers learn from;
and the class of hypotheses that a plan names: its columns and its public cut points."""

from pathlib import Path

import numpy as np
import pytest

from tests import world
from tests.support.people import changed, people, tables_of_plan, write_tables
from tests.support.relabelling import Small


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
    monkeypatch.setattr(world.asking_relabel, "resampled", lambda rows, _: rows)
    small = Small(tmp_path, people(2000, 1))
    subset, teachers, first = small.subset(0.3), small.resampled(), small.relabelled()
    assert teachers.drop(world.LABEL).equals(subset.drop(world.LABEL))
    changed_labels = (teachers[world.LABEL] != subset[world.LABEL]).sum()
    # of the 32 hypotheses the best errs on 72 of 244 rows; e^(−errors/2) draws one that errs on 0.45 of them or more
    # with probability 1.4e-9
    assert 0 < changed_labels < 0.45 * subset.height
    monkeypatch.setattr(world.asking_relabel, "choose_hypothesis", lambda *_: pytest.fail("it was drawn again"))
    assert small.relabelled() == first


def test_within_a_shard_as_many_rows_are_drawn_as_it_has(tmp_path: Path) -> None:
    small = Small(tmp_path, people(4000, 1))
    subset, teachers = small.subset(0.3), small.resampled()
    assert teachers[world.SHARD].to_list() == subset[world.SHARD].to_list()
    theirs = set(subset.drop(world.LABEL).rows())
    assert set(teachers.drop(world.LABEL).rows()) <= theirs
    left = len(set(teachers.drop(world.LABEL).rows())) / len(theirs)
    assert 0.55 < left < 0.72  # 1 − 1/e and a little more, since shards are small


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_few_rows_are_relabelled_as_well(tmp_path: Path, rows: int) -> None:
    teachers = Small(tmp_path, people(600, 1).head(rows)).resampled(share=1.0)
    assert teachers.height == rows
    assert set(teachers[world.LABEL]) <= {0, 1}


# The class of hypotheses ----------------------------------------------------------------------------------------------


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
