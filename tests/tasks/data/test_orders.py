"""Orders: whatever is sorted or numbered among private rows, each row's place in its shard is its own to decide.

Tables here hold few different rows, many times each. Neighbours are one unit apart, and shards are compared to the bit.
"""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests import world
from tests.support.made import frame_of
from tests.support.people import changed, people, tables_of_plan, write_tables
from tests.support.relabelling import KEY, K, Small

Shards = dict[int, str]


def by_shard(rows: pl.DataFrame) -> Shards:
    """What each shard holds, in order; digits tell −0.0 from 0.0."""
    return {shard: repr(rows.filter(pl.col(world.SHARD) == shard).rows()) for shard in range(K)}


def differing(before: Shards, after: Shards) -> int:
    return sum(before[shard] != after[shard] for shard in before)


class Rule:
    """A hypothesis that is drawn whatever the rows are, so that neighbours differ by their rows alone."""

    def predict(self, X: np.ndarray) -> world.Ints:
        return (X[:, 0] > 0).astype(np.int64)


def alike(rows: int, seed: int) -> pl.DataFrame:
    """People with about two rows each, of which many are identical but for whose they are."""
    few = {"size": pl.col("size").round(0), "visits": pl.col("visits") // 5}
    return people(rows, seed).with_columns(**few).sample(fraction=1.0, seed=seed, shuffle=True)


def left(small: Small, table: pl.DataFrame) -> dict[str, Shards]:
    """What each stage before the door leaves of a private table: by shard, or one row a unit in one order."""
    table.write_csv(small.plan.path("private"))
    private = world.PrivateRows(small.plan, small.encoding, small.vault, KEY)
    aside = world.split(private, "aside", aside=0.5)
    return {
        "split": by_shard(small.subset(None)),
        "a secret subset": by_shard(small.subset(0.7)),
        "relabelled": by_shard(small.resampled(0.7)),
        "without those set aside": by_shard(pl.concat(frame_of(ref, small.vault) for ref in aside)),
    }


@pytest.mark.parametrize("unit", ["person", None])
def test_one_unit_less_changes_one_shard_after_every_stage_and_no_order_of_rows_changes_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: str | None
) -> None:
    monkeypatch.setattr(world.Box, "rebuilt", lambda _: Rule())
    small, table = Small(tmp_path, alike(60, 1), unit=unit), alike(300, 0)
    whole = left(small, table)
    assert left(small, table.reverse()) == whole
    for item in range(0, 300, 43):
        rows = pl.int_range(pl.len()) != item if unit is None else pl.col(unit) != table[unit][item]
        for stage, shards in left(small, table.filter(rows)).items():
            assert differing(whole[stage], shards) <= 1, stage


def test_one_row_a_unit_comes_in_an_order_of_its_own(tmp_path: Path) -> None:
    table = alike(3000, 1)

    def rows(private: pl.DataFrame) -> str:
        plan = changed(tables_of_plan(write_tables(tmp_path, private)))
        frames = world.one_row_a_unit(
            world.PrivateRows(plan, world.learn_encoding(plan), world.Vault(tmp_path / "vault"), KEY), "units"
        )
        return repr(pl.concat(frames).rows())

    assert rows(table.reverse()) == rows(table)
