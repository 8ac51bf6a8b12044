"""Orders: whatever is sorted or numbered among private rows, each row's place in its shard is its own to decide.

Tables here hold few different rows, many times each. Neighbours are one unit apart, and shards are compared to the bit.
"""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from concord.artifacts.home.vault import Vault
from concord.artifacts.learners import TeachersPlan
from concord.artifacts.schemas import Encoding, Scaled
from concord.tasks.asking.arrays import LinearTeachers
from concord.tasks.asking.relabel import _over_shards, resampled
from concord.tasks.asking.teachers import Block, load_teachers, teach
from concord.tasks.data.cells import LABEL
from concord.tasks.data.encode import SHARD, learn_encoding, read_frame, row_digests, write_frame
from concord.tasks.data.split import one_row_a_unit, split
from concord.tasks.data.units import PrivateRows
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.relabelled import Form, Relabelling
from tests.support.people import changed, people, tables_of_plan, write_tables
from tests.support.relabelling import Small

KEY = bytes(range(32))
K = 12
MANY = 80
X = Scaled(kind="numeric", name="x", mean=0, scale=1, fill=0, low=-9, high=9, missing=False)
ENCODING = Encoding(columns=(X,), label="y", classes=("a", "b"))
FORMS: tuple[Form, ...] = ("tight", "published", "none")
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


def settings_of(form: Form, copies: int = 2) -> Relabelling:
    most = copies if form == "published" else 1
    return Relabelling(hypotheses="stumps", features=("x",), grid="0", share=0.3, form=form, copies=most)


def shards_moved(rows: list[Row], more: Row, form: Form) -> int:
    """How many shards of teachers differ between the rows, and the rows and one more."""
    asked = settings_of(form)
    before, after = (resampled(subset(table), asked, K, ENCODING, KEY) for table in (rows, [*rows, more]))
    return differing(by_shard(before, K), by_shard(after, K))


ROWS = st.tuples(st.integers(0, K - 1), st.sampled_from((0.0, -0.0, 1.5)), st.integers(0, 1))
TABLES = st.one_of(st.lists(ROWS, max_size=8), st.lists(ROWS, min_size=30, max_size=60))


def check_neighbours(form: Form, examples: int, phases: Collection[Phase] = tuple(Phase)) -> None:
    @settings(max_examples=examples, phases=phases)
    @given(TABLES, ROWS)
    def one_more(rows: list[Row], more: Row) -> None:
        assert shards_moved(rows, more, form) <= settings_of(form).copies

    one_more()


def by_shard_alone(rows: pl.DataFrame, *given: Any) -> pl.DataFrame:
    """A fault that was: in a shard, copies lie in the order of the rows that they are of."""
    return _over_shards(rows.with_row_index("at"), *given).sort(SHARD, "at").drop("at")


@pytest.mark.parametrize("form", FORMS)
def test_one_row_more_moves_no_other_however_many_are_identical(form: Form) -> None:
    check_neighbours(form, 50)


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_one_row_more_moves_no_other_in_hundreds_of_tables(form: Form) -> None:
    check_neighbours(form, 250)


def test_the_planted_order_by_shard_alone_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("concord.tasks.asking.relabel._over_shards", by_shard_alone)
    with pytest.raises(AssertionError):
        check_neighbours("published", 150, [Phase.generate])


@pytest.mark.parametrize("form", FORMS)
def test_in_a_table_of_thousands_one_row_more_reaches_as_many_shards_as_are_paid_for(form: Form) -> None:
    rng = np.random.default_rng(4)
    rows = [(int(shard), x, int(y)) for shard, x, y in zip(*_columns(rng, 4000), strict=True)]
    for more in [(0, 0.0, 0), (K - 1, 1.5, 1), (5, -0.0, 0)]:
        assert shards_moved(rows, more, form) <= settings_of(form).copies


def _columns(rng: np.random.Generator, rows: int) -> tuple[Ints, list[float], Ints]:
    return rng.integers(0, K, rows), rng.choice([0.0, -0.0, 1.5], rows).tolist(), rng.integers(0, 2, rows)


@pytest.fixture
def votes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Row]], list[Ints]]:
    """How each teacher votes that learned from the rows as `published` draws them, with eight copies at most."""
    hasty = {"max_iter": 5, "tol": None}  # it takes rows in an order of their places
    plan = TeachersPlan(count=MANY, block=MANY, estimator="sklearn.linear_model.SGDClassifier", params=hasty)
    vault, public = Vault(tmp_path), np.linspace(-1, 2, 40, dtype=np.float32)[:, None]
    monkeypatch.setattr("concord.tasks.asking.teachers.is_linear", lambda _: False)

    def voted(rows: list[Row]) -> list[Ints]:
        drawn = resampled(subset(rows), settings_of("published", copies=8), MANY, ENCODING, KEY)
        block = write_frame(drawn, vault, "block.arrow")
        teachers = load_teachers(teach(Block((0, MANY), block), plan, ENCODING, vault, "teachers"), vault)
        assert not isinstance(teachers, LinearTeachers)
        return [teacher.votes(public, 2) for teacher in teachers]

    return voted


@pytest.mark.slow
def test_no_more_teachers_vote_otherwise_than_there_are_copies_paid_for(
    votes: Callable[[list[Row]], list[Ints]],
) -> None:
    rng = np.random.default_rng(7)
    numbers = rng.integers(0, 6, 2400) / 8
    rows = [
        (int(shard), float(x), int(8 * x) % 2) for shard, x in zip(rng.integers(0, MANY, 2400), numbers, strict=True)
    ]
    before, changed = votes(rows), []
    for x in np.unique(numbers):
        after = votes([*rows, (0, float(x), int(8 * x) % 2)])
        changed.append(sum(not np.array_equal(item, other) for item, other in zip(before, after, strict=True)))
    assert 1 <= max(changed) <= 8


class Alike(Small):
    """Tables of people who are much alike, through the stages before the door."""

    def __init__(self, folder: Path, unit: str | None, **relabel: object) -> None:
        super().__init__(folder, alike(60, 1), unit=unit, **relabel)

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
@pytest.mark.parametrize("form", FORMS)
def test_one_unit_less_through_split_and_relabel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: Form, unit: str | None
) -> None:
    monkeypatch.setattr("concord.tasks.asking.relabel.from_description", lambda _: Rule())
    small, table = Alike(tmp_path, unit, form=form), alike(300, 0)
    whole = small.shards(table, relabelled=True)
    for item in range(0, 300, 43):
        less = small.shards(without_one(table, unit, item), relabelled=True)
        assert differing(whole, less) <= small.settings.copies


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
