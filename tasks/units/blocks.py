"""Blocks: private rows as codes, all rows of a unit together, from which exact sums are counted (tasks.units.sums).

    private table ─ shares ─ code ─┬──────────────── blocks of coded units ─ count ─ exact sums ─┃ the door
                                   └ parts ─ meet ───┘

A row becomes its codes and its class, by rules that look at its own cells alone and cannot fail: a missing or foreign
cell has a code of its own, an unknown label is the first class. A label that is a number becomes its place between its
bounds, in whole steps. Rows of a unit meet in one block; blocks are added. Shares of the table, blocks whose units
meet, and blocks that are counted can each be worked on anywhere.

Assumes      codes and question are public: from public rows, from the plan, or from sums released by earlier rounds
Guarantees   a row's codes and class are the same to the bit however rows lie in files, shares and frames, and whichever
             worker reads which; they stay in the vault. A code beyond those there are becomes the nearest. If labels
             alone are secret, no label decides which rows are counted, in which block, or what `known_codes` reads
Not covered  rows whose unit is null: they belong to no unit that a guarantee could cover, so they are left out.
             Checked by tests/tasks/units/test_tally.py
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, cycle
from pathlib import PurePath
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from concord.artifacts.domains import LABELS_OF
from concord.artifacts.errors import NotVerified
from concord.artifacts.home.vault import Vault
from concord.artifacts.schemas import LABEL, Encoding, Ref
from concord.tasks.data.cells import cast_labels, cast_numbers, steps_between
from concord.tasks.data.codes import CodeMatrix, Codes
from concord.tasks.data.files import PRIVATE
from concord.tasks.data.tables import Slice, Table
from concord.tasks.mechanisms.tallies import STEPS
from concord.tasks.units.arrivals import Arriving
from concord.tasks.units.guard import private_stage
from concord.tasks.units.parts import columns_asked, columns_of_names, of_part, provenance_of
from concord.tasks.units.provenance import read_made
from concord.tasks.units.spill import PARTS, SPILLS, Spill, allow_open_files, rows_in
from concord.tasks.units.units import UNIT, PrivateRows, private_table, rows_with_units, shards_of

BLOCKS = 8
"""Number of files of coded rows, and of tasks that count them, and most shares of a table: a power of two."""
MOST_DECODED = 1 << 16
"""Most units on whose features a model is decoded, if features are public."""


@dataclass(frozen=True)
class Coding:
    """Everything by which private rows become codes; it is opened wherever it is used.

    arriving  what arrived in one period, where only new units count; default: all units of the plan's table
    """

    private: PrivateRows
    codes: Codes
    arriving: Arriving | None = None

    @cached_property
    def table(self) -> Table:
        """The private table, in a format in which rows keep their place."""
        plan = self.private.plan
        return private_table(plan) if self.arriving is None else replace(self.arriving.table, unit=plan.data.unit)

    @property
    def schema(self) -> pl.Schema:
        """The types of coded rows, with their units if they have names."""
        coded = _schema(self.codes, self.private.encoding)
        return coded if self.table.unit is None else pl.Schema({**coded, UNIT: pl.Binary()})

    def rows(self, share: Slice) -> Iterator[pl.DataFrame]:
        """The rows of a share of the table as codes and classes."""
        plan, encoding = self.private.plan, self.private.encoding
        columns = columns_asked(plan, encoding)
        once = [name for name in columns if name not in (plan.data.unit, *columns_of_names(plan))]
        learning = of_part(plan, self.private.key, self.private.part)
        named = rows_with_units(self.table, columns, self.private.erased, once, share)
        nameless = ((raw, pl.Series()) for raw in self.table.frames(columns, once=once, share=share))
        for raw, owner in named if self.names_rows else nameless:
            mine = learning(raw, owner)
            some = raw if mine.all() else raw.filter(mine)
            coded = _coded(some, encoding, self.codes)
            yield coded if self.table.unit is None else coded.with_columns(owner.filter(mine)).drop_nulls(UNIT)

    @property
    def names_rows(self) -> bool:
        """Whether rows have names. Single rows cannot be erased: they have some only if a share of them is public."""
        return self.table.unit is not None or self.private.plan.data.public_share is not None

    @property
    def shares(self) -> int:
        """The number of shares to work on, by public facts: how many pieces the files have."""
        if self.table.unit is None and self.names_rows:
            return 1  # a row's name is its place in the whole table
        if self.private.plan.privacy.secret == "labels":
            return 1  # a writer ends a piece by its bytes, those of labels among them
        pieces = min(BLOCKS, self.table.pieces)
        return 1 << max(0, pieces.bit_length() - 1)


BlockStep = Callable[..., Any]
Each = Callable[[BlockStep, Sequence[tuple[Any, ...]]], list[Any]]
"""The results of a step of `gather` for each of these arguments: of a function of a `Coding` and them."""


def gather(coding: Coding, folder: str, run: Each | None = None) -> tuple[Ref, ...]:
    """Write the private table to the vault as codes and classes, all rows of a unit together, in BLOCKS files.

    run   has steps done by workers, with a coding of their own; by default they are done here
    Raises WrongInput if the table lacks a column; no row can make it fail.
    """
    shares = coding.shares

    def here(step: BlockStep, calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [step(coding, *call) for call in calls]

    if run is None or shares == 1:
        run = here
    files = tuple(str(file.path) for file in coding.table.files)
    if coding.table.unit is None:
        return tuple(chain.from_iterable(run(code_rows, [((at, shares), files, folder) for at in range(shares)])))
    with coding.private.vault.passing(f"{folder}/parts") as passing:
        calls = [((at, shares), files, f"{passing}/{at}") for at in range(shares)]
        spread: list[Mapping[int, Ref]] = run(spread_units, calls)
        parts = [[of_share[at] for of_share in spread if at in of_share] for at in range(PARTS)]
        if coding.arriving is not None:
            return write_new(coding, parts, coding.arriving, folder)
        size = PARTS // BLOCKS
        return tuple(run(meet, [(parts[at * size : (at + 1) * size], folder, at) for at in range(BLOCKS)]))


@private_stage
def code_rows(coding: Coding, share: Slice, files: Sequence[str], folder: str) -> tuple[Ref, ...]:
    """Write the rows of a share as blocks, each row a unit: as many files as make BLOCKS of all shares."""
    _check_same(coding, files)
    size = BLOCKS // share[1]
    return _in_blocks(coding.rows(share), coding, folder, range(share[0] * size, (share[0] + 1) * size))


@private_stage
def spread_units(coding: Coding, share: Slice, files: Sequence[str], folder: str) -> dict[int, Ref]:
    """Write the rows of a share by parts of the units, and return the file of each of PARTS that has rows."""
    _check_same(coding, files)
    allow_open_files()
    with closing(Spill(coding.private.vault, folder, coding.schema)) as spill:
        key = coding.private.key if coding.arriving is None else coding.arriving.key(coding.private.vault)
        for rows in coding.rows(share):
            spill.add(rows, shards_of(rows[UNIT], key, SPILLS) // (SPILLS // PARTS))
        return spill.files()


@private_stage
def meet(coding: Coding, parts: Sequence[Sequence[Ref]], folder: str, number: int) -> Ref:
    """Write a block of whole units: of each of these parts, the rows from all shares."""
    first = number * (PARTS // BLOCKS)
    (block,) = _in_blocks(map(_numbered, _joined(coding, parts, first)), coding, folder, [number])
    return block


@private_stage
def write_new(coding: Coding, parts: Sequence[Sequence[Ref]], arriving: Arriving, folder: str) -> tuple[Ref, ...]:
    """Write the units that are new in a period, as BLOCKS files."""
    return _in_blocks(map(_numbered, arriving.new_units(_joined(coding, parts, 0), coding.private)), coding, folder)


def _joined(coding: Coding, parts: Sequence[Sequence[Ref]], first: int) -> Iterator[pl.DataFrame]:
    """The rows of each part, of all shares; a spill names its files by their parts."""
    vault, empty = coding.private.vault, coding.schema.to_frame()
    if any(int(PurePath(file.path).stem) != at for at, part in enumerate(parts, first) for file in part):
        raise NotVerified("units of one part were handed on in the place of another's: they would count twice")
    return (pl.concat([empty, *(rows_in(vault, file, coding.schema) for file in part)]) for part in parts)


def _check_same(coding: Coding, files: Sequence[str]) -> None:
    """Raise NotVerified if a worker finds other files: its share of them would be another one."""
    if [str(file.path) for file in coding.table.files] != list(files):
        raise NotVerified(f"the files of {PRIVATE} changed while they were read, or a worker sees others: run again")


@private_stage
def known_codes(blocks: Sequence[Ref], codes: Codes, vault: Vault) -> tuple[CodeMatrix, int]:
    """If only labels are secret: the codes (m, F) of one row of each unit, or of every n-th unit if there are more than
    MOST_DECODED units; and the number of units. No label is read. Raises NotVerified if rows are secret.
    """
    parts = []
    for made, content in (read_made(block, vault) for block in blocks):
        if not made.unit.startswith(LABELS_OF):
            raise NotVerified("features of units were asked for, and they are secret: nothing is handed on")
        for batch in batches_of(content):
            first = np.unique(batch[UNIT], return_index=True)[1] if UNIT in batch.schema.names else slice(None)
            parts.append(codes_in(batch)[first])
    units = sum(map(len, parts))
    together = np.concatenate([np.empty((0, codes.width), np.int32), *parts])
    return together[:: max(1, -(-units // MOST_DECODED))], units


def batches_of(block: memoryview) -> Iterator[pa.RecordBatch]:
    """The record batches of a block's content, each of whole units."""
    with pa.ipc.open_stream(pa.BufferReader(block)) as batches:
        yield from batches


