"""Snapshots: copies of tables that are not local files, read once so that no two reads can differ.

    VAULT/tables/DOMAIN/KEY/1/00000/000000 …    parts of PART_BYTES of the bytes of each file, sealed
    VAULT/tables/DOMAIN/KEY/1/files.json        the sealed list of its files, which is written last

Public tables lie at VAULT/public/tables/KEY, where erasing a unit does not remove them. A second read lies at KEY/2,
and so on, and readers of the first one can go on with it; the last two are kept. Frames have no such number.

Assumes      one process writes a snapshot at a time (`tasks.data.sources`)
Guarantees   no byte leaves the vault unsealed; each part is checked as it is read, and memory holds PARTS_IN_MEMORY of
             them. A snapshot is complete or absent. Checked by tests/tasks/data/test_sources.py
"""

import io
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.vault import Vault
from concord.artifacts.schemas import Frozen, Ref
from concord.tasks.data.places import Format, StoredFile, StoredTable

PART_BYTES = 1 << 24
PARTS_IN_MEMORY = 4
LIST = "files.json"
SCHEME = "snapshot://"


class Listed(Frozen):
    """One file of a snapshot: its name, format, size in bytes and parts, and what it was read from."""

    name: str
    format: Format
    size: int
    parts: tuple[Ref, ...]
    origins: tuple[str, ...] = ()


class Snapshot(Frozen):
    """A table as it was read.

    read    identity of the source for the record: a keyed digest of a query; empty for an address or a frame
    """

    read: str = ""
    files: tuple[Listed, ...]


@dataclass(frozen=True)
class Sealed(StoredFile):
    """A file of a snapshot."""

    vault: Vault
    listed: Listed

    def raw(self) -> Any:
        return _Parts(self.vault, self.listed)

    def check(self) -> None:
        """Raise NotVerified if a part is not what was written."""
        for part in self.listed.parts:
            self.vault.read(part)

    @property
    def origins(self) -> tuple[str, ...]:
        return self.listed.origins

    def __str__(self) -> str:
        return self.listed.name


class _Parts(io.RawIOBase):
    """The parts of a file, as one file."""

    def __init__(self, vault: Vault, listed: Listed) -> None:
        self._size, self._at = listed.size, 0
        self._part = lru_cache(maxsize=PARTS_IN_MEMORY)(lambda part: vault.read(listed.parts[part]))

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readinto(self, buffer: Any) -> int:
        if self._at >= self._size:
            return 0
        part, first = divmod(self._at, PART_BYTES)
        some = self._part(part)[first : first + len(buffer)]
        buffer[: len(some)] = some
        self._at += len(some)
        return len(some)


class Sealing:
    """A file that is written to a folder of a snapshot, part by part."""

    def __init__(self, vault: Vault, folder: str) -> None:
        self.parts: list[Ref] = []
        self.size, self.closed = 0, False
        self._vault, self._folder, self._held = vault, folder, bytearray()

    def write(self, data: Any) -> int:
        """Take bytes; whole parts go to the vault."""
        taken = memoryview(data).nbytes
        self._held += data
        self.size += taken
        while len(self._held) >= PART_BYTES:
            self._put()
        return taken

    def flush(self) -> None:
        """Does nothing: `finish` writes the buffer."""

    def finish(self, name: str, form: Format, origins: tuple[str, ...] = ()) -> Listed:
        """Write the rest; returns the file's entry for the list."""
        while self._held:
            self._put()
        parts = tuple(self.parts)
        return Listed(name=name, format=form, size=self.size, parts=parts, origins=origins)

    def _put(self) -> None:
        with self._vault.create(f"{self._folder}/{len(self.parts):06d}") as sink:
            sink.write(bytes(self._held[:PART_BYTES]))
        del self._held[:PART_BYTES]
        self.parts.append(sink.ref)


def apart(domain: str, key: str) -> str:
    """The folder of features of private rows that a plan makes public (tasks.data.split); erasing a unit removes it."""
    return f"unlabelled/{domain}/{key}"


class SnapshotTable(StoredTable):
    """The name of a snapshot: snapshot://VAULT#FOLDER."""

    @classmethod
    def of(cls, vault: Vault, folder: str) -> "SnapshotTable":
        """The table in a folder of the vault."""
        return cls(f"{SCHEME}{vault.root.absolute()}#{folder}")

    @property
    def files(self) -> tuple[tuple[Sealed, Format], ...]:
        """Its files. Raises NotVerified if it is gone, or is not what was written."""
        vault, found = self._found
        return tuple((Sealed(vault, file), file.format) for file in found.files)

    @property
    def read(self) -> str:
        """Identity of the source, for the record."""
        return self._found[1].read

    @property
    def _found(self) -> tuple[Vault, Snapshot]:
        root, _, folder = self.removeprefix(SCHEME).rpartition("#")
        vault = Vault(Path(root))
        if (found := find_snapshot(vault, folder)) is None:
            raise NotVerified(f"the vault {root} lacks the table {folder}, which was read into it")
        return vault, found


def find_snapshot(vault: Vault, folder: str) -> Snapshot | None:
    """The snapshot in a folder; None without a complete one. Raises NotVerified if it is damaged."""
    ref = vault.find(f"{folder}/{LIST}")
    if ref is None:
        return None
    try:
        found = Snapshot.model_validate_json(vault.read(ref))
    except ValidationError:
        raise NotVerified(f"the list of the table {folder} is not what was written") from None
    return found if all(vault.has(part) for file in found.files for part in file.parts) else None


def is_whole(vault: Vault, folder: str) -> bool:
    """Whether the snapshot in a folder is there, and every part of it is what was written."""
    try:
        found = find_snapshot(vault, folder)
        for file in found.files if found else ():
            Sealed(vault, file).check()
    except NotVerified:
        return False
    return found is not None


def write_snapshot(vault: Vault, folder: str, snapshot: Snapshot) -> None:
    """Write the list of a snapshot, which makes it complete."""
    with vault.create(f"{folder}/{LIST}") as sink:
        sink.write(snapshot.model_dump_json().encode())


def reading_of(table: object) -> str:
    """Identity of a table's source, for the record; empty if the table is not a snapshot."""
    return table.read if isinstance(table, SnapshotTable) else ""
