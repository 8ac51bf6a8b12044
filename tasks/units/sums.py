"""Exact sums over blocks of coded units, in files of the vault: counted once, each bound to its question.

Assumes      all rows of a unit are in one block (tasks.units.blocks); a question is public
Guarantees   sums are int64 and the same to the bit however rows lie in blocks, whichever worker counts which. What a
             unit adds is bounded, whatever its codes are (tasks.mechanisms.contributions). No more blocks are added
             than there are
Not covered  whether the question was paid for: the door asks that. Checked by tests/tasks/units/test_tally.py
"""

import hashlib
import io
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.vault import Vault
from concord.artifacts.schemas import LABEL, Ref, canonical_json
from concord.tasks.data.codes import Codes
from concord.tasks.data.grid import recoded
from concord.tasks.mechanisms.contributions import RoundQuestion, tally
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.units.blocks import BLOCKS, batches_of, codes_in
from concord.tasks.units.guard import private_stage
from concord.tasks.units.units import UNIT


@private_stage
def count(
    blocks: Sequence[Ref],
    question: RoundQuestion,
    vault: Vault,
    path: str,
    codes: Codes | None = None,
    grid: Codes | None = None,
) -> Ref:
    """Write the sum of the contributions of all units in these blocks, or in none, to a file of the vault: int64
    (question.size,). The question is about the blocks' own codes; or about `codes`, which follow from those of single
    columns or, with a `grid`, from its cells.

    Raises NotVerified if a block is given twice.
    """
    if len({block.path for block in blocks}) < len(blocks):
        raise NotVerified("the units of a block would be counted twice")
    total = np.zeros(question.size, dtype=np.int64)
    for batch in chain.from_iterable(batches_of(block, vault) for block in blocks):
        units = batch[UNIT].to_numpy() if UNIT in batch.schema.names else None
        rows, labels = codes_in(batch), batch[LABEL].to_numpy().astype(np.int64)
        if codes is not None:
            rows = codes.completed(rows) if grid is None else recoded(rows, grid, codes)
        total += tally(question, rows, labels, units)
    return keep_sums(vault, path, question, total)


def keep_sums(vault: Vault, path: str, question: RoundQuestion, sums: Ints) -> Ref:
    """Write exact sums int64 (question.size,), with a digest of their question, to a file of the vault."""
    with vault.create(path) as sink:
        sink.write(npy_bytes(sums) + question_digest(question.record()).encode())
    return sink.ref


def summed(files: Sequence[bytes]) -> tuple[Ints, set[str]]:
    """The sum of what `keep_sums` wrote, int64 (size,), and the digests of the questions that it is of.

    Blocks of equal content have one file, which is then given for each. Raises NotVerified if there are more files than
    a table has blocks.
    """
    if len(files) > BLOCKS:
        raise NotVerified(f"a table has {BLOCKS} blocks, and sums of {len(files)} were given: nothing was drawn")
    sums, questions = list[Ints](), set[str]()
    for file in map(io.BytesIO, files):
        sums.append(np.load(file, allow_pickle=False).astype(np.int64))
        questions.add(file.read().decode())
    return sum(sums[1:], sums[0]), questions


def total_of(blocks: Sequence[Ref], vault: Vault) -> Ints:
    """The sums of all blocks, int64 (size,). Raises NotVerified if a file is not what was written."""
    return summed([vault.read(block) for block in blocks])[0]


def sums_digest(blocks: Sequence[Ref], vault: Vault) -> str:
    """Keyed digest of the sums of all blocks; it does not depend on how rows are spread over them."""
    return vault.digest("sums", npy_bytes(total_of(blocks, vault)))


def npy_bytes(sums: Ints) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, sums.astype("<i8"), allow_pickle=False)
    return buffer.getvalue()


def question_digest(record: Mapping[str, Any]) -> str:
    """A digest of a public question."""
    return hashlib.sha256(canonical_json(record).encode()).hexdigest()
