"""Locks that the kernel frees when their holder ends, however it ends."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from artifacts.errors import EnvironmentFailed
from artifacts.whole import make_folder


@contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock that the file at `path` stands for, alone or with others who share it; waits for it.

    Raises EnvironmentFailed if the file cannot be made.
    """
    descriptor = _opened(path)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def locked_if_free(path: Path) -> Iterator[bool]:
    """Hold the lock alone if nobody else does; whether it is held."""
    descriptor = _opened(path)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free = True
        except BlockingIOError:
            free = False
        yield free
    finally:
        os.close(descriptor)


def _opened(path: Path) -> int:
    try:
        make_folder(path.parent)
        return os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as failed:
        raise EnvironmentFailed(f"the lock {path} cannot be taken: {failed.strerror}") from None
