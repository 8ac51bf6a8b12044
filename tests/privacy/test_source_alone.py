"""A row of a source alone: what a row of a query or a frame becomes is the same, to the bit, whatever rows come with
it, in whatever order, and no cell can fail.

Law 8, for tables that are no files. Odd cells go through a database or a frame, into a snapshot and out of it through
the private reader; cells and units' names are compared as bytes.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.privacy.test_row_alone import through_the_rules
from tests.support.raw import NUMBERS, WORDS
from tests.support.sources import asked_of, database, plan_over, read
from tests.world import Vault, data_frames, keep_frame

ODD: tuple[Any, ...] = (
    *(None, 0, 1, -1, 7, 2**53 + 1, -(2**63), 2**63 - 1, *NUMBERS, *WORDS),
    *(b"", b"a", b"\xff\xfe", b"a\x00b", b"\xed\xa0\x80", "\x85", "x" * 70_000, "2020-01-02 03:04:05.5", "NA", "?"),
)
Row = tuple[Any, Any, Any]
rows = st.tuples(st.sampled_from(ODD), st.sampled_from(("no", "yes", None, 7, b"\xff")), st.sampled_from(ODD))
Reader = Callable[[Sequence[Row]], list[tuple[bytes | None, ...]]]


def of_query(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Reader:
    """Reads rows of a database; stored as they are, text that is not UTF-8 too."""
    vault, read_before = Vault(folder / "vault"), iter(range(10**9))

    def reader(given: Sequence[Row]) -> list[tuple[bytes | None, ...]]:
        query = "select c, label, case typeof(unit) when 'blob' then cast(unit as text) else unit end as unit from ward"
        source = asked_of(monkeypatch, database(folder / "ward.db", given), query)
        return read(plan_over(source, folder, unit="unit", version=str(next(read_before))), vault, "c", "label")

    return reader


def of_frame(folder: Path, _: pytest.MonkeyPatch) -> Reader:
    """Reads rows of a pandas frame of Python objects."""
    pandas, vault = pytest.importorskip("pandas"), Vault(folder / "vault")

    def reader(given: Sequence[Row]) -> list[tuple[bytes | None, ...]]:
        frame = pandas.DataFrame(given, columns=["c", "label", "unit"], dtype="object")
        return read(plan_over(keep_frame(frame, vault, "private", "ward"), folder, unit="unit"), vault, "c", "label")

    return reader


SOURCES = {"query": of_query, "frame": of_frame}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("cases", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_a_row_becomes_the_same_alone_as_in_company(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, cases: int
) -> None:
    reader = SOURCES[source](tmp_path, monkeypatch)

    @settings(max_examples=cases, deadline=None)
    @given(st.lists(rows, min_size=2, max_size=9))
    def holds(company: list[Row]) -> None:
        alone = [became for row in company for became in reader([row])]
        assert len(alone) == len(company)
        assert sorted(reader(company), key=repr) == sorted(alone, key=repr)

    holds()


def test_every_odd_cell_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    every = [(cell, "no", "u") for cell in ODD]
    for source in SOURCES.values():
        folder = tmp_path / source.__name__
        folder.mkdir()
        found = source(folder, monkeypatch)(every)
        assert len(found) == len(ODD)
        cells = pl.Series([None if cell is None else cell.decode() for cell, *_ in found], dtype=pl.String)
        through_the_rules(cells)


@contextmanager
def types_that_are_guessed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The planted fault: a column of numbers stays one, as a reader that looks at all cells would have it."""
    honest = data_frames._of_pandas

    def guessed(column: Any, word: Any = None) -> Any:
        try:
            return pa.array([None if cell is None else float(cell) for cell in column])
        except (TypeError, ValueError):
            return honest(column, word)

    with monkeypatch.context() as patch:
        patch.setattr(data_frames, "_of_pandas", guessed)
        yield


def test_types_that_are_guessed_from_cells_are_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = of_frame(tmp_path, monkeypatch)
    company = [("007", "no", "u"), ("x", "no", "v")]
    assert sorted(reader(company), key=repr) == sorted(became for row in company for became in reader([row]))
    with types_that_are_guessed(monkeypatch):
        assert reader(company)[0] != reader(company[:1])[0]
