"""Upgrade: bring a home written by an earlier version to this one's format, once, with a copy of what is touched.

    format 1 → 2   the private files of known sessions are put on the ledger's record
    format 2 → 3   nothing: sessions that are on record do not say which version opened them, and need not

Assumes      no version older than the home's opens it meanwhile
Guarantees   the ledger of before lies in HOME/backups before anything is written; what was interrupted is finished by
             the next command; nothing is spent or drawn
Not covered  a ledger on a database server, which has backups of its own. Checked by tests/promises/test_upgrade.py
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from artifacts.errors import EnvironmentFailed, WrongInput
from artifacts.home import FORMAT, check_format, set_format
from artifacts.whole import make_folder, sync_folder
from tasks.recipe import read_recipe
from tasks.release import Door


def upgrade(home: Path) -> None:
    """Bring the home to this version's format. Raises NotVerified where it is of a newer one."""
    with _alone(home):
        found = check_format(home)
        if found == FORMAT:
            return
        door = Door.of(home)
        _back_up(door, home, found)
        for step in STEPS[found - 1 :]:
            step(door)
        set_format(home)


def _back_up(door: Door, home: Path, found: int) -> None:
    folder = home / "backups"
    if any(folder.glob(f"format-{found}-*/ledger.db")):
        return  # made before what was interrupted: the ledger as it was
    unfinished = folder / "unfinished"
    unfinished.unlink(missing_ok=True)
    if door.ledger.back_up(unfinished):
        named = folder / f"format-{found}-{datetime.now(UTC):%Y-%m-%d}"
        make_folder(named)
        os.replace(unfinished, named / "ledger.db")
        sync_folder(named)


def _claim_private_files(door: Door) -> None:
    """What sessions learned from belongs to their domains; two that share a file are linked from the start."""
    for domain in door.ledger.domains():
        for session in door.ledger.sessions(domain.name):
            recipe = read_recipe(door.vault, session.id)
            for file in () if recipe is None else recipe.private:
                _claim(door, domain.name, file)


def _claim(door: Door, domain: str, file: str) -> None:
    try:
        door.ledger.hold(domain, [file])
    except WrongInput:
        holders = [
            other.name
            for other in door.ledger.domains()
            if any((one.kind, one.about) == ("holds", file) for one in door.ledger.remarks(other.name))
        ]
        for other in holders:
            door.ledger.remark(other, "linked", domain, "they shared a private file before this was on the record")
        door.ledger.hold(domain, [file])


STEPS: tuple[Callable[[Door], None], ...] = (_claim_private_files, lambda _: None)
"""What leads from each format to the next; each may run again after it was interrupted."""


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """One upgrade of a home at a time; the kernel frees the lock when its holder ends."""
    try:
        make_folder(home / "backups")
        descriptor = os.open(home / "backups", os.O_RDONLY)
    except OSError as failed:
        raise EnvironmentFailed(f"the home folder {home} cannot be written: {failed.strerror}") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
