"""Places of a table's files that are not local: objects of a store (s3://, gs://, az://), through pyarrow's own file
systems, and snapshots (tasks.data.snapshots). Each is read like a `pathlib.Path`.

Assumes      credentials of a store are in the environment
Guarantees   an error names an address, and never a credential or a value
Not covered  az:// is tested only if Azurite is installed, and of gs:// only the options passed to Arrow and a refusal,
             for lack of servers that run everywhere. Checked by tests/tasks/data/test_object_store.py
"""

import io
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs

from concord.artifacts.errors import ConcordError, EnvironmentFailed, WrongInput

Format = Literal["parquet", "ipc", "csv", "text"]
"""Format of a table's file. `text` is an Arrow IPC file of words, the result of a database query."""
RETRY_FOR = timedelta(seconds=15)
"""Time for retries of each request to Google's store; the default is a quarter of an hour without credentials."""
AWS_CODE = re.compile(r"AWS Error ([A-Z_]+)")
STAMPS = ("etag", "last-modified", "content-length")
Partition = tuple[tuple[str, str | None], ...]
"""Columns named in a file's path, each with the cell that all of its rows have there."""


class StoredFile(ABC):
    """The part of `pathlib.Path` that readers of tables use."""

    @abstractmethod
    def raw(self) -> Any:
        """The bytes, as an unbuffered file that can seek."""

    def open(
        self, mode: str = "r", *, encoding: str | None = None, errors: str | None = None, newline: str | None = None
    ) -> IO[Any]:
        """The file, open for reading."""
        file = io.BufferedReader(self.raw())
        return file if "b" in mode else io.TextIOWrapper(file, encoding=encoding, errors=errors, newline=newline)

    @abstractmethod
    def check(self) -> None:
        """Raise NotVerified if it is known not to be what was written; Arrow's errors do not show that."""

    @property
    @abstractmethod
    def origins(self) -> tuple[str, ...]:
        """The addresses and local paths that it was read from; none for a frame."""

    def read_bytes(self) -> bytes:
        """The whole content."""
        with self.open("rb") as file:
            return bytes(file.read())

    def resolve(self) -> "StoredFile":
        """Itself."""
        return self


@dataclass(frozen=True)
class Remote(StoredFile):
    """An object of a store, by its address."""

    address: str

    @property
    def suffix(self) -> str:
        """As `Path.suffix`."""
        return Path(self.address).suffix

    def raw(self) -> Any:
        store, path = store_of(self.address)
        with _without_its_words():
            return store.open_input_file(path)

    def check(self) -> None:
        """Does nothing: there is no record to compare with."""

    @property
    def origins(self) -> tuple[str, ...]:
        return (self.address,)

    def write_bytes(self, content: bytes) -> None:
        """Write the object, replacing any earlier one."""
        store, path = store_of(self.address)
        with _without_its_words(), store.open_output_stream(path) as file:
            file.write(content)

    def stamp(self) -> object:
        """The store's metadata of the object, which change if it is written again."""
        with self.raw() as file:
            stamps = {name.lower(): value for name, value in file.metadata().items()}
        return [stamps.get(name) for name in STAMPS]

    def __str__(self) -> str:
        return self.address


@lru_cache(maxsize=8)
def _store(scheme: str, bucket: str) -> pyarrow.fs.FileSystem:
    if scheme == "az":
        return pyarrow.fs.AzureFileSystem(bucket, **_azure_options(bucket))
    if scheme == "gs":
        return pyarrow.fs.GcsFileSystem(retry_time_limit=RETRY_FOR, **_google_options())
    return pyarrow.fs.FileSystem.from_uri(f"{scheme}://{bucket}")[0]


