"""Neighbouring tables: one row or unit more changes one shard, in bytes, and nothing else; nor how a run ends.

Whole tables of any bits go through the real `split`, with and without one of their rows or units: as Parquet, Arrow IPC
and CSV, in several files, row groups and batches, by content and by a named unit, whole, as a secret subset that is
drawn from again, and with units set aside.
"""

import functools
import os
import struct
from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests import world
from tests.support.doors import Row, Stored, storings
from tests.support.made import frame_of
from tests.support.raw import cells_of, exact

KEY = bytes(range(32))
SHARDS = 7
NAMES = ("number", "day", "word", "wave")
NUMBER = world.Scaled(kind="numeric", name="number", mean=0, scale=1, fill=0, low=-1, high=1, missing=True)
ENCODING = world.Encoding(
    columns=(
        NUMBER,
        NUMBER.model_copy(update={"name": "day", "kind": "date"}),
        world.OneHot(name="word", vocabulary=("a", "0", "-0.5", "1970-01-01"), missing=True),
        world.Passed(name="wave", element="float32", size=2),
    ),
    label="label",
    classes=("a", "0"),
)
HOW: tuple[dict[str, float], ...] = ({}, {"share": 0.5}, {"aside": 0.5})
"""All units, those of a secret subset, and those that are not set aside."""


@functools.cache
def plan_of(table: Path, *, unit: bool) -> world.Plan:
    data = {"private": table.name, "public": "none.csv", "label": "label", "classes": ["a", "0"], "features": NAMES}
    return world.parse_plan(
        {
            "data": data | ({"unit": "unit"} if unit else {}),
            "privacy": {"domain": "d", "epsilon": 1, "delta": 1e-5, "lifetime": {"epsilon": 1, "delta": 1e-5}},
            "teachers": {"count": SHARDS, "block": SHARDS},
            "labeling": {"cutoff": 5},
            "folder": str(table.parent),
        }
    )


def shards(table: Path, vault: world.Vault, *, unit: bool, **how: Any) -> list[object]:
    """The bits of every cell of every shard in order, and of the matrix that its teacher learns from."""
    (ref,) = world.split(world.PrivateRows(plan_of(table, unit=unit), ENCODING, vault, KEY), "shards", **how)
    block = frame_of(ref, vault)
    block = world.resampled(block, KEY) if "share" in how else block
    matrix = world.encode(block, ENCODING)
    own = [(block[world.SHARD] == shard).to_numpy() for shard in range(SHARDS)]
    return [([exact(cells) for cells in block.filter(rows)], matrix[rows].tobytes()) for rows in own]


def ending(table: Path, vault: world.Vault, *, unit: bool, **how: Any) -> list[object] | str:
    """The shards, or what is wrong with the schema: a column of some types names no unit."""
    try:
        return shards(table, vault, unit=unit, **how)
    except world.WrongInput as wrong:
        return str(wrong)


def changed(before: Sequence[object], after: Sequence[object]) -> int:
    return sum(item != other for item, other in zip(before, after, strict=True))


@st.composite
def tables(draw: st.DrawFn) -> tuple[Stored, list[Row]]:
    stored = draw(storings(NAMES))
    row = st.tuples(*map(cells_of, stored.types))
    rows = [draw(row) for _ in range(draw(st.integers(1, 8)))]
    return stored, rows + [draw(st.sampled_from(rows))] * draw(st.integers(0, 2))


def check_neighbours(folder: Path, patch: pytest.MonkeyPatch, cases: int, phases: Collection[Phase]) -> None:
    patch.setattr(os, "fsync", lambda _: None)
    vault = world.Vault(folder / "vault")

    @settings(max_examples=cases, phases=phases)
    @given(tables(), st.floats(0, 1), st.booleans(), st.sampled_from(HOW), st.sampled_from([0, 1 << 26]))
    def holds(table: tuple[Stored, list[Row]], where: float, unit: bool, how: dict[str, float], held: int) -> None:
        stored, rows = table
        patch.setattr(world.data_files, "ROWS_IN_MEMORY", stored.cut)
        patch.setattr(world.units_spill, "HELD_BYTES", held)
        out = round(where * (len(rows) - 1))
        without = [[row for at, row in enumerate(rows) if at != out], [row for row in rows if row[2] != rows[out][2]]]
        before, *after, reversed_ = (
            ending(replace(stored, files=files).write(folder / "table", some), vault, unit=unit, **how)
            for some, files in ((rows, 1), (without[0], 1), (without[unit], 2), (rows[::-1], 2))
        )
        if isinstance(before, str):
            assert all(isinstance(other, str) for other in (*after, reversed_))
        else:
            assert reversed_ == before
            assert all(changed(before, other) <= 1 for other in after)

    holds()


def test_one_row_more_changes_one_shard_and_never_how_the_run_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, exhaustive: bool
) -> None:
    check_neighbours(tmp_path, monkeypatch, 450 if exhaustive else 60, tuple(Phase))


def test_the_planted_number_that_is_counted_from_the_least_of_its_column_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What most scalers do, which learn a column's range from the rows that they find."""
    honest = world.number

    def from_least(name: str, dtype: pl.DataType, *largest: float) -> pl.Expr:
        return honest(name, dtype, *largest) - honest(name, dtype, *largest).min()

    monkeypatch.setattr(world.data_cells, "number", from_least)
    with pytest.raises(AssertionError):
        check_neighbours(tmp_path, monkeypatch, 5000, [Phase.generate])


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize(("rows", "form"), [(2, "csv"), (2, "parquet"), (2, "arrow"), (65_537, "csv")])
def test_minus_zero_alone_in_its_frame_changes_one_shard(tmp_path: Path, rows: int, form: str, unit: bool) -> None:
    """Polars left `value + 0.0` out but in frames of one row: three shards changed, and which row stood for a unit."""
    item, zero = (b"1.0", b"-0.0") if form == "csv" else (struct.pack("<d", 1.0), struct.pack("<d", -0.0))
    stored = Stored((pa.float64(), pa.string(), pa.int64()), form, rows, names=NAMES)
    table = [(item, b"a", struct.pack("<q", at)) for at in range(1, rows)] + [(zero, b"a", struct.pack("<q", 0))]
    vault = world.Vault(tmp_path / "vault")
    before = shards(stored.write(tmp_path / "table", table), vault, unit=unit)
    after = shards(stored.write(tmp_path / "table", table[1:]), vault, unit=unit)
    assert changed(before, after) == 1


@pytest.mark.parametrize("how", HOW)
def test_one_person_more_leaves_what_stands_for_others(tmp_path: Path, how: dict[str, float]) -> None:
    """Thirty people have a row in a file of their own, and one more has a row in every file: −0.0 was no more alone."""
    zero, own = struct.pack("<d", -0.0), [struct.pack("<q", person) for person in range(1, 31)]
    stored = Stored((pa.float64(), pa.string(), pa.int64()), "parquet", 2, 30, NAMES)
    others: list[Row] = [(zero, b"a", person) for person in own]
    vault = world.Vault(tmp_path / "vault")
    before = shards(stored.write(tmp_path / "table", others), vault, unit=True, **how)
    more: list[Row] = [*others, *[(zero, b"a", bytes(8))] * 30]
    assert changed(before, shards(stored.write(tmp_path / "table", more), vault, unit=True, **how)) <= 1
