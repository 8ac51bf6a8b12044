"""Split: assign every privacy unit to one shard, by a keyed hash of its identity modulo the number of shards.

A unit is named by a column of the plan, or is a row: its cast content and its copy number among identical rows, so that
a thousand copies spread over the shards and removing one changes one shard. If only labels are secret, a row without a
named unit is identified by its position in the table: its content includes the label, which must not decide its shard.

Assumes      the key is secret and the same for the same private data; the encoding comes from public rows
Guarantees   adding or removing one unit changes the rows of one shard and no others. Shards are sets: rows are sorted
             by their keyed content digests, identical ones by their units (one may be set aside and another not), so no
             row moves another. Rows equal in both are equal to the bit. If only labels are secret, changing those of
             one unit changes one shard: labels in it, and with them the order of its rows (digests of contents include
             the label). No row changes its shard
Not covered  rows whose unit is null: they belong to no unit that a guarantee could cover, so they are left out

Why one shard: without a unit column, the n copies of a content are numbered 1 … n and their shards are n fixed values
of a keyed function; one more copy adds one value and leaves those. With one, a row's shard depends on its unit alone.

With a share, a Poisson sample of the units is split, one row of each (that of least content digest): the secret subset
that is relabelled. It follows from the key and the units, so a domain has one subset for its whole life, and one more
unit leaves every other in or out of it. No name, size or row of it leaves the vault. Checked by
tests/tasks/units/test_split.py and tests/tasks/units/test_relabel.py.

Unlabelled: if only labels are secret, features of a part of the private units are the public rows.

Bassily, Thakkar & Thakurta 2018, §4: the table is split in two, the labels of one half are dropped, and teachers that
learned from the other half vote on its features.

Assumes      the plan states that only labels are secret: features, and who is in the table, are public
Guarantees   no label is read here; the part follows from units and a key, and `tasks.units.split` leaves that part out,
             so labels of its units are never used. It is a snapshot (tasks.data.sources): if it is not what was
             written, it is written again, from the same private files
Not covered  private tables in CSV, where a label could break its line: refused
             Checked by tests/tasks/door/test_label_private.py
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.vault import Vault, derive
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, Ref
from concord.artifacts.sources import TableSource
from concord.tasks.data.cells import cast_rows
from concord.tasks.data.matrix import row_digests
from concord.tasks.data.sources import SnapshotWriter, snapshot_at, snapshot_place
from concord.tasks.data.tables import kind_in
from concord.tasks.units.guard import private_stage
from concord.tasks.units.parts import columns_asked, of_part, provenance_of, public_key
from concord.tasks.units.spill import SPILLS, spilling
from concord.tasks.units.units import (
    UNIT,
    Erased,
    PrivateRows,
    names_of,
    private_table,
    rows_with_units,
    sampled,
    shards_of,
)

SHARD = "concord.shard"
"""Name of the column that holds the shard's index in block files."""
ASIDE = "concord.aside"
"""Name of the column that marks the rows set aside, if some were."""

CONTENT = "concord.content"


