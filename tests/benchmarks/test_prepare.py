"""Benchmark splits are a partition: every row once, and no public row with its label."""

from pathlib import Path

import polars as pl
import pytest

from tests.benchmarks.prepare import prepare


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    for name, rows in (("train", 50), ("test", 10_007)):
        frame = pl.DataFrame({"row": range(rows), "income": ["<=50K"] * rows})
        frame.write_parquet(folder / f"adult_{name}.parquet")
    return folder


def test_every_row_is_in_one_part_and_what_is_absent_is_said(source: Path, tmp_path: Path) -> None:
    result = prepare(source, tmp_path)
    assert result[1] == "adult: 50 private, 10,000 public, 10,000 truth, 7 test"
    assert "kdd99: left out" in result[2]
    public, test = (pl.read_parquet(tmp_path / f"data/adult_{role}.parquet") for role in ("public", "test"))
    assert public.columns == ["row"]
    assert sorted([*public["row"], *test["row"]]) == list(range(10_007))
    assert sorted(test["row"]) != list(range(10_000, 10_007))  # shuffled
