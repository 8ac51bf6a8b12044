"""The exchange: the folder, or address of an object store, through which several homes and their lead communicate.

    question-2-3f9a01bc55de.json        of a round, with the beginning of its digest
    share-2-north-77ab1290ffe0.json     of a home

All of it is public and signed. A file is written whole, under a name that follows from its bytes, and never changed.

Assumes      nothing: anyone who reaches the folder may write anything into it, and change it at any time
Guarantees   a file is read if it is one of at most LARGEST bytes, never through a link, and used if its name fits its
             bytes. One that cannot be is refused by itself: it stops nobody from reading the others
             Any other failure to read ends this call, since the file may be the reader's own
Not covered  a store that shows an object before it is whole: its digest does not fit then, and it is read later.
             Anyone who may delete the files of others can make all of them wait; so can many files of LARGEST bytes,
             which are read at each call, if they take that room on the disk
             Checked by tests/tasks/data/test_exchange.py
"""

import errno
import os
import re
import secrets
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from concord.artifacts.errors import EnvironmentFailed, NotVerified
from concord.artifacts.home.atomic import sync_folder
from concord.artifacts.home.released import sha256
from concord.artifacts.sections import NAME_PATTERN
from concord.tasks.data.remote import Remote, objects, reachable

LARGEST = 1 << 26
"""Most bytes of a file that is read: a question with all of its codes takes a few million."""
SHOWN = 12
"""Digits of a digest in a name."""
NUMBER, HOME = "(0|[1-9][0-9]{0,2})", NAME_PATTERN.strip("^$")
NAMES = re.compile(rf"(question-{NUMBER}|share-{NUMBER}-({HOME}))-([0-9a-f]{{{SHOWN}}})\.json")
FIELD = "--exchange"
BY_STRANGERS = {errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EWOULDBLOCK, errno.EACCES, errno.EPERM, errno.ENOENT}
"""Errors of reading that the writer of a file can cause; those of a store have no number, only a type."""


@dataclass(frozen=True)
class Posted:
    """A file of the exchange: what its name says. `home` is empty for a question."""

    name: str
    number: int
    home: str


@dataclass(frozen=True)
class Exchange:
    """The exchange at a local folder or an address of an object store."""

    address: str

    @property
    def _remote(self) -> bool:
        return "://" in self.address

    def files(self) -> list[Posted]:
        """Everything with a name of ours, in order. Raises WrongInput or EnvironmentFailed if it cannot be listed."""
        try:
            names = (
                [item.address.removeprefix(self._at("")) for item in objects(self.address, FIELD)]
                if self._remote
                else os.listdir(self.address)
            )
        except FileNotFoundError:
            names = []
        except OSError as failed:
            raise EnvironmentFailed(f"{FIELD}: {self.address} cannot be read: {failed.strerror}") from None
        found = [match for match in map(NAMES.fullmatch, sorted(names)) if match]
        return sorted(
            (Posted(match[0], int(match[2] or match[3]), match[4] or "") for match in found),
            key=lambda file: (file.number, file.home, file.name),
        )

    def read(self, name: str) -> bytes:
        """The bytes of a file. Raises NotVerified if it is none that may be read, is too large, or its name does not
        fit its bytes; EnvironmentFailed if the file system or the store fails."""
        try:
            data = self._read(name)
        except (OSError, ValueError) as failed:  # Arrow raises both
            number = failed.errno if isinstance(failed, OSError) else None
            said = os.strerror(number) if number else "the store failed"
            denied = isinstance(failed, FileNotFoundError | PermissionError) or "ACCESS_DENIED" in str(failed)
            if denied or number in BY_STRANGERS:  # another file may still be read
                raise NotVerified(f"it cannot be read as a file: {said}") from None
            raise EnvironmentFailed(f"{FIELD}: {name} cannot be read now ({said}): try again") from None
        if sha256(data)[:SHOWN] != name[-5 - SHOWN : -5]:
            raise NotVerified("it does not hold the bytes that its name says")
        return data

    def write(self, start: str, data: bytes) -> str:
        """Write a file whose name begins with `start`, unless it is there; returns its name. Raises
        EnvironmentFailed."""
        name = f"{start}-{sha256(data)[:SHOWN]}.json"
        try:
            if self.read(name) == data:
                return name
        except NotVerified:  # it is not there, or not whole
            pass
        if self._remote:
            with reachable(self.address, FIELD):
                Remote(self._at(name)).write_bytes(data)
            return name
        folder = Path(self.address)
        passing = folder / f".{name}.{secrets.token_hex(8)}"  # the file appears whole or not at all
        try:
            folder.mkdir(parents=True, exist_ok=True)
            try:
                with passing.open("xb") as file:
                    file.write(data)
                    file.flush()
                    os.fchmod(file.fileno(), 0o644)  # for the others, whatever the umask
                    os.fsync(file.fileno())
                os.replace(passing, folder / name)
                sync_folder(folder)
            finally:
                passing.unlink(missing_ok=True)
        except OSError as failed:
            raise EnvironmentFailed(f"{FIELD}: {self.address} cannot be written: {failed.strerror}") from None
        return name

    def _read(self, name: str) -> bytes:
        if self._remote:
            with Remote(self._at(name)).raw() as stream:
                _check_size(stream.size())
                return bytes(stream.read(LARGEST))
        with open(Path(self.address, name), "rb", opener=_opened) as file:
            found = os.fstat(file.fileno())  # of what is open now, which nobody can exchange for another
            if not stat.S_ISREG(found.st_mode):
                raise NotVerified("it is no file")
            _check_size(found.st_size)
            with suppress(OSError):  # a file system that knows of no holes, which are read as zeros and cost nothing
                hole = os.lseek(file.fileno(), 0, os.SEEK_HOLE)
                os.lseek(file.fileno(), 0, os.SEEK_SET)
                if hole < found.st_size:
                    raise NotVerified("it holds nothing in places, which no file of Concord does")
            return file.read(LARGEST)  # it may have grown

    def _at(self, name: str) -> str:
        return f"{self.address.rstrip('/')}/{name}"


def _opened(path: str, flags: int) -> int:
    """Open a file, but no link, which leads anywhere; and do not wait for a writer of a pipe."""
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _check_size(size: int) -> None:
    if size > LARGEST:
        raise NotVerified(f"it holds more than {LARGEST:,} bytes, which nothing of Concord does")
