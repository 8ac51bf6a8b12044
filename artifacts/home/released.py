"""The published files: everything after the door, in the folder `released` of the home, free to copy.

Files are written whole and synced before they are named, nothing unfinished is ever in the folder, and digests are
plain SHA-256, which anyone can compute. Paths are relative to the folder and begin with the session's id; paths that
begin with HELD are outside the folder, since those files may never be published.

Files of a session that belong together are published together: whenever a process is killed, a reader finds all the
earlier ones or all the later.

    HOME/held/SESSION/ready/000-student.skops …   the whole publication; from the moment it is there, it is valid
    HOME/released/SESSION/student.skops …         where its files are moved one by one, in their order

Assumes      one process at a time publishes for a session; `settle` has run before a reader looks, as each command on a
             home runs it when it begins. What is handed in was computed from released and public things alone
Guarantees   a file appears whole and durable or not at all, and those of `publish` together; of a publication that was
             killed while its files were moved, the next `settle` moves the rest. A changed file is refused on reading
Not covered  who may read them: they are meant to be given away. A copy of the folder taken while files are moved, which
             takes milliseconds, or after a process was killed just then and before the next command: it does not
             verify. A home that cannot be written is read as it is
             Checked by tests/artifacts/home/test_released.py and tests/promises/test_crash.py
"""

import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from concord.artifacts.errors import EnvironmentFailed, NotVerified, refused
from concord.artifacts.home.atomic import make_folder, passing_folder, sync_folder, write_whole
from concord.artifacts.schemas import Ref

Integers = NDArray[np.int64]
PART = 1 << 20
"""Bytes of a held file that are published at a time."""
HELD = "held"
"""Folder of the home for files computed from released data and not yet published."""
READY = "ready"


def labels_schema(classes: int, guarantee: dict[str, str]) -> pa.Schema:
    """The Arrow schema of released labels: one row per public row, with the guarantee in the metadata.

    row      session-wide index of the public row
    label    the released class; null if refused or not asked
    outcome  answered, refused, or not asked (after the cutoff)
    scores   noisy votes by class, if the mechanism releases them
    session  the session's id
    """
    fields = [
        pa.field("row", pa.uint64(), nullable=False),
        pa.field("label", pa.string()),
        pa.field("outcome", pa.string(), nullable=False),
        pa.field("scores", pa.list_(pa.int64(), classes)),
        pa.field("session", pa.string(), nullable=False),
    ]
    return pa.schema(fields, metadata=guarantee)


def inferred_schema(classes: int, guarantee: dict[str, str]) -> pa.Schema:
    """Schema of labels inferred from tallies: one row per public row, with the guarantee in the metadata.

    row       its index in the stream of public rows
    label     the class of highest probability; if there are no classes, the expected number
    outcome   inferred
    scores    the probability of each class, if there are classes
    balanced  the class whose odds rise most over its share of the public rows, likewise: it keeps rare classes
    session   the session's id
    """
    of_classes = [
        pa.field("scores", pa.list_(pa.float32(), classes), nullable=False),
        pa.field("balanced", pa.string(), nullable=False),
    ]
    fields = [
        pa.field("row", pa.uint64(), nullable=False),
        pa.field("label", pa.string() if classes else pa.float64(), nullable=False),
        pa.field("outcome", pa.string(), nullable=False),
        *(of_classes if classes else ()),
        pa.field("session", pa.string(), nullable=False),
    ]
    return pa.schema(fields, metadata=guarantee)


