"""What may be wrong with a table: files by their bytes, frames, and what a plan says of them.

Wherever private content stands it holds CANARY, which no sentence may show. What is said of each stands in
wrong_tables.txt, which `make reference` writes."""

import gzip
import io
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa

from tests import world

Files = dict[str, bytes]
ROWS = pl.DataFrame({"age": [30, 41, None], "city": ["CANARY", "Bonn", None]})
AGE = world.Scaled(kind="numeric", name="age", mean=0, scale=1, fill=0, low=0, high=1, missing=False)
ENCODING = world.Encoding(columns=(AGE,), label="city", classes=("Rome", "Bonn"))


def parquet(rows: pl.DataFrame | pa.Table = ROWS, **columns: Any) -> bytes:
    sink = io.BytesIO()
    (pl.DataFrame(columns) if columns else pl.DataFrame(rows)).write_parquet(sink)
    return sink.getvalue()


def arrow(table: pa.Table, *, stream: bool = False) -> bytes:
    sink = io.BytesIO()
    with (pa.ipc.new_stream if stream else pa.ipc.new_file)(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def ids(kind: pa.DataType) -> bytes:
    """A table whose units are named by a column of that type, of which no cell is known."""
    return arrow(pa.table({"person": pa.nulls(2, kind), "age": pa.array(["1", "2"])}))


COMMON: dict[str, Files] = {
    "no file": {},
    "a file of another format": {"t.xlsx": b"PK\x03\x04"},
    "files of two formats": {"t.parquet": parquet(), "t.csv": b"age\n1\n"},
    "torn Parquet": {"t.parquet": parquet()[:-20]},
    "no Parquet": {"t.parquet": b"torn"},
    "no Arrow": {"t.arrow": b"torn"},
    "an Arrow stream": {"t.arrow": arrow(ROWS.to_arrow(), stream=True)},
    "a packed file cut off": {"t.csv.gz": gzip.compress(b"age\n" + b"CANARY\n" * 20_000)[:-9]},
    "a packed file that is damaged": {"t.csv.gz": gzip.compress(b"age\n" + b"CANARY\n" * 20_000)[:40] + b"CANARY"},
    "a file that lacks a column": {"a.parquet": parquet(), "b.parquet": parquet(city=["CANARY"])},
    "a header in one file of two": {"a.csv": b"age,city\n1,CANARY\n", "b.csv": b"1,CANARY\n"},
    "paths that name a column": {"a.parquet": parquet(), "deep/person=CANARY/b.parquet": parquet()},
    "UTF-16": {"t.csv": "age\n1\n".encode("utf-16")},
    "UTF-16 without a mark": {"t.csv": "age\n1\n".encode("utf-16-le")},
    "a name twice": {"t.csv": b"age,age\n1,2\n"},
    "another separator": {"t.csv": b"age;city\n1;CANARY\n"},
    "tabs": {"t.csv": b"age\tcity\n1\tCANARY\n"},
    "names quoted otherwise": {"t.csv": b"'age','city'\n1,CANARY\n"},
    "the first line of Excel": {"t.csv": b"sep=;\r\nage;city\r\n1;CANARY\r\n"},
    "the first line of Excel, after a mark": {"t.csv": b"\xef\xbb\xbfsep=;\r\nage;city\r\n1;CANARY\r\n"},
    "other columns": {"t.parquet": parquet(CANARY=[1])},
}
PUBLIC: dict[str, Files] = {
    "an empty file": {"t.csv": b""},
    "names alone": {"t.csv": b"age,city\n"},
    "columns alone": {"t.parquet": parquet(ROWS.clear())},
    "a ragged line": {"t.csv": b"age,city\n1,Rome\n2,Bonn,3\n"},
    "a cell with a line break": {"t.csv": b'age,city\r\n1,"x\ny"\r\n'},
    "bytes that are not UTF-8": {"t.csv": b"age,city\n1,\xff\xfe\n"},
    "a column of two types": {"a.parquet": parquet(), "b.parquet": parquet(age=["1"])},
    "text of two kinds": {"a.csv": b"age\n1\n", "b.csv": b"age\nold\n"},
    "a nested column": {"t.parquet": parquet(age=[{"years": 3}])},
}
LABELLED: dict[str, Files] = {
    "words for a number": {"t.csv": b"age,city\nold,Rome\n"},
    "a class that is not declared": {"t.csv": b"age,city\n1,Rome\n2,Oslo\n"},
    "a row without a class": {"t.csv": b"age,city\n1,Rome\n2,\n"},
}
NO_IDS = [
    *(pa.float16(), pa.float32(), pa.float64(), pa.decimal128(9, 2), pa.decimal64(12, 3), pa.bool_(), pa.date32()),
    *(pa.date64(), pa.timestamp("us"), pa.timestamp("s", "Europe/Rome"), pa.duration("s"), pa.time64("us")),
    *(pa.list_(pa.int8()), pa.struct([]), pa.dictionary(pa.int8(), pa.float64())),
]
UNLIKE = [(pa.string(), pa.int64()), (pa.int8(), pa.binary()), (pa.uuid(), pa.string()), (pa.uuid(), pa.binary(16))]
NAMED = {f"ids of type {kind}": {"t.arrow": ids(kind)} for kind in NO_IDS} | {
    f"ids of types {one} and {other}": {"0.arrow": ids(one), "1.arrow": ids(other)} for one, other in UNLIKE
}
"""Pandas makes doubles of integers that lack one, of which ids beyond 2^53 stand together."""
FRAMES: dict[str, Any] = {
    "a number": 7,
    "a path": "ward.csv",
    "a list": [{"c": "CANARY"}],
    "polars' objects": pl.DataFrame({"c": [object()]}),
    "intervals": pd.DataFrame({"size": [1, 2], "age": pd.cut([1, 2], [0, 1, 2])}),
    "complex numbers": pd.DataFrame({"size": [1, 2], "age": [1j, 2j]}),
}
ADDRESSED: dict[str, Any] = {
    "a database's address": "postgresql://u:CANARY@host/ward",
    "a key in an address": "s3://key:CANARY@bucket/ward",
    "a secret in an address": "s3://bucket/x?secret=CANARY",
    "a list": ["postgresql://u:CANARY@host/ward"],
    "an address for a variable's name": {"query": "select 1", "connection": "postgresql://u:CANARY@host"},
    "a slip of the pen": {"query": "select 1", "conection": "CANARY"},
    "a variable's name in a list": {"query": "select 1", "connection": ["CANARY"]},
    "a folder outside of the home": {"frame": "../../CANARY"},
}
FORMATS: dict[str, dict[str, Any]] = {
    "a class that is read otherwise": {"decimal": ","},
    "one sign for both": {"decimal": ",", "thousands": ","},
    "a key that is gone": {"quote": "'"},
    "another, as it was": {"quoted_line_breaks": False},
    "a long separator": {"separator": "::"},
    "a slip of the pen": {"seperator": ";"},
}


def read_public(folder: str) -> None:
    table = world.open_public(folder)
    table.kinds(["age"])
    list(table.frames(["age"]))


def read_named(folder: str) -> None:
    list(world.rows_with_units(world.open_private(folder, unit="person"), {}))


READERS: dict[str, tuple[dict[str, Files], Callable[[str], object]]] = {
    "A public table": (COMMON | PUBLIC, read_public),
    "A private table": (
        {what: files for what, files in COMMON.items() if what != "a name twice"},
        lambda folder: list(world.open_private(folder).frames({"age": "data.features"})),
    ),
    "A test table": (LABELLED, lambda folder: world.labelled_rows(folder, ENCODING)),
    "A private table whose units are named": (NAMED, read_named),
}


def data_of(**changes: Any) -> dict[str, Any]:
    return {"data": {"private": "a", "public": "b", "label": "c", "classes": ["1,5", "b"], **changes}}


def a_pipe(folder: str) -> None:
    """Which is not waited for."""
    os.mkfifo(f"{folder}/rows.csv")
    world.find_files(f"{folder}/rows.csv", "data.test")


def wrong(folder: Path) -> Iterator[tuple[str, str, Callable[[], object]]]:
    """Of each: what is read, what is wrong with it, and what raises; files are written into the folder."""
    for section, (cases, read) in READERS.items():
        for number, (what, files) in enumerate(cases.items()):
            place = folder / f"{section.replace(' ', '-')}-{number}"
            place.mkdir()
            for name, content in files.items():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_bytes(content)
            yield section, what, partial(read, str(place))
    yield "A test table", "a pipe", partial(a_pipe, str(folder))
    yield "A test table", "no such file", partial(world.open_public, str(folder / "none.csv"), "data.test")
    for what, frame in FRAMES.items():
        yield "A frame", what, partial(world.frame_table, frame, "data.private")
    for what, private in ADDRESSED.items():
        yield "data.private", what, partial(world.parse_plan, data_of(private=private))
    for what, form in FORMATS.items():
        yield "data.format", what, partial(world.parse_plan, data_of(format=form))
