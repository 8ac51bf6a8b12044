"""The search for canaries finds a word or a number however it is packed, and nothing if there is none."""

import base64
import gzip
import io
import json
import sqlite3
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from tests.promises.canary import NUMBER, ROWS, VALUE
from tests.promises.marks import Marks


def zipped(word: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", json.dumps({"inner": gzip.compress(word.encode()).hex()}))
    return file.getvalue()


def unused_word(word: str) -> bytes:
    sink = io.BytesIO()
    column = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array(["no", word]))
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(sink, pa.schema([("label", column.type)]), options=options) as writer:
        writer.write_table(pa.table({"label": column}))
    return sink.getvalue()


def in_metadata(word: str) -> bytes:
    sink = io.BytesIO()
    schema = pa.schema([("row", pa.int8())], metadata={"source": word.encode("utf-16-le")})
    with pa.ipc.new_file(sink, schema) as writer:
        writer.write_table(pa.table({"row": pa.array([1], pa.int8())}, schema=schema))
    return sink.getvalue()


def in_a_table(word: str) -> bytes:
    sink = io.BytesIO()
    pl.DataFrame({"note": [word] * 3}).write_parquet(sink, compression="zstd")
    return sink.getvalue()


def in_a_database(word: str) -> bytes:
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE TABLE t (b BLOB)")
        database.execute("INSERT INTO t VALUES (?)", (gzip.compress(word.encode()),))
        database.commit()
        return database.serialize()


PACKED: dict[str, Callable[[str], bytes]] = {
    "plain": str.encode,
    "escaped": lambda word: "".join(f"\\u{ord(letter):04x}" for letter in word).encode(),
    "entities": lambda word: "".join(f"&#{ord(letter)};" for letter in word).encode(),
    "base64 of the web": lambda word: b"data:" + base64.urlsafe_b64encode(word.encode() * 2),
    "gzip in hex in JSON in a zip": zipped,
    "an unused word of a compressed dictionary": unused_word,
    "metadata in UTF-16": in_metadata,
    "compressed Parquet": in_a_table,
    "gzip in a database": in_a_database,
}


@pytest.mark.parametrize("packing", PACKED)
def test_a_word_is_found_however_it_is_packed(packing: str) -> None:
    marks = Marks({"a value": VALUE.encode(), "in UTF-16": VALUE.encode("utf-16-le")}, {})
    assert marks.found(PACKED[packing](f"{VALUE}-shade"))
    assert marks.found(PACKED[packing]("an innocent word")) == set()


@pytest.mark.parametrize("number", [ROWS, NUMBER])
def test_a_number_is_found_however_it_is_written(number: float, tmp_path: Path) -> None:
    marks = Marks.of(tmp_path, tmp_path)
    array = io.BytesIO()
    np.save(array, np.array([1, number], dtype=np.float32))
    sink = io.BytesIO()
    pl.DataFrame({"n": [1.5, number]}).write_parquet(sink)
    for text in (json.dumps({"n": number}).encode(), f"<b>{number:,}</b>".encode(), array.getvalue(), sink.getvalue()):
        assert marks.found(text)


def test_a_count_inside_another_word_is_not_one(tmp_path: Path) -> None:
    marks = Marks.of(tmp_path, tmp_path)
    assert marks.found(f"f{ROWS}a 1{ROWS} {ROWS}1 0.{ROWS} {ROWS}.5 {ROWS}-01".encode()) == set()
    for line in (f'File "engine.py", line {ROWS}, in run', f"INFO     prefect.flow_runs:engine.py:{ROWS} Finished"):
        assert marks.found(line.encode()) == set()


def test_digits_inside_others_are_not_the_private_number(tmp_path: Path) -> None:
    marks = Marks.of(tmp_path, tmp_path)
    for spelt in (f"{NUMBER:.2f}", f"-{NUMBER:,.1f}", f"x={NUMBER}"):
        assert marks.found(spelt.encode())
    assert marks.found(f"7{NUMBER} .{NUMBER} {NUMBER:.0f}009 {str(NUMBER).replace('.', '7')}".encode()) == set()
