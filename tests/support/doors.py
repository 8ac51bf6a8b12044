"""Every door by which a private table comes in: what its rows are, how they may be stored, and what is read of them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, get_args

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

from tests import world
from tests.support.raw import NUMBERS, TYPES, WORDS, Cell, cells_of, column
from tests.support.sources import asked_of, database, plan_over

Read = Iterator[tuple[pl.DataFrame, list[bytes | None]]]
"""Frames with the cells `c` and `label` of rows, and the names of their units, if rows have units."""
FEATURES = {"c": "data.features", "label": "data.label"}


@dataclass(frozen=True)
class Door:
    """A way in for private rows.

    ways     how a table may be stored
    rows     any rows of a table that is stored so
    read     what the private reader makes of rows, in a folder of its own
    is_row   whether it is a row, by how it is stored
    """

    ways: st.SearchStrategy[Any]
    rows: Callable[[Any], st.SearchStrategy[Any]]
    read: Callable[[Path, Any, Sequence[Any]], Read]
    is_row: Callable[[Any, Any], bool] = lambda *_: True


def frames_of(path: str, form: world.TextFormat = world.COMMAS, unit: str | None = None) -> Read:
    """Words may come once each, as a file stores them."""
    for frame, owner in world.rows_with_units(world.open_private(path, form, unit), FEATURES, once=tuple(FEATURES)):
        yield frame.select("c", "label"), owner.to_list() if unit else [None] * frame.height


# Columns in memory ----------------------------------------------------------------------------------------------------


def of_column(_: Path, stored: pa.DataType, cells: Sequence[Cell]) -> Read:
    """A column as the readers of files hand it on, from the middle of a longer one."""
    if world.polars_type(stored) == pl.Unknown:
        read = pl.Series("c", [None] * len(cells), dtype=pl.Null)
    else:
        read = world.read_column("c", column(stored, [None, *cells]).slice(1), stored)
        assert read.dtype == world.polars_type(stored)
    yield read.to_frame(), [None] * len(cells)


# Files of columns -----------------------------------------------------------------------------------------------------

Row = tuple[Cell, Cell, Cell]
"""The bits of its features, of its label and of its unit."""


@dataclass(frozen=True)
class Stored:
    """How rows are stored: the types of features, label and unit, the format, what a row group holds, and the files."""

    types: tuple[pa.DataType, pa.DataType, pa.DataType]
    form: str
    cut: int
    files: int = 1
    names: tuple[str, ...] = ("c",)

    def write(self, folder: Path, rows: Sequence[Row]) -> Path:
        """The folder, which holds these rows now."""
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()
        for at in range(self.files):
            part = rows[at :: self.files]
            path = folder / f"{at}.{self.form}"
            if self.form == "csv":
                header = ",".join((*self.names, "label", "unit")).encode()
                path.write_bytes(b"\n".join([header, *map(self._line, part), b""]))
            elif self.form == "parquet":
                pq.write_table(self._table(part), path, row_group_size=self.cut)
            else:
                with pa.ipc.new_file(str(path), self._table(part).schema) as writer:
                    writer.write_table(self._table(part), max_chunksize=self.cut)
        return folder

    def _table(self, rows: Sequence[Row]) -> pa.Table:
        feature, label, unit = (column(kind, [row[at] for row in rows]) for at, kind in enumerate(self.types))
        return pa.table(dict.fromkeys(self.names, feature) | {"label": label, "unit": unit})

    def _line(self, row: Row) -> bytes:
        feature, label, unit = ((cell or b"").replace(b"\n", b"") for cell in row)
        return b",".join([*[feature] * len(self.names), label, unit])


def parquet_holds(stored: pa.DataType) -> bool:
    """Whether a Parquet writer takes cells of any bits; it looks up words of dictionaries and views unasked."""
    lists = (pa.list_(pa.float32(), 2), pa.list_(pa.uint8(), 2), pa.list_(pa.int64()), pa.list_(pa.string(), 2))
    return bool(
        stored in lists or pa.types.is_primitive(stored) or stored in (pa.string(), pa.large_string(), pa.binary(3))
    ) and not (pa.types.is_interval(stored) or (pa.types.is_timestamp(stored) and stored.unit == "s"))


IN_PARQUET = tuple(filter(parquet_holds, TYPES))


@st.composite
def storings(draw: st.DrawFn, names: tuple[str, ...] = ("c",)) -> Stored:
    among = st.sampled_from(draw(st.sampled_from([TYPES, IN_PARQUET])))
    types = draw(among), draw(among), draw(among)
    form = draw(st.sampled_from(["arrow", "csv", *(["parquet"] * all(map(parquet_holds, types)))]))
    return Stored(types, form, draw(st.integers(1, 8)), draw(st.integers(1, 2)), names)


def of_files(folder: Path, stored: Stored, rows: Sequence[Row]) -> Read:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world.data_files, "ROWS_IN_MEMORY", stored.cut)
        yield from frames_of(str(stored.write(folder / "table", rows)))


# Lines of text --------------------------------------------------------------------------------------------------------

KEYS: dict[str, tuple[Any, ...]] = {
    key: get_args(world.TextFormat.model_fields[key].annotation)
    for key in ("separator", "decimal", "thousands", "encoding")
}
SIGNS = (
    *b'" \' "" "a a" \'a; "1,5 "\r \r \\ \x00 \x81 \xff \xe4 \x85 \xe2\x82 \xe2\x82\xac \xf0\x9f \x98\xa4'.split(b" "),
    *b"1,5 1.5 -0 -0,0 -0.0 1.234 1,234 1.234,5 1'234.5 1e5 1,5e-3 00011 NA true 2020-01-02 0x1F 1_000 inf".split(),
    *(b"\x0b", b"\x0c", b"\x1c", b"\xa0", b"\xef\xbb\xbf", b"12 345", b",", b";", b"\t", b"|", b";;;", b" ", b""),
    *(b"1,a;7\tx", b'7;"8', b"1,5;2;3"),
)
formats = (
    st.fixed_dictionaries({key: st.sampled_from(signs) for key, signs in KEYS.items()})
    .filter(lambda keys: keys["decimal"] != keys["thousands"])
    .map(world.TextFormat.model_validate)
)
lines = st.lists(st.sampled_from(SIGNS), min_size=1, max_size=8).map(b"".join)


def of_text(folder: Path, form: world.TextFormat, rows: Sequence[bytes]) -> Read:
    header = form.separator.join(("c", "label", "unit")).encode()
    (folder / "t.csv").write_bytes(b"\n".join([header, *rows, b""]))
    yield from frames_of(str(folder / "t.csv"), form, "unit")


def is_line(form: world.TextFormat, line: bytes) -> bool:
    """A blank line is no row, and neither is nothing."""
    text = line.decode(form.encoding, errors="backslashreplace")
    return bool(text.strip() or form.separator in text)


# Cells of any Python type ---------------------------------------------------------------------------------------------

OBJECTS: tuple[Any, ...] = (
    *(None, 0, 1, -1, 7, 2**53 + 1, -(2**63), 2**63 - 1, *NUMBERS, *WORDS),
    *(b"", b"a", b"\xff\xfe", b"a\x00b", b"\xed\xa0\x80", "\x85", "x" * 70_000, "2020-01-02 03:04:05.5", "NA", "?"),
)
objects = st.tuples(
    st.sampled_from(OBJECTS), st.sampled_from(("no", "yes", None, 7, b"\xff")), st.sampled_from(OBJECTS)
)
versions = count()


def of_query(folder: Path, _: None, rows: Sequence[Any]) -> Read:
    """Rows of a database; stored as they are, text that is not UTF-8 too."""
    query = "select c, label, case typeof(unit) when 'blob' then cast(unit as text) else unit end as unit from ward"
    with pytest.MonkeyPatch.context() as patch:
        source = asked_of(patch, database(folder / "ward.db", rows), query)
        plan = plan_over(source, folder, unit="unit", version=str(next(versions)))
        yield from frames_of(world.with_snapshots(plan, world.Vault(folder / "vault")).path("private"), unit="unit")


def of_frame(folder: Path, _: None, rows: Sequence[Any]) -> Read:
    """Rows of a pandas frame of Python objects."""
    frame = pd.DataFrame(list(rows), columns=["c", "label", "unit"], dtype="object")
    vault = world.Vault(folder / "vault")
    plan = plan_over(world.keep_frame(frame, vault, "private", "ward"), folder, unit="unit")
    yield from frames_of(world.with_snapshots(plan, vault).path("private"), unit="unit")


DOORS: dict[str, Door] = {
    "columns": Door(st.sampled_from(TYPES), cells_of, of_column),
    "files": Door(storings(), lambda stored: st.tuples(*map(cells_of, stored.types)), of_files),
    "text": Door(formats, lambda _: lines, of_text, is_line),
    "query": Door(st.none(), lambda _: objects, of_query),
    "frame": Door(st.none(), lambda _: objects, of_frame),
}
