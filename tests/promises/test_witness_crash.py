"""The crash matrix with a witness: wherever the walk fails, the witness has every entry that was drawn on, and no entry
that the ledger lacks.
"""

from pathlib import Path

import pytest

from concord.artifacts.ledger.database import Entries
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.ledger.witness import Witness
from tests.promises.faults import How
from tests.promises.kinds import KINDS, Kind
from tests.promises.test_crash import Matrix, ending

HOWS: tuple[How, ...] = ("kill", "disk full")  # a power cut here halves a whole file, and this one only grows
EVERY = 45


def place(home: Path) -> Path:
    """The witness of a home: next to it, with a name that begins like the home's, so that its writes are points too."""
    return Path(f"{home}.witness")


def watched(home: Path, kind: Kind) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONCORD_WITNESS", str(place(home)))
        ending(home, kind)


class Watched(Matrix):
    """Walks whose ledger has a witness; after each the two are compared."""

    def go(self, home: Path, at: int | None = None, how: How = "kill") -> list[str]:
        points = super().go(home, at, how)
        self.compare(home, whole=at is None)
        return points

    def _home(self, name: str) -> Path:
        place(self.folder / name).unlink(missing_ok=True)  # of another test, which failed at the same point
        return super()._home(name)

    def take_up(self, home: Path) -> None:
        super().take_up(home)
        self.compare(home, whole=True)

    def compare(self, home: Path, *, whole: bool) -> None:
        """Check that the witness saw the beginning of every release; after a whole walk, that it saw every entry."""
        url, witness = f"sqlite:///{home / 'ledger.db'}", Witness(place(home))
        Ledger(url, witness).check_witness()
        last = witness.last()
        with Entries(url).reading() as rows:
            lines = rows.since(1)
        seen = [line.kind for line in lines[: 0 if last is None else last.seq]]
        assert len(list((home / "released").rglob("batch-*.arrow"))) <= seen.count("begin")
        assert not whole or len(seen) == len(lines)


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    return Watched(tmp_path_factory.mktemp("watched"), KINDS[0], watched)


def test_the_witness_is_among_the_points(matrix: Watched) -> None:
    assert sum(point == "open undisturbed.witness" for point in matrix.points) >= 10


@pytest.mark.parametrize("how", HOWS)
def test_a_watched_walk_comes_to_the_same_end(matrix: Watched, how: How) -> None:
    assert matrix.fails(how, EVERY) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_every_third_point_of_a_watched_walk(matrix: Watched, how: How) -> None:
    assert matrix.fails(how, 3) == []
