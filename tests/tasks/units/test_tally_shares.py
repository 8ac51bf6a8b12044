"""Shares of a private table that workers code: the same bits whoever works on which, and each row in one share."""

from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests import world
from tests.support.made import content_of
from tests.support.people import people, tallied, write_tables
from tests.support.processes import FRESH

KEY = bytes(range(32))
ROWS = people(3000, 5)


def coding_of(folder: Path, unit: str | None, groups: int) -> world.Coding:
    """A table of two files, the second of which has so many row groups."""
    plan = world.parse_plan(tallied(write_tables(folder), unit=unit, private="private"))
    (folder / "private").mkdir()
    ROWS[:400].write_parquet(folder / "private" / "a.parquet")
    ROWS[400:].write_parquet(folder / "private" / "b.parquet", row_group_size=2600 // groups)
    encoding = world.learn_encoding(plan)
    public = world.cast_rows(pl.read_parquet(plan.path("public")).select(encoding.features), encoding)
    codes = world.learn_codes([public], encoding.columns, coarse=8)
    return world.Coding(world.PrivateRows(plan, encoding, world.Vault(folder / "vault"), KEY), codes)


def rows_of(coding: world.Coding, blocks: tuple[world.Ref, ...]) -> list[pl.DataFrame]:
    return [pl.read_ipc_stream(content_of(block, coding.private.vault)) for block in blocks]


def worked(root: Path, coding: world.Coding, step: world.BlockStep, call: tuple[Any, ...]) -> Any:
    """A step by a worker, which opens the vault and the table itself."""
    return step(replace(coding, private=replace(coding.private, vault=world.Vault(root), key=KEY)), *call)


@pytest.mark.parametrize("unit", ["person", None])
@pytest.mark.parametrize("pool", [ThreadPoolExecutor, pytest.param(ProcessPoolExecutor, marks=pytest.mark.slow)])
def test_workers_write_the_same_blocks(tmp_path: Path, unit: str | None, pool: type[Any]) -> None:
    coding = coding_of(tmp_path, unit, groups=7)
    assert coding.shares == world.BLOCKS
    here = world.gather(coding, "units/d/here")
    no_key = replace(coding.private, vault=None, key=b"")  # type: ignore[arg-type]
    sent = replace(coding, private=no_key)

    def each(step: world.BlockStep, calls: Any) -> list[Any]:
        with pool(2, **({"mp_context": FRESH} if pool is ProcessPoolExecutor else {})) as workers:
            found = list(workers.map(partial(worked, coding.private.vault.root, sent, step), list(reversed(calls))))
        return found[::-1]

    there = world.gather(coding, "units/d/there", run=each)
    vault = coding.private.vault
    assert [content_of(ref, vault) for ref in there] == [content_of(ref, vault) for ref in here]
    assert len(here) == world.BLOCKS


@pytest.mark.parametrize("unit", ["person", None])
def test_however_many_shares_there_are_each_row_is_coded_once(tmp_path: Path, unit: str | None) -> None:
    """And the rows of a unit meet: as if the table had been one piece."""
    found = []
    for groups in (1, 3, 13):
        coding = coding_of(tmp_path / str(groups), unit, groups)
        blocks = rows_of(coding, world.gather(coding, "units/d/all"))
        rows = pl.concat(blocks)
        found.append((coding.shares, rows.drop(world.UNIT, strict=False).sort(pl.all()), blocks))
    assert [shares for shares, *_ in found] == [2, 4, 8]
    assert all(rows.equals(found[0][1]) and len(rows) == len(ROWS) for _, rows, _ in found)
    if unit:
        for one, *others in zip(*(blocks for *_, blocks in found), strict=True):
            assert all(one.sort(pl.all()).equals(other.sort(pl.all())) for other in others)


def test_a_worker_that_sees_other_files_stops(tmp_path: Path) -> None:
    coding = coding_of(tmp_path, None, groups=7)
    files = tuple(str(file.path) for file in coding.table.files)
    assert len(world.code_rows(coding, (0, 8), files, "units/d/one")) == 1
    with pytest.raises(world.NotVerified, match="a worker sees others"):
        world.code_rows(coding, (0, 8), files[:1], "units/d/two")
