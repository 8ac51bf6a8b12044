"""What stands in a home folder, for tests that see what a command changed there, or left alone."""

from pathlib import Path
from typing import Any

from artifacts.ledger import Ledger
from artifacts.privacy import Charge
from tasks.recipe import read_recipe
from tasks.release import Door


def charged(home: Path) -> Charge:
    """All that the domain of tests.people is charged."""
    return Ledger.of(home).total("people")


def labels_of(home: Path, session: str) -> dict[str, bytes]:
    """The released labels of a session, by file name."""
    return {path.name: path.read_bytes() for path in (home / "released" / session / "labels").iterdir()}


def state_of(home: Path, session: str) -> tuple[Any, ...]:
    """All that a refused command must leave alone."""
    door = Door.of(home)
    return charged(home), door.ledger.batches(session), read_recipe(door.vault, session), labels_of(home, session)
