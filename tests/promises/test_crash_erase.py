"""The crash matrix of an erasure: wherever it fails, no spend returns, and the next one leaves nothing of the rows."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.promises import crashes
from tests.promises.crashes import HOWS, Walk
from tests.promises.faults import How
from tests.support.at_door import STABLE, make_case
from tests.world import Charge, Ledger, Session, Stores, erase

EVERY = 14
ROWS = ("shards/d/a/block-0", "teachers/d/b/000000", "choices/d/c.json", "relabelled/d/e/block-0", "counts/nobody/f")
OTHERS = "shards/others/a/block-0"


def walk(home: Path) -> None:
    erase(Stores.of(home), "d", None)


def hasty(home: Path) -> None:
    """The planted bug: the erasure is recorded before it is done."""
    door = Stores.of(home)
    if not any(remark.kind == "erased" for remark in door.ledger.remarks("d")):
        door.ledger.remark("d", "erased", "every unit")
        walk(home)


@dataclass(frozen=True)
class Left:
    """The visible state of a home: the vault's files, released files, and the ledger's state."""

    vault: set[str]
    released: dict[str, bytes]
    session: Session
    charge: Charge
    remarks: tuple[str, ...]

    @classmethod
    def by(cls, home: Path) -> "Left":
        ledger, vault = Ledger.of(home), home / "vault"
        ledger.verify()
        kept = {str(path.relative_to(vault)) for path in vault.rglob("*") if path.is_file()}
        remarks = tuple(remark.kind for remark in ledger.remarks("d"))
        released = crashes.files(home / "released")
        return cls(kept, released, ledger.session("d-1"), ledger.total("d"), remarks)


class Matrix(crashes.Matrix[Left]):
    """Erasures of a domain with a session that has answered and is open."""

    def __init__(self, folder: Path, walk: Walk) -> None:
        case = make_case(folder / "base", STABLE)
        case.run()
        for domain in ("d", "others"):
            case.door.vault.make_secret(f"domains/{domain}")
        for path in (*ROWS, OTHERS):
            with case.door.vault.create(path) as sink:
                sink.write(b"rows")
        self.before = Left.by(folder / "base")
        super().__init__(folder, walk, Left.by)

    def holds(self, crashed: Left, resumed: Left) -> dict[str, bool]:
        return {
            "a spend that returned": crashed.charge == resumed.charge == self.before.charge,
            "a change in what was released": crashed.released == resumed.released == self.before.released,
            "something left in the vault": resumed.vault == self.undisturbed.vault,
            "another end": (resumed.session, resumed.remarks) == (self.undisturbed.session, self.undisturbed.remarks),
        }


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    return Matrix(tmp_path_factory.mktemp("erase"), walk)


def test_an_erasure_that_nothing_disturbs(matrix: Matrix) -> None:
    left = matrix.undisturbed
    assert matrix.before.vault >= {*ROWS, OTHERS, "secrets/sessions/d-1"}
    assert OTHERS in left.vault
    assert not {path for path in left.vault if path in ROWS or "d-1" in path or path.startswith("votes/")}
    assert (left.session.status, left.charge) == ("closed", matrix.before.charge)
    assert {point.split()[0] for point in matrix.points} >= {"os.remove", "os.rmdir", "fsync", "INSERT", "commit"}


def test_an_erasure_that_fails_on_its_way_is_finished_by_the_next(matrix: Matrix) -> None:
    assert matrix.sample(EVERY) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_every_point_of_an_erasure(matrix: Matrix, how: How) -> None:
    assert matrix.fails(how, len(HOWS)) == []


def test_an_erasure_that_is_said_before_it_is_done_would_be_found(tmp_path: Path) -> None:
    matrix = Matrix(tmp_path, hasty)
    middle = matrix.points.index("os.remove block-0")
    assert any("left in the vault" in wrong for wrong in matrix.fails_at(middle, "kill"))