class Released:
    """The published files of one home folder."""

    def __init__(self, home: Path) -> None:
        self.root = home / "released"

    def write(self, path: str, data: bytes | Iterable[bytes]) -> Ref:
        """Publish `data`, whole or in parts, at `path`, replacing any earlier file. Raises EnvironmentFailed."""
        digest = hashlib.sha256()
        try:
            final, held = self._place(path), path.startswith(f"{HELD}/")
            # as the umask allows: its names must outlive a power cut too
            make_folder(final.parent, mode=0o700 if held else 0o777)
            with write_whole(final, self.root.parent, mode=0o600 if held else 0o666, durable=True) as file:
                for part in (data,) if isinstance(data, bytes) else data:
                    digest.update(part)
                    file.write(part)
        except OSError as failed:
            raise refused(f"the released file {path} cannot be written", failed) from None
        return Ref(path=path, digest=digest.hexdigest())

    def hold_back(self, path: str, data: bytes | Iterable[bytes]) -> Ref:
        """Keep a file that is to be published at `path` together with the certificate that names it."""
        return Ref(path=path, digest=self.write(f"{HELD}/{path}", data).digest)

    def held_back(self, ref: Ref) -> Ref | None:
        """Where `hold_back` kept a file that is not published yet; None if it kept no such file."""
        kept = self.find(f"{HELD}/{ref.path}")
        return kept if kept is not None and kept.digest == ref.digest else None

    def read_any(self, ref: Ref) -> bytes:
        """The bytes of a file, held or published. Raises NotVerified if neither is what was written."""
        return self.read(self.held_back(ref) or ref)

    def has(self, ref: Ref) -> bool:
        """Whether the file is there as it was written, held or published."""
        return self.find(ref.path) == ref or self.held_back(ref) is not None

    def publish(self, session: str, files: Mapping[str, bytes | Ref]) -> dict[str, Ref]:
        """Publish files in the session's folder, by name, all at once, and let go of those that were held.

        They replace earlier ones, in their order. A file that was held is given by `held_back`, and never held in
        memory whole. Raises EnvironmentFailed, and NotVerified if one is not what was held.
        """
        try:
            whole = {name: self._parts(data) if isinstance(data, Ref) else (data,) for name, data in files.items()}
            publish_together(self.root.parent, session, whole)
            for name in files:
                self._place(f"{HELD}/{session}/{name}").unlink(missing_ok=True)
        except OSError as failed:
            raise EnvironmentFailed(f"session {session} cannot be published: {failed.strerror}") from None
        return {name: Ref(path=f"{session}/{name}", digest=digest_of(data)) for name, data in files.items()}

    def _parts(self, ref: Ref) -> Iterator[bytes]:
        digest = hashlib.sha256()
        with self._place(ref.path).open("rb") as file:
            while part := file.read(PART):
                digest.update(part)
                yield part
        if digest.hexdigest() != ref.digest:
            raise _changed(ref)

    def read(self, ref: Ref) -> bytes:
        """The bytes of a published file. Raises NotVerified if it is missing or not what was written."""
        try:
            data = self._place(ref.path).read_bytes()
        except (OSError, ValueError):  # a name that no file can have is a ValueError
            raise NotVerified(
                f"the released file {ref.path} is missing or cannot be read: restore a copy of it"
            ) from None
        if sha256(data) != ref.digest:
            raise _changed(ref)
        return data

    def find(self, path: str) -> Ref | None:
        """A reference to the file at `path` as it is now; None without such a file."""
        if not (place := self._place(path)).is_file():
            return None
        with place.open("rb") as file:
            return Ref(path=path, digest=hashlib.file_digest(file, "sha256").hexdigest())

    def restamp(self, refs: Sequence[Ref]) -> None:
        """Rewrite files unchanged, so that neither their times nor their folders' tell when each was first written.

        Raises NotVerified if one is not what was written.
        """
        for ref in refs:
            self.write(ref.path, self.read(ref))
            for folder in PurePath(ref.path).parents:  # up to the root
                os.utime(self.root / folder)

    def discard(self, folder: str) -> None:
        """Remove a folder of files that nothing published refers to, if it is there."""
        shutil.rmtree(self._place(folder), ignore_errors=True)

    def _place(self, path: str) -> Path:
        return (self.root.parent if path.startswith(f"{HELD}/") else self.root) / path

    def labels(self, refs: Sequence[Ref]) -> pa.Table:
        """Released labels of batches in order, as one table of `labels_schema`. Raises NotVerified."""
        return pa.concat_tables([pa.ipc.open_file(pa.BufferReader(self.read_any(ref))).read_all() for ref in refs])