def codes_in(batch: pa.RecordBatch) -> CodeMatrix:
    """The codes (rows, F) of a batch, in Fortran's order."""
    codes = [
        column for name, column in zip(batch.schema.names, batch.columns, strict=True) if name not in (LABEL, UNIT)
    ]
    rows = np.empty((batch.num_rows, len(codes)), np.int32, order="F")
    for at, column in enumerate(codes):
        rows[:, at] = column
    return rows


def _coded(raw: pl.DataFrame, encoding: Encoding, codes: Codes) -> pl.DataFrame:
    codes_of_rows, schema = codes.of_raw(raw, encoding.columns).clip(0, codes.size - 1), _schema(codes, encoding)
    columns = dict(zip(schema, [*codes_of_rows.T, _labels(raw[encoding.label], encoding)], strict=True))
    return pl.DataFrame(columns, schema=schema)


def _labels(cells: pl.Series, encoding: Encoding) -> NDArray[Any]:
    """Class indices (rows,), or steps of a number."""
    if encoding.bounds is None:
        return cast_labels(cells, encoding)
    return steps_between(cast_numbers(cells, largest=math.inf), encoding.bounds, STEPS)


def _schema(codes: Codes, encoding: Encoding) -> pl.Schema:
    """The types of coded rows."""
    code = pl.Series(np.empty(0, np.min_scalar_type(codes.size - 1))).dtype
    label = pl.UInt32() if encoding.bounds else pl.UInt16()
    return pl.Schema({str(field): code for field in range(codes.width)} | {LABEL: label})


