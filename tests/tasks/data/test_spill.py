"""Spill: rows come back by part, in the order they came, whether files held them or memory did."""

import resource
from pathlib import Path

import polars as pl
import pytest

from tests.world import SPILLS, Vault, data_spill, spilling


@pytest.mark.parametrize("held", [0, 1 << 26])
def test_rows_of_a_part_come_back_in_the_order_they_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    monkeypatch.setattr(data_spill, "HELD_BYTES", held)
    rows = pl.DataFrame({"row": range(1000)})
    parts = pl.Series([row * row % 7 for row in range(1000)])
    with spilling(Vault(tmp_path), "spill", rows.schema) as spill:
        for first in range(0, 1000, 100):
            spill.add(rows[first : first + 100], parts[first : first + 100])
        assert [part.rows() for part in spill.read(7)] == [rows.filter(parts == part).rows() for part in range(7)]


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