@private_stage
def split(private: PrivateRows, folder: str, share: float | None = None, aside: float | None = None) -> tuple[Ref, ...]:
    """Write the private table to the vault by shard: one Arrow file for every `plan.teachers.block` shards.

    share   probability that a unit is in the subset that is split; None to split all rows
    aside   probability that a unit's rows are set aside within their shard, marked by a column ASIDE; None for none
    A file holds SHARD, the cast feature columns and LABEL, and is there even when no row is in it. The number of files
    follows from the plan. Raises WrongInput if the table lacks a column; no row can make it fail.
    """
    vault, key = private.vault, private.key
    shards, block = private.plan.teachers.count, private.plan.teachers.block
    rows, schema = _identified(private), identified_schema(private.encoding)
    if private.named_by_content:
        rows = _copies_named(rows, vault, f"{folder}/spill-copies", schema)
    blocks = -(-shards // block)
    blocks_per_spill = -(-blocks // SPILLS)
    places = {SHARD: pl.UInt32()} | ({} if aside is None else {ASIDE: pl.Boolean()})
    with spilling(vault, f"{folder}/spill-blocks", pl.Schema({**schema, **places})) as spill:
        for frame in rows:
            subset = frame if share is None else frame.filter(sampled(frame[UNIT], derive(key, "subset"), share))
            with_shard = subset.with_columns(shards_of(subset[UNIT], key, shards).alias(SHARD))
            if aside is not None:
                is_aside = sampled(subset[UNIT], derive(key, "aside"), aside)
                with_shard = with_shard.with_columns(is_aside.alias(ASIDE))
            spill.add(with_shard, with_shard[SHARD] // (block * blocks_per_spill))
        written, drawn_at = [], () if share is None else (share,)
        made = provenance_of(private).with_(pieces=shards, subset=drawn_at)
        for first, part in enumerate(spill.read(-(-blocks // blocks_per_spill))):
            for index in range(first * blocks_per_spill, min((first + 1) * blocks_per_spill, blocks)):
                block_rows = part.filter(part[SHARD] // block == index).sort(SHARD, CONTENT, UNIT)
                if share is not None:
                    block_rows = block_rows.unique(UNIT, keep="first", maintain_order=True)
                block_rows = block_rows.select(SHARD, pl.exclude(SHARD, CONTENT, UNIT))
                of_block = made.with_(span=(index * block, min((index + 1) * block, shards)))
                written.append(of_block.rows(block_rows, vault, f"{folder}/block-{index:05d}.arrow"))
        return tuple(written)


def one_row_a_unit(private: PrivateRows, folder: str, *, copies: bool = False) -> Iterator[pl.DataFrame]:
    """Cast rows, one per privacy unit: if a unit has several, the one with the least keyed content digest.

    copies   whether each copy of a row is to have a name of its own, if a unit is a row
    Raises WrongInput if the table lacks a column; no row can make it fail.
    """
    vault, rows, schema = private.vault, _identified(private), identified_schema(private.encoding)
    if private.plan.data.unit is None:
        if copies and private.named_by_content:
            rows = _copies_named(rows, vault, f"{folder}/spill-copies", schema)
        yield from rows
        return
    with spilling(vault, f"{folder}/spill-units", schema) as spill:
        for frame in rows:
            spill.add(frame, shards_of(frame[UNIT], private.key, SPILLS))
        for some in filter(len, spill.read(SPILLS)):
            yield some.sort(CONTENT, UNIT).unique(UNIT, keep="first", maintain_order=True)


def _identified(private: PrivateRows) -> Iterator[pl.DataFrame]:
    """Cast rows of the units, with CONTENT and UNIT; if a unit is a row, UNIT has no copy number yet."""
    plan, encoding, key = private.plan, private.encoding, private.key
    table = private_table(plan)  # of a format that keeps rows where they are
    chosen = of_part(plan, key, private.part)
    for frame, owners in rows_with_units(table, columns_asked(plan, encoding), private.erased):
        mine = chosen(frame, owners)
        raw, owner = frame.filter(mine), owners.filter(mine)
        rows = cast_rows(raw, encoding)
        content = pl.Series(CONTENT, row_digests(rows, encoding, key), pl.Binary)
        named = content.alias(UNIT) if private.named_by_content else owner
        yield rows.with_columns(content, named).drop_nulls(UNIT)


def identified_schema(encoding: Encoding) -> pl.Schema:
    cast = cast_rows(pl.DataFrame(schema={encoding.label: pl.String}), encoding).schema
    return pl.Schema({**cast, CONTENT: pl.Binary(), UNIT: pl.Binary()})


def _copies_named(rows: Iterable[pl.DataFrame], vault: Vault, folder: str, schema: pl.Schema) -> Iterator[pl.DataFrame]:
    """The same rows, each a unit of its own: its content and its copy number. Identical rows meet in one part."""
    with spilling(vault, folder, pl.Schema({name: kind for name, kind in schema.items() if name != UNIT})) as spill:
        for frame in rows:
            spill.add(frame.drop(UNIT), pl.Series(_halves(frame[CONTENT])[:, 0] % SPILLS))  # by the digest's first bits
        for part in filter(len, spill.read(SPILLS)):
            copies = part.select(pl.int_range(1, pl.len() + 1, dtype=pl.UInt64).over(CONTENT)).to_series()
            yield part.with_columns(names_of(np.column_stack([_halves(part[CONTENT]), copies.to_numpy()])))


def _halves(digests: pl.Series) -> NDArray[np.uint64]:
    """Digests as two numbers each: (rows, 2)."""
    return np.frombuffer(b"".join(digests.to_list()), dtype="<u8").reshape(-1, 2)


def with_public(
    plan: Plan,
    vault: Vault,
    private: Sequence[str],
    erased: Sequence[str] = (),
    say: Callable[[str], None] = lambda _: None,
) -> Plan:
    """The plan with public rows of its own, written now if they are missing or were changed.

    private   keyed digests of its private files; `erased` those of units whose rows are left out
    say       called with a sentence if the files were changed
    Raises WrongInput if the files lack a feature.
    """
    what = plan.data.model_dump_json(include={"label", "unit", "features", "public_share"})
    domain = plan.privacy.domain
    key = vault.digest("unlabelled", domain, what, *private, *erased)[:32]
    place = snapshot_place("unlabelled", domain, key)

    def write(reading: SnapshotWriter) -> None:
        if vault.paths(place, "*"):
            say("public rows are not what was written: made again")
        secret = derive(vault.secret(f"domains/{domain}"), "split")
        set_apart(plan, secret, reading, Erased.of(vault, domain, erased))

    table = snapshot_at(vault, place, write)
    return plan.model_copy(update={"data": plan.data.model_copy(update={"public": table})})


def public_by_name(made: Plan) -> TableSource:
    """The public rows that `with_public` made, as a checkpoint refers to them: by their key in the vault, like a
    frame."""
    return TableSource(frame=made.path("public").split("/")[-2])


@private_stage
def set_apart(plan: Plan, key: bytes, reading: SnapshotWriter, erased: Erased) -> None:
    """Write features of the public part of the private rows."""
    if plan.privacy.secret != "labels":
        raise NotVerified("features of private units are public if labels alone are secret: nothing is written")
    table = private_table(plan)
    spoken_for = {plan.data.label, plan.data.unit}
    named = {name: "data.features" for file in table.files for name in file.names if name not in spoken_for}
    features = plan.data.features or tuple(named)
    for file in table.files:
        for name in sorted(set(features) & set(file.names)):
            kind_in(file, name)
    rows = rows_with_units(table, dict.fromkeys(features, "data.features"), erased)
    for at, (raw, owner) in enumerate(rows):  # files of one table may have a column in two types
        public = sampled(owner.drop_nulls(), public_key(key), plan.data.public_share or 0.0)
        part = raw.filter(owner.is_not_null()).filter(public).select(features).to_arrow()
        reading.arrow_file(f"part {at + 1} of the public rows", "ipc", part.schema, [part])
