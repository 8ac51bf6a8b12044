"""Sources: read a table that is not a local file once, into a snapshot whose files are used like local ones.

    s3://… gs://… az://…     the bytes of each object, as they are
    { query, connection }    the rows of a database query as words, in the order of keyed digests of their cells
    a frame of Python        its columns as they are, as an Arrow IPC file

It is read again if the plan changes its name or the `version` of the data, or with `--from encode`.

Assumes      a plan's `[data] version` names the state of the private data
Guarantees   nothing is read from a snapshot that was not written by this vault, and no two runs read two states of one
             version. Rows of a query are sorted, so that the same rows give the same bytes in any order; they are then
             recognised, and the order reveals nothing. No cell can fail: rows are copied, and cast later
             (tasks.data.cells). A keyed digest of the query is on record. Checked by tests/tasks/data/test_sources.py,
             and to the bit by tests/privacy/test_source_alone.py
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa

from concord.artifacts.errors import EnvironmentFailed, WrongInput
from concord.artifacts.home.atomic import locked
from concord.artifacts.home.vault import Vault, derive, hashed, keyed_digest
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import canonical_json
from concord.artifacts.sources import TableSource
from concord.tasks.data.encode import public_features
from concord.tasks.data.files import TableFile, find_files
from concord.tasks.data.frames import frame_table
from concord.tasks.data.guard import private_stage
from concord.tasks.data.remote import Remote, reachable, rows_of_query
from concord.tasks.data.snapshots import (
    Sealing,
    Snapshot,
    SnapshotTable,
    apart,
    find_snapshot,
    is_whole,
    write_snapshot,
)
from concord.tasks.data.spill import spilling
from concord.tasks.data.tables import PRIVATE, open_public

ORDER_COLUMN = "concord.order"
ORDER_PARTS = 64
"""Parts over which rows of a query are spread to be sorted; one part is in memory at a time."""
BATCH = 1 << 16
BYTES = 1 << 20
TABLE_FIELDS = ("private", "public", "test")


def not_local(plan: Plan) -> dict[str, str | TableSource]:
    """Tables of a plan that are not local files, by field."""
    tables: dict[str, Any] = {field: getattr(plan.data, field) for field in TABLE_FIELDS}
    return {field: table for field, table in tables.items() if isinstance(table, TableSource) or "://" in (table or "")}


def check_tables(plan: Plan) -> None:
    """Raise WrongInput if a local table is missing, or if a public one lacks a column that the plan names.

    No row is read, so that a command can check this first.
    """
    named, features = not_local(plan), plan.data.features or ()
    if "private" not in named:
        find_files(plan.path("private"), PRIVATE, plan.data.format, arriving=plan.stream is not None)
    if plan.data.public is not None and "public" not in named:
        table, features = public_features(plan)
        table.must_hold(features)
    if plan.data.test is not None and "test" not in named:
        open_public(plan.path("test"), "data.test", plan.data.format).must_hold([*features, plan.data.label])


def with_snapshots(plan: Plan, vault: Vault, *fields: str, again: bool = False) -> Plan:
    """The plan with a snapshot for each table that is not a local file, read now if there is none.

    fields  fields of the tables that are needed; by default all
    again   read them again
    Raises WrongInput if there is no such table, EnvironmentFailed if it cannot be read.
    """
    tables = {field: table for field, table in not_local(plan).items() if field in (fields or TABLE_FIELDS)}
    read: dict[str, Any] = {field: _snapshot(plan, field, tables[field], vault, again=again) for field in tables}
    return plan.model_copy(update={"data": plan.data.model_copy(update=read)}) if read else plan


def with_public_snapshots(plan: Plan, home: Path) -> Plan:
    """The plan with snapshots of its public tables, which is all that planning reads."""
    fields = {"public", "test"} & not_local(plan).keys()
    return with_snapshots(plan, Vault(home / "vault"), *fields) if fields else plan


def _snapshot(plan: Plan, field: str, table: str | TableSource, vault: Vault, *, again: bool) -> SnapshotTable:
    frame = None if isinstance(table, str) else table.frame
    named = table if isinstance(table, str) else table.model_dump(exclude_none=True)
    key = frame or vault.digest("table", canonical_json([named, plan.data.version]))[:32]
    place = folder_of(plan.privacy.domain, field, key)
    for kept in (place, apart(plan.privacy.domain, key)) if frame is not None else ():
        if find_snapshot(vault, kept) is not None:
            return SnapshotTable.of(vault, kept)
    with locked(vault.root / "locks" / f"table-{key}"):
        there = {int(folder.name) for folder in (vault.root / place).glob("[1-9]*")}
        readings = [number for number in sorted(there) if find_snapshot(vault, f"{place}/{number}") is not None]
        for number in {*there, max(readings, default=0) + 1}.difference(readings):
            vault.destroy(f"{place}/{number}")  # it is incomplete
        latest = readings[-1] if readings else 0
        if again or not readings:
            latest += 1
            read_table(table, vault, f"{place}/{latest}", f"data.{field}")
            for before in readings[:-1]:
                vault.destroy(f"{place}/{before}")
    return SnapshotTable.of(vault, f"{place}/{latest}")


def folder_of(domain: str, field: str, key: str) -> str:
    """The folder of a snapshot in the vault; a private one is where erasing a unit of its domain removes it."""
    return f"tables/{domain}/{key}" if field == "private" else f"public/tables/{key}"


@private_stage
def read_table(source: str | TableSource, vault: Vault, folder: str, field: str) -> None:
    """Read a table into a folder of the vault."""
    if isinstance(source, str):
        _keep_files(vault, folder, find_files(source, field), field)
    elif source.query is not None and source.connection is not None:
        _keep_query(vault, folder, source.query, source.connection, field)
    else:
        raise WrongInput(f"{field}: the frame is no longer in the vault: give it to concord.run again")


def _keep_files(vault: Vault, folder: str, files: Iterable[TableFile], field: str) -> None:
    """Copy the bytes of a store's files into a snapshot."""
    listed = []
    for number, file in enumerate(files):
        sealing, place = Sealing(vault, f"{folder}/{number:05d}"), Remote(file.shown)
        with reachable(file.shown, field):
            before = place.stamp()
            with place.open("rb") as content:
                while part := content.read(BYTES):
                    sealing.write(part)
            if place.stamp() != before:
                raise EnvironmentFailed(f"{field}: {file.shown} was written while it was read: run again")
        listed.append(sealing.finish(file.shown, file.format, place.origins))
    write_snapshot(vault, folder, Snapshot(files=tuple(listed)))


