"""The crash matrix, for every kind of release: whatever fails at any step, it goes on from there and comes to its end.

A durable draw is final: the next process uses it and publishes the same. A draw that was not durable was seen by
nobody, and is made again. A session is then closed and forgotten, and nothing secret of it is left.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.promises import crashes
from tests.promises.crashes import HOWS
from tests.promises.faults import How
from tests.promises.kinds import KINDS, Kind
from tests.support.tallied import NAME
from tests.world import TOKEN, Ledger, Ref, Session, Stores, Vault, close, forget

FAULTS = 4
"""Faults of a default test, one of each kind of failure, spread over the points of a kind."""
EVERY = ("stable", "sparse_vector", "noisy_votes", "tallies", "stream", "question", "questions", "estimate")
"""Kinds that slow tests fail at every point of the door, one for each way through it: keyed draws, noise that outlasts
a batch, noise on record, rounds, releases of a season, a question, a stream of them, and a single answer."""


def asking(home: Path, kind: Kind) -> None:
    kind.ask(home)


def ending(home: Path, kind: Kind) -> None:
    """The session is asked, closed and forgotten."""
    door = Stores.of(home)
    if door.ledger.session(NAME).status == "open":
        kind.ask(home)
    close(door, NAME, give_back=True)
    forget(door, NAME)


@dataclass(frozen=True)
class Left:
    """The visible state of a home: kept noise, released files, secrets of the session, and the ledger's state."""

    drawn: dict[str, bytes]
    released: dict[str, bytes]
    secrets: list[str]
    session: Session

    @classmethod
    def by(cls, home: Path) -> "Left":
        ledger, vault = Ledger.of(home), home / "vault"
        ledger.verify()
        kept = crashes.files(vault)
        drawn = {path: kept[path] for path in kept if path.startswith(f"sessions/{NAME}/") and path.endswith(".npz")}
        secrets = [str(path.relative_to(vault)) for path in vault.rglob("*sessions/*")]
        return cls(drawn, crashes.files(home / "released"), secrets, ledger.session(NAME))

    @property
    def paid_for(self) -> bool:
        """Whether the ledger began every batch that was drawn or released, and charges the session for it."""
        released = sum(path.startswith(f"{NAME}/") for path in self.released)
        return released <= self.session.batches and self.session.charge <= self.session.reserved


class Matrix(crashes.Matrix[Left]):
    """Walks of one kind, from a home with the same key and private numbers."""

    def __init__(self, folder: Path, kind: Kind, walk: Callable[..., None] = asking) -> None:
        kind.prepare(folder / "base")
        self.kind = kind
        super().__init__(folder, partial(walk, kind=kind), Left.by)
        self.first = self.points.index("open lock")  # before that, private numbers are made for the test

    def holds(self, crashed: Left, resumed: Left) -> dict[str, bool]:
        whole, done = self.undisturbed.session, resumed.session
        return {
            "another draw": self.forgets or crashed.drawn.items() <= resumed.drawn.items(),
            "another release": crashed.released.items() <= resumed.released.items(),
            "released before it was paid for": crashed.paid_for and resumed.paid_for,
            "another end": (done.status, done.asked, done.batches) == (whole.status, whole.asked, whole.batches),
            "another charge": not self.same or done.charge == whole.charge,
            "other labels": not self.same or resumed.released == self.undisturbed.released,
            "a draw too many": len(resumed.drawn) == len(self.undisturbed.drawn),
            "secrets of a forgotten session": not self.forgets or resumed.secrets == [],
        }

    @property
    def forgets(self) -> bool:
        return self.undisturbed.secrets == []

    @property
    def same(self) -> bool:
        """Whether two walks come to the same result: noise of OpenDP differs."""
        return self.kind.keyed

    def spread(self, faults: int) -> list[str]:
        """The errors found after that many faults, spread over the points, the kinds of failure in turn."""
        first = sum(map(ord, self.kind.name)) % len(HOWS)
        points = [at * len(self.points) // faults + first for at in range(faults)]
        return [
            wrong
            for turn, at in enumerate(points)
            for wrong in self.fails_at(min(at, len(self.points) - 1), HOWS[(first + turn) % len(HOWS)])
        ]


def redrawing(home: Path, kind: Kind) -> None:
    """The planted bug: kept files are made again at every attempt, and draws are not on record."""

    def keep(vault: Vault, path: str, make: Callable[[], bytes]) -> Ref:
        with vault.create(path) as sink:
            sink.write(make())
        return sink.ref

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Vault, "keep", keep)
        patch.setattr(Ledger, "record_draw", lambda *_: None)
        kind.ask(home)


def kind_of(name: str) -> Kind:
    return next(kind for kind in KINDS if kind.name == name)


@pytest.fixture(scope="module", params=KINDS, ids=lambda kind: kind.name)
def matrix(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    return Matrix(tmp_path_factory.mktemp(request.param.name), request.param)


def test_it_goes_on_from_wherever_it_failed(matrix: Matrix) -> None:
    met = {point.split()[0] for point in matrix.points}
    assert met >= {"open", "fsync", "os.rename", "BEGIN", "INSERT", "commit"}
    assert matrix.spread(FAULTS) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("matrix", [kind_of(name) for name in EVERY], ids=EVERY, indirect=True)
def test_it_goes_on_from_every_point(matrix: Matrix, how: How) -> None:
    assert matrix.fails(how, len(HOWS)) == []


@pytest.mark.parametrize("name", ["stable", "noisy_votes"])
@pytest.mark.parametrize("how", HOWS)
def test_a_session_is_closed_and_forgotten_wherever_that_failed(tmp_path: Path, name: str, how: How) -> None:
    assert Matrix(tmp_path, kind_of(name), ending).fails(how, 60) == []


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.keyed], ids=lambda kind: kind.name)
def test_noise_drawn_again_would_be_found(tmp_path: Path, kind: Kind) -> None:
    """The planted bug, at the step after the first draw is durable."""
    matrix = Matrix(tmp_path, kind, redrawing)
    drawn = min(at for at, point in enumerate(matrix.points) if re.fullmatch(rf"os\.rename .+npz\.{TOKEN}", point))
    assert any("another draw" in wrong for wrong in matrix.fails_at(drawn + 1, "kill"))
