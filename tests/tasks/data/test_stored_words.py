"""Words: a column has the same cells, to the bit, whether its file holds each word once or each cell by itself."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.raw import CELLS, column
from tests.support.rules import CODES, COLUMNS, ENCODING
from tests.world import (
    PRIVATE,
    cast_labels,
    cast_rows,
    columns_by_words,
    data_files,
    data_stored_columns,
    find_files,
    words_as_enum,
)

ODD = [*CELLS, b"a", b"Rome", b" Rome ", b"7", b"7.0", b"\\xff", b"\xff"]
"""Cells of any bits; the last two are mended to the same word."""


def table(cells: Sequence[bytes | None]) -> pa.Table:
    """A table whose columns are all those cells, as text of any bytes."""
    return pa.table({name: column(pa.string(), cells) for name in (*ENCODING.features, ENCODING.label)})


def written(path: Path, cells: Sequence[bytes | None], rows: int, **how: Any) -> Path:
    pq.write_table(table(cells), path, row_group_size=rows, **how)
    return path


def read(path: Path, rows: int) -> Iterator[pl.DataFrame]:
    (file,) = find_files(str(path), PRIVATE)
    names = (*ENCODING.features, ENCODING.label)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(data_files, "ROWS_IN_MEMORY", rows)
        yield from file.frames(names, once=names)


def coded(frames: Iterator[pl.DataFrame]) -> list[tuple[bytes, int]]:
    """What each row becomes: its codes and its class."""
    return [
        (row.tobytes(), int(index))
        for raw in frames
        for row, index in zip(CODES.of_raw(raw, COLUMNS), cast_labels(raw["label"], ENCODING), strict=True)
    ]


@pytest.mark.parametrize("rows", [999, 4096])
def test_cells_have_the_same_codes_however_a_file_holds_them(tmp_path: Path, rows: int) -> None:
    """Each odd cell many times, so that its words are few; in row groups that frames are cut across."""
    cells = ODD * 100
    once = written(tmp_path / "once.parquet", cells, 4000)
    each = written(tmp_path / "each.parquet", cells, 2999, use_dictionary=False)
    first = next(read(once, 4096))
    assert all(isinstance(dtype, pl.Enum) for dtype in first.dtypes)
    assert {dtype for raw in read(each, rows) for dtype in raw.dtypes} == {pl.String()}
    together = coded(read(once, rows))
    assert together == coded(read(each, rows))
    assert len(set(together)) > 10
    assert [raw.height for raw in read(once, rows)] == [raw.height for raw in read(each, rows)]
    cast = [row.tobytes() for raw in read(each, rows) for row in CODES.of(cast_rows(raw, ENCODING)).astype("u1")]
    assert cast == [row for row, _ in together]


def test_a_word_by_the_dictionary_of_another_row_group_would_be_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: all chunks of a frame are read by the first one's words."""
    path = written(tmp_path / "t.parquet", [b"a"] * 1000 + [b"7"] * 1000, 1000)
    true = coded(read(path, 4096))

    def by_the_first(name: str, parts: Sequence[Any]) -> pl.Series:
        return words_as_enum(name, [(parts[0][0], places) for _, places in parts])

    monkeypatch.setattr(data_files, "words_as_enum", by_the_first)
    assert coded(read(path, 4096)) != true


def test_columns_of_many_words_and_of_other_types_are_read_cell_by_cell(tmp_path: Path) -> None:
    many = [str(at).rjust(20, "0") for at in range(1000)]
    columns = {"few": ["a", "b"] * 500, "many": many, "number": list(range(1000)), "bytes": [b"a"] * 1000}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=500)
    footer = pq.read_metadata(tmp_path / "t.parquet")
    assert columns_by_words(footer, [*columns, "absent"]) == ["few"]
    pq.write_table(pa.table(columns), tmp_path / "plain.parquet", use_dictionary=["many"])
    assert columns_by_words(pq.read_metadata(tmp_path / "plain.parquet"), columns) == []
    assert data_stored_columns.columns_by_words(footer, []) == []


def test_a_column_whose_writer_went_over_to_pages_without_words_is_read_cell_by_cell(tmp_path: Path) -> None:
    """Arrow cannot give the words of such pages. None of the writers here makes both kinds; others do, as words grow
    many: what a footer then says is made up of a true one."""
    encoded: dict[str, Any] = {"use_dictionary": False, "column_encoding": "DELTA_BYTE_ARRAY"}
    pq.write_table(pa.table({"c": ["a", "b"] * 500}), tmp_path / "delta.parquet", **encoded)
    with pytest.raises(OSError, match="Not yet implemented"):
        pq.ParquetFile(tmp_path / "delta.parquet", read_dictionary=["c"]).read()
    pq.write_table(pa.table({"c": ["a", "b"] * 500}), tmp_path / "t.parquet")
    own = pq.read_metadata(tmp_path / "t.parquet").row_group(0).column(0)
    known = {name: getattr(own, name) for name in ("has_dictionary_page", "total_uncompressed_size", "num_values")}
    for encodings, read_once in ((own.encodings, True), ((*own.encodings, "DELTA_BYTE_ARRAY"), False)):
        chunk: Any = SimpleNamespace(encodings=encodings, **known)
        assert data_stored_columns._of_few_words(chunk) == read_once
