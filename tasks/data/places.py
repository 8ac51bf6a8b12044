"""Places of a table's files: local paths, and files that open like one, which are objects of a store and the sealed
files of a snapshot (tasks.data.sources). Private files are told apart by their places.

Assumes      credentials of a store are in the environment
Guarantees   no error shows a credential. A file of a snapshot is checked whole as it is opened, and is mapped, so
             memory need not hold it
Not covered  gs:// and az:// except for refusals: no test server for them runs everywhere. Checked by
             tests/flows/test_private_files.py, tests/tasks/data/test_object_store.py and test_sources.py
"""

import io
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal

import pyarrow as pa
import pyarrow.fs
from pydantic import TypeAdapter

from concord.artifacts.errors import EnvironmentFailed, NotVerified, WrongInput
from concord.artifacts.home.vault import Vault
from concord.artifacts.schemas import Frozen, Ref

SCHEME = "snapshot://"
HIDDEN = re.compile("(^|/)[._]")
"""Matches the path, below a table's folder, of a file that is not part of it, such as a copy of Jupyter or Spark."""
RETRY_FOR = timedelta(seconds=15)
"""How long each request to Google's store is tried again; by default a quarter of an hour."""
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


class Remote(StoredFile):
    """An object of a store, by its address."""

    def __init__(self, address: str) -> None:
        super().__init__(address, (address,))

    def raw(self) -> pa.NativeFile:
        store, path = _store_of(self.name)
        return store.open_input_file(path)

    def write_bytes(self, content: bytes) -> None:
        """Write the object, replacing any earlier one."""
        store, path = _store_of(self.name)
        with store.open_output_stream(path) as file:
            file.write(content)


def objects(address: str, field: str) -> list[Remote]:
    """The object at an address, or those of the folder there, sorted by name, without hidden ones."""
    start = address.split("/")[: 3 if address.startswith("az://") else 2]
    with reachable(address, field):
        store, path = _store_of(address)
        items = [store.get_file_info(path)]
        if items[0].type == pyarrow.fs.FileType.Directory:
            below = store.get_file_info(pyarrow.fs.FileSelector(path, recursive=True))
            items = [item for item in below if not HIDDEN.search(item.path.removeprefix(f"{path}/"))]
    return [Remote("/".join([*start, file])) for file in sorted(item.path for item in items if item.is_file)]


def _store_of(address: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """The file system of an address, and the path in it: az://ACCOUNT/CONTAINER/PATH, or s3://BUCKET/PATH."""
    scheme, _, path = address.partition("://")
    bucket, _, rest = path.partition("/")
    return _store(scheme, bucket), (rest if scheme == "az" else path).rstrip("/")


@lru_cache(maxsize=8)
def _store(scheme: str, bucket: str) -> pyarrow.fs.FileSystem:
    if scheme == "gs":
        return pyarrow.fs.GcsFileSystem(retry_time_limit=RETRY_FOR)
    return pyarrow.fs.AzureFileSystem(bucket) if scheme == "az" else pyarrow.fs.FileSystem.from_uri(f"s3://{bucket}")[0]


@contextmanager
def reachable(address: str, field: str) -> Iterator[None]:
    """Context that turns errors of a store into one sentence, which holds only AWS's code of its own message."""
    try:
        yield
    except FileNotFoundError:
        raise WrongInput(f"{field}: {address} does not exist") from None
    except (OSError, ValueError, pa.ArrowException) as failed:
        _store.cache_clear()  # credentials may have been changed: the next try reads them again
        code = re.search("AWS Error ([A-Z_]+)", str(failed))
        reason = code[1].lower().replace("_", " ") if code else type(failed).__name__
        rule = f"cannot be read ({reason}): credentials come from the environment"
        raise EnvironmentFailed(f"{field}: {address} {rule}") from None


class Listed(Frozen):
    """One file of a snapshot: its name, format and content, and what it was read from."""

    name: str
    format: Format
    content: Ref
    origins: tuple[str, ...] = ()


FILES = TypeAdapter(list[Listed])


@dataclass(frozen=True)
class Sealed(StoredFile):
    """A file of a snapshot. Opening it raises NotVerified if it is not what was written."""

    vault: Vault
    content: Ref

    def raw(self) -> pa.NativeFile:
        return pa.BufferReader(self.vault.mapped(self.content))


class SnapshotTable(str):
    """The name of a snapshot: snapshot://VAULT#FOLDER."""

    @property
    def files(self) -> list[tuple[Sealed, Format]]:
        """Its files. Raises NotVerified if it is gone, or is not what was written."""
        root, _, folder = self.removeprefix(SCHEME).rpartition("#")
        vault = Vault(Path(root))
        if (stored := vault.take(f"{folder}/files.json")) is None:
            raise NotVerified(f"the vault {root} lacks the table {folder}, which was read into it")
        listed = FILES.validate_json(stored[1])
        return [(Sealed(file.name, file.origins, vault, file.content), file.format) for file in listed]


FileAt = Path | StoredFile


def files_of(places: Iterable[FileAt]) -> dict[str, str]:
    """Files by public facts, whatever they hold: by real path or address, each with its inode if it is a local one."""
    origins = (origin for place in places for origin in ([str(place)] if isinstance(place, Path) else place.origins))
    names = [origin.rstrip("/") if "://" in origin else str(Path(origin).resolve()) for origin in origins]
    return {name: _inode(name) for name in names}


def _inode(path: str) -> str:
    """Device and inode of a file; empty if it is not there."""
    if not os.path.isfile(path):
        return ""
    status = os.stat(path)
    return f"{status.st_dev}:{status.st_ino}"


def is_shared(files: Mapping[str, str], earlier: Mapping[str, str]) -> bool:
    """Whether one of `files` was among `earlier`: by its name, as a hard link, or renamed.

    An earlier file that is still there counts by its present inode: if it was replaced, another file may have its
    former one.
    """
    inodes = {_inode(name) or inode for name, inode in earlier.items()} - {""}
    return not files.keys().isdisjoint(earlier) or not inodes.isdisjoint(files.values())


def check_not_private(field: str, public: Iterable[FileAt], private: Mapping[str, str]) -> None:
    """Raise WrongInput if a private file is also named as a public one: its rows would be published as they are."""
    if is_shared(files_of(public), private):
        rule = f"{field} must not hold a file of data.private, which would then be published"
        raise WrongInput(f"{rule}; a file that was given the inode of a removed private one must be copied")