def _keep_query(vault: Vault, folder: str, query: str, variable: str, field: str) -> None:
    """Read a query's rows into a snapshot of one file, in the order of keyed digests of their cells."""
    sealing, key = Sealing(vault, f"{folder}/00000"), derive(vault.secret("installation"), "rows of a query")
    with rows_of_query(query, variable, field) as (names, parts):
        columns = pl.Schema(dict.fromkeys(names, pl.String()))
        with spilling(vault, f"{folder}/spill", pl.Schema({**columns, ORDER_COLUMN: pl.Binary()})) as spill:
            for rows in parts:
                digests = hashed((json.dumps(row).encode() for row in rows), key, b"row", 16)
                frame = pl.DataFrame(rows, schema=columns, orient="row").with_columns(pl.Series(ORDER_COLUMN, digests))
                spill.add(frame, pl.Series([digest[0] * ORDER_PARTS >> 8 for digest in digests], dtype=pl.UInt32))
            ordered = (part.sort(ORDER_COLUMN).select(names).to_arrow() for part in spill.read(ORDER_PARTS))
            _write(sealing, pa.schema([(name, pa.large_string()) for name in names]), ordered)
    listed = sealing.finish(f"the query of {field}", "text", origins=(f"query://{variable}/{query}",))
    write_snapshot(vault, folder, Snapshot(read=f"query {keyed_digest(key, query)}", files=(listed,)))


def _write(file: Any, schema: pa.Schema, tables: Iterable[pa.Table]) -> None:
    with pa.ipc.new_file(file, schema) as writer:
        for table in tables:
            writer.write_table(table.cast(schema), max_chunksize=BATCH)


@private_stage
def keep_frame(frame: Any, vault: Vault, field: str, domain: str) -> TableSource:
    """Keep a frame in the vault, as a table of a plan. Raises WrongInput if it is not a frame."""
    table, content = frame_table(frame, f"data.{field}"), pa.BufferOutputStream()
    _write(content, table.schema, [table])
    buffer = content.getvalue()
    key = vault.digest("frame", buffer)[:32]
    folder = folder_of(domain, field, key)
    with locked(vault.root / "locks" / f"table-{key}"):
        if find_snapshot(vault, folder) is None:
            _keep(vault, folder, buffer, f"the frame of data.{field}")
    return TableSource(frame=key)


def with_rows(plan: Plan, vault: Vault, rows: pl.DataFrame, name: str) -> Plan:
    """The plan with these public rows, drawn from its schema or synthetic, in place of a public table. They are kept
    under a key of their content, and written again if they are not what was written."""
    buffer = rows.write_ipc(None, compat_level=pl.CompatLevel.oldest()).getvalue()
    key = vault.digest("schema rows", buffer)[:32]
    folder = f"public/tables/{key}"
    with locked(vault.root / "locks" / f"table-{key}"):
        if not is_whole(vault, folder):
            _keep(vault, folder, buffer, name)
    return plan.model_copy(update={"data": plan.data.model_copy(update={"public": SnapshotTable.of(vault, folder)})})


def _keep(vault: Vault, folder: str, buffer: Any, name: str) -> None:
    """Write the bytes of an Arrow file as a snapshot of one file."""
    vault.destroy(folder)
    sealing = Sealing(vault, f"{folder}/00000")
    sealing.write(buffer)
    write_snapshot(vault, folder, Snapshot(files=(sealing.finish(name, "ipc"),)))
