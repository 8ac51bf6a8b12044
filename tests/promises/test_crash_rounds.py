"""The crash matrix of rounds: whatever fails between two steps, each round keeps its one draw and what it asks next."""

import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from concord.artifacts.home.vault import Vault
from concord.artifacts.home.whole import TOKEN
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.sessions import Session
from tests.promises import crashes
from tests.promises.crashes import HOWS, Walk
from tests.promises.faults import How
from tests.promises.test_crash_draws import redrawing
from tests.support.tallied import NAME, TALLIES, Rounds

EVERY = 23


def releasing(home: Path) -> None:
    """All rounds of a session that was opened before."""
    Rounds.in_home(home).all()


@dataclass(frozen=True)
class Left:
    """What can be seen of a home: noise and files kept in the vault, what was released, and what the ledger says."""

    kept: dict[str, bytes]
    released: dict[str, bytes]
    session: Session

    @classmethod
    def by(cls, home: Path) -> "Left":
        ledger = Ledger.of(home)
        ledger.verify()
        vault = crashes.files(home / "vault")
        kept = {path: vault[path] for path in vault if path.startswith(f"sessions/{NAME}/round-")}
        return cls(kept, crashes.files(home / "released"), ledger.session(NAME))

    @property
    def paid_for(self) -> bool:
        """Whether the ledger was told of each round before anything of it was drawn or released."""
        drawn = {path.partition("round-")[2][:5] for path in self.kept}
        return len(self.released) <= self.session.batches and len(drawn) <= self.session.batches


class Matrix(crashes.Matrix[Left]):
    """Rounds of one session, from a home with the same key and private sums."""

    def holds(self, crashed: Left, resumed: Left) -> dict[str, bool]:
        return {
            "another draw, or another question after it": crashed.kept.items() <= resumed.kept.items(),
            "another release": crashed.released.items() <= resumed.released.items(),
            "drawn before it was paid for": crashed.paid_for and resumed.paid_for,
            "a round too many": len(resumed.released) == len(TALLIES.rounds) == len(resumed.kept) // 2,
            "another charge": resumed.session.settled == resumed.session.reserved,
            "another end": (resumed.session.status, resumed.session.asked) == ("spent", len(TALLIES.rounds)),
        }


def matrix_of(folder: Path, walk: Walk) -> Matrix:
    rounds = Rounds.in_home(folder / "base")
    assert Vault(rounds.door.vault.root).has_secret(f"sessions/{NAME}")
    return Matrix(folder, walk, Left.by)


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    return matrix_of(tmp_path_factory.mktemp("rounds"), releasing)


def test_a_round_outlives_what_fails_after_it(matrix: Matrix) -> None:
    assert matrix.sample(EVERY) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_every_point_of_the_rounds(matrix: Matrix, how: How) -> None:
    assert matrix.fails(how, 2) == []


def test_a_round_drawn_again_would_be_found(tmp_path: Path) -> None:
    """The planted bug, after the noise of the first round is durable."""
    matrix = matrix_of(tmp_path, partial(redrawing, walk=releasing))
    drawn = min(at for at, point in enumerate(matrix.points) if re.fullmatch(rf"os\.rename round-.+\.{TOKEN}", point))
    assert any("another draw" in wrong for at in (drawn + 1, drawn + 2) for wrong in matrix.fails_at(at, "kill"))
