"""What a power loss leaves of a folder, from the journal of its changes (journal.c).

    kept          what was synced before: the content of a file by a sync of the file, a name by a sync of its folder
    kept or lost  each later change of a name, in any order, and each later write, whole or in pieces of 512 bytes

This is what POSIX promises, with two habits of Linux's journalling file systems (ext4, XFS, Btrfs): a rename is kept or
lost as a whole, and a sector is never half written. What ext4 adds (a sync of a new file keeps its name, a name is
never kept before an older one) is not relied on.
"""

import os
import pickle
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Literal

SECTOR = 512
SYNCS = ("fsync", "fdatasync")
Kept = Literal["all", "nothing", "names", "data"] | int
"""What a loss keeps of that which was not synced; a number is the seed of a mixture."""
WAYS: tuple[Kept, ...] = ("all", "nothing", "names", "data")


@dataclass(frozen=True)
class Change:
    """A record of the journal: `offset` is that of a write, the size of a truncated file, or the mode of a new one."""

    name: str
    inode: int
    offset: int
    path: str
    other: str
    content: bytes

    def __str__(self) -> str:
        return f"{self.name} {Path(self.other or self.path).name}"


@dataclass(frozen=True)
class Found:
    """A file of a tree; a folder has no content."""

    inode: int
    mode: int
    content: bytes | None


Tree = dict[str, Found]
"""The files and folders below one, by relative path, each after its folder; the folder itself is "." """


def tree_of(folder: Path) -> Tree:
    """The tree of a folder as it is."""
    paths = [folder, *sorted(folder.rglob("*"))]
    return {str(path.relative_to(folder)): _found(path) for path in paths if not path.is_socket()}


def _found(path: Path) -> Found:
    known = path.stat()
    return Found(known.st_ino, stat.S_IMODE(known.st_mode), None if path.is_dir() else path.read_bytes())


