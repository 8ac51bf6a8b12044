"""The crash matrix of rounds: whatever fails between two steps, each round keeps its one draw and its next question. If
the session is closed instead, in a Gaussian domain, only rounds never begun are given back."""

import json
import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pytest

from concord.artifacts.home.vault import Vault
from concord.artifacts.home.whole import TOKEN
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.privacy import Charge
from concord.artifacts.sessions import Session
from concord.tasks.door.erase import close
from concord.tasks.door.release import Stores
from tests.promises import crashes
from tests.promises.crashes import HOWS, Walk
from tests.promises.faults import How
from tests.promises.test_crash_draws import redrawing
from tests.support.tallied import NAME, TALLIES, Rounds

EVERY = 23
OWED = Session.owed


def releasing(home: Path) -> None:
    """All rounds of a session that was opened before."""
    Rounds.in_home(home).all()


@dataclass(frozen=True)
class Left:
    """The visible state of a home: noise and files kept in the vault, released files, and the ledger's state."""

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
        """Whether the ledger recorded each round before it was drawn or released."""
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


def closing(home: Path) -> None:
    """Two rounds of three, and the session is closed."""
    rounds = Rounds.in_home(home)
    first = json.loads(rounds.door.released.read(rounds.release(0, None)))
    rounds.release(1, first["next"])
    close(rounds.door, NAME, give_back=True)


class Closed(crashes.Matrix[Left]):
    """Walks after whose fault the session is closed, and nothing else is done."""

    def take_up(self, home: Path) -> None:
        close(Stores.of(home), NAME, give_back=True)

    def holds(self, crashed: Left, resumed: Left) -> dict[str, bool]:
        session, begun = resumed.session, resumed.session.next_row
        settled = session.reserved if begun == len(session.rounds) else sum(session.rounds[:begun], Charge())
        return {
            "drawn before it was paid for": crashed.paid_for and resumed.paid_for,
            "drawn after it was closed": (crashed.kept, crashed.released) == (resumed.kept, resumed.released),
            "begun after it was closed": crashed.session.next_row == begun,
            "another charge than what was begun": session.settled == settled,
        }


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Closed:
    folder = tmp_path_factory.mktemp("closed")
    Rounds.in_home(folder / "base", "gaussian")
    return Closed(folder, closing, Left.by)


def test_what_returns_after_a_crash_was_never_begun(closed: Closed) -> None:
    undisturbed = closed.undisturbed.session
    assert undisturbed.settled == undisturbed.rounds[0] + undisturbed.rounds[1]
    assert closed.sample(3 * EVERY) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_what_returns_after_a_crash_at_any_point(closed: Closed, how: How) -> None:
    assert closed.fails(how, 3) == []


def test_a_refund_of_a_round_that_was_begun_would_be_found(closed: Closed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: only committed rounds are paid. It shows after any fault between draw and commitment."""
    drawn = [at for at, point in enumerate(closed.points) if re.fullmatch(rf"os\.rename round-.+\.{TOKEN}", point)]
    monkeypatch.setattr(Session, "owed", lambda own, **how: OWED(replace(own, next_row=own.asked), **how))
    assert any("another charge" in wrong for wrong in closed.fails_at(drawn[0] + 1, "kill"))


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