def _numbered(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows in the order of their units, with the names of units replaced by numbers from 0."""
    return rows.with_columns(pl.col(UNIT).rank("dense").cast(pl.Int64) - 1).sort(UNIT, maintain_order=True)


def _in_blocks(
    frames: Iterable[pl.DataFrame], coding: Coding, folder: str, numbers: Sequence[int] = range(BLOCKS)
) -> tuple[Ref, ...]:
    """Write frames of whole units to the blocks of these numbers in turn, each as one record batch: a batch is counted
    by itself, so a unit in two of them would count twice."""

    def together(frame: pl.DataFrame) -> pa.Table:  # in one chunk, or none if there are no rows
        return frame.rechunk().to_arrow(compat_level=pl.CompatLevel.oldest()).combine_chunks()

    kinds = {**coding.schema, UNIT: pl.Int64()} if coding.table.unit else coding.schema
    vault, schema = coding.private.vault, together(pl.DataFrame(schema=kinds)).schema
    if coding.arriving is None:
        made = provenance_of(coding.private)
        made = made.with_(reading=f"{made.reading} {folder} {len(numbers)}")  # as many as a share fills
    else:
        made = coding.arriving.made(coding.private)
    with ExitStack() as held:
        sinks = []
        for number in numbers:
            block = made.with_(pieces=BLOCKS, span=(number, number + 1))
            sinks.append(held.enter_context(block.file(vault, f"{folder}/block-{number:05d}.arrow")))
        writers = [held.enter_context(pa.ipc.new_stream(sink, schema)) for sink in sinks]
        for frame, writer in zip(frames, cycle(writers), strict=False):
            for batch in together(frame).to_batches():
                writer.write_batch(batch)
    return tuple(sink.ref for sink in sinks)
