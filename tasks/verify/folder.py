"""What a published folder holds, read so that whoever made it does not decide how much memory that takes.

What is only digested is read piece by piece; what is parsed is read whole, LARGEST_PARSED of it at most. Labels are
unpacked a batch at a time, and only once it is known how much all of them would fill: before the bytes of each buffer
Arrow says how many they unpack to.

Assumes      nobody changes the folder while it is read
Guarantees   what is no file (a pipe, a device), or lies elsewhere than beside the certificate, is missing. Labels are
             refused before any is unpacked if they are of another form or number than Concord writes, or ask for more
             memory than so many rows take, or than LZ4, by which Concord packs them, holds in so few bytes
Not covered  JSON may take 36 times its bytes while it is parsed
             Checked by tests/tasks/verify/test_verify_folder.py, with peaks of memory
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import calcsize, iter_unpack, unpack_from
from typing import Self

import pyarrow as pa

from concord.artifacts.answers import ANSWERS_FORMAT, Promising, promising
from concord.artifacts.certificate import CERTIFICATE_FILE
from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.home.released import labels_schema, sha256
from concord.artifacts.schemas import Ref

Read = Callable[[str], bytes]
"""The bytes of a published file, by its path. Raises NotVerified if it is missing."""
LARGEST_PARSED = 2**28
"""Bytes of a file that is read whole: what is signed of a million answers has fewer."""
LARGEST_DIGESTED = 2**36
"""Bytes of a file that is digested: a disk may claim to hold any number of zeros."""
DIGESTED_AT_ONCE = 2**20
WIDEST_SCORES = 2**10
"""More than a plan may declare."""
LARGEST_BATCH = 10_000_000
"""Rows that a plan may let pass the door at once, which are a file of labels."""
LONGEST_ROW = 2**12
"""Bytes of a row of labels without its scores: its number, class, outcome and session."""
SCORE = 9
"""Bytes of a score, and of whether it is there, for each class."""
MOST_PACKED = 255
"""Bytes that LZ4 holds in one."""
FIFTH_VERSION, RECORD_BATCH = 4, 3
"""What a message of Arrow says of its form, and what it is."""


@dataclass(frozen=True)
class PublishedSession:
    """A certificate where it was published, and the files beside it."""

    certificate: Promising
    text: bytes
    folder: Path
    _digests: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def at(cls, path: Path) -> Self:
        """What a folder or file holds. Raises WrongInput if nothing, NotVerified if it is no certificate."""
        try:
            file = certificate_file(path)
            text = b"".join(_pieces(file, CERTIFICATE_FILE, LARGEST_PARSED, LARGEST_PARSED))
        except PermissionError:
            raise WrongInput(f"{CERTIFICATE_FILE} cannot be read at {path}: this user may not") from None
        except (OSError, ValueError):
            raise WrongInput(f"there is no {CERTIFICATE_FILE} to verify at {path}") from None
        return cls(promising(text, str(file), asks=ANSWERS_FORMAT.encode() in text), text, file.parent)

    def read(self, path: str, most: int = LARGEST_PARSED) -> bytes:
        """The content of a published file. Raises NotVerified if it is missing, lies elsewhere or is too large."""
        return b"".join(self._content(path, most, at_once=most))

    def digest(self, path: str) -> str:
        """SHA-256 in hex of a published file, computed once. Raises NotVerified as `read` does."""
        if path not in self._digests:
            digest = hashlib.sha256()
            for piece in self._content(path, LARGEST_DIGESTED, DIGESTED_AT_ONCE):
                digest.update(piece)
            self._digests[path] = digest.hexdigest()
        return self._digests[path]

    def named(self, ref: Ref, most: int = LARGEST_PARSED) -> bytes:
        """A file that the certificate names. Raises NotVerified unless it is the one that it digests."""
        data = self.read(ref.path, most)
        _as_digested(ref, sha256(data))
        return data

    def check(self, ref: Ref) -> None:
        """Raise NotVerified unless a file that the certificate names is the one that it digests."""
        _as_digested(ref, self.digest(ref.path))

    def batches(self, labels: Sequence[Ref], rows: int) -> Iterator[tuple[Ref, pa.RecordBatch]]:
        """The batches of those files of labels, which hold so many rows in all by the certificate.

        Raises NotVerified if one is not what Concord writes, or would fill more memory than `rows` do.
        """
        for ref in labels:
            data = self.named(ref, _bytes_of(rows, WIDEST_SCORES))
            for batch in unpacked(data, ref.path, rows):
                yield ref, batch
                rows -= batch.num_rows

    def _content(self, path: str, most: int, at_once: int) -> Iterator[bytes]:
        session, _, inside = path.partition("/")
        own = session == self.certificate.session
        file = (self.folder if own else self.folder.parent / session) / inside
        if {"", ".", ".."} & {*path.split("/")}:  # as an absolute path has, or one that goes on as one
            raise NotVerified(f"the file {path} is named, which lies outside what is published")
        try:
            yield from (self.text,) if own and inside == CERTIFICATE_FILE else _pieces(file, path, most, at_once)
        except PermissionError:
            raise NotVerified(f"the published file {path} cannot be read: this user may not") from None
        except (OSError, ValueError):
            raise NotVerified(f"the published file {path} is missing: put it beside the certificate") from None


def certificate_file(path: Path) -> Path:
    """The certificate's file in a folder, or at that path."""
    return path / CERTIFICATE_FILE if path.is_dir() else path


