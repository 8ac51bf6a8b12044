"""The crash matrix: a session is opened, passes the door, is closed and forgotten; every step of it fails once.

At each point of `tests.faults` a fresh process is killed, meets an error, a full disk or a power cut; what it leaves is
looked at, and another process takes the same walk to its end.
"""

import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pyarrow as pa
import pytest

from artifacts.ledger import Ledger
from artifacts.sessions import Session
from artifacts.vault import Vault
from tasks.ending import close, forget
from tasks.mechanisms.voting import Ints, Mechanism
from tasks.randomness import Randomness
from tasks.release import Door
from tests.at_door import NOISY, STABLE, make_case
from tests.faults import Faults, How

MECHANISMS: dict[str, Mechanism] = {"stable": STABLE, "noisy_votes": NOISY}
HOWS = get_args(How)
EVERY = 28
"""The default tests fail at every twenty-eighth point; those marked slow at all."""


def walk(home: Path, mechanism: str) -> None:
    """The whole life of a session, from wherever it stands."""
    door = Door.of(home)
    if not any(session.status != "open" for session in door.ledger.sessions("d")):
        make_case(home, MECHANISMS[mechanism]).run()
        close(door, "d-1", give_back=True)
    forget(door, "d-1")


def redrawing(_self: Randomness, _name: str, make: Callable[[], Sequence[Ints]]) -> list[Ints]:
    """The planted bug: noise that is drawn anew at every try."""
    return list(make())


def attempt(home: Path, mechanism: str, at: int | None, how: How, told: Path, planted: bool) -> None:
    """One process walks, with one fault; the points it passed are written down outside the home."""
    if planted:
        Randomness.kept = redrawing  # type: ignore[method-assign,assignment]  # in this process alone
    faults = Faults(home, at, how)
    faults.install()
    try:
        walk(home, mechanism)
    except Exception:
        os._exit(1)  # without the traceback, which is planted
    told.write_text("\n".join(faults.points))


@dataclass(frozen=True)
class Left:
    """What can be seen of a home: released labels by file, and the session in the ledger, if it is there."""

    released: dict[str, bytes]
    session: Session | None

    @classmethod
    def by(cls, home: Path) -> "Left":
        root = home / "released"
        ledger = Ledger(f"sqlite:///{home / 'ledger.db'}")
        ledger.verify()
        opened = ledger.sessions("d")
        files = {
            str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*.arrow") if file.name[0] != "."
        }
        return cls(files, opened[0] if opened else None)

    @property
    def paid_for(self) -> bool:
        """Whether the ledger knows of every batch whose labels are out, and charges the session for it."""
        if self.session is None:
            return not self.released
        refused = sum(_outcomes(file).count("refused") for file in self.released.values())
        each = self.session.per_refusal
        least = self.session.reserved if each is None else each.times(refused)
        return len(self.released) <= self.session.batches and self.session.charge.renyi >= least.renyi


class Matrix:
    """One mechanism's walks, each in a process of its own, from the same home with the same session key."""

    attempt = staticmethod(attempt)

    def __init__(self, folder: Path, mechanism: str, *, planted: bool = False) -> None:
        self.folder, self.mechanism, self.planted = folder, mechanism, planted
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["tests.test_crash"])
        Vault(folder / "base" / "vault").secret("sessions/d-1")
        self.points = self.go(self._home("undisturbed"))
        self.undisturbed = Left.by(folder / "undisturbed")

    def fails_at(self, at: int, how: How) -> list[str]:
        """What is wrong after a fault at that point, and after the walk was taken up again; nothing, it is hoped."""
        home = self._home(f"{at}-{how}")
        self.go(home, at, how)
        crashed = Left.by(home)
        self.go(home)
        resumed = Left.by(home)
        checks = {
            "released labels that the ledger does not know": crashed.paid_for and resumed.paid_for,
            "labels that changed": crashed.released.items() <= resumed.released.items(),
            "another end": resumed.session == self.undisturbed.session,
            "other labels": self.noisy or resumed.released == self.undisturbed.released,
        }
        shutil.rmtree(home)
        return [f"{self.points[at]} ({at}, {how}): {what}" for what, well in checks.items() if not well]

    def go(self, home: Path, at: int | None = None, how: How = "kill") -> list[str]:
        """Take the walk, failing at one point or at none; the points passed, where it came to its end."""
        told = self.folder / "points"
        process = self.context.Process(target=self.attempt, args=(home, self.mechanism, at, how, told, self.planted))
        process.start()
        process.join()
        assert at is not None or process.exitcode == 0
        assert (how in ("kill", "power cut") and at is not None) == (process.exitcode == -signal.SIGKILL)
        return told.read_text().splitlines()

    @property
    def noisy(self) -> bool:
        """Whether two walks cannot be compared, since OpenDP draws for each of them."""
        return not MECHANISMS[self.mechanism].keyed

    def _home(self, name: str) -> Path:
        return Path(shutil.copytree(self.folder / "base", self.folder / name))


def _outcomes(file: bytes) -> list[str]:
    return list(pa.ipc.open_file(file).read_all()["outcome"].to_pylist())


@pytest.fixture(scope="module", params=MECHANISMS)
def matrix(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    return Matrix(tmp_path_factory.mktemp(request.param), request.param)


def test_the_points_cover_vault_ledger_and_released_files(matrix: Matrix) -> None:
    met = {point.split()[0] for point in matrix.points}
    assert met >= {"open", "fsync", "os.rename", "os.remove", "os.mkdir", "BEGIN", "INSERT", "commit"}
    assert len(matrix.points) > 100


@pytest.mark.parametrize("how", HOWS)
def test_a_walk_that_fails_on_its_way_comes_to_the_same_end(matrix: Matrix, how: How) -> None:
    first = HOWS.index(how)  # other points for every kind of failure
    assert [wrong for at in range(first, len(matrix.points), EVERY) for wrong in matrix.fails_at(at, how)] == []


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_every_point_of_the_walk(matrix: Matrix, how: How) -> None:
    assert [wrong for at in range(len(matrix.points)) for wrong in matrix.fails_at(at, how)] == []


def test_noise_drawn_again_would_be_found(tmp_path: Path) -> None:
    """The planted bug: labels are out and not committed when the process dies, and the next one draws anew."""
    matrix = Matrix(tmp_path, "noisy_votes", planted=True)
    written = [at for at, point in enumerate(matrix.points) if point.startswith("os.rename .batch-")]
    assert any("labels that changed" in wrong for wrong in matrix.fails_at(written[1] + 1, "kill"))
