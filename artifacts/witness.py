"""The witness: a file outside the home that has seen how far the ledger came, and what was charged by then.

One line a sighting, added after the ledger's commit and before anything is drawn on it. A ledger that ends before what
its witness saw, or holds something else there, was put back to an older copy; what follows, artifacts.watching says.

Assumes      the file is kept where no copy of the home is put back over it, and is not edited
Guarantees   what was drawn on is in the file first, synced, with what its domains are charged; written by one process
             at a time, and a line that a dying one left unfinished counts for nothing
Not covered  the witness itself put back, together with the home. Checked by tests/artifacts/test_witness.py
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from artifacts.errors import EnvironmentFailed, NotVerified, WrongInput
from artifacts.restoration import Standing
from artifacts.whole import sync_folder

TAIL = 1 << 12


class Sighting(BaseModel):
    """What the witness saw of a ledger: the digests of the entries since the sighting before, up to entry `seq`.

    standings   every domain, and what it was charged
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seq: int
    heads: tuple[str, ...] = Field(min_length=1)
    standings: tuple[Standing, ...]

    @property
    def head(self) -> str:
        """The digest of entry `seq`."""
        return self.heads[-1]


class Witness:
    """The witness at one path. Its file is made at the first sighting, its owner's alone (0600)."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, home: Path) -> Self | None:
        """The witness CONCORD_WITNESS names, if it names one. Raises WrongInput where it lies in the home folder."""
        named = os.environ.get("CONCORD_WITNESS")
        if not named:
            return None
        path = Path(named).absolute()
        if path.resolve().is_relative_to(home.resolve()):
            raise WrongInput(f"CONCORD_WITNESS must name a file outside the home folder {home}, got {path}")
        return cls(path)

    def last(self) -> Sighting | None:
        """The last sighting, if there was one. Raises NotVerified where the file is no witness."""
        with self._told("read"):
            if not self.path.exists():
                return None
            with self.path.open("rb") as file:
                return self._read(_last_line(file)[1])

    def heads(self) -> list[str]:
        """The digest of every entry as it was last seen, from the first. Raises NotVerified as `last`."""
        with self._told("read"):
            lines = self.path.read_bytes().split(b"\n")[:-1] if self.path.exists() else []
        heads: list[str] = []
        for sighting in filter(None, (self._read(line) for line in lines)):
            heads[sighting.seq - len(sighting.heads) :] = sighting.heads  # a restored ledger counts on from earlier
        return heads

    def see(self, since: Callable[[Sighting | None], Sighting | None]) -> None:
        """Write down what there is to see since the last sighting; `since` gives None where that is nothing."""
        with self._told("written"), self._alone() as file:
            end, line = _last_line(file)
            seen = since(self._read(line))
            if seen is None:
                return
            file.truncate(end)
            file.seek(end)
            file.write(seen.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _read(self, line: bytes) -> Sighting | None:
        try:
            return Sighting.model_validate_json(line) if line else None
        except ValidationError:
            raise NotVerified(f"the witness {self.path} holds a line that is no sighting of a ledger") from None

    @contextmanager
    def _alone(self) -> Iterator[BinaryIO]:
        """The file under a lock that the kernel frees when its holder ends; its name durable."""
        with os.fdopen(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if not os.fstat(file.fileno()).st_size:
                sync_folder(self.path.parent)
            yield file

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as failed:
            raise EnvironmentFailed(f"the witness {self.path} cannot be {what}: {failed.strerror}") from None


def _last_line(file: BinaryIO) -> tuple[int, bytes]:
    """Where the last whole line ends, and what it says; (0, nothing) without one."""
    size, length = file.seek(0, os.SEEK_END), TAIL
    while True:
        start = max(0, size - length)
        file.seek(start)
        tail = file.read(size - start)
        end = tail.rfind(b"\n")
        begin = tail.rfind(b"\n", 0, max(0, end)) + 1
        if end < 0 and start == 0:
            return 0, b""
        if end >= 0 and (begin > 0 or start == 0):
            return start + end + 1, tail[begin:end]
        length *= 2
