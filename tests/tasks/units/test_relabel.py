"""Relabelling: who is in the secret subset, that ĥ is drawn once and labels it, and what teachers learn from."""

from pathlib import Path

import pytest

from tests import world
from tests.support.people import people
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
    monkeypatch.setattr(world.units_relabel, "resampled", lambda rows, _: rows)
    small = Small(tmp_path, people(2000, 1))
    subset, teachers, first = small.subset(0.3), small.resampled(), small.relabelled()
    assert teachers.drop(world.LABEL).equals(subset.drop(world.LABEL))
    changed_labels = (teachers[world.LABEL] != subset[world.LABEL]).sum()
    # of the 32 hypotheses the best errs on 72 of 244 rows; e^(−errors/2) draws one that errs on 0.45 of them or more
    # with probability 1.4e-9
    assert 0 < changed_labels < 0.45 * subset.height
    monkeypatch.setattr(world.units_relabel, "choose_hypothesis", lambda *_: pytest.fail("it was drawn again"))
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