def publish_together(home: Path, session: str, files: Mapping[str, Iterable[bytes]]) -> None:
    """Replace files in a session's published folder, by name, each given in parts; they are moved there in their order.

    Raises OSError.
    """
    settle(home)
    ready = home / HELD / session / READY
    make_folder(ready.parent)
    with passing_folder(ready, home) as passing:
        for number, (name, parts) in enumerate(files.items()):
            with write_whole(passing / f"{number:03d}-{name}", home, mode=0o666, durable=True) as file:
                file.writelines(parts)
        passing.rename(ready)
        sync_folder(ready.parent)
    settle(home)


def settle(home: Path) -> None:
    """Finish publications that are ready, whichever process made them. Raises OSError."""
    for ready in (home / HELD).glob(f"*/{READY}"):
        folder = home / "released" / ready.parent.name
        make_folder(folder, mode=0o777)  # as the umask allows
        with suppress(FileNotFoundError):  # another process was faster
            for file in sorted(ready.iterdir()):
                with suppress(FileNotFoundError):  # another process moved this one
                    file.replace(folder / file.name.partition("-")[2])
            sync_folder(folder)
            with suppress(OSError):  # it is gone, or is another publication by now
                ready.rmdir()


def labels_table(
    rows: range, labels: Integers, counts: Integers | None, classes: Sequence[str], guarantee: Mapping[str, str]
) -> pa.Table:
    """Labels of a batch as a table of `labels_schema`.

    rows       session-wide indices of its rows
    labels     (asked,) class indices, negative if refused; rows after `asked` were not asked
    counts     (asked, classes) noisy votes, if the mechanism releases them; dropped for refused rows
    guarantee  the metadata, which name the `session`
    """
    classed = np.full(len(rows), -1)
    classed[: len(labels)] = labels
    unlabelled = classed < 0
    outcomes = pa.array(np.where(np.arange(len(rows)) < len(labels), unlabelled, 2))
    scores = pa.nulls(len(rows), pa.list_(pa.int64(), len(classes)))
    if counts is not None and len(counts):
        values = np.zeros((len(rows), len(classes)), dtype=np.int64)
        values[: len(counts)] = counts
        values[unlabelled] = 0
        scores = pa.FixedSizeListArray.from_arrays(values.ravel(), len(classes), mask=pa.array(unlabelled))
    columns = [
        pa.array(np.arange(rows.start, rows.stop, dtype=np.uint64)),
        pa.array(classes, pa.string()).take(pa.array(classed, mask=unlabelled)),
        pa.array(["answered", "refused", "not asked"], pa.string()).take(outcomes),
        scores,
        pa.repeat(pa.scalar(guarantee["session"], pa.string()), len(rows)),
    ]
    return pa.table(columns, schema=labels_schema(len(classes), dict(guarantee)))


def table_bytes(columns: Sequence[Any], schema: pa.Schema) -> bytes:
    """Columns as an Arrow IPC file of that schema, with compressed buffers."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as file:
        file.write_table(pa.table(columns, schema=schema))
    content: bytes = sink.getvalue().to_pybytes()
    return content


ROUND_FILE = "rounds/round-{:05d}.json"
"""Path below a session's folder at which a round is released."""
LABELS_FILE = "labels/batch-{:05d}.arrow"
"""Path below a session's folder at which the labels of a batch are released."""


def labels_path(session: str, index: int) -> str:
    """The path at which the labels of a session's batch are released."""
    return f"{session}/{LABELS_FILE.format(index)}"


def sha256(data: bytes) -> str:
    """SHA-256 in hex: for published bytes only, since a plain digest of private ones would be a fingerprint."""
    return hashlib.sha256(data).hexdigest()


def digest_of(data: bytes | Ref) -> str:
    """SHA-256 in hex of published bytes, or of a file."""
    return data.digest if isinstance(data, Ref) else sha256(data)


def sha256_of_all(parts: Iterable[bytes]) -> str:
    """SHA-256 in hex over the digests of parts, in order: unkeyed, so for published bytes only."""
    return sha256(b"".join(hashlib.sha256(part).digest() for part in parts))


def _changed(ref: Ref) -> NotVerified:
    return NotVerified(f"the released file {ref.path} is not what was written: restore a copy of it")
