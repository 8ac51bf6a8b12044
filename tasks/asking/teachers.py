"""Teachers: one model a shard, and their votes on public rows.

A shard that cannot train still votes, by a fixed rule. Votes are counted batch by batch, for one block of teachers at a
time, so that memory is bounded by one block and one slice of rows.
"""

import io
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from concord.artifacts.errors import WrongInput
from concord.artifacts.home.vault import Vault
from concord.artifacts.home.whole import MOVED
from concord.artifacts.learners import Learner, TeachersPlan
from concord.artifacts.schemas import Encoding, Ref, votes_schema
from concord.tasks.data.cells import LABEL
from concord.tasks.data.encode import SHARD, Matrix, PublicBatch, encode, read_frame
from concord.tasks.data.guard import PRIVATE_FAILURES, private_stage, silenced

Classes = NDArray[np.int64]
Cell = TypeVar("Cell", bound=np.generic)
REHEARSAL_ROWS = 64
CACHE_LINE = 64  # bytes
PROPOSED = Learner(
    estimator="sklearn.discriminant_analysis.LinearDiscriminantAnalysis",
    params={"solver": "lsqr", "shrinkage": "auto"},
)
"""The teacher that `concord init` writes into a plan: a shard's few dozen rows set its shrinkage. Students of it do
better than those of a weak logistic regression (tests/benchmarks/README.md); a plan that names none keeps its own."""


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
            predicted = np.asarray(self.model.predict(X)).reshape(len(X))
            if predicted.dtype == np.int64 and len(X) and predicted.min() >= 0 and predicted.max() < classes:
                return predicted  # the usual case, which is twenty times as fast to see as to mend
            answers = predicted.astype(np.float64)
        except MemoryError:
            raise  # the machine's fault, not the shard's: it must not change a vote
        except PRIVATE_FAILURES:
            return fixed
        return np.where(np.isin(answers, np.arange(classes)), answers, fixed).astype(np.int64)


@private_stage
def teach(block: Ref, shards: range, teachers: TeachersPlan, encoding: Encoding, vault: Vault, path: str) -> Ref:
    """Train the teachers of one block of shards, and write them to the vault in one file.

    Raises WrongInput if the estimator cannot be fitted at all, tried on made-up rows before any private one.
    """
    rehearse_teachers(teachers, encoding)
    rows = read_frame(block, vault)
    X, y = encode(rows, encoding), rows[LABEL].to_numpy().astype(np.int64)
    bounds = np.searchsorted(rows[SHARD].to_numpy(), [*shards, shards.stop])
    with silenced():
        block_of = [
            fitted_teacher(
                teachers, shard, aligned_copy(X[first:last]), aligned_copy(y[first:last]), len(encoding.classes)
            )
            for shard, first, last in zip(shards, bounds[:-1], bounds[1:], strict=True)
        ]
    with vault.create(path) as sink:
        pickle.dump(block_of, sink)
    return sink.ref


class _Unpickler(pickle.Unpickler):
    """Finds the types that version 0.1.0 named where they are now."""

    def find_class(self, module_name: str, global_name: str) -> Any:
        return super().find_class(MOVED.get(module_name, module_name), global_name)


def load_teachers(ref: Ref, vault: Vault) -> Sequence[Teacher]:
    """The teachers of one block. Unpickled only once the vault knows the file for its own."""
    loads: list[Teacher] = _Unpickler(io.BytesIO(vault.read(ref))).load()
    return loads


def rehearse_teachers(teachers: TeachersPlan, encoding: Encoding) -> None:
    """Fit the estimator on made-up rows of every class and ask it about them. Raises WrongInput if that fails: it
    would fail on every shard, and all teachers would fall back to fixed votes in silence."""
    X = np.sin(np.arange(REHEARSAL_ROWS * encoding.width, dtype=np.float32)).reshape(REHEARSAL_ROWS, -1)
    y = np.arange(REHEARSAL_ROWS) % len(encoding.classes)
    try:
        with silenced():
            teachers.build(random_state=0).fit(X, y).predict(read_only(X))
    except Exception as wrong:
        reason = str(wrong).partition("\n")[0]
        raise WrongInput(f"teachers.params: {teachers.estimator} cannot be fitted and asked: {reason}") from None


def aligned_copy(rows: NDArray[Cell]) -> NDArray[Cell]:
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


def fitted_teacher(teachers: TeachersPlan, shard: int, X: Matrix, y: Classes, classes: int) -> Teacher:
    """The teacher of one shard: X (rows, width) and class indices y (rows,), in memory of their own
    (`aligned_copy`).
    """
    if not len(y):
        return Teacher(None, shard % classes)
    common = int(np.bincount(y).argmax())
    if np.all(y == common):
        return Teacher(None, common)
    try:
        return Teacher(teachers.build(random_state=shard).fit(X, y), common)
    except MemoryError:
        raise  # the machine's fault, not the shard's: it must not change a teacher
    except PRIVATE_FAILURES:
        return Teacher(None, common)


VoteCounts = NDArray[np.uint32]
SLICE = 1 << 13
"""Rows encoded at a time. Memory is bounded by one block of teachers and one slice of rows."""


@private_stage
def poll(batch: PublicBatch, teachers: tuple[Ref, ...], encoding: Encoding, vault: Vault, path: str) -> Ref:
    """Count the votes of all teachers on a batch, and write them to the vault: uint32 (rows, classes)."""
    rows = read_frame(batch.ref, vault)
    counts = np.zeros((rows.height, len(encoding.classes)), dtype=np.uint32)
    with silenced():
        for block in teachers:
            ensemble = load_teachers(block, vault)
            for first, X in _slices(rows, encoding):
                add_votes(counts[first : first + len(X)], ensemble, X)
    return write_votes(counts, vault, path)


def add_votes(counts: VoteCounts, ensemble: Sequence[Teacher], X: Matrix) -> None:
    """Add the vote of each teacher on each row of X (rows, width) to `counts` (rows, classes), in place."""
    classes = counts.shape[1]
    flat, starts = counts.reshape(-1), np.arange(len(X)) * classes
    for teacher in ensemble:
        flat[starts + teacher.votes(X, classes)] += 1


def write_votes(counts: VoteCounts, vault: Vault, path: str) -> Ref:
    """Write votes (rows, classes) to the vault as an Arrow IPC file of `votes_schema`."""
    classes = counts.shape[1]
    schema = votes_schema(classes)
    with vault.create(path) as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_table(pa.table([pa.array(counts[:, index]) for index in range(classes)], schema=schema))
    return sink.ref


def _slices(rows: pl.DataFrame, encoding: Encoding) -> Iterator[tuple[int, Matrix]]:
    for first in range(0, rows.height, SLICE):
        yield first, read_only(encode(rows.slice(first, SLICE), encoding))
