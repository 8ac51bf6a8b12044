"""Tally: exact integer sums over private rows, for one round of tallies.

    private table ─ gather ─ blocks of coded units ─ count, mapped over blocks ─ exact sums ─┃ the door

A row becomes its codes and its class, by rules that look at its own cells alone and cannot fail: a missing or foreign
cell has a code of its own, an unknown label is the first class. A label that is a number becomes its place between its
bounds, in whole steps. Rows of a unit meet in one block; blocks are added.

Assumes      codes and question are public: from public rows, from the plan, or from sums released by earlier rounds
Guarantees   sums are int64 and the same to the bit however rows lie in files, frames and blocks; they stay in the
             vault. If labels alone are secret, no label decides which rows are counted, in which block, or what
             `known_codes` reads
Not covered  rows whose unit is null: they belong to no unit that a guarantee could cover, so they are left out.
             Checked by tests/tasks/asking/test_tally.py
"""

import io
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import chain, cycle
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from concord.artifacts.home.vault import Vault
from concord.artifacts.parts import LEARNING
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, Ref
from concord.tasks.data.arrivals import Arriving
from concord.tasks.data.cells import LABEL, cast_labels, cast_numbers, steps_between
from concord.tasks.data.codes import CodeMatrix, Codes
from concord.tasks.data.guard import private_stage
from concord.tasks.data.parts import columns_of_names, of_part
from concord.tasks.data.spill import SPILLS, spilling
from concord.tasks.data.units import (
    NOBODY,
    UNIT,
    Erased,
    private_table,
    shards_of,
)
from concord.tasks.mechanisms.contributions import RoundQuestion, tally
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.tallies import STEPS

BLOCKS = 8
"""Number of files of coded rows, and of tasks that count them; it does not depend on the table."""
MOST_DECODED = 1 << 16
"""Most units on whose features a model is decoded, if features are public."""


@private_stage
def gather(
    plan: Plan,
    encoding: Encoding,
    codes: Codes,
    vault: Vault,
    folder: str,
    key: bytes,
    erased: Erased = NOBODY,
    arriving: Arriving | None = None,
) -> tuple[Ref, ...]:
    """Write the private table to the vault as codes and classes, all rows of a unit together, in BLOCKS files.

    key       key that spreads units over blocks
    erased    units whose rows are left out
    arriving  the part of the table that arrived in one period, of which only new units count; default: all of it
    Raises WrongInput if the table lacks a column; no row can make it fail.
    """
    table = private_table(plan) if arriving is None else arriving.table  # of a format that keeps rows where they are
    columns = columns_asked(plan, encoding)
    once = [name for name in columns if name not in (plan.data.unit, *columns_of_names(plan))]
    learning = of_part(plan, key, LEARNING)
    if table.unit is None:  # single rows cannot be erased, and need a name only if a share of them is made public
        named = plan.data.public_share is not None
        rows = table.owned(columns, once=once) if named else ((raw, pl.Series()) for raw in table.frames(columns, once))
        coded = (_coded(_only(raw, learning(raw, owner)), encoding, codes) for raw, owner in rows)
        return _in_blocks(coded, codes, vault, folder)
    schema = pl.Schema({**_schema(codes, encoding), UNIT: pl.Binary()})
    with spilling(vault, f"{folder}/spill-units", schema) as spill:
        for raw, owner in table.owned(columns, erased, once):
            mine = learning(raw, owner)
            owned = _coded(_only(raw, mine), encoding, codes).with_columns(owner.filter(mine)).drop_nulls(UNIT)
            spill.add(owned, shards_of(owned[UNIT], key, SPILLS))
        parts = spill.read(SPILLS) if arriving is None else arriving.new_units(spill.read(SPILLS), vault)
        return _in_blocks(map(_numbered, parts), codes, vault, folder)


def columns_asked(plan: Plan, encoding: Encoding) -> dict[str, str]:
    """The columns that are read, each with the plan's field that asks for it."""
    features = dict.fromkeys(encoding.features, "data.features")
    return features | columns_of_names(plan) | {plan.data.label: "data.label"}


@private_stage
def count(block: Ref, question: RoundQuestion, vault: Vault, path: str) -> Ref:
    """Write the sum of the contributions of a block's units, int64 (question.size,), to a file of the vault."""
    total = np.zeros(question.size, dtype=np.int64)
    with pa.ipc.open_stream(pa.BufferReader(vault.read(block))) as batches:
        for batch in batches:
            units = batch[UNIT].to_numpy() if UNIT in batch.schema.names else None
            total += tally(question, _matrix(batch), batch[LABEL].to_numpy().astype(np.int64), units)
    with vault.create(path) as sink:
        sink.write(sums_bytes(total))
    return sink.ref


