"""Teachers: one model per shard, and their votes on public rows; and a shard's answer to a question.

A shard that cannot train still votes, by a fixed rule. Votes are counted batch by batch, for one block of teachers at a
time, so that memory is bounded by one block and one slice of rows.
"""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.lib.format import MAGIC_PREFIX
from numpy.typing import NDArray

from concord.artifacts.errors import WrongInput
from concord.artifacts.home.vault import Vault
from concord.artifacts.learners import TeachersPlan
from concord.artifacts.schemas import LABEL, Encoding, PublicBatch, Ref, canonical_json
from concord.tasks.data.encode import read_frame
from concord.tasks.data.matrix import Matrix, encode
from concord.tasks.units.guard import PRIVATE_FAILURES, private_stage, silenced
from concord.tasks.units.linear import MOST_HELD, Classes, LinearTeachers, Weights, aligned, is_linear, weights_of
from concord.tasks.units.provenance import Provenance, read_made, read_shards, whole
from concord.tasks.units.split import ASIDE, SHARD

Cell = TypeVar("Cell", bound=np.generic)
REHEARSAL_ROWS = 64


@dataclass(frozen=True)
class Teacher:
    """A fitted model or None, and the class it votes for whenever the model gives no valid class."""

    model: Any
    fixed: int

    def votes(self, X: Matrix, classes: int) -> Classes:
        """Class indices (rows,), exactly one per row; the fixed vote for a failure, NaN or unknown class."""
        fixed = np.full(len(X), self.fixed)
        if self.model is None:
            return fixed
        try:
            predicted = np.asarray(self.model.predict(X)).reshape(len(X))
            if predicted.dtype == np.int64 and len(X) and predicted.min() >= 0 and predicted.max() < classes:
                return predicted  # the usual case: checking is twenty times as fast as repairing
            answers = predicted.astype(np.float64)
        except MemoryError:
            raise  # the machine's fault, not the shard's: it must not change a vote
        except PRIVATE_FAILURES:
            return fixed
        return np.where(np.isin(answers, np.arange(classes)), answers, fixed).astype(np.int64)


@private_stage
def teach(block: Ref, teachers: TeachersPlan, encoding: Encoding, vault: Vault, path: str) -> Ref:
    """Train the teachers of one block of shards, and write them to the vault in one file: linear ones as an array.

    Raises WrongInput if the estimator cannot be fitted to simulated rows, which are tried first.
    """
    rehearse_teachers(teachers, encoding)
    classes = len(encoding.classes)
    with silenced():
        made, rows = read_shards(block, vault)
        X, y = encode(rows, encoding), rows[LABEL].to_numpy().astype(np.int64)
        fitted = [
            fitted_teacher(teachers, shard, aligned_copy(X[mine]), aligned_copy(y[mine]), classes)
            for shard, mine in by_shard(rows, made)
        ]
        if is_linear(teachers):
            weights = [weights_of(teacher.model, teacher.fixed, encoding.width, classes) for teacher in fitted]
            file = LinearTeachers(np.stack(weights, axis=1)).save()
        else:
            file = pickle.dumps(fitted)
    with made.file(vault, path) as sink:
        sink.write(file)
    return sink.ref


def by_shard(rows: pl.DataFrame, made: Provenance) -> list[tuple[int, slice]]:
    """Where the rows of each shard lie in a block of that provenance."""
    bounds = np.searchsorted(rows[SHARD].to_numpy(), range(made.span[0], made.span[1] + 1)).tolist()
    return [(shard, slice(*pair)) for shard, pair in zip(range(*made.span), pairwise(bounds), strict=True)]


@private_stage
def answer(
    ask: Callable[[pl.DataFrame], str],
    blocks: Sequence[Ref],
    encoding: Encoding,
    vault: Vault,
    path: str,
    about: Mapping[str, str],
) -> Ref:
    """Write what `ask` answers of the rows of each shard by themselves to a file of the vault, JSON: `about`, and the
    answers in order of shards. Raises NotVerified if the blocks are not those of each shard once."""
    made, answers = [], []
    for block in blocks:
        of_block, rows = read_shards(block, vault)
        made.append(of_block)
        answers += [ask(own) for own in rows_by_shard(rows, of_block, encoding)]
    with whole(made).with_(form="answers").file(vault, path) as sink:
        sink.write(canonical_json({**about, "answers": answers}).encode())
    return sink.ref


def rows_by_shard(rows: pl.DataFrame, made: Provenance, encoding: Encoding) -> list[pl.DataFrame]:
    """The private rows of each shard, as a question sees them."""
    cells = as_asked(rows.drop(SHARD), encoding)
    return [cells[mine] for _, mine in by_shard(rows, made)]


def as_asked(rows: pl.DataFrame, encoding: Encoding) -> pl.DataFrame:
    """Cast rows as a question sees them: the label column under its own name, with names of classes."""
    names = pl.Series(encoding.label, encoding.classes, pl.String).gather(rows[LABEL])
    return rows.drop(LABEL).with_columns(names)


Ensemble = Sequence[Teacher] | LinearTeachers


def load_teachers(ref: Ref, vault: Vault) -> tuple[Provenance, Ensemble]:
    """The teachers of one block. A file is unpickled only after the vault has verified it."""
    made, file = read_made(ref, vault)
    if bytes(file[: len(MAGIC_PREFIX)]) == MAGIC_PREFIX:
        return made, LinearTeachers.load(file)
    return made, pickle.loads(file)


