"""Poll: how many teachers vote for each class, on every row of a public batch.

Assumes      every teacher file is of this ensemble; the batch is as it was staged
Guarantees   each teacher votes exactly once on each row, so a row's counts add up to the number of teachers, and one
             teacher's votes depend on that teacher and the rows alone
Not covered  nothing here is private enough to show: counts stay in the vault. Checked by tests/tasks/test_poll.py
"""

from collections.abc import Iterator, Sequence

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from artifacts.encoding import Encoding
from artifacts.schemas import Ref, votes_schema
from artifacts.vault import Vault
from tasks.encode import Matrix, PublicBatch, encode, read_frame
from tasks.private import calm, private_stage
from tasks.teach import Teacher, load_teachers, read_only

Counts = NDArray[np.uint32]
SLICE = 1 << 13
"""Rows encoded at a time. Memory is bounded by one block of teachers and one slice of rows."""


@private_stage
def poll(batch: PublicBatch, teachers: tuple[Ref, ...], encoding: Encoding, vault: Vault, path: str) -> Ref:
    """Count the votes of all teachers on a batch, and write them to the vault: uint32 (rows, classes)."""
    rows = read_frame(batch.ref, vault)
    counts = np.zeros((rows.height, len(encoding.classes)), dtype=np.uint32)
    with calm():
        for block in teachers:
            ensemble = load_teachers(block, vault)
            for first, X in _slices(rows, encoding):
                add_votes(counts[first : first + len(X)], ensemble, X)
    return write_votes(counts, vault, path)


def add_votes(counts: Counts, ensemble: Sequence[Teacher], X: Matrix) -> None:
    """Add the vote of each teacher on each row of X (rows, width) to `counts` (rows, classes), in place."""
    places = np.arange(len(X))
    for teacher in ensemble:
        counts[places, teacher.votes(X, counts.shape[1])] += 1


def write_votes(counts: Counts, vault: Vault, path: str) -> Ref:
    """Write votes (rows, classes) to the vault as an Arrow IPC file of `votes_schema`."""
    classes = counts.shape[1]
    schema = votes_schema(classes)
    with vault.create(path) as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_table(pa.table([pa.array(counts[:, index]) for index in range(classes)], schema=schema))
    return sink.ref


def _slices(rows: pl.DataFrame, encoding: Encoding) -> Iterator[tuple[int, Matrix]]:
    for first in range(0, rows.height, SLICE):
        yield first, read_only(encode(rows.slice(first, SLICE), encoding))
