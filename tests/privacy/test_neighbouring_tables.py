"""Neighbouring tables: one row more changes one shard, in bytes, and nothing else; nor does it change how a run ends.

Whole tables of any bits go through the real `split`, with and without one of their rows: as Parquet, Arrow IPC and CSV,
in several files, row groups and batches, by content and by a named unit, whole and as a secret subset.
"""

import functools
import os
import struct
from collections.abc import Collection, Sequence
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.support.raw import TYPES, Cell, cells_of, column, exact
from tests.world import (
    SHARD,
    Encoding,
    OneHot,
    Passed,
    Plan,
    PrivateRows,
    Scaled,
    Vault,
    WrongInput,
    data_cells,
    data_files,
    data_spill,
    encode,
    number,
    parse_plan,
    read_frame,
    split,
)

KEY = bytes(range(32))
SHARDS = 7
NAMES = ("number", "day", "word", "wave")
NUMBER = Scaled(kind="numeric", name="number", mean=0, scale=1, fill=0, low=-1, high=1, missing=True)
ENCODING = Encoding(
    columns=(
        NUMBER,
        NUMBER.model_copy(update={"name": "day", "kind": "date"}),
        OneHot(name="word", vocabulary=("a", "0", "-0.5", "1970-01-01"), missing=True),
        Passed(name="wave", element="float32", size=2),
    ),
    label="label",
    classes=("a", "0"),
)
Row = tuple[Cell, Cell, Cell]
"""The bits of its features, of its label and of its unit."""


@functools.cache
def plan_of(table: Path, *, unit: bool) -> Plan:
    data = {"private": table.name, "public": "none.csv", "label": "label", "classes": ["a", "0"], "features": NAMES}
    return parse_plan(
        {
            "data": data | ({"unit": "unit"} if unit else {}),
            "privacy": {"domain": "d", "epsilon": 1, "delta": 1e-5, "lifetime": {"epsilon": 1, "delta": 1e-5}},
            "teachers": {"count": SHARDS, "block": SHARDS},
            "labeling": {"cutoff": 5},
            "folder": str(table.parent),
        }
    )


def shards(table: Path, vault: Vault, *, unit: bool, share: float | None = None) -> list[object]:
    """The bits of every cell of every shard in order, and of the matrix that its teacher learns from."""
    (ref,) = split(PrivateRows(plan_of(table, unit=unit), ENCODING, vault, KEY), "shards", share)
    block = read_frame(ref, vault)
    matrix = encode(block, ENCODING)
    own = [(block[SHARD] == shard).to_numpy() for shard in range(SHARDS)]
    return [([exact(cells) for cells in block.filter(rows)], matrix[rows].tobytes()) for rows in own]


def ending(table: Path, vault: Vault, *, unit: bool, share: float | None) -> list[object] | str:
    """The shards, or what is wrong with the schema: a column of some types names no unit."""
    try:
        return shards(table, vault, unit=unit, share=share)
    except WrongInput as wrong:
        return str(wrong)


def changed(before: Sequence[object], after: Sequence[object]) -> int:
    return sum(item != other for item, other in zip(before, after, strict=True))


class Stored:
    """How rows are stored: the types of features, label and unit, the format, and what a row group or a file holds."""

    def __init__(self, types: Sequence[pa.DataType], form: str, cut: int, *, files: int) -> None:
        self.types, self.form, self.cut, self.files = types, form, cut, files

    def write(self, folder: Path, rows: Sequence[Row]) -> Path:
        """The folder, which holds these rows now."""
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        for at in range(self.files):
            part = rows[at :: self.files]
            path = folder / f"{at}.{self.form}"
            if self.form == "csv":
                path.write_bytes(b"".join([b"number,day,word,wave,label,unit\n", *map(_line, part)]))
            elif self.form == "parquet":
                pq.write_table(self.table(part), path, row_group_size=self.cut)
            else:
                with pa.ipc.new_file(str(path), self.table(part).schema) as writer:
                    writer.write_table(self.table(part), max_chunksize=self.cut)
        return folder

    def table(self, rows: Sequence[Row]) -> pa.Table:
        feature, label, unit = (column(kind, [row[at] for row in rows]) for at, kind in enumerate(self.types))
        return pa.table(dict.fromkeys(NAMES, feature) | {"label": label, "unit": unit})


def parquet_holds(stored: pa.DataType) -> bool:
    """Whether a Parquet writer takes cells of any bits; it looks up words of dictionaries and views unasked."""
    lists = (pa.list_(pa.float32(), 2), pa.list_(pa.uint8(), 2), pa.list_(pa.int64()), pa.list_(pa.string(), 2))
    return bool(
        stored in lists or pa.types.is_primitive(stored) or stored in (pa.string(), pa.large_string(), pa.binary(3))
    ) and not (pa.types.is_interval(stored) or (pa.types.is_timestamp(stored) and stored.unit == "s"))