def _azure_options(account: str) -> dict[str, Any]:
    """Options for an account, from the variables that Azure's own tools read; none for its default credentials.

    Credentials of another account are not sent to this one.
    """
    stated = os.environ.get("AZURE_STORAGE_CONNECTION_STRING", "")
    parts = dict(part.partition("=")[::2] for part in stated.split(";"))
    server = urlsplit(parts.get("BlobEndpoint", ""))
    if (parts.get("AccountName") or (server.hostname or "").partition(".")[0]) != account:  # it lets us in elsewhere
        parts, server = {}, urlsplit("")
    key, token = parts.get("AccountKey"), parts.get("SharedAccessSignature")
    if not (key or token) and (os.environ.get("AZURE_STORAGE_ACCOUNT") or account) == account:
        key, token = os.environ.get("AZURE_STORAGE_KEY"), os.environ.get("AZURE_STORAGE_SAS_TOKEN")
    named = server.netloc.removeprefix(account if server.netloc.startswith(f"{account}.") else "")  # Arrow names it
    options = {
        "account_key": key,
        "sas_token": f"?{token.removeprefix('?')}" if token and not key else None,  # Arrow appends it to addresses
        "blob_storage_authority": named,
        "dfs_storage_authority": named.replace(".blob.", ".dfs.", 1),
        **dict.fromkeys(("blob_storage_scheme", "dfs_storage_scheme"), server.scheme),
    }
    return {name: value for name, value in options.items() if value}


def _google_options() -> dict[str, Any]:
    """Options for an emulator, if the variable of Google's own tools names one."""
    named = os.environ.get("STORAGE_EMULATOR_HOST", "")
    server = urlsplit(named if "://" in named else f"http://{named}")
    return {"anonymous": True, "scheme": server.scheme, "endpoint_override": server.netloc} if server.netloc else {}


def store_of(address: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """The file system of an address, and the path in it: az://ACCOUNT/CONTAINER/PATH, or s3://BUCKET/PATH."""
    scheme, _, path = address.partition("://")
    bucket, _, rest = path.partition("/")
    return _store(scheme, bucket), (rest if scheme == "az" else path).rstrip("/")


def objects(address: str, field: str) -> list[Remote]:
    """The object at an address, or those of the folder there, sorted by name; hidden ones do not count."""
    start = address.split("/")[: 3 if address.startswith("az://") else 2]
    with reachable(address, field):
        store, path = store_of(address)
        found = store.get_file_info(path)
        if found.type == pyarrow.fs.FileType.Directory:
            listed = store.get_file_info(pyarrow.fs.FileSelector(path, recursive=True))
            files = sorted(item.path for item in listed if item.is_file and item.base_name[0] not in "._")
        else:
            files = [path] if found.is_file else []
    return [Remote("/".join([*start, file])) for file in files]


@contextmanager
def _without_its_words() -> Iterator[None]:
    """Context that reduces an error to its type and AWS's code: Azure's messages hold the access token."""
    try:
        yield
    except OSError as failed:
        _store.cache_clear()  # credentials may have been changed: the next try reads them again
        code = AWS_CODE.search(str(failed))
        raise type(failed)(code[0] if code else "the object store failed") from None


@contextmanager
def reachable(address: str, field: str) -> Iterator[None]:
    """Context that turns errors of a store into one sentence without its own message, which may show a secret."""
    try:
        yield
    except ConcordError:
        raise
    except FileNotFoundError:
        raise WrongInput(f"{field}: {address} does not exist") from None
    except (OSError, ValueError, pa.ArrowException) as failed:
        _store.cache_clear()
        code = AWS_CODE.search(str(failed))
        reason = code[1].lower().replace("_", " ") if code else type(failed).__name__
    else:
        return
    raise EnvironmentFailed(f"{field}: {address} cannot be read ({reason}): what lets us in, the environment says")


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

    The inode of an earlier file that is still there is what it is now: replaced, its former one may be another file's.
    """
    inodes = {_inode(name) or inode for name, inode in earlier.items()} - {""}
    return not files.keys().isdisjoint(earlier) or not inodes.isdisjoint(files.values())


def check_not_private(field: str, public: Iterable[Place], private: Mapping[str, str]) -> None:
    """Raise WrongInput if a private file is also named as a public one: its rows would be published as they are."""
    if is_shared(files_of(public), private):
        rule = f"{field} must not hold a file of data.private, which would then be published"
        raise WrongInput(f"{rule}; a file that was given the inode of a removed private one must be copied")


class Placed(NamedTuple):
    """A file of a table: its place, format, partition and name in messages."""

    place: Place
    format: Format
    partition: Partition
    name: str


class StoredTable(str, ABC):
    """The name of a stored table, which can be used like a path."""

    @property
    @abstractmethod
    def files(self) -> Sequence[Placed]:
        """Its files."""
