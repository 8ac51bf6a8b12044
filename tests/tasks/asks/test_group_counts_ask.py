"""Groups of public rows, and the private units in them: one unit, one group, whatever else is in the table."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from concord.artifacts.errors import WrongInput
from concord.artifacts.home.vault import Vault, derive
from concord.artifacts.plan import Plan
from concord.tasks.asks import group_counts, unit_counts
from concord.tasks.asks.group_counts import CountsAsk, Groups
from concord.tasks.asks.unit_counts import count_units
from concord.tasks.data import split
from concord.tasks.data.encode import learn_encoding, read_frame, stage_public
from concord.tasks.data.units import PrivateRows
from concord.tasks.mechanisms.distance import Ints
from tests.support.people import changed, people, tables_of_plan, write_tables
from tests.support.sentences import facts

PRIVATE = people(300, 1)


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return changed(tables_of_plan(write_tables(tmp_path / "data", PRIVATE)), data__unit="person")


def groups_of(plan: Plan, folder: Path, *by: str) -> Groups:
    vault, encoding = Vault(folder / "vault"), learn_encoding(plan)
    batches = stage_public(plan.path("public"), encoding, vault, "public", 1000)
    return Groups.of(by, encoding, (read_frame(batch.ref, vault) for batch in batches))


def counted(plan: Plan, folder: Path, groups: Groups) -> Ints:
    vault = Vault(folder / "vault")
    key = derive(vault.make_secret("domains/people"), "split")
    ref = count_units(PrivateRows(plan, learn_encoding(plan), vault, key), groups, "counts/people/1")
    return np.frombuffer(vault.read(ref), "<i8")


def test_every_unit_is_in_one_group(plan: Plan, tmp_path: Path) -> None:
    groups = groups_of(plan, tmp_path, "shade")
    found = counted(plan, tmp_path, groups)
    assert found.sum() == PRIVATE["person"].n_unique()
    single = PRIVATE.group_by("person").agg(pl.col("shade").n_unique().alias("many"), pl.col("shade").first())
    sure = single.filter(pl.col("many") == 1)["shade"].value_counts()
    least = dict(zip(sure["shade"], sure["count"], strict=True))
    for (word,), count in zip(groups.named(), found[:-1], strict=True):
        assert count >= least.get(word, 0)


def test_a_unit_of_many_rows_moves_one_count_by_one(plan: Plan, tmp_path: Path) -> None:
    groups = groups_of(plan, tmp_path, "shade")
    before = counted(plan, tmp_path, groups)
    many = PRIVATE.group_by("person").len().sort("len", "person", descending=True)["person"][:4]
    for unit in many:
        PRIVATE.filter(pl.col("person") != unit).write_csv(plan.path("private"))
        moved = before - counted(plan, tmp_path, groups)
        assert sorted(moved.tolist()) == [0] * (len(moved) - 1) + [1]


def test_a_count_of_rows_would_be_seen(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: all rows of a unit count."""
    groups = groups_of(plan, tmp_path, "shade")

    def every_row(private: PrivateRows, *_: Any, **__: Any) -> Iterator[pl.DataFrame]:
        return split._identified(private)

    monkeypatch.setattr(unit_counts, "one_row_a_unit", every_row)
    assert counted(plan, tmp_path, groups).sum() > PRIVATE["person"].n_unique()


def test_units_set_aside_for_a_test_are_counted_too(plan: Plan, tmp_path: Path) -> None:
    divided = changed(plan, test__share=0.5)
    groups = groups_of(plan, tmp_path, "shade")
    assert counted(divided, tmp_path, groups).tolist() == counted(plan, tmp_path, groups).tolist()


def test_a_word_outside_the_vocabulary_is_in_no_group_though_public_rows_have_it(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was published as a missing cell: a rare public word is encoded as one is."""
    monkeypatch.setattr("concord.tasks.data.encode.VOCABULARY", 1)
    groups = groups_of(plan, tmp_path, "shade")
    assert len(groups.named()) == 1
    assert counted(plan, tmp_path, groups).min() > 0


def test_groups_too_long_for_a_reader_are_refused(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_counts, "MOST_WRITTEN", 20)
    with pytest.raises(WrongInput, match=facts("longer names", "one answer")):
        groups_of(plan, tmp_path, "shade")


def test_words_that_no_public_row_has_and_missing_cells_are_counted_together(plan: Plan, tmp_path: Path) -> None:
    groups = groups_of(plan, tmp_path, "shade")
    odd = PRIVATE.with_columns(
        pl.when(pl.col("person") == PRIVATE["person"][0]).then(None).otherwise(pl.lit("violet")).alias("shade")
    )
    odd.write_csv(plan.path("private"))
    found = counted(plan, tmp_path, groups)
    assert found.tolist() == [0] * (len(found) - 1) + [PRIVATE["person"].n_unique()]


@pytest.mark.parametrize(
    ("by", "sentence"),
    [
        (("size",), facts("--by", "categorical", "shade", "got 'size'")),
        (("sade",), "got 'sade'"),
        (("shade", "shade"), "each once, got shade, shade"),
        ((), "at least one column"),
    ],
)
def test_columns_that_make_no_groups_are_refused(
    plan: Plan, tmp_path: Path, by: tuple[str, ...], sentence: str
) -> None:
    with pytest.raises(WrongInput, match=sentence):
        groups_of(plan, tmp_path, *by)


def test_too_many_groups_are_refused(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_counts, "MOST_GROUPS", 1)
    with pytest.raises(WrongInput, match=facts("--by", "2 groups", "at most 1")):
        groups_of(plan, tmp_path, "shade")


def test_public_features_are_not_counted_at_a_price(plan: Plan, tmp_path: Path) -> None:
    public = changed(plan, privacy__secret="labels")
    with pytest.raises(WrongInput, match="count them in your table, without noise"):
        CountsAsk.of(public, groups_of(plan, tmp_path, "shade"), 1.0)