def _line(row: Row) -> bytes:
    feature, label, unit = ((cell or b"").replace(b"\n", b"") for cell in row)
    return b",".join([feature] * len(NAMES) + [label, unit]) + b"\n"


IN_PARQUET = tuple(filter(parquet_holds, TYPES))


@st.composite
def tables(draw: st.DrawFn) -> tuple[Stored, list[Row]]:
    among = st.sampled_from(draw(st.sampled_from([TYPES, IN_PARQUET])))
    types = draw(among), draw(among), draw(among)
    row = st.tuples(*map(cells_of, types))
    rows = [draw(row) for _ in range(draw(st.integers(1, 8)))]
    rows += [draw(st.sampled_from(rows))] * draw(st.integers(0, 2))
    form = draw(st.sampled_from(["arrow", "csv", *(["parquet"] * all(map(parquet_holds, types)))]))
    return Stored(types, form, draw(st.integers(1, 8)), files=draw(st.integers(1, 2))), rows


def check_neighbours(folder: Path, patch: pytest.MonkeyPatch, cases: int, phases: Collection[Phase]) -> None:
    patch.setattr(os, "fsync", lambda _: None)
    vault = Vault(folder / "vault")

    @settings(max_examples=cases, phases=phases)
    @given(tables(), st.floats(0, 1), st.booleans(), st.sampled_from([None, 0.5]), st.sampled_from([0, 1 << 26]))
    def holds(table: tuple[Stored, list[Row]], where: float, unit: bool, share: float | None, held: int) -> None:
        stored, rows = table
        patch.setattr(data_files, "ROWS_IN_MEMORY", stored.cut)
        patch.setattr(data_spill, "HELD_BYTES", held)
        out = round(where * (len(rows) - 1))
        before, after = (
            ending(stored.write(folder / "table", some), vault, unit=unit, share=share)
            for some in (rows, rows[:out] + rows[out + 1 :])
        )
        assert before == after if isinstance(before, str) or isinstance(after, str) else changed(before, after) <= 1

    holds()


@pytest.mark.parametrize("cases", [60, pytest.param(400, marks=pytest.mark.slow)])
def test_one_row_more_changes_one_shard_and_never_how_the_run_ends(
    cases: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_neighbours(tmp_path, monkeypatch, cases, tuple(Phase))


def from_least(name: str, dtype: pl.DataType, *largest: float) -> pl.Expr:
    """The planted fault: what most scalers do, which learn a column's range from the rows that they find."""
    return number(name, dtype, *largest) - number(name, dtype, *largest).min()


def test_the_planted_number_that_is_counted_from_the_least_of_its_column_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data_cells, "number", from_least)
    with pytest.raises(AssertionError):
        check_neighbours(tmp_path, monkeypatch, 60, [Phase.generate])


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize(("rows", "form"), [(2, "csv"), (2, "parquet"), (2, "arrow"), (65_537, "csv")])
def test_minus_zero_alone_in_its_frame_changes_one_shard(tmp_path: Path, rows: int, form: str, unit: bool) -> None:
    """Polars left `value + 0.0` out but in frames of one row: three shards changed, and which row stood for a unit."""
    item, zero = (b"1.0", b"-0.0") if form == "csv" else (struct.pack("<d", 1.0), struct.pack("<d", -0.0))
    stored = Stored((pa.float64(), pa.string(), pa.int64()), form, rows, files=1)
    table = [(item, b"a", struct.pack("<q", at)) for at in range(1, rows)] + [(zero, b"a", struct.pack("<q", 0))]
    vault = Vault(tmp_path / "vault")
    before = shards(stored.write(tmp_path / "table", table), vault, unit=unit)
    after = shards(stored.write(tmp_path / "table", table[1:]), vault, unit=unit)
    assert changed(before, after) == 1


@pytest.mark.parametrize("share", [None, 0.5])
def test_one_person_more_leaves_what_stands_for_others(tmp_path: Path, share: float | None) -> None:
    """Thirty people have a row in a file of their own, and one more has a row in every file: −0.0 was no more alone."""
    zero, own = struct.pack("<d", -0.0), [struct.pack("<q", person) for person in range(1, 31)]
    stored = Stored((pa.float64(), pa.string(), pa.int64()), "parquet", 2, files=30)
    others: list[Row] = [(zero, b"a", person) for person in own]
    vault = Vault(tmp_path / "vault")
    before = shards(stored.write(tmp_path / "table", others), vault, unit=True, share=share)
    more: list[Row] = [*others, *[(zero, b"a", bytes(8))] * 30]
    assert changed(before, shards(stored.write(tmp_path / "table", more), vault, unit=True, share=share)) <= 1
