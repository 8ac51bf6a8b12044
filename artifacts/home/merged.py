"""Merged files: many small files of a folder of the vault in a single one, since an answer to one row leaves several.

    FOLDER/NAME, FOLDER/NAME, …  →  FOLDER/merged/TOKEN      each part is its file byte for byte, with its seal

A file that is not at its path is looked up among the parts. So its path, its digest and every reference to it stay
valid, and it can be checked against the ledger and a certificate as before.

    read small files ─ the merged file whole, synced and named ─ read it back ─ remove small files

Assumes      files that are merged are written once, and destroyed with their folder alone
Guarantees   nothing is removed before it was read back: after a kill or a power cut at any step each file is there by
             itself, or in a merged file, or both, and the next merge removes duplicates. A changed merged file
             is refused, and a part is checked by its own seal besides
Not covered  compression: the size of an encrypted file would then depend on its content.
             Checked by tests/artifacts/home/test_merged.py and tests/promises/test_crash_merged.py
"""

import fnmatch
import os
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from errno import ENOENT
from functools import partial
from pathlib import Path
from typing import Protocol

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.whole import locked
from concord.artifacts.schemas import Ref

MERGED = "merged"
MANY = 1000
"""Small files that become one."""
SMALL = 1 << 14
"""Bytes of a small file at most."""
READ_LATELY = 4
"""Merged files that are kept in memory: neighbours are mostly read one after another."""
LENGTH_BYTES = 4
"""Bytes of the length that stands before each name and each content."""


class SmallFiles(Protocol):
    """The vault, as far as its files are merged."""

    root: Path

    def take(self, path: str) -> tuple[Ref, bytes] | None: ...
    def keep(self, path: str, make: Callable[[], bytes]) -> Ref: ...
    def raw(self, path: str) -> bytes: ...


class Merged:
    """The merged files of a vault, as far as this process has met them. Threads may share it."""

    def __init__(self, vault: SmallFiles) -> None:
        self._vault = vault
        self._where = dict[str, dict[str, str]]()  # by folder: each part's path, and the merged file it is in
        self._met = set[str]()
        self._held = dict[str, dict[str, bytes]]()

    def part(self, path: str) -> bytes:
        """All that was written to a file that was merged. Raises FileNotFoundError if none of that path was."""
        if not self.has(path):
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), path)
        return self._parts(self._where[path.rpartition("/")[0]][path])[path]

    def has(self, path: str) -> bool:
        """Whether a file of that path was merged."""
        merged = self._holder(path)
        return merged is not None and (self._vault.root / merged).is_file()

    def paths(self, folder: str, pattern: str, known: Collection[str] = ()) -> list[str]:
        """The files of a folder whose names match, merged or not, except those in `known`; sorted."""
        alone = [f"{folder}/{file.name}" for file in (self._vault.root / folder).glob(pattern)]
        self._meet(folder)  # after: those may be merged now
        merged = [path for path in list(self._where.get(folder, ())) if path not in known]
        matching = [path for path in merged if fnmatch.fnmatchcase(path.rpartition("/")[2], pattern)]
        return sorted({*alone, *matching}.difference(known))

    def merge(self, folder: str, pattern: str) -> Iterator[None]:
        """Merge small files of a folder whose names match, `MANY` at a time: fewer stay as they are, and so do all if
        another process merges files just now.

        It goes on by a short step, such as removing one file, each time the next is asked for; it may be left at any.
        The folder is listed once, since it may hold a million. Raises OSError or EnvironmentFailed; what was not merged
        then stays as it is.
        """
        small = self._small(folder, pattern)
        if len(small) < MANY:
            return
        twice, alone = self._told_apart(folder, small)
        yield from self._removed(twice)  # a kill left them
        for start in range(0, len(alone) - MANY + 1, MANY):
            with locked(self._vault.root / "locks" / f".{MERGED}", wait=False) as free:
                if not free:
                    return
                _, still = self._told_apart(folder, alone[start : start + MANY])
                if these := list(self._contents(still)):
                    self._vault.keep(f"{folder}/{MERGED}/{secrets.token_hex(8)}", partial(_packed, these))
            yield
            yield from self._removed(path for path, _ in these)

    def _removed(self, paths: Iterable[str]) -> Iterator[None]:
        """Remove files whose content, as read back, is also in a merged file."""
        for path, content in self._contents(path for path in paths if self.has(path)):
            if content == self.part(path):
                (self._vault.root / path).unlink(missing_ok=True)
                yield

    def _told_apart(self, folder: str, paths: Iterable[str]) -> tuple[list[str], list[str]]:
        """Those of a folder's files that are in a merged one, and the others, in their order."""
        self._meet(folder)
        merged, found = self._where.get(folder, {}), dict[bool, list[str]]({True: [], False: []})
        for path in paths:
            found[path in merged].append(path)
        return found[True], found[False]

    def _contents(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        for path in paths:
            try:
                yield path, self._vault.raw(path)
            except NotVerified:
                continue  # reading it raises the error

    def _small(self, folder: str, pattern: str) -> list[str]:
        """Small files of a folder whose names match, in the order they were written."""
        found = list[tuple[int, str]]()
        with suppress(FileNotFoundError), os.scandir(self._vault.root / folder) as entries:
            files = [(entry.stat(), entry.name) for entry in entries if fnmatch.fnmatchcase(entry.name, pattern)]
            found = [(now.st_mtime_ns, f"{folder}/{name}") for now, name in files if now.st_size <= SMALL]
        return [path for _, path in sorted(found)]

    def _holder(self, path: str) -> str | None:
        """The merged file that holds a file's content."""
        folder = path.rpartition("/")[0]
        known = self._where.get(folder, {}).get(path)
        if known is None or not (self._vault.root / known).is_file():  # an older copy of it may have been put back
            self._meet(folder)
        return self._where.get(folder, {}).get(path)

    def _meet(self, folder: str) -> None:
        """Learn what those merged files of a folder hold that were made since."""
        try:
            names = os.listdir(self._vault.root / folder / MERGED)
        except (FileNotFoundError, NotADirectoryError):
            return
        for merged in {f"{folder}/{MERGED}/{name}" for name in names} - self._met:
            with suppress(FileNotFoundError):  # its folder is being destroyed
                self._where.setdefault(folder, {}).update(dict.fromkeys(self._parts(merged), merged))
                self._met.add(merged)

    def _parts(self, merged: str) -> dict[str, bytes]:
        held = self._held.get(merged)
        if held is None:
            held = dict(_unpacked(self._content(merged)))
            self._held = dict([*self._held.items(), (merged, held)][-READ_LATELY:])
        return held

    def _content(self, merged: str) -> bytes:
        found = self._vault.take(merged)
        if found is None and (self._vault.root / merged).exists():  # a folder, say
            raise NotVerified(f"the vault file {merged} is not what was written")
        if found is None:
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), merged)
        return found[1]


def _packed(files: Iterable[tuple[str, bytes]]) -> bytes:
    """Paths and contents, each after its length."""
    parts = [part for path, content in files for part in (path.encode(), content)]
    return b"".join(len(part).to_bytes(LENGTH_BYTES, "little") + part for part in parts)


def _unpacked(data: bytes) -> Iterator[tuple[str, bytes]]:
    """The paths and contents that `_packed` was given."""
    at, parts = 0, list[bytes]()
    while at < len(data):
        start = at + LENGTH_BYTES
        at = start + int.from_bytes(data[at:start], "little")
        parts.append(data[start:at])
    yield from ((path.decode(), content) for path, content in zip(parts[::2], parts[1::2], strict=True))
