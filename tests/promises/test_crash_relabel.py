"""The crash matrix of the draw inside the vault: a hypothesis chosen for relabelling, and the rows it relabels.

A durable draw is final: whatever fails afterwards, the next process uses it. A draw that was not durable was seen by
nobody, and is made again.
"""

import json
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from tests.promises import crashes
from tests.promises.crashes import HOWS, Walk
from tests.promises.faults import How
from tests.support.people import people
from tests.support.relabelling import Small
from tests.world import LABEL, TOKEN, Ref, Vault, encode, from_description, read_frame

EVERY = 19


def relabelling(home: Path) -> None:
    """The subset, the choice of ĥ, and the rows relabelled by it: all in the vault."""
    small(home).relabelled()


def redrawing(home: Path, walk: Walk) -> None:
    """The planted bug: kept files are made again at every attempt."""

    def keep(vault: Vault, path: str, make: Callable[[], bytes]) -> Ref:
        with vault.create(path) as sink:
            sink.write(make())
        return sink.ref

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Vault, "keep", keep)
        walk(home)


def with_rows(base: Path) -> None:
    """The stages before those of the walk, with settings by which two choices are hardly ever equal."""
    small = Small(base, people(80, 1), epsilon=0.01)
    (base.parent / "small").write_bytes(pickle.dumps(small))


def small(home: Path) -> Small:
    small: Small = pickle.loads((home.parent / "small").read_bytes())
    small.vault = Vault(home / "vault")
    return small


def found(vault: Vault, path: str) -> Ref:
    return vault.find(path) or pytest.fail(f"{path} is gone")


@dataclass(frozen=True)
class Left:
    """The visible state of a home: the draw, and the files made from it."""

    drawn: dict[str, bytes]
    made: dict[str, bytes]

    @classmethod
    def by(cls, home: Path) -> "Left":
        kept = crashes.files(home / "vault")
        drawn = {path: kept[path] for path in kept if path.startswith("choices/")}
        return cls(drawn, {path: kept[path] for path in kept if path.startswith(("shards/", "relabelled/"))})

    @property
    def subset(self) -> dict[str, bytes]:
        return {path: rows for path, rows in self.made.items() if path.startswith("shards/")}


class Matrix(crashes.Matrix[Left]):
    """One draw, from a home with the same keys and private rows."""

    def holds(self, crashed: Left, resumed: Left) -> dict[str, bool]:
        return {
            "another draw": crashed.drawn.items() <= resumed.drawn.items(),
            "other rows": crashed.made.items() <= resumed.made.items(),
            "another subset": resumed.subset == self.undisturbed.subset,
            "a draw too many": len(resumed.drawn) == len(self.undisturbed.drawn) == 1,
        }


def matrix_of(folder: Path, walk: Walk) -> Matrix:
    with_rows(folder / "base")
    return Matrix(folder, walk, Left.by)


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Matrix:
    return matrix_of(tmp_path_factory.mktemp("relabelling"), relabelling)


def test_a_draw_outlives_what_fails_after_it(matrix: Matrix) -> None:
    assert matrix.sample(EVERY) == []


@pytest.mark.slow
@pytest.mark.parametrize("how", HOWS)
def test_every_point_of_a_draw(matrix: Matrix, how: How) -> None:
    assert matrix.fails(how, 2) == []


def test_labels_are_those_of_the_one_draw(tmp_path: Path) -> None:
    """So if the draw and the rows are the same, the relabelling is the same."""
    with_rows(tmp_path / "home")
    relabelling(tmp_path / "home")
    stages, left = small(tmp_path / "home"), Left.by(tmp_path / "home")
    (drawn,) = left.drawn
    hypothesis = from_description(json.loads(stages.vault.read(found(stages.vault, drawn))))
    for path in left.made.keys() - left.subset.keys():
        rows = read_frame(found(stages.vault, path), stages.vault)
        assert rows[LABEL].to_list() == hypothesis.predict(encode(rows, stages.encoding).astype(float)).tolist()


@pytest.mark.slow
def test_a_draw_made_again_would_be_found(tmp_path: Path) -> None:
    """The planted bug, at two points after the draw is durable, repeated until it shows.

    The smallest draw here, one of 32 equal candidates, is the same eight times with probability 1e-12.
    """
    matrix = matrix_of(tmp_path, partial(redrawing, walk=relabelling))
    drawn = max(at for at, point in enumerate(matrix.points) if re.fullmatch(rf"os\.rename .+\.{TOKEN}", point))
    assert any("another draw" in wrong for at in 4 * (drawn, drawn + 1) for wrong in matrix.fails_at(at, "kill"))
