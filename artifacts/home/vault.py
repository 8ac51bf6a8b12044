"""The vault: everything private, in one folder that nobody else may read.

Every file is 0600 from birth, written whole and synced before it is named, and ends in a keyed seal (HMAC) over its
name and content, so that nothing is read back that this installation did not write there. A secret is 32 random bytes,
stored with a check value; only `make_secret` makes one that is missing.
"""

import fnmatch
import hashlib
import hmac
import os
import secrets
import shutil
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import BinaryIO, Protocol

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from concord.artifacts.errors import NotVerified, refused
from concord.artifacts.home.atomic import UNFINISHED, discard, make_folder, passing_folder, sync_folder, write_whole
from concord.artifacts.home.users import check_own
from concord.artifacts.schemas import AnyPath, Ref

KEY_BYTES = 32
SEAL_BYTES = 32
BYTES_AT_A_TIME = 1 << 20
PUBLIC = ("public/", "coded/")
"""Folders of the vault that hold public rows: as they were staged, and as codes."""


def derive(key: bytes, purpose: str) -> bytes:
    """A separate key for one purpose (splitting, draws, digests) by HKDF-SHA256 (RFC 5869)."""
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=f"concord/{purpose}".encode()).derive(key)


def keyed_digest(key: bytes, *parts: bytes | str) -> str:
    """HMAC-SHA256 in hex over length-prefixed parts, so that two different lists are two different inputs."""
    seal = hmac.new(key, digestmod=hashlib.sha256)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        seal.update(len(data).to_bytes(8, "little"))
        seal.update(data)
    return seal.hexdigest()


def hashed(contents: Iterable[bytes], key: bytes, purpose: bytes, size: int) -> list[bytes]:
    """A keyed digest of `size` bytes for each content, for one purpose: BLAKE2b (RFC 7693), fast enough for every row
    of a table."""
    keyed, digests = hashlib.blake2b(key=key, person=purpose, digest_size=size), []
    for content in contents:
        digest = keyed.copy()
        digest.update(content)
        digests.append(digest.digest())
    return digests


class Sink:
    """A file being written, digested on the way. `ref` is set once the file is closed and durable."""

    ref: Ref

    def __init__(self, file: BinaryIO, key: bytes) -> None:
        self._file = file
        self.content = hmac.new(key, digestmod=hashlib.sha256)
        self.closed = False

    def write(self, data: bytes) -> int:
        self.content.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


class Staged(Protocol):
    """The vault's public rows, and nothing else of it: those of PUBLIC."""

    def read(self, ref: Ref, /) -> bytes:
        """As `Vault.read`."""

    def create(self, path: str, /) -> AbstractContextManager[Sink]:
        """As `Vault.create`."""


class _Staged:
    def __init__(self, vault: "Vault") -> None:
        self._vault = vault

    def read(self, ref: Ref) -> bytes:
        return self._vault.read(ref.model_copy(update={"path": _public(ref.path)}))

    def create(self, path: str) -> AbstractContextManager[Sink]:
        return self._vault.create(_public(path))


def _public(path: str) -> str:
    if not path.startswith(PUBLIC) or ".." in path:
        raise NotVerified(f"the vault file {path} holds no public rows")
    return path