def ensembles(blocks: Iterable[Ensemble]) -> Iterator[Ensemble]:
    """The teachers of those blocks: arrays of several blocks joined up to MOST_HELD bytes, models block by block."""
    held: list[Weights] = []
    for loaded in blocks:
        if not isinstance(loaded, LinearTeachers):
            yield loaded
            continue
        held.append(loaded.weights)
        if sum(part.nbytes for part in held) > MOST_HELD:
            yield LinearTeachers.joined(held)
            held = []
    if held:
        yield LinearTeachers.joined(held)


def rehearse_teachers(teachers: TeachersPlan, encoding: Encoding) -> None:
    """Fit the estimator to simulated rows of every class and predict them. Raises WrongInput if that fails, because it
    would fail on every shard, and all teachers would silently fall back to fixed votes."""
    X = np.sin(np.arange(REHEARSAL_ROWS * encoding.width, dtype=np.float32)).reshape(REHEARSAL_ROWS, -1)
    y = np.arange(REHEARSAL_ROWS) % len(encoding.classes)
    try:
        with silenced():
            teachers.build(random_state=0).fit(X, y).predict(read_only(X))
    except Exception as wrong:
        reason = str(wrong).partition("\n")[0]
        raise WrongInput(f"teachers.params: {teachers.estimator} cannot be fitted and asked: {reason}") from None


def aligned_copy(rows: NDArray[Cell]) -> NDArray[Cell]:
    """A copy of a shard's rows that starts at a cache line: the grouping of sums may depend on the address, which
    inside the block depends on the sizes of the shards before it."""
    copied = aligned(*rows.shape, dtype=rows.dtype)
    copied[...] = rows
    return copied


def read_only(X: Matrix) -> Matrix:
    """A read-only view of X: a teacher that wrote into the rows would change the votes of the teachers asked later."""
    view = X.view()
    view.flags.writeable = False
    return view


def fitted_teacher(teachers: TeachersPlan, shard: int, X: Matrix, y: Classes, classes: int) -> Teacher:
    """The teacher of one shard: X (rows, width) and class indices y (rows,), in memory of their own
    (`aligned_copy`).
    """
    common = fixed_vote(shard, y, classes)
    if np.all(y == common):
        return Teacher(None, common)
    try:
        return Teacher(teachers.build(random_state=shard).fit(X, y), common)
    except MemoryError:
        raise  # the machine's fault, not the shard's: it must not change a teacher
    except PRIVATE_FAILURES:
        return Teacher(None, common)


def fixed_vote(shard: int, y: Classes, classes: int) -> int:
    """The vote of a shard without a model: its most common label, or for an empty shard the class of its number."""
    return int(np.bincount(y).argmax()) if len(y) else shard % classes


VoteCounts = NDArray[np.uint32]
SLICE = 1 << 13
"""Rows encoded at a time. Memory is bounded by one block of teachers and one slice of rows."""


@private_stage
def poll(batch: PublicBatch, teachers: tuple[Ref, ...], encoding: Encoding, vault: Vault, path: str) -> Ref:
    """Count the votes of all teachers on a batch, and write them to the vault: uint32 (rows, classes). Raises
    NotVerified if they are not those of each shard once."""
    rows, made = read_frame(batch.ref, vault), list[Provenance]()
    counts = np.zeros((rows.height, len(encoding.classes)), dtype=np.uint32)

    def loaded() -> Iterator[Ensemble]:
        for block in teachers:
            of_block, ensemble = load_teachers(block, vault)
            made.append(of_block)
            yield ensemble

    with silenced():
        for ensemble in ensembles(loaded()):
            for first in range(0, rows.height, SLICE):
                X = read_only(encode(rows.slice(first, SLICE), encoding))
                add_votes(counts[first : first + len(X)], ensemble, X)
    schema = votes_schema(classes := counts.shape[1])
    with whole(made).with_(form="votes").file(vault, path) as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_table(pa.table([pa.array(counts[:, index]) for index in range(classes)], schema=schema))
    return sink.ref


def add_votes(counts: VoteCounts, ensemble: Ensemble, X: Matrix) -> None:
    """Add the vote of each teacher on each row of X (rows, width) to `counts` (rows, classes), in place."""
    if isinstance(ensemble, LinearTeachers):
        ensemble.add_votes(counts, X)
        return
    classes = counts.shape[1]
    flat, starts = counts.reshape(-1), np.arange(len(X)) * classes
    for teacher in ensemble:
        flat[starts + teacher.votes(X, classes)] += 1


def votes_schema(classes: int) -> pa.Schema:
    """Schema of `poll`'s output: per public row, the number of votes for each class, in columns class_0 …"""
    return pa.schema([pa.field(f"class_{index}", pa.uint32(), nullable=False) for index in range(classes)])


@private_stage
def measure(block: Ref, teachers: TeachersPlan, encoding: Encoding, vault: Vault, path: str) -> Ref:
    """Write the numbers of errors and of tested rows of one block's teachers, (shards, 2), to a file of the vault."""
    made, rows = read_shards(block, vault)
    X, y = encode(rows, encoding), rows[LABEL].to_numpy().astype(np.int64)
    aside = rows[ASIDE].to_numpy().astype(bool)
    shards = by_shard(rows, made)
    errors = np.zeros((len(shards), 2), dtype=np.int64)
    with silenced():
        for at, (shard, mine) in enumerate(shards):
            out = aside[mine]
            teacher = fitted_teacher(
                teachers, shard, aligned_copy(X[mine][~out]), aligned_copy(y[mine][~out]), len(encoding.classes)
            )
            votes = teacher.votes(read_only(aligned_copy(X[mine][out])), len(encoding.classes))
            errors[at] = np.count_nonzero(votes != y[mine][out]), len(votes)
    with made.with_(form="errors").file(vault, path) as sink:
        sink.write(errors.tobytes())
    return sink.ref
