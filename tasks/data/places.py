"""Places of a table's files: local paths, and files that open like one, such as those of a snapshot
(tasks.data.snapshots) and objects of a store (tasks.data.remote). Private files are told apart by their places.

Checked by tests/flows/test_private_files.py.
"""

import io
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import pyarrow as pa

from concord.artifacts.errors import WrongInput

Format = Literal["parquet", "ipc", "csv", "text"]
"""Format of a table's file. `text` is an Arrow IPC file of words, the result of a database query."""


@dataclass(frozen=True)
class StoredFile(ABC):
    """The part of `pathlib.Path` that readers of tables use.

    origins   the addresses and local paths that it was read from; none for a frame
    """

    name: str
    origins: tuple[str, ...]

    @abstractmethod
    def raw(self) -> pa.NativeFile:
        """The bytes, as Arrow reads them."""

    def open(
        self, mode: str = "r", *, encoding: str | None = None, errors: str | None = None, newline: str | None = None
    ) -> IO[Any]:
        """The file, open for reading."""
        file = io.BufferedReader(self.raw())
        return file if "b" in mode else io.TextIOWrapper(file, encoding=encoding, errors=errors, newline=newline)

    def read_bytes(self) -> bytes:
        """The whole content."""
        with self.open("rb") as file:
            return bytes(file.read())

    def __str__(self) -> str:
        return self.name

    def resolve(self) -> "StoredFile":
        """Itself."""
        return self


Place = Path | StoredFile


def files_of(places: Iterable[Place]) -> dict[str, str]:
    """Files by public facts, whatever they hold: by real path or address, each with its inode if it is a local one."""
    origins = (origin for place in places for origin in ([str(place)] if isinstance(place, Path) else place.origins))
    names = [origin.rstrip("/") if "://" in origin else str(Path(origin).resolve()) for origin in origins]
    return {name: _inode(name) for name in names}


def _inode(path: str) -> str:
    """Device and inode of a file; empty if it is not there."""
    if not os.path.isfile(path):
        return ""
    found = os.stat(path)
    return f"{found.st_dev}:{found.st_ino}"


def is_shared(files: Mapping[str, str], earlier: Mapping[str, str]) -> bool:
    """Whether one of `files` was among `earlier`: by its name, as a hard link, or renamed.

    An earlier file that is still there counts by its present inode: if it was replaced, another file may have its
    former one.
    """
    inodes = {_inode(name) or inode for name, inode in earlier.items()} - {""}
    return not files.keys().isdisjoint(earlier) or not inodes.isdisjoint(files.values())


def check_not_private(field: str, public: Iterable[Place], private: Mapping[str, str]) -> None:
    """Raise WrongInput if a private file is also named as a public one: its rows would be published as they are."""
    if is_shared(files_of(public), private):
        rule = f"{field} must not hold a file of data.private, which would then be published"
        raise WrongInput(f"{rule}; a file that was given the inode of a removed private one must be copied")


class StoredTable(str, ABC):
    """The name of a stored table, which can be used like a path."""

    @property
    @abstractmethod
    def files(self) -> Sequence[tuple[StoredFile, Format]]:
        """Its files, each with its format."""
