"""Read a published folder within bounds on memory that its author cannot raise.

A file that is only digested is read piece by piece; one that is parsed is read whole, up to LARGEST_PARSED bytes.
Labels are unpacked a batch at a time, after the unpacked size of all of them is known: Arrow states it before the bytes
of each buffer.

Assumes      the folder does not change while it is read
Guarantees   pipes, devices, links and files outside the published folder count as missing. Labels are refused before
             any is unpacked if their form or number is not as Concord writes it, or if they ask for more memory than
             their rows take, or than LZ4, with which Concord packs them, can pack into their bytes
Not covered  JSON may take 36 times its bytes while it is parsed
             Checked by tests/tasks/verify/test_verify_folder.py, with peaks of memory
"""

import hashlib
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import calcsize, iter_unpack, unpack_from
from typing import Self

import pyarrow as pa

from concord.artifacts.certificate import CERTIFICATE_FILE, Certificate
from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.home.released import inferred_schema, labels_schema, sha256
from concord.artifacts.published import CARD_FILE, DOCUMENTS
from concord.artifacts.schemas import Ref
from concord.artifacts.sections import LONGEST_CLASS
from concord.tasks.verify.checks import NotIncluded

Read = Callable[[str], bytes]
"""The bytes of a published file, by its path. Raises NotVerified if it is missing."""
LARGEST_PARSED = 2**28
"""Most bytes of a file that is read whole; the signed files of a million answers are smaller."""
LARGEST_DIGESTED = 2**36
"""Most bytes of a file that is digested: a sparse file may claim any size."""
DIGESTED_AT_ONCE = 2**20
WIDEST_SCORES = 2**10
"""More classes than a plan may declare."""
LARGEST_BATCH = 10_000_000
"""Rows that a plan may let pass the door at once, which are a file of labels."""
LONGEST_ROW = 2**10 + 8 * LONGEST_CLASS
"""Bytes of a row of labels without its scores: its number, classes (four bytes a character), outcome and session."""
SCORE = 9
"""Bytes of a score, and of whether it is there, for each class."""
MOST_PACKED = 255
"""Most bytes that LZ4 packs into one."""
ROW_NUMBER = 8
"""Bytes of a row's number, which every row of labels has."""
FIFTH_VERSION, RECORD_BATCH = 4, 3
"""Version and type of an Arrow message, as numbers."""