class Vault:
    """The vault of one home folder.

    Assumes      other users of the machine are not root
    Guarantees   files 0600 and folders 0700 from birth; another user's vault is refused, and a changed, moved or
                 foreign file on reading; what `create` and `make_secret` have returned from is there after a power
                 cut
    Not covered  deletion by the owner; whoever has the disk or a copy of it, unless its operator encrypted the volume.
                 Checked by tests/artifacts/home/test_vault.py
    """

    def __init__(self, root: Path) -> None:
        """Open `root`, making it if it is missing.

        Raises EnvironmentFailed if it is another user's or if others may read it.
        """
        self.root = root
        with self._in_one_sentence("opened"):
            root.parent.mkdir(parents=True, exist_ok=True)
            make_folder(root)
            check_own("the vault", root, 0o077)
        secret = self._installation()
        self._seal, self._digests = derive(secret, "seal"), derive(secret, "digests")

    @property
    def staged(self) -> Staged:
        """Its public rows, for all that is no business of the rest of the vault."""
        return _Staged(self)

    def secret(self, name: str) -> bytes:
        """The 32-byte secret of that name, such as sessions/ID.

        Raises NotVerified if its file is missing or damaged.
        """
        if not self.has_secret(name):
            raise NotVerified(f"the vault lacks the key {self.root}/secrets/{name}: restore a copy of it")
        with self._in_one_sentence("read"), suppress(NotVerified):
            key, check = self._parts(f"secrets/{name}", SEAL_BYTES)
            if len(key) == KEY_BYTES and hmac.compare_digest(check, _check(key, name)):
                return key
        raise NotVerified(f"the key {self.root}/secrets/{name} is damaged: restore a copy of it")

    def make_secret(self, name: str) -> bytes:
        """The secret of that name, made if it is missing: for those that nothing on record depends on yet. Raises as
        `secret`."""
        self._make_secret(name)
        return self.secret(name)

    def has_secret(self, name: str) -> bool:
        """Whether that secret exists; a session without its key can never draw again."""
        return (self.root / "secrets" / name).exists()

    def digest(self, *parts: bytes | str) -> str:
        """A digest keyed by this installation, for cache keys and comparison; meaningless without the key."""
        return keyed_digest(self._digests, *parts)

    def digest_file(self, path: AnyPath) -> str:
        """Keyed digest of a file outside the vault, such as a private table."""
        seal = hmac.new(self._digests, digestmod=hashlib.sha256)
        with path.open("rb") as file:
            while chunk := file.read(BYTES_AT_A_TIME):
                seal.update(chunk)
        return seal.hexdigest()

    def has(self, ref: Ref) -> bool:
        """Whether the file is there; what it holds is checked when it is read."""
        return (self.root / ref.path).is_file()

    @contextmanager
    def create(self, path: str, *, exclusive: bool = False) -> Iterator[Sink]:
        """Write `path` (relative) whole: it appears, durable, when the context ends, or not at all.

        With `exclusive` the first writer wins and FileExistsError is raised to any other.
        """
        with self._new(path, exclusive=exclusive) as file:
            sink = Sink(file, self._seal)
            yield sink
            digest = sink.content.hexdigest()
            file.write(self._trailer(path, digest))
        sink.ref = Ref(path=path, digest=digest)

    @contextmanager
    def passing(self, path: str) -> Iterator[str]:
        """The path of a temporary folder whose files are removed however the context ends. They are not synced, and do
        not survive a power cut."""
        with ExitStack() as held:
            with self._in_one_sentence("written"):
                folder = held.enter_context(passing_folder(self.root / path, self.root))
            yield str(folder.relative_to(self.root))

    def kept(self, path: str) -> Ref | None:
        """The file that `keep` wrote at `path`, durable; None if it was not written yet."""
        if not (self.root / path).is_file():
            return None
        with self._in_one_sentence("written"):
            sync_folder((self.root / path).parent)  # its writer may have died before the name was durable
        return self.find(path)

    def keep(self, path: str, content: bytes) -> Ref:
        """The file at `path`, written now unless it is there. The first writer wins."""
        with suppress(FileExistsError), self.create(path, exclusive=True) as sink:
            sink.write(content)  # if another process was first, its file is kept
        ref = self.kept(path)
        if ref is None:
            raise NotVerified(f"the vault file {path} vanished while it was being used")
        return ref

    def read(self, ref: Ref) -> bytes:
        """The bytes of a sealed file. Raises NotVerified if it is missing or not what was written."""
        try:
            there, content = self._open(ref.path)
        except OSError:
            raise NotVerified(f"the vault file {ref.path} is missing or cannot be read") from None
        if not hmac.compare_digest(there.digest, ref.digest):
            raise NotVerified(f"the vault file {ref.path} is not what was written")
        return content

    def mapped(self, ref: Ref) -> memoryview:
        """As `read`, of a file that may be larger than memory: it is mapped, and checked whole, once. If it is removed,
        its bytes remain until they are no longer used."""
        try:
            with (self.root / ref.path).open("rb") as file:
                content = memoryview(mmap(file.fileno(), 0, access=ACCESS_READ))[:-SEAL_BYTES]
        except (OSError, ValueError):  # an empty file cannot be mapped
            raise NotVerified(f"the vault file {ref.path} is missing or cannot be read") from None
        if not hmac.compare_digest(hmac.new(self._seal, content, hashlib.sha256).hexdigest(), ref.digest):
            raise NotVerified(f"the vault file {ref.path} is not what was written")
        return content

    def destroy(self, path: str) -> None:
        """Remove a file or folder durably, if it is there, and the unfinished files that killed writers of it left.

        Copies that the disk itself keeps are beyond our reach.
        """
        target = self.root / path
        with self._in_one_sentence("cleared"):
            discard(target, self.root)  # first: an interrupted caller tries again as long as the target is there
            if target.is_dir():
                shutil.rmtree(target)
            target.unlink(missing_ok=True)
            if target.parent.is_dir():
                sync_folder(target.parent)

    def find(self, path: str) -> Ref | None:
        """A reference to the file at `path` as it is now, if there is one; for files named before they are written.

        Raises NotVerified if this vault did not write it at that path.
        """
        taken = self.take(path)
        return None if taken is None else taken[0]

    def take(self, path: str) -> tuple[Ref, bytes] | None:
        """As `find`, with the bytes that the digest was computed from."""
        return self._open(path) if (self.root / path).is_file() else None

    def paths(self, folder: str, pattern: str, besides: Collection[str] = ()) -> list[str]:
        """The files of a folder whose names match, without those `besides`; sorted."""
        try:
            paths = {f"{folder}/{name}" for name in os.listdir(self.root / folder)}
        except (FileNotFoundError, NotADirectoryError):
            return []
        return sorted(fnmatch.filter(paths.difference(besides), f"{folder}/{pattern}"))

    def _installation(self) -> bytes:
        """The installation's own secret."""
        others = any((self.root / "secrets").glob("[!.]*"))  # looked for first: they are made after it
        if others and not self.has_secret("installation"):
            raise NotVerified(f"the vault {self.root} lacks its secrets/installation: restore a copy of it")
        self._make_secret("installation")
        return self.secret("installation")

    def _make_secret(self, name: str) -> None:
        if self.has_secret(name):
            return
        with suppress(FileExistsError), self._new(f"secrets/{name}", exclusive=True) as file:
            key = secrets.token_bytes(KEY_BYTES)
            file.write(key + _check(key, name))  # if another process was first, its secret is used

    def _open(self, path: str) -> tuple[Ref, bytes]:
        content, trailer = self._parts(path, SEAL_BYTES)
        digest = hmac.new(self._seal, content, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(trailer, self._trailer(path, digest)):
            raise NotVerified(f"the vault file {path} is not what was written")
        return Ref(path=path, digest=digest), content

    def _parts(self, path: str, last: int) -> tuple[bytes, bytes]:
        """The content of a file: all but its `last` bytes, and those bytes."""
        with (self.root / path).open("rb") as file:
            return file.read(max(0, os.fstat(file.fileno()).st_size - last)), file.read()

    def _trailer(self, path: str, digest: str) -> bytes:
        """The seal at the end of a file: it binds content to name, so that no file passes for another."""
        return bytes.fromhex(keyed_digest(self._seal, "trailer", path, digest))

    @contextmanager
    def _new(self, path: str, *, exclusive: bool) -> Iterator[BinaryIO]:
        """A file that gets its name when the context ends without an error, durably unless its folder is temporary;
        otherwise no trace of it remains."""
        final = self.root / path
        with self._in_one_sentence("written", besides=(FileExistsError,) if exclusive else ()):
            make_folder(final.parent)
            durable = not path.startswith(UNFINISHED)
            with write_whole(final, self.root, exclusive=exclusive, durable=durable) as file:
                yield file

    @contextmanager
    def _in_one_sentence(self, what: str, besides: tuple[type[OSError], ...] = ()) -> Iterator[None]:
        """Raise OSErrors as EnvironmentFailed, except the types in `besides`, which the caller handles."""
        try:
            yield
        except besides:
            raise
        except OSError as failed:
            raise refused(f"the vault {self.root} cannot be {what}", failed) from None


def _check(key: bytes, name: str) -> bytes:
    """The check value at the end of a secret's file: it shows a damaged or foreign key, and nothing about the key."""
    return bytes.fromhex(keyed_digest(key, "check", name))


def owner(made: Ref) -> str:
    """The domain of a file made of private rows, from its path in the vault: KIND/DOMAIN/…"""
    return made.path.split("/")[1]
