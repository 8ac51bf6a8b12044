"""A disk that is full, over quota or read-only from any change on, also within a write: a command says so in one
sentence and ends with exit status 1; given again with room, it charges, draws and loses nothing twice.
"""

import errno
import pickle
import re
import shutil
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import pytest

from tests.promises.commands import STAND_INS
from tests.support import preloaded
from tests.support.console import heard
from tests.support.copies import copied
from tests.support.people import arrive, people, write_plan, write_tables
from tests.support.processes import FRESH
from tests.world import Ledger

pytestmark = pytest.mark.slow
DISKS = {
    "full": f"{errno.ENOSPC}:s",
    "read-only": f"{errno.EROFS}:s",
    "over quota in the middle of a write": f"{errno.EDQUOT}:hs",
    "full in the middle of one write": f"{errno.ENOSPC}:h",
}
"""Faults of journal.c; all but the last outlast the command."""
SAMPLE = 4
"""Changes of a command at which the disk fails by default; every other test takes each of them."""


@dataclass(frozen=True)
class Given:
    """What came of a command: how many changes it made, its exit status, and standard error."""

    changes: int
    status: int
    errors: str


def give(home: Path, arguments: tuple[str, ...], fault: str, result: Path) -> None:
    """The process of a command, on a disk with that fault. What came of it is written to a file."""
    patch = pytest.MonkeyPatch()  # for as long as the process lasts
    for place, stand_in in STAND_INS.items():
        patch.setattr(place, stand_in)
    patch.setenv("CONCORD_HOME", str(home))
    patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{home / 'mlflow.db'}")
    preloaded.begin(home, "", fault)
    try:
        status, _, errors = heard(*arguments)
    except BaseException:
        status, errors = -1, traceback.format_exc()
    made = preloaded.changes()
    preloaded.begin("")
    result.write_bytes(pickle.dumps(Given(made, status, errors)))


class Place:
    """A folder of homes, and the tables beside them."""

    def __init__(self, folder: Path, database: Path) -> None:
        self.folder, self.data = folder, write_tables(folder / "data", people(800, 1))
        (folder / "base").mkdir(mode=0o700)
        shutil.copy(database, folder / "base" / "mlflow.db")

    def give(self, home: Path, *arguments: str, fault: str = "") -> Given:
        result = self.folder / "result"
        process = FRESH.Process(target=give, args=(home, arguments, fault, result))
        process.start()
        process.join()
        assert process.exitcode == 0
        found: Given = pickle.loads(result.read_bytes())
        return found

    def done(self, home: Path, *arguments: str) -> Given:
        """Give a command that ends well."""
        given = self.give(home, *arguments)
        assert given.status == 0, given.errors
        return given


def labelled(place: Place) -> Path:
    labeling = {"mechanism": "noisy_votes", "queries": 450, "batch": 128}
    changes = {f"labeling__{key}": value for key, value in labeling.items()} | {"labeling__cutoff": None}
    return write_plan(place.data, teachers__count=20, teachers__block=10, **changes)


def run(place: Place) -> tuple[str, ...]:
    return "run", str(labelled(place))


def extend(place: Place) -> tuple[str, ...]:
    place.done(place.folder / "base", *run(place))
    return "extend", "people", "--public", str(arrive(place.data / "more", 11))


def refresh(place: Place) -> tuple[str, ...]:
    labeling = {"labeling__mechanism": "tallies", "labeling__rows": 600, "labeling__cutoff": None}
    stream = {"stream__season": 3, "stream__clock": "0 0 1 1 *"}  # until then, the same again is the same release
    plan = write_plan(place.data, teachers=None, student=None, **stream, **labeling)
    return "refresh", str(plan)


def lasting(home: Path) -> set[tuple[str, bytes]]:
    """The noise that was drawn, and the answers that were released."""
    paths = (*home.glob("vault/sessions/*/*.npz"), *home.glob("released/*/labels/*"), *home.glob("released/*/rounds/*"))
    return {(str(path.relative_to(home)), path.read_bytes()) for path in paths}


@pytest.mark.parametrize("command", [run, extend, refresh], ids=lambda command: command.__name__)
def test_a_command_says_that_a_disk_fails_and_goes_on_once_it_does_not(
    command: Callable[[Place], tuple[str, ...]], tmp_path: Path, mlflow_database: Path, exhaustive: bool
) -> None:
    place = Place(tmp_path, mlflow_database)
    arguments = command(place)
    whole = copied(tmp_path / "base", tmp_path / "whole")
    changes = place.done(whole, *arguments).changes
    (due,) = Ledger.of(whole).sessions("people")
    for at, (name, disk) in zip(range(0, changes, 1 if exhaustive else changes // SAMPLE), cycle(DISKS.items())):
        home, where = copied(tmp_path / "base", tmp_path / "home"), f"{name}, at {at} of {changes}"
        failed = place.give(home, *arguments, fault=f"{at}:{disk}")
        assert failed.status == 1 or (failed.status == 0 and place.done(home, "verify")), (where, failed.errors)
        assert len(re.findall("^concord: ", failed.errors, re.MULTILINE)) == failed.status, (where, failed.errors)
        assert "Traceback" not in failed.errors, (where, failed.errors)
        drawn = lasting(home)
        place.done(home, *arguments)
        place.done(home, "verify")
        (session,) = Ledger.of(home).sessions("people")
        assert drawn <= lasting(home), where
        assert (session.reserved, session.asked, session.batches) == (due.reserved, due.asked, due.batches), where
        shutil.rmtree(home)
