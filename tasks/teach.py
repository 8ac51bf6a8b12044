"""Teach: one model a shard. A shard that cannot train still votes, by a fixed rule.

Assumes      a block file holds whole shards; the estimator's fit depends on its arguments and its seed alone
Guarantees   teacher j depends on shard j, the plan and the encoding, and on nothing else: its seed is j, it is fitted
             on one core, and neither its success nor its failure is visible to any other
Not covered  estimators that read files or clocks. Checked by tests/tasks/test_teach.py
"""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from artifacts.encoding import Encoding
from artifacts.errors import WrongInput
from artifacts.schemas import Ref
from artifacts.sections import TeachersPlan
from artifacts.vault import Vault
from tasks.cells import LABEL
from tasks.encode import Matrix, encode, read_frame
from tasks.private import FAILURES, calm, private_stage
from tasks.split import SHARD

Classes = NDArray[np.int64]
Cell = TypeVar("Cell", bound=np.generic)
REHEARSAL_ROWS = 64
CACHE_LINE = 64  # bytes


@dataclass(frozen=True)
class Teacher:
    """A fitted model, or none; and the class it votes for wherever the model gives none."""

    model: Any
    fixed: int

    def votes(self, X: Matrix, classes: int) -> Classes:
        """Class indices (rows,), exactly one a row. A failure, NaN or foreign class is the fixed vote."""
        fixed = np.full(len(X), self.fixed)
        if self.model is None:
            return fixed
        try:
            answers = np.asarray(self.model.predict(X), dtype=np.float64).reshape(len(X))
        except MemoryError:
            raise  # the machine's fault, not the shard's: it must not change a vote
        except FAILURES:
            return fixed
        return np.where(np.isin(answers, np.arange(classes)), answers, fixed).astype(np.int64)


@private_stage
def teach(block: Ref, shards: range, teachers: TeachersPlan, encoding: Encoding, vault: Vault, path: str) -> Ref:
    """Train the teachers of one block of shards, and write them to the vault in one file.

    Raises WrongInput where the estimator cannot be fitted at all, tried on made-up rows before any private one.
    """
    rehearse(teachers, encoding)
    rows = read_frame(block, vault)
    X, y = encode(rows, encoding), rows[LABEL].to_numpy().astype(np.int64)
    bounds = np.searchsorted(rows[SHARD].to_numpy(), [*shards, shards.stop])
    with calm():
        block_of = [
            taught(teachers, shard, apart(X[first:last]), apart(y[first:last]), len(encoding.classes))
            for shard, first, last in zip(shards, bounds[:-1], bounds[1:], strict=True)
        ]
    with vault.create(path) as sink:
        pickle.dump(block_of, sink)
    return sink.ref


def load_teachers(ref: Ref, vault: Vault) -> Sequence[Teacher]:
    """The teachers of one block. Unpickled only once the vault knows the file for its own."""
    taught: list[Teacher] = pickle.loads(vault.read(ref))
    return taught


def rehearse(teachers: TeachersPlan, encoding: Encoding) -> None:
    """Fit the estimator on made-up rows of every class and ask it about them. Raises WrongInput where that fails: it
    would fail on every shard, and all teachers would fall back to fixed votes in silence."""
    X = np.sin(np.arange(REHEARSAL_ROWS * encoding.width, dtype=np.float32)).reshape(REHEARSAL_ROWS, -1)
    y = np.arange(REHEARSAL_ROWS) % len(encoding.classes)
    try:
        with calm():
            teachers.build(random_state=0).fit(X, y).predict(read_only(X))
    except Exception as wrong:
        reason = str(wrong).partition("\n")[0]
        raise WrongInput(f"teachers.params: {teachers.estimator} cannot be fitted and asked: {reason}") from None


def apart(rows: NDArray[Cell]) -> NDArray[Cell]:
    """A shard's rows in memory of their own, from the start of a cache line: how a processor groups sums may depend on
    where they lie, and inside the block that is decided by how many rows the shards before have."""
    room = np.empty(rows.nbytes + CACHE_LINE, dtype=np.uint8)
    start = -room.ctypes.data % CACHE_LINE
    own = room[start : start + rows.nbytes].view(rows.dtype).reshape(rows.shape)
    own[...] = rows
    return own


def read_only(X: Matrix) -> Matrix:
    """The same rows, which no model can change: teachers are asked about them one after another, and one that wrote
    into them would change the votes of those after it."""
    view = X.view()
    view.flags.writeable = False
    return view


def taught(teachers: TeachersPlan, shard: int, X: Matrix, y: Classes, classes: int) -> Teacher:
    """The teacher of one shard: X (rows, width) and class indices y (rows,), in memory of their own (`apart`)."""
    if not len(y):
        return Teacher(None, shard % classes)
    common = int(np.bincount(y).argmax())
    if np.all(y == common):
        return Teacher(None, common)
    try:
        return Teacher(teachers.build(random_state=shard).fit(X, y), common)
    except MemoryError:
        raise  # the machine's fault, not the shard's: it must not change a teacher
    except FAILURES:
        return Teacher(None, common)
