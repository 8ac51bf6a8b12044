"""The crash matrix with a witness: wherever the walk fails, its file has seen all that was drawn on, and no more than
there is.
"""

import os
from pathlib import Path

import pytest

from artifacts.entries import Entries
from artifacts.ledger import Ledger
from artifacts.witness import Witness
from tests.faults import How
from tests.test_crash import EVERY, Matrix, attempt

HOWS: tuple[How, ...] = ("kill", "disk full")  # a power cut here halves a whole file, and this one only grows


def place(home: Path) -> Path:
    """The witness of a home: beside it, under a name that begins as its own, so that it has points of failure too."""
    return Path(f"{home}.witness")


def watched(home: Path, mechanism: str, at: int | None, how: How, told: Path, planted: bool) -> None:
    os.environ["CONCORD_WITNESS"] = str(place(home))  # in this process alone
    attempt(home, mechanism, at, how, told, planted)


class Watched(Matrix):
    """Walks whose ledger has a witness; after each the two are compared."""

    attempt = staticmethod(watched)

    def go(self, home: Path, at: int | None = None, how: How = "kill") -> list[str]:
        points = super().go(home, at, how)
        url, witness = f"sqlite:///{home / 'ledger.db'}", Witness(place(home))
        Ledger(url, witness).check_witness()
        last = witness.last()
        with Entries(url).reading() as rows:
            lines = rows.since(1)
        seen = [line.kind for line in lines[: 0 if last is None else last.seq]]
        assert len(list((home / "released").rglob("batch-*.arrow"))) <= seen.count("begin")
        assert at is not None or len(seen) == len(lines)
        return points


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    return Watched(tmp_path_factory.mktemp("watched"), "stable")


def test_the_witness_is_among_the_points(matrix: Watched) -> None:
    assert sum(point == "open undisturbed.witness" for point in matrix.points) >= 10


@pytest.mark.parametrize("how", HOWS)
def test_a_watched_walk_comes_to_the_same_end(matrix: Watched, how: How) -> None:
    assert [
        wrong for at in range(HOWS.index(how), len(matrix.points), EVERY) for wrong in matrix.fails_at(at, how)
    ] == []


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_every_point_of_a_watched_walk(matrix: Watched, how: How) -> None:
    assert [wrong for at in range(len(matrix.points)) for wrong in matrix.fails_at(at, how)] == []
