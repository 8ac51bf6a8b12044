"""Orders: whatever is sorted or numbered among private rows, each row's place in its shard is its own to decide.

Tables here hold few different rows, many times each. Neighbours are one unit apart, and shards are compared to the bit.
"""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.people import changed, people, tables_of_plan, write_tables
from tests.support.relabelling import Small
from tests.world import (
    LABEL,
    SHARD,
    Encoding,
    Ints,
    PrivateRows,
    Scaled,
    Vault,
    asking_relabel,
    learn_encoding,
    one_row_a_unit,
    read_frame,
    resampled,
    row_digests,
    split,
)

KEY = bytes(range(32))
K = 12
X = Scaled(kind="numeric", name="x", mean=0, scale=1, fill=0, low=-9, high=9, missing=False)
ENCODING = Encoding(columns=(X,), label="y", classes=("a", "b"))
Row = tuple[int, float, int]
Shards = dict[int, str]


def subset(rows: list[Row]) -> pl.DataFrame:
    """Rows (shard, x, label) as `split` leaves them: by shard, then by content."""
    frame = pl.DataFrame(rows, schema={SHARD: pl.UInt32, "x": pl.Float64, LABEL: pl.UInt16}, orient="row")
    content = pl.Series("content", row_digests(frame, ENCODING, KEY), pl.Binary)
    return frame.with_columns(content).sort(SHARD, "content").drop("content")


def by_shard(rows: pl.DataFrame, shards: int) -> Shards:
    """What each shard holds, in order; digits tell −0.0 from 0.0."""
    return {shard: repr(rows.filter(pl.col(SHARD) == shard).rows()) for shard in range(shards)}


def differing(before: Shards, after: Shards) -> int:
    return sum(before[shard] != after[shard] for shard in before)


def shards_moved(rows: list[Row], more: Row) -> int:
    """How many shards of teachers differ between the rows, and the rows and one more."""
    before, after = (resampled(subset(table), KEY) for table in (rows, [*rows, more]))
    return differing(by_shard(before, K), by_shard(after, K))


ROWS = st.tuples(st.integers(0, K - 1), st.sampled_from((0.0, -0.0, 1.5)), st.integers(0, 1))
TABLES = st.one_of(st.lists(ROWS, max_size=8), st.lists(ROWS, min_size=30, max_size=60))


@pytest.mark.parametrize("examples", [50, pytest.param(250, marks=pytest.mark.slow)])
def test_one_row_more_moves_no_other_however_many_are_identical(examples: int) -> None:
    @settings(max_examples=examples)
    @given(TABLES, ROWS)
    def one_more(rows: list[Row], more: Row) -> None:
        assert shards_moved(rows, more) <= 1

    one_more()


def test_in_a_table_of_thousands_one_row_more_reaches_one_shard() -> None:
    rng = np.random.default_rng(4)
    rows = [(int(shard), x, int(y)) for shard, x, y in zip(*_columns(rng, 4000), strict=True)]
    for more in [(0, 0.0, 0), (K - 1, 1.5, 1), (5, -0.0, 0)]:
        assert shards_moved(rows, more) <= 1


def _columns(rng: np.random.Generator, rows: int) -> tuple[Ints, list[float], Ints]:
    return rng.integers(0, K, rows), rng.choice([0.0, -0.0, 1.5], rows).tolist(), rng.integers(0, 2, rows)


class Alike(Small):
    """Tables of people who are much alike, through the stages before the door."""

    def __init__(self, folder: Path, unit: str | None) -> None:
        super().__init__(folder, alike(60, 1), unit=unit)

    def shards(self, private: pl.DataFrame, *, relabelled: bool) -> Shards:
        private.write_csv(self.plan.path("private"))
        return by_shard(self.resampled(0.7) if relabelled else self.subset(None), K)


class Rule:
    """A hypothesis that is drawn whatever the rows are, so that neighbours differ by their rows alone."""

    def predict(self, X: np.ndarray) -> Ints:
        return (X[:, 0] > 0).astype(np.int64)


def alike(rows: int, seed: int) -> pl.DataFrame:
    """People with about two rows each, of which many are identical but for whose they are."""
    few = {"size": pl.col("size").round(0), "visits": pl.col("visits") // 5}
    return people(rows, seed).with_columns(**few).sample(fraction=1.0, seed=seed, shuffle=True)


def without_one(table: pl.DataFrame, unit: str | None, item: int) -> pl.DataFrame:
    if unit is None:
        return pl.concat([table[:item], table[item + 1 :]])
    return table.filter(pl.col(unit) != table[unit][item])


@pytest.mark.parametrize("unit", ["person", None])
def test_one_unit_less_through_split_and_relabel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: str | None
) -> None:
    monkeypatch.setattr(asking_relabel, "from_description", lambda _: Rule())
    small, table = Alike(tmp_path, unit), alike(300, 0)
    whole = small.shards(table, relabelled=True)
    for item in range(0, 300, 43):
        less = small.shards(without_one(table, unit, item), relabelled=True)
        assert differing(whole, less) <= 1


def aside(plan_folder: Path, table: pl.DataFrame, unit: str | None, shards: int) -> Shards:
    """What `split` leaves where half of the units are set aside."""
    plan = changed(tables_of_plan(write_tables(plan_folder, table)), data__unit=unit, teachers__count=shards)
    vault = Vault(plan_folder / "vault")
    refs = split(PrivateRows(plan, learn_encoding(plan), vault, KEY), "shards", aside=0.5)
    return by_shard(pl.concat(read_frame(ref, vault) for ref in refs), shards)


@pytest.mark.parametrize("unit", ["person", None])
def test_identical_rows_of_different_units_keep_who_is_set_aside(tmp_path: Path, unit: str | None) -> None:
    table = alike(6000, 1)
    whole = aside(tmp_path, table, unit, 75)
    assert aside(tmp_path, table.reverse(), unit, 75) == whole
    for item in range(0, 6000, 750):
        assert differing(whole, aside(tmp_path, without_one(table, unit, item), unit, 75)) == 1


def test_one_row_a_unit_comes_in_an_order_of_its_own(tmp_path: Path) -> None:
    table = alike(3000, 1)

    def rows(private: pl.DataFrame) -> str:
        plan = changed(tables_of_plan(write_tables(tmp_path, private)))
        frames = one_row_a_unit(PrivateRows(plan, learn_encoding(plan), Vault(tmp_path / "vault"), KEY), "units")
        return repr(pl.concat(frames).rows())

    assert rows(table.reverse()) == rows(table)
