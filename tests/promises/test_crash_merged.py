"""The crash matrix of merging: the files of single answers become few, and every step of that fails once.

The home has four batches that were asked online, with their votes and kept noise; the last one was begun, and its
labels were not written. Reads give the same before, after and at any point between, and the last batch is released with
the noise that was drawn for it.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from concord.artifacts.errors import NotVerified
from concord.artifacts.home import merged
from concord.artifacts.home.merged import Merged
from concord.artifacts.home.released import Released
from concord.artifacts.home.vault import Vault
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Session
from concord.tasks.asking.teachers import votes_schema
from concord.tasks.door.asked import merge_online, online_path, online_rows, online_votes, votes_folder
from concord.tasks.door.release import Stores, release
from tests.promises import crashes
from tests.promises.crashes import HOWS, Walk
from tests.promises.faults import How
from tests.support.at_door import CLASSES, NOISY, opened, write
from tests.support.copies import copied

ROWS, BATCHES, MANY = 8, 4, 3  # that 8 rows get the noise again that they had has probability 8e-16
TEACHERS = (Ref(path="teachers/d/block-0.skops", digest=""),)
EVERY = 16
"""Default tests cause a fault at every sixteenth point; slow ones at every point."""


def folders(vault: Vault) -> tuple[tuple[str, str], ...]:
    votes = votes_folder(vault, TEACHERS)
    return ("sessions/d-1/online", "*.arrow"), (votes, "online-*"), ("sessions/d-1", "answers-*.npz")


def answering(home: Path) -> None:
    """Pass all batches through the door, or through it again."""
    door = Stores.of(home)
    batches = [rows for rows, _ in online_rows(door.vault, "d-1")]
    votes = {rows: door.vault.find(online_votes(door.vault, TEACHERS, rows)) for rows in batches}
    release(door, door.ledger.session("d-1"), NOISY, CLASSES, batches, lambda rows: votes[rows] or pytest.fail("lost"))


def merge(home: Path) -> None:
    deque(merge_online(Vault(home / "vault"), "d-1", TEACHERS), maxlen=0)


def merging(home: Path) -> None:
    """Merge, and answer what was asked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merged, "MANY", MANY)
        merge(home)
    answering(home)


def removing_first(home: Path) -> None:
    """The planted bug: small files are removed before the merged file exists."""

    def merge(self: Merged, folder: str, pattern: str) -> Iterator[None]:
        these = list(self._contents(self._small(folder, pattern)[:MANY]))
        for path, _ in these:
            (self._vault.root / path).unlink()
            yield
        self._vault.keep(f"{folder}/{merged.MERGED}/{0:016x}", lambda: merged._packed(these))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Merged, "merge", merge)
        merging(home)


def base_of(home: Path) -> None:
    """Ask four batches, of which three are answered, and the last one is drawn."""
    home.mkdir(parents=True)
    door = Stores.of(home)
    opened(door, NOISY)
    for at in range(BATCHES):
        columns = np.arange(ROWS).reshape(-1, 1) + ROWS * at
        path = online_path("d-1", at, door.vault.digest("online", columns.tobytes()), ROWS)
        write(door, path, pa.schema([("x", pa.int64())]), columns)
    for rows, _ in online_rows(door.vault, "d-1"):
        write(door, online_votes(door.vault, TEACHERS, rows), votes_schema(2), np.full((ROWS, 2), 300))
    true = Released.write_labels

    def ending(self: Released, session: str, index: int, *terms: object, **named: object) -> Ref:
        if index == BATCHES - 1:
            raise KeyboardInterrupt
        return true(self, session, index, *terms, **named)  # type: ignore[arg-type]  # as they came

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Released, "write_labels", ending)
        with pytest.raises(KeyboardInterrupt):
            answering(home)