@dataclass(frozen=True)
class PublishedSession:
    """A published certificate, and the files published with it."""

    certificate: Certificate
    text: bytes
    folder: Path
    _digests: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def at(cls, path: Path) -> Self:
        """The session in a folder or certificate file. Raises WrongInput if there is none, NotVerified if invalid."""
        try:
            file = certificate_file(path)
            text = b"".join(_pieces(file, CERTIFICATE_FILE, LARGEST_PARSED, LARGEST_PARSED))
        except PermissionError:
            raise WrongInput(f"{CERTIFICATE_FILE} cannot be read at {path}: this user may not") from None
        except (OSError, ValueError):
            raise WrongInput(f"there is no {CERTIFICATE_FILE} to verify at {path}") from None
        return cls(Certificate.read(text, str(file)), text, file.parent)

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

    def inferred(self, ref: Ref) -> Iterator[pa.RecordBatch]:
        """The batches of a file of inferred labels, as `batches` has them; the file itself is never in memory whole."""
        self.check(ref)
        with self._place(ref.path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            yield from unpacked(data, ref.path, MOST_PACKED * len(data) // ROW_NUMBER, inferred_schema)

    @property
    def exported(self) -> bool:
        """Whether the folder is an export of the student, which leaves out labels and figures."""
        return (self.folder / CARD_FILE).is_file()

    @property
    def _handed_on(self) -> set[str]:
        """The files that an export has."""
        student = set[str]() if self.certificate.learned is None else {self.certificate.student.file.path}
        return {*student, *(f"{self.certificate.session}/{name}" for name in DOCUMENTS)}

    def _place(self, path: str) -> Path:
        session, _, inside = path.partition("/")
        if {"", ".", ".."} & {*path.split("/")}:  # as an absolute path has, or one that goes on as one
            raise NotVerified(f"the file {path} is named, which lies outside what is published")
        return (self.folder if session == self.certificate.session else self.folder.parent / session) / inside

    def _content(self, path: str, most: int, at_once: int) -> Iterator[bytes]:
        file, own = self._place(path), path == f"{self.certificate.session}/{CERTIFICATE_FILE}"
        try:
            yield from (self.text,) if own else _pieces(file, path, most, at_once)
        except PermissionError:
            raise NotVerified(f"the published file {path} cannot be read: this user may not") from None
        except (OSError, ValueError):
            if self.exported and path not in self._handed_on:
                raise NotIncluded(f"{path} is not included in an export, and was not checked") from None
            raise NotVerified(f"the published file {path} is missing: put it beside the certificate") from None


def certificate_file(path: Path) -> Path:
    """The certificate's file in a folder, or at that path."""
    return path / CERTIFICATE_FILE if path.is_dir() else path


def _pieces(file: Path, path: str, most: int, at_once: int) -> Iterator[bytes]:
    """The content of a file, up to its stated size, in pieces. Raises OSError if there is none, NotVerified if it is
    larger than `most`."""
    if not file.is_file() or file.is_symlink():  # pipes and devices never end, and a link leads anywhere
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
    """Upper bound of the memory that `rows` rows of labels take, in bytes."""
    return (rows + 1) * (LONGEST_ROW + classes * SCORE)


def unpacked(
    data: bytes | mmap.mmap, path: str, rows: int, schema: Callable[[int, dict[str, str]], pa.Schema] = labels_schema
) -> Iterator[pa.RecordBatch]:
    """The batches of a file of labels with at most `rows` rows, of that schema for some number of classes. Raises
    NotVerified, before any is unpacked, if they would take more memory than that many rows do, or than LZ4 packs into
    the file."""
    file = pa.ipc.open_file(pa.py_buffer(data))
    scores = file.schema.field("scores").type if "scores" in file.schema.names else pa.list_(pa.null(), 0)
    classes = scores.list_size if isinstance(scores, pa.FixedSizeListType) else WIDEST_SCORES
    if classes >= WIDEST_SCORES or not file.schema.equals(schema(classes, {})):
        raise NotVerified(f"the published file {path} holds other columns than those of labels")
    sizes = [*_sizes(memoryview(data))]
    held, asked = sum(length for length, _ in sizes), sum(size for _, size in sizes)
    if held > (most := rows if schema is inferred_schema else min(rows, LARGEST_BATCH)):
        raise NotVerified(f"the published file {path} holds {held:,} rows, where the certificate leaves {most:,}")
    if asked > min(_bytes_of(held, classes), MOST_PACKED * len(data)):
        raise NotVerified(
            f"the published file {path} asks for {asked:,} bytes of memory, which its {held:,} rows in {len(data):,} "
            "bytes do not take: Concord writes none such, and nothing of it was unpacked"
        )
    for at in range(file.num_record_batches):
        batch = file.get_batch(at)
        batch.validate(full=True)  # damaged content would crash the process
        yield batch


def _sizes(data: memoryview) -> Iterator[tuple[int, int]]:
    """For each batch of an Arrow file, its stated number of rows and the bytes that its buffers take in memory.

    Raises ValueError or struct.error if Concord writes no such file. The format is that of Arrow's File.fbs and
    Message.fbs, whose field numbers are used here.
    """
    footer = FlatTable.behind(data, len(data) - 10 - unpack_from("<i", data, len(data) - 10)[0])
    if any(footer.records(2, "<qi4xq")):
        raise ValueError("labels have no dictionaries")
    for start, metadata, _ in footer.records(3, "<qi4xq"):
        message = FlatTable.behind(data, start + 8)
        # Arrow would read older formats otherwise, since they state body and packing elsewhere
        if unpack_from("<iI", data, start) != (-1, metadata - 8) or message.number(0, "<h") != FIFTH_VERSION:
            raise ValueError("a batch of labels follows the mark of a message and its length, of today's form")
        if message.number(1, "<B") != RECORD_BATCH:
            raise ValueError("it is a batch of labels")
        batch, body = FlatTable.behind(data, message.place(2)), start + metadata
        packed = batch.place(3) > 0
        buffers = [_filled(data, body + at, length, packed) for at, length in batch.records(2, "<qq")]
        yield batch.number(0, "<q"), sum(buffers)


def _filled(data: memoryview, start: int, length: int, packed: bool) -> int:
    """Bytes that a buffer takes in memory: in a packed one the first 8 bytes are that number, or -1 if it is plain."""
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
        """The table at an offset."""
        return cls(data, at + unpack_from("<I", data, at)[0])

    def place(self, field: int) -> int:
        """Offset of a field; 0 if it is left out."""
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
