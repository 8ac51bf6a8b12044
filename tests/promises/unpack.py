"""The content of a file, however it is packed: archives, compressed streams, arrays, tables, databases, escapes."""

import base64
import binascii
import contextlib
import gzip
import html
import io
import re
import sqlite3
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DEPTH = 4
"""The most nested packings that are opened."""
UNREADABLE = (ValueError, OSError, EOFError, sqlite3.Error, zipfile.BadZipFile, zlib.error, pa.ArrowException)
RUN = re.compile(rb"[A-Za-z0-9+/_-]{16,}={0,2}")
ESCAPE = re.compile(rb"\\u([0-9a-fA-F]{4})")
Opener = Callable[[bytes], Iterator[bytes]]


def layers(data: bytes, depth: int = DEPTH) -> Iterator[bytes]:
    """`data` itself, and everything that can be unpacked from it. Data that only begins like a format is left alone."""
    yield data
    for begins, opener in OPENERS.items() if depth else ():
        if data.startswith(begins):
            with contextlib.suppress(*UNREADABLE):
                for inner in opener(data):
                    yield from layers(inner, depth - 1)


def _archive(data: bytes) -> Iterator[bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        yield "\n".join(archive.namelist()).encode()
        for name in archive.namelist():
            yield archive.read(name)


def _gzip(data: bytes) -> Iterator[bytes]:
    yield gzip.decompress(data)


def _png(data: bytes) -> Iterator[bytes]:
    for start in (found.end() for found in re.finditer(b"IDAT", data)):
        yield zlib.decompressobj().decompress(data[start:])


def _array(data: bytes) -> Iterator[bytes]:
    yield _text(np.load(io.BytesIO(data), allow_pickle=False).ravel().tolist())


def _arrow(data: bytes) -> Iterator[bytes]:
    yield from _table(pa.ipc.open_file(pa.BufferReader(data)).read_all())


def _parquet(data: bytes) -> Iterator[bytes]:
    yield from _table(pq.read_table(io.BytesIO(data)))


def _table(table: pa.Table) -> Iterator[bytes]:
    """Schema with its metadata, every cell, and dictionaries with unused words."""
    yield table.schema.to_string(truncate_metadata=False).encode()
    for column in table.columns:
        yield _text(column.to_pylist())
        if pa.types.is_dictionary(column.type):
            yield _text([word for chunk in column.chunks for word in chunk.dictionary.to_pylist()])


def _database(data: bytes) -> Iterator[bytes]:
    with contextlib.closing(sqlite3.connect(":memory:")) as database:
        database.deserialize(data[:18] + b"\1\1" + data[20:])  # as if it kept no write-ahead log
        database.text_factory = lambda cell: cell.decode(errors="surrogateescape")
        yield "\n".join(database.iterdump()).encode(errors="surrogateescape")


def _plain(data: bytes) -> Iterator[bytes]:
    """The text decoded from entities, escapes, base64 or hex."""
    if b"&" in data:
        yield from _other(html.unescape(data.decode("latin-1")).encode("latin-1", errors="replace"), data)
    yield from _other(ESCAPE.sub(lambda found: chr(int(found[1], 16)).encode(errors="replace"), data), data)
    decoded, files = [*_decoded(data)], tuple(begins for begins in OPENERS if begins)
    yield from _other(b"\0".join(decoded), b"")
    yield from (run for run in decoded if run.startswith(files))


def _other(data: bytes, known: bytes) -> Iterator[bytes]:
    if data != known:
        yield data


def _decoded(data: bytes) -> Iterator[bytes]:
    for run in RUN.findall(data):
        with contextlib.suppress(binascii.Error):
            yield binascii.unhexlify(run)
        letters, ours = run.rstrip(b"="), b"-_" if b"-" in run or b"_" in run else b"+/"
        with contextlib.suppress(binascii.Error):
            yield base64.b64decode(letters + b"=" * (-len(letters) % 4), altchars=ours)


def _text(cells: list[Any]) -> bytes:
    return " ".join(map(str, cells)).encode(errors="replace")


OPENERS: dict[bytes, Opener] = {
    b"PK": _archive,
    b"\x1f\x8b": _gzip,
    b"\x89PNG": _png,
    b"\x93NUMPY": _array,
    b"ARROW1": _arrow,
    b"PAR1": _parquet,
    b"SQLite format 3": _database,
    b"": _plain,
}
