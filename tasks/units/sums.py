"""Exact sums over blocks of coded units, in files of the vault: counted once, each bound to its question.

Assumes      all rows of a unit are in one block (tasks.units.blocks); a question is public
Guarantees   sums are int64 and the same to the bit however rows lie in blocks, whichever worker counts which. What a
             unit adds is bounded, whatever its codes are (tasks.mechanisms.contributions). Each block is added once
Not covered  whether the question was paid for: the door asks that. Checked by tests/tasks/units/test_tally.py
"""

import hashlib
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from concord.artifacts.home.vault import Vault
from concord.artifacts.schemas import LABEL, Ref, canonical_json
from concord.tasks.data.codes import Codes
from concord.tasks.data.grid import recoded
from concord.tasks.mechanisms.contributions import RoundQuestion, tally
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.units.blocks import batches_of, codes_in
from concord.tasks.units.guard import private_stage
from concord.tasks.units.provenance import Provenance, read_made, whole
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
    """Write the sum of the contributions of all units in these blocks to a file of the vault: int64 (question.size,).

    codes   that the question is about, if not the blocks' own: they follow from these or, with a `grid`, from its cells
    Raises NotVerified unless it is one block, or all of a table in order.
    """
    made, total = list[Provenance](), np.zeros(question.size, dtype=np.int64)
    for block in blocks:
        of_block, content = read_made(block, vault)
        made.append(of_block)
        for batch in batches_of(content):
            units = batch[UNIT].to_numpy() if UNIT in batch.schema.names else None
            rows, labels = codes_in(batch), batch[LABEL].to_numpy().astype(np.int64)
            if codes is not None:
                rows = codes.completed(rows) if grid is None else recoded(rows, grid, codes)
            total += tally(question, rows, labels, units)
    return keep_sums(vault, path, question, total, made[0] if len(made) == 1 else whole(made))


def keep_sums(vault: Vault, path: str, question: RoundQuestion, sums: Ints, made: Provenance) -> Ref:
    """Write exact sums int64 (question.size,) of units of that provenance to a file of the vault."""
    with made.with_(form="sums", question=question_digest(question.record())).file(vault, path) as sink:
        sink.write(npy_bytes(sums))
    return sink.ref


def summed(blocks: Sequence[Ref], vault: Vault) -> tuple[Provenance, Ints]:
    """The sum of what `keep_sums` wrote for all blocks of a table in order, int64 (size,). Raises NotVerified if they
    are others, or if a file is not what was written."""
    parts = [read_made(block, vault) for block in blocks]
    sums = [np.load(io.BytesIO(content), allow_pickle=False).astype(np.int64) for _, content in parts]
    return whole([made for made, _ in parts]), sum(sums[1:], sums[0])


def sums_digest(blocks: Sequence[Ref], vault: Vault) -> str:
    """Keyed digest of the sums of all blocks; it does not depend on how rows are spread over them."""
    return vault.digest("sums", npy_bytes(summed(blocks, vault)[1]))


def npy_bytes(sums: Ints) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, sums.astype("<i8"), allow_pickle=False)
    return buffer.getvalue()


def question_digest(record: Mapping[str, Any]) -> str:
    """A digest of a public question."""
    return hashlib.sha256(canonical_json(record).encode()).hexdigest()