def restore(tree: Tree, folder: Path) -> Path:
    """Make a folder that of the tree."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, found in tree.items():
        place = folder / name
        if found.content is None:
            place.mkdir()
        else:
            place.write_bytes(found.content)
        place.chmod(found.mode)
    return folder


def changes_of(journal: Path) -> Iterator[Change]:
    """The records of a journal in their order."""
    records, at = journal.read_bytes(), 0
    while at < len(records):
        end = records.index(b"\n", at)
        name, inode, offset, length, paths = os.fsdecode(records[at:end]).split(" ", 4)
        path, _, other = paths.partition("\t")
        at = end + 1 + int(length)
        yield Change(name, int(inode), int(offset), path, other, records[end + 1 : at])


Entry = tuple[int, str]
"""A name in a folder, by its node: a file or folder since it was made."""


@dataclass
class Pending:
    """A change of names or of the content of a node, durable from change number `synced` on."""

    at: int
    names: dict[Entry, int | None] = field(default_factory=dict)
    node: int = -1
    offset: int = 0
    content: bytes | None = None
    synced: float = float("inf")

    @property
    def folders(self) -> set[int]:
        """The folders by whose sync the names are kept: of a rename, that of the new name."""
        new = {folder for (folder, _), node in self.names.items() if node is not None}
        return new or {folder for folder, _ in self.names}


class Disk:
    """A folder through the changes of a journal.

    folder  where it was
    before  its tree when the journal began
    """

    def __init__(self, folder: Path, before: Tree, journal: Path) -> None:
        self.folder, self.changes = folder, list(changes_of(journal))
        self._nodes, self._modes, self._base = dict[int, int](), dict[int, int](), dict[int, bytes | None]()
        self._first = dict[Entry, int]()
        self._pending = list[Pending]()
        for path, found in before.items():
            node = self._made(found.inode, found.mode, found.content)
            if path != ".":
                self._first[self._entry(self._first, str(folder / path))] = node
        self._names: dict[Entry, int] = dict(self._first)
        for at, change in enumerate(self.changes):
            self._take(at, change)

    def state(self, at: int, kept: Kept) -> Tree:
        """The tree that a power loss after the first `at` changes leaves."""
        names: dict[Entry, int | None] = dict(self._first)
        contents: dict[int, bytearray] = {}
        for change in self._pending:
            if change.at >= at:
                break
            lots = Random(f"{kept}/{change.at}")
            safe = change.synced < at or kept == "all"
            if change.names:
                if safe or kept == "names" or (isinstance(kept, int) and lots.random() < 0.5):
                    names.update(change.names)
                continue
            content = contents.setdefault(change.node, bytearray(self._base[change.node] or b""))
            for first, piece in _pieces(change, "all" if safe else kept, lots):
                _apply(content, first, piece)
        return self._tree(names, contents)

    def states(self, kept: Kept) -> dict[int, Tree]:
        """Of each tree that a loss may leave, the one at the last change at which it may."""
        last = {_digest(tree): (at, tree) for at in range(len(self.changes) + 1) if (tree := self.state(at, kept))}
        return dict(last.values())

    def _take(self, at: int, change: Change) -> None:
        match change.name:
            case "create" | "mkdir":
                folder = change.name == "mkdir"
                node = self._made(change.inode, change.offset, None if folder else b"")
                self._rename(at, {self._entry(self._names, change.path): node})
            case "link":
                node = self._names[self._entry(self._names, change.path)]
                self._rename(at, {self._entry(self._names, change.other): node})
            case "rename":
                source, target = (self._entry(self._names, path) for path in (change.path, change.other))
                self._rename(at, {source: None, target: self._names[source]})
            case "unlink" | "rmdir":
                self._rename(at, {self._entry(self._names, change.path): None})
            case "write" | "pwrite" | "truncate":
                content = None if change.name == "truncate" else change.content
                written = Pending(at, node=self._nodes[change.inode], offset=change.offset, content=content)
                self._pending.append(written)
            case _:
                node = self._nodes[change.inode]
                for each in self._pending:
                    if each.synced > at and (each.node == node or node in each.folders):
                        each.synced = at

    def _made(self, inode: int, mode: int, content: bytes | None) -> int:
        node = self._nodes[inode] = len(self._base)
        self._modes[node], self._base[node] = mode, content
        return node

    def _entry(self, names: dict[Entry, int], path: str) -> Entry:
        node, (*folders, name) = 0, Path(path).relative_to(self.folder).parts
        for folder in folders:
            node = names[node, folder]
        return node, name

    def _rename(self, at: int, names: dict[Entry, int | None]) -> None:
        self._pending.append(Pending(at, names))
        for entry, node in names.items():
            if node is None:
                del self._names[entry]
            else:
                self._names[entry] = node

    def _tree(self, names: dict[Entry, int | None], contents: dict[int, bytearray]) -> Tree:
        below = dict[int, list[tuple[str, int]]]()
        for (folder, name), node in names.items():
            if node is not None:
                below.setdefault(folder, []).append((name, node))
        tree, left = Tree(), [(".", 0)]
        while left:
            path, node = left.pop()
            base = self._base[node]
            content = None if base is None else bytes(contents.get(node, base))
            tree[path] = Found(node, self._modes[node], content)
            left += [(os.path.normpath(f"{path}/{name}"), child) for name, child in sorted(below.get(node, []))]
        return tree


def _pieces(change: Pending, kept: Kept, lots: Random) -> Iterator[tuple[int, bytes | None]]:
    """What is kept of a write, or of a truncation: its offsets, each with its bytes."""
    whole = kept in ("all", "data") or (isinstance(kept, int) and lots.random() < 0.4)
    if whole:
        yield change.offset, change.content
    elif isinstance(kept, int) and change.content is not None and lots.random() < 0.6:
        end = change.offset + len(change.content)
        edges = [change.offset, *range((change.offset // SECTOR + 1) * SECTOR, end, SECTOR), end]
        for first, last in pairwise(edges):
            if lots.random() < 0.5:
                yield first, change.content[first - change.offset : last - change.offset]


def _apply(content: bytearray, first: int, piece: bytes | None) -> None:
    """A write at an offset, or without bytes, a truncation to it; what was never written between is zeros."""
    content.extend(bytes(max(0, first - len(content))))
    if piece is None:
        del content[first:]
    else:
        content[first : first + len(piece)] = piece


def _digest(tree: Tree) -> bytes:
    return sha256(pickle.dumps(sorted((path, found.mode, found.content) for path, found in tree.items()))).digest()
