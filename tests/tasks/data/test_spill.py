"""Spill: rows come back by part, in the order they came, whether files held them or memory did."""

import resource
from pathlib import Path

import polars as pl
import pytest

from tests.world import SPILLS, Vault, data_spill, spilling


def test_all_files_of_a_spill_may_be_open_if_a_process_may_open_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on some systems: else a table that fits in memory is split, and a larger one ends the run."""
    monkeypatch.setattr(data_spill, "HELD_BYTES", 0)
    limits, rows = resource.getrlimit(resource.RLIMIT_NOFILE), pl.DataFrame({"x": range(2 * SPILLS)})
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, limits[1]))
    try:
        with spilling(Vault(tmp_path), "spill", rows.schema) as spill:
            spill.add(rows, rows["x"] % SPILLS)
            assert [part["x"].to_list() for part in spill.read(2)] == [[0, SPILLS], [1, SPILLS + 1]]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