@private_stage
def known_codes(blocks: Sequence[Ref], codes: Codes, vault: Vault) -> tuple[CodeMatrix, int]:
    """If only labels are secret: the codes (m, F) of one row of each unit, or of every n-th unit if there are more than
    MOST_DECODED units; and the number of units. No label is read.
    """
    parts = [part for block in blocks for part in _codes_of_units(vault.read(block))]
    units = sum(map(len, parts))
    together = np.concatenate([np.empty((0, codes.width), np.int32), *parts])
    return together[:: max(1, -(-units // MOST_DECODED))], units


def _codes_of_units(file: bytes) -> Iterator[CodeMatrix]:
    with pa.ipc.open_stream(pa.BufferReader(file)) as batches:
        for batch in batches:
            first = np.unique(batch[UNIT], return_index=True)[1] if UNIT in batch.schema.names else slice(None)
            yield _matrix(batch)[first]


def _matrix(batch: pa.RecordBatch) -> CodeMatrix:
    """The codes (rows, F) of a batch, in Fortran's order."""
    codes = [
        column for name, column in zip(batch.schema.names, batch.columns, strict=True) if name not in (LABEL, UNIT)
    ]
    found = np.empty((batch.num_rows, len(codes)), np.int32, order="F")
    for at, column in enumerate(codes):
        found[:, at] = column
    return found


def sums_folder(block: Ref) -> str:
    """The folder of a block's sums in every round, shared with the blocks gathered with it."""
    _, domain, gathered, *_ = block.path.split("/")
    return f"sums/{domain}/{gathered}"


def sums_bytes(sums: Ints) -> bytes:
    """Sums as a NumPy file."""
    buffer = io.BytesIO()
    np.save(buffer, sums.astype("<i8"), allow_pickle=False)
    return buffer.getvalue()


def total_of(blocks: Sequence[Ref], vault: Vault) -> Ints:
    """The sums of all blocks: int64 (question.size,). Raises NotVerified if a file is not what was written."""
    return sum((_sums(vault.read(block)) for block in blocks[1:]), _sums(vault.read(blocks[0])))


@private_stage
def keep_total(blocks: Sequence[Ref], question: RoundQuestion, vault: Vault, path: str) -> Ref:
    """Write the sum of all blocks, or of none, to a file of the vault: int64 (question.size,)."""
    total = total_of(blocks, vault) if blocks else np.zeros(question.size, np.int64)
    with vault.create(path) as sink:
        sink.write(sums_bytes(total))
    return sink.ref


def _sums(file: bytes) -> Ints:
    return np.asarray(np.load(io.BytesIO(file), allow_pickle=False), dtype=np.int64)


def _only(rows: pl.DataFrame, those: pl.Series) -> pl.DataFrame:
    return rows if those.all() else rows.filter(those)


def _coded(raw: pl.DataFrame, encoding: Encoding, codes: Codes) -> pl.DataFrame:
    found, schema = codes.of_raw(raw, encoding.columns), _schema(codes, encoding)
    columns = dict(zip(schema, [*found.T, _labels(raw[encoding.label], encoding)], strict=True))
    return pl.DataFrame(columns, schema=schema)


def _labels(cells: pl.Series, encoding: Encoding) -> NDArray[Any]:
    """Class indices (rows,), or steps of a number."""
    if encoding.bounds is None:
        return cast_labels(cells, encoding)
    return steps_between(cast_numbers(cells), encoding.bounds, STEPS)


def _schema(codes: Codes, encoding: Encoding | None = None) -> pl.Schema:
    """The types of coded rows; of no rows if there is no encoding."""
    code = pl.Series(np.empty(0, np.min_scalar_type(codes.size - 1))).dtype
    label = pl.UInt32() if encoding and encoding.bounds else pl.UInt16()
    return pl.Schema({str(field): code for field in range(codes.width)} | {LABEL: label})


def _numbered(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows in the order of their units, with the names of units replaced by numbers from 0."""
    return rows.with_columns(pl.col(UNIT).rank("dense").cast(pl.Int64) - 1).sort(UNIT)


def _in_blocks(frames: Iterator[pl.DataFrame], codes: Codes, vault: Vault, folder: str) -> tuple[Ref, ...]:
    """Write frames of whole units to BLOCKS files in turn, each as one record batch: a batch is counted by itself, so a
    frame of several chunks would count its units several times."""
    first = next(frames, None)
    empty = (pl.DataFrame(schema=_schema(codes)) if first is None else first).clear()
    with ExitStack() as held:
        sinks = [held.enter_context(vault.create(f"{folder}/block-{at:05d}.arrow")) for at in range(BLOCKS)]
        schema = _together(empty).schema
        writers = [held.enter_context(pa.ipc.new_stream(sink, schema)) for sink in sinks]
        for frame, writer in zip(chain([] if first is None else [first], frames), cycle(writers), strict=False):
            for batch in _together(frame).to_batches():
                writer.write_batch(batch)
    return tuple(sink.ref for sink in sinks)


def _together(frame: pl.DataFrame) -> pa.Table:
    """As Arrow, in one chunk, or none if there are no rows."""
    return frame.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest()).combine_chunks()
