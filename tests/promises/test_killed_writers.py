"""Temporary files of private rows that a killed stage left are removed when the next command begins."""

import multiprocessing
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.people import changed, tables_of_plan, write_tables
from tests.world import PrivateRows, Vault, learn_encoding, one_row_a_unit, split, tidy, units_spill, units_split


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def work(stage: str, home: Path) -> None:
    """A stage over many private rows, which is killed at its last step."""
    found, vault = tables_of_plan(write_tables(home / "data")), Vault(home / "vault")
    plan, key = changed(found), bytes(32)
    units_spill.HELD_BYTES = 1000
    if stage == "split":
        units_split.write_frame = die  # type: ignore[assignment,attr-defined]  # where it is used
        split(PrivateRows(plan, learn_encoding(plan), vault, key), "shards/people/key")
    if stage == "count":
        rows = one_row_a_unit(PrivateRows(plan, learn_encoding(plan), vault, key), "counts/people/key")
        next(rows)
        die()


@pytest.mark.slow
def test_a_killed_stage_leaves_no_private_rows_for_good(tmp_path: Path) -> None:
    spawning = multiprocessing.get_context("spawn")
    stages = ("split", "count")
    killed = {stage: spawning.Process(target=work, args=(stage, tmp_path / stage)) for stage in stages}
    for process in killed.values():
        process.start()
    for stage, process in killed.items():
        process.join()
        assert process.exitcode == -signal.SIGKILL
        home = tmp_path / stage
        assert rows_in(home) != [], stage
        tidy(home)
        assert rows_in(home) == [], stage


def rows_in(home: Path) -> list[Path]:
    """Files of the vault other than secrets."""
    vault = home / "vault"
    return [path for path in vault.rglob("*") if path.is_file() and vault / "secrets" not in path.parents]
