"""Blocks of coded units: what is counted together lies in one record batch, however its frame was put together."""

from pathlib import Path

import polars as pl
import pytest

from tests.world import (
    LABEL,
    UNIT,
    Arriving,
    Codes,
    Coding,
    Encoding,
    Plan,
    PrivateRows,
    PrivateTable,
    RoundQuestion,
    Vault,
    WordField,
    _in_blocks,
    count,
    total_of,
)

CODES = Codes(fields=(WordField(name="word", start=0, words=("a",)),), coarse=(0,), fine=(0,))
ASKED = RoundQuestion(classes=2, steps=64, what="labels", least=32, count=7, fields=(0,), spans=((0, 3),))


def coding(vault: Vault) -> Coding:
    """Of a table with names of units."""
    encoding = Encoding.model_construct(bounds=None)
    arriving = Arriving(PrivateTable((), unit="person"), bytes(32), (), "arrived")
    return Coding(PrivateRows(Plan.model_construct(), encoding, vault, bytes(32)), CODES, arriving)


def frame_of(rows: int) -> pl.DataFrame:
    """Rows of one unit."""
    schema = {"0": pl.UInt8(), LABEL: pl.UInt16(), UNIT: pl.Int64()}
    return pl.DataFrame({"0": [0] * rows, LABEL: [1] * rows, UNIT: [0] * rows}, schema)


@pytest.mark.parametrize("chunks", [1, 3])
def test_a_unit_in_several_chunks_counts_once(tmp_path: Path, chunks: int) -> None:
    frame = pl.concat([frame_of(2)] * chunks, rechunk=False)
    assert frame.n_chunks() == chunks
    vault = Vault(tmp_path)
    blocks = _in_blocks([frame], coding(vault), "blocks")
    sums = total_of([count(block, ASKED, vault, f"sums/{at}.npy") for at, block in enumerate(blocks)], vault)
    assert sums.tolist() == [32, 0, 0, 7]