def _pieces(file: Path, path: str, most: int, at_once: int) -> Iterator[bytes]:
    """What a file holds, of the size that it says it has. Raises OSError if there is none, NotVerified if it is larger
    than `most`."""
    if not file.is_file():  # as a pipe or a device is none, which never end
        raise FileNotFoundError
    with file.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        if size > most:
            raise NotVerified(f"the published file {path} holds {size:,} bytes; of such a file {most:,} are read")
        while size > 0 and (piece := stream.read(min(size, at_once))):
            yield piece
            size -= len(piece)


def _as_digested(ref: Ref, digest: str) -> None:
    if digest != ref.digest:
        raise NotVerified(f"the published file {ref.path} is not the one that the certificate digests")


def _bytes_of(rows: int, classes: int) -> int:
    """More than that many rows of labels take in memory."""
    return (rows + 1) * (LONGEST_ROW + classes * SCORE)


def unpacked(data: bytes, path: str, rows: int) -> Iterator[pa.RecordBatch]:
    """The batches of a file of labels, of at most that many rows, in memory of which so many bytes and rows ask."""
    file = pa.ipc.open_file(pa.BufferReader(data))
    scores = file.schema.field("scores").type
    classes = scores.list_size if isinstance(scores, pa.FixedSizeListType) else WIDEST_SCORES
    if classes >= WIDEST_SCORES or not file.schema.equals(labels_schema(classes, {})):
        raise NotVerified(f"the published file {path} holds other columns than those of labels")
    sizes = [*_sizes(memoryview(data))]
    held, asked = sum(length for length, _ in sizes), sum(size for _, size in sizes)
    if held > (most := min(rows, LARGEST_BATCH)):
        raise NotVerified(f"the published file {path} holds {held:,} rows, where the certificate leaves {most:,}")
    if asked > min(_bytes_of(held, classes), MOST_PACKED * len(data)):
        raise NotVerified(
            f"the published file {path} asks for {asked:,} bytes of memory, which its {held:,} rows in {len(data):,} "
            "bytes do not take: Concord writes none such, and nothing of it was unpacked"
        )
    for at in range(file.num_record_batches):
        batch = file.get_batch(at)
        batch.validate(full=True)  # what is damaged inside would end the process
        yield batch


def _sizes(data: memoryview) -> Iterator[tuple[int, int]]:
    """How many rows each batch of an Arrow file says that it has, and how many bytes its buffers fill in memory.

    Raises ValueError or struct.error if Concord writes no such file. The form is that of Arrow's File.fbs and
    Message.fbs, of which the numbers are the fields' places.
    """
    footer = FlatTable.behind(data, len(data) - 10 - unpack_from("<i", data, len(data) - 10)[0])
    if any(footer.records(2, "<qi4xq")):
        raise ValueError("labels have no dictionaries")
    for start, metadata, _ in footer.records(3, "<qi4xq"):
        message = FlatTable.behind(data, start + 8)
        # or Arrow reads it otherwise than is done here: body and packing of older forms are said elsewhere
        if unpack_from("<iI", data, start) != (-1, metadata - 8) or message.number(0, "<h") != FIFTH_VERSION:
            raise ValueError("a batch of labels follows the mark of a message and its length, of today's form")
        if message.number(1, "<B") != RECORD_BATCH:
            raise ValueError("it is a batch of labels")
        batch, body = FlatTable.behind(data, message.place(2)), start + metadata
        packed = batch.place(3) > 0
        buffers = [_filled(data, body + at, length, packed) for at, length in batch.records(2, "<qq")]
        yield batch.number(0, "<q"), sum(buffers)


def _filled(data: memoryview, start: int, length: int, packed: bool) -> int:
    """How many bytes a buffer fills in memory: of one that is packed the first eight say it, or that it is not (-1)."""
    said = unpack_from("<q", data, start)[0] if packed and length else -1
    size: int = length if said == -1 else said
    if size < 0:
        raise ValueError("no buffer is less than empty")
    return size


@dataclass(frozen=True)
class FlatTable:
    """A table of a FlatBuffer, in which a field is found by its place in the table's list of offsets."""

    data: memoryview
    start: int

    @classmethod
    def behind(cls, data: memoryview, at: int) -> Self:
        """The table that an offset leads to."""
        return cls(data, at + unpack_from("<I", data, at)[0])

    def place(self, field: int) -> int:
        """Where a field lies; 0 if it is left out."""
        offsets = self.start - unpack_from("<i", self.data, self.start)[0]
        there = 4 + 2 * field < unpack_from("<H", self.data, offsets)[0]
        inside = unpack_from("<H", self.data, offsets + 4 + 2 * field)[0] if there else 0
        return self.start + inside if inside else 0

    def number(self, field: int, form: str) -> int:
        """A number; 0 if it is left out."""
        place = self.place(field)
        return int(unpack_from(form, self.data, place)[0]) if place else 0

    def records(self, field: int, form: str) -> Iterator[tuple[int, ...]]:
        """A list of records, each of that form; none if it is left out."""
        if place := self.place(field):
            start = place + unpack_from("<I", self.data, place)[0]
            end = start + 4 + calcsize(form) * unpack_from("<I", self.data, start)[0]
            yield from iter_unpack(form, self.data[start + 4 : end])