@dataclass(frozen=True)
class Left:
    """The visible state of a home: the vault as the next process reads it, files not merged, released files, and the
    ledger's state."""

    read: dict[str, bytes]
    alone: tuple[int, ...]
    released: dict[str, bytes]
    session: Session

    @classmethod
    def by(cls, home: Path) -> "Left":
        ledger, vault = Ledger.of(home), Vault(home / "vault")
        ledger.verify()
        read = {
            path: found[1] for folder in folders(vault) for path in vault.paths(*folder) if (found := vault.take(path))
        }
        alone = (len(list((vault.root / folder).glob(pattern))) for folder, pattern in folders(vault))
        return cls(read, tuple(alone), crashes.files(home / "released"), ledger.session("d-1"))


class Matrix(crashes.Matrix[Left]):
    """Walks from copies of that home."""

    def __init__(self, folder: Path, walk: Walk) -> None:
        base_of(folder / "base")
        self.before = Left.by(folder / "base")
        super().__init__(folder, walk, Left.by)

    def holds(self, crashed: Left, resumed: Left) -> dict[str, bool]:
        return {
            "a file that is lost or another": crashed.read == resumed.read == self.before.read,
            "labels that changed": crashed.released.items() <= resumed.released.items(),
            "noise that was drawn anew": resumed.released == self.undisturbed.released,
            "another end": resumed.session == self.undisturbed.session,
            "files that stay": max(resumed.alone) < MANY,
        }


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    return Matrix(tmp_path_factory.mktemp("merging"), merging)


def test_the_walk_merges_files_of_each_kind_and_answers_the_last_batch(matrix: Matrix) -> None:
    assert matrix.before.alone == (BATCHES,) * 3
    assert len(matrix.before.read) == 3 * BATCHES
    assert matrix.undisturbed.alone == (1, 1, 1)
    assert matrix.before.session.pending is not None
    assert matrix.undisturbed.session.pending is None
    assert sum(point.startswith("os.remove") for point in matrix.points) >= 3 * MANY


def test_a_merge_that_fails_on_its_way_loses_nothing(matrix: Matrix) -> None:
    assert matrix.sample(EVERY) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_every_point_of_a_merge(matrix: Matrix, how: How) -> None:
    """A kill at each point; the other failures at every fourth."""
    assert matrix.fails(how, 1 if how == "kill" else 4) == []


def test_files_removed_before_they_are_merged_would_be_found(tmp_path: Path) -> None:
    """The planted bug, at every fourth point until it shows."""
    matrix = Matrix(tmp_path, removing_first)
    wrong = (found for at in range(2, len(matrix.points), 4) for found in matrix.fails_at(at, "kill"))
    assert any("lost" in found for found in wrong)


def test_a_vault_that_overlooked_merged_files_would_draw_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted bug: noise is drawn and kept again, since its file is not at its path."""
    base_of(tmp_path / "base")
    monkeypatch.setattr(merged, "MANY", BATCHES)  # everything, with the noise of the last batch
    there, released = Vault._there, []
    for overlooking in (False, True):
        home = copied(tmp_path / "base", tmp_path / str(overlooking))
        merge(home)
        with monkeypatch.context() as patch:
            if overlooking:
                patch.setattr(
                    Vault,
                    "_there",
                    lambda vault, path: (vault.root / path).is_file() if "answers" in path else there(vault, path),
                )
            answering(home)
        released.append(Left.by(home).released)
    assert released[0] != released[1]


def test_noise_whose_merged_file_is_damaged_is_not_drawn_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base_of(tmp_path / "home")
    monkeypatch.setattr(merged, "MANY", BATCHES)
    merge(tmp_path / "home")
    (pack,) = (tmp_path / "home/vault/sessions/d-1" / merged.MERGED).iterdir()
    pack.write_bytes(pack.read_bytes()[:-1])
    before = crashes.files(tmp_path / "home/released")
    with pytest.raises(NotVerified, match=f"{pack.name} is not what was written; it holds noise.*`concord close d-1`"):
        answering(tmp_path / "home")
    assert crashes.files(tmp_path / "home/released") == before
