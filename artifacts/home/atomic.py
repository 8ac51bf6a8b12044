"""Files written whole, locks that end with their holder, and the format of a home folder.

    ROOT/.unfinished/PATH.TOKEN  →  ROOT/PATH      a file; a folder of files is temporary and never renamed

A file is first written under a temporary name in another folder, then renamed into place. Its writer locks the
temporary file or folder, and the kernel frees every lock when its holder ends, however it ends. Until a writer has that
lock, it shares a lock of ROOT/.unfinished, which a sweep takes exclusively: no sweep meets a file that is being written
and not locked.

Assumes      ROOT is on one file system, whose locks hold (`flock`). On NFS, locks of folders hold within one machine
             only, so processes on other machines may write there, but commands may not run on them
Guarantees   a file appears whole or not at all; the next `sweep` removes what a killed writer left, and never a file
             that somebody is still writing
Not covered  a file that is not durable may be lost, or found empty, after a power cut. Checked by
             tests/artifacts/home/test_atomic.py

One file in a home folder holds the number of its format, by which Concord refuses the home of another version.
"""

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import BinaryIO

from concord.artifacts.errors import EnvironmentFailed

UNFINISHED = ".unfinished"
TOKEN = 16 * "[0-9a-f]"
"""The end of a file's name before it is whole, as a pattern."""


@contextmanager
def write_whole(
    final: Path, root: Path, *, mode: int = 0o600, exclusive: bool = False, durable: bool = False
) -> Iterator[BinaryIO]:
    """Open a file that appears at `final`, below `root`, when the context ends without an error, and otherwise never.

    exclusive   the first writer wins, and FileExistsError is raised to any other
    durable     content and name are synced before this returns
    """
    passing = _passing(final, root).with_name(f"{final.name}.{secrets.token_hex(8)}")
    try:
        _enter(root / UNFINISHED)
        with _held(root / UNFINISHED, shared=True):
            _enter(passing.parent)
            descriptor = os.open(passing, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)  # read: for NFS's shared locks
            take_lock(descriptor, shared=True)
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
            os.link(passing, final) if exclusive else os.replace(passing, final)  # while its lock is held
        if durable:
            sync_folder(final.parent)
    finally:
        passing.unlink(missing_ok=True)


@contextmanager
def passing_folder(path: Path, root: Path) -> Iterator[Path]:
    """A temporary folder for files that belong at `path`, below `root`; it is removed when the context ends."""
    passing = _passing(path, root).with_name(f"{path.name}.{secrets.token_hex(8)}")
    with ExitStack() as held:
        _enter(root / UNFINISHED)
        with _held(root / UNFINISHED, shared=True):
            _enter(passing)
            held.enter_context(_held(passing, shared=True))
        try:
            yield passing
        finally:
            shutil.rmtree(passing, ignore_errors=True)


def discard(path: Path, root: Path) -> None:
    """Remove the unfinished files of writers of `path`, a file or folder below `root`."""
    passing = _passing(path, root)
    if passing.is_dir():
        shutil.rmtree(passing)
    for left in passing.parent.glob(f"{escape(path.name)}.{TOKEN}"):
        shutil.rmtree(left) if left.is_dir() else left.unlink(missing_ok=True)


def sweep(root: Path) -> None:
    """Remove the unfinished files that killed writers left below `root`."""
    folder = root / UNFINISHED
    if not folder.is_dir():
        return
    with _held(folder):
        _clear(folder)


def make_folder(folder: Path, mode: int = 0o700) -> None:
    """Make a folder durably, and its parents if missing; by default only its owner may enter."""
    if folder.is_dir():
        return
    make_folder(folder.parent, mode)
    folder.mkdir(mode=mode, exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_tree(folder: Path, root: Path) -> None:
    """Sync every file and folder below a folder, and the folders from it up to `root`."""
    above = [path for path in folder.parents if path.is_relative_to(root)]
    for path in (*folder.rglob("*"), folder, *above):
        sync_folder(path)


def _passing(path: Path, root: Path) -> Path:
    """The temporary place of `path` until it is whole; for a file in a temporary folder, that folder."""
    unfinished = root / UNFINISHED
    return path if path.is_relative_to(unfinished) else unfinished / path.relative_to(root)


def _enter(folder: Path) -> None:
    """Make a folder for temporary names, if missing: nothing in it needs to survive a power cut."""
    if not folder.is_dir():
        _enter(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _clear(folder: Path) -> None:
    """Remove everything in a folder of temporary names but the files that somebody is still writing."""
    for path in list(folder.iterdir()):
        with suppress(FileNotFoundError), _held(path, wait=False) as dead:  # unless its writer has just finished it
            if dead and path.is_dir():
                _clear(path)
                with suppress(OSError):  # one that is not empty stays
                    path.rmdir()
            elif dead:
                path.unlink()


def take_lock(descriptor: int, *, shared: bool = False, wait: bool = True) -> bool:
    """Lock an open file or folder, exclusively or shared. Returns whether the lock is held; always true with `wait`.

    The kernel frees the lock when the descriptor is closed.
    """
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        if wait:
            raise
        return False
    return True


@contextmanager
def locked(path: Path, *, shared: bool = False, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of the file at `path`, made if missing, in the context; yields whether it is held (`take_lock`).

    Raises EnvironmentFailed if the file cannot be made.
    """
    try:
        make_folder(path.parent)
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as failed:
        raise EnvironmentFailed(f"the lock {path} cannot be taken: {failed.strerror}") from None
    try:
        yield take_lock(descriptor, shared=shared, wait=wait)
    finally:
        os.close(descriptor)


@contextmanager
def _held(path: Path, *, shared: bool = False, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of an existing file or folder. NFS gives an exclusive lock only to those who may write the file."""
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        yield take_lock(descriptor, shared=shared, wait=wait)
    finally:
        os.close(descriptor)


FIRST_KEPT = ("vault", "ledger.db")
"""Files that every home in use has."""


def is_home(home: Path) -> bool:
    """Whether the folder is a home that Concord has used before."""
    return any((home / name).exists() for name in ("format", *FIRST_KEPT))
