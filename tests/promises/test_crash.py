"""The crash matrix: a session is opened, passes the door, is closed and forgotten; every step of it fails once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from concord.artifacts.home.vault import Vault
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.sessions import Session
from concord.tasks.door.checkpoint import Randomness
from concord.tasks.door.erase import close, forget
from concord.tasks.door.release import Stores
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.mechanism import Mechanism
from tests.promises import crashes
from tests.promises.crashes import HOWS
from tests.promises.faults import How
from tests.support.at_door import NOISY, STABLE, make_case

MECHANISMS: dict[str, Mechanism] = {"stable": STABLE, "noisy_votes": NOISY}
EVERY = 45
"""Default tests cause a fault at every forty-fifth point; slow ones at every point."""


def walk(home: Path, mechanism: str) -> None:
    """The whole life of a session, from its present state to the end."""
    door = Stores.of(home)
    if not any(session.status != "open" for session in door.ledger.sessions("d")):
        make_case(home, MECHANISMS[mechanism]).run()
        close(door, "d-1", give_back=True)
    forget(door, "d-1")


def redrawing_walk(home: Path, mechanism: str) -> None:
    """The planted bug: noise is drawn again at every attempt."""

    def redrawing(_self: Randomness, _name: str, make: Callable[[], Sequence[Ints]]) -> list[Ints]:
        return list(make())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Randomness, "kept", redrawing)
        walk(home, mechanism)


@dataclass(frozen=True)
class Left:
    """The visible state of a home: released labels by file, the session in the ledger, if it is there, and its files in
    the vault, unfinished ones too."""

    released: dict[str, bytes]
    session: Session | None
    secrets: list[str]

    @classmethod
    def by(cls, home: Path) -> "Left":
        ledger = Ledger(f"sqlite:///{home / 'ledger.db'}")
        ledger.verify()
        opened, vault = ledger.sessions("d"), home / "vault"
        secrets = [str(path.relative_to(vault)) for path in vault.rglob("*sessions/*")]
        return cls(crashes.files(home / "released"), opened[0] if opened else None, secrets)

    @property
    def paid_for(self) -> bool:
        """Whether the ledger has every batch whose labels are released, and charges the session for it."""
        if self.session is None:
            return not self.released
        refused = sum(_outcomes(file).count("refused") for file in self.released.values())
        each = self.session.per_refusal
        least = self.session.reserved if each is None else each.times(refused)
        return len(self.released) <= self.session.batches and self.session.charge.renyi >= least.renyi


class Matrix(crashes.Matrix[Left]):
    """One mechanism's walks, from a home with the same session key."""

    def __init__(self, folder: Path, mechanism: str, walk: Callable[..., None] = walk) -> None:
        Vault(folder / "base" / "vault").secret("sessions/d-1")
        self.noisy = not MECHANISMS[mechanism].keyed  # then walks cannot be compared: OpenDP draws for each of them
        super().__init__(folder, partial(walk, mechanism=mechanism), Left.by)

    def holds(self, crashed: Left, resumed: Left) -> dict[str, bool]:
        return {
            "released labels that the ledger does not know": crashed.paid_for and resumed.paid_for,
            "labels that changed": crashed.released.items() <= resumed.released.items(),
            "another end": resumed.session == self.undisturbed.session,
            "other labels": self.noisy or resumed.released == self.undisturbed.released,
            "secrets of a forgotten session": resumed.secrets == [],
        }


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
    assert matrix.fails(how, EVERY) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_every_point_of_the_walk(matrix: Matrix, how: How) -> None:
    assert matrix.fails(how) == []


def test_noise_drawn_again_would_be_found(tmp_path: Path) -> None:
    """The planted bug: the process dies between the release of labels and their commit, and the next draws again."""
    matrix = Matrix(tmp_path, "noisy_votes", redrawing_walk)
    written = [at for at, point in enumerate(matrix.points) if point.startswith("os.rename batch-")]
    assert any("labels that changed" in wrong for wrong in matrix.fails_at(written[1] + 1, "kill"))
