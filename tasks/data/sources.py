"""Sources: read a table that is not a local file once, into a snapshot whose files are used like local ones.

    s3://… gs://… az://…     the bytes of each object, as they are
    { query, connection }    the rows of a database query as words, in the order of keyed digests of their cells
    a frame of Python        its columns as they are, as an Arrow IPC file

Assumes      a plan's `[data] version` names the state of the private data: a table is read once for each of them
Guarantees   nothing is read from a snapshot that was not written by this vault. The same rows of a query give the same
             bytes in any order, and their order reveals nothing. No cell can fail: rows are copied, and cast later
             (tasks.data.cells). A keyed digest of the query is on record. Checked by tests/tasks/data/test_sources.py,
             and to the bit by tests/privacy/test_row_alone.py
"""

import json
import shutil
from collections.abc import Collection
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa

from concord.artifacts.errors import EnvironmentFailed, WrongInput
from concord.artifacts.home.vault import Vault, derive, hashed
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import canonical_json
from concord.artifacts.sources import TableSource
from concord.tasks.data.encode import public_features
from concord.tasks.data.files import PRIVATE, find_files
from concord.tasks.data.frames import frame_table
from concord.tasks.data.remote import Remote, reachable, rows_of_query
from concord.tasks.data.snapshots import Reading, kept, place_of
from concord.tasks.data.tables import open_public
from concord.tasks.units.guard import private_stage
from concord.tasks.units.spill import spilling

ORDER_COLUMN = "concord.order"
ORDER_PARTS = 64  # over which rows of a query are spread to be sorted; one part is in memory at a time


def not_local(plan: Plan) -> dict[str, str | TableSource]:
    """Tables of a plan that are not local files, by field."""
    tables: dict[str, Any] = {field: getattr(plan.data, field) for field in ("private", "public", "test")}
    return {field: table for field, table in tables.items() if isinstance(table, TableSource) or "://" in (table or "")}


def check_tables(plan: Plan) -> None:
    """Raise WrongInput, before any row is read, if a local table is missing or a public one lacks a column."""
    named, features = not_local(plan), plan.data.features or ()
    if "private" not in named:
        find_files(plan.path("private"), PRIVATE, plan.data.format, arriving=plan.stream is not None)
    if plan.data.public is not None and "public" not in named:
        table, features = public_features(plan)
        table.check_columns(dict.fromkeys(features, "data.features"))
    if plan.data.test is not None and "test" not in named:
        test = open_public(plan.path("test"), "data.test", plan.data.format)
        test.check_columns(dict.fromkeys([*features, plan.data.label], "data.test"))


def with_snapshots(plan: Plan, vault: Vault, *fields: str, again: bool = False) -> Plan:
    """The plan with a snapshot for each table that is not a local file, read now if there is none.

    fields  of the tables that are needed; by default all
    Raises WrongInput if there is no such table, EnvironmentFailed if it cannot be read.
    """
    read: dict[str, Any] = {}
    for field, table in not_local(plan).items():
        if not fields or field in fields:
            frame, domain = None if isinstance(table, str) else table.frame, plan.privacy.domain
            named = table if isinstance(table, str) else table.model_dump(exclude_none=True)
            key = frame or vault.digest("table", canonical_json([named, plan.data.version]))[:32]
            place = place_of(field, domain, key)
            if frame is not None and not vault.paths(place, "*"):
                place = place_of("unlabelled", domain, key)
            write = partial(read_table, table, f"data.{field}")
            read[field] = kept(vault, place, write, again=again and frame is None)
    return plan.model_copy(update={"data": plan.data.model_copy(update=read)}) if read else plan


@private_stage
def read_table(source: str | TableSource, field: str, reading: Reading) -> None:
    """Read a table that is not a local file."""
    if isinstance(source, str):
        for file in find_files(source, field):
            name = file.shown
            with reachable(name, field), reading.file(name, file.format, name) as sink, Remote(name).raw() as content:
                shutil.copyfileobj(content, sink, 1 << 24)
                if Remote(name).raw().metadata() != content.metadata():
                    raise EnvironmentFailed(f"{field}: {name} was written while it was read: run again")
    elif source.query is not None and source.connection is not None:
        _read_query(source.query, source.connection, field, reading)
    else:
        raise WrongInput(f"{field}: the frame is no longer in the vault: give it to concord.run again")


def _read_query(query: str, variable: str, field: str, reading: Reading) -> None:
    """Read a query's rows into one file, in the order of keyed digests of their cells."""
    vault, key = reading.vault, derive(reading.vault.secret("installation"), "rows of a query")
    with rows_of_query(query, variable, field) as (names, parts):
        columns = pl.Schema(dict.fromkeys(names, pl.String()))
        with spilling(vault, f"{reading.folder}/spill", pl.Schema({**columns, ORDER_COLUMN: pl.Binary()})) as spill:
            for rows in parts:
                digests = hashed((json.dumps(row).encode() for row in rows), key, b"row", 16)
                frame = pl.DataFrame(rows, schema=columns, orient="row").with_columns(pl.Series(ORDER_COLUMN, digests))
                spill.add(frame, pl.Series([digest[0] * ORDER_PARTS >> 8 for digest in digests], dtype=pl.UInt32))
            ordered = (part.sort(ORDER_COLUMN).select(names).to_arrow() for part in spill.read(ORDER_PARTS))
            schema = pa.schema([(name, pa.large_string()) for name in names])
            reading.arrow_file(f"the query of {field}", "text", schema, ordered, f"query://{variable}/{query}")


@private_stage
def keep_frame(
    frame: Any, vault: Vault, field: str, domain: str, named: Collection[str | None] | None = None
) -> TableSource:
    """Keep a frame in the vault, as a table of a plan that reads the columns `named`, or all. Raises WrongInput if it
    is not a frame."""
    table, content = frame_table(frame, f"data.{field}", named), pa.BufferOutputStream()
    with pa.ipc.new_file(content, table.schema) as writer:
        writer.write_table(table)
    key = vault.digest("frame", content.getvalue())[:32]
    name = f"the frame of data.{field}"
    write = partial(Reading.arrow_file, name=name, form="ipc", schema=table.schema, tables=[table])
    kept(vault, place_of(field, domain, key), write)
    return TableSource(frame=key)


def with_rows(plan: Plan, vault: Vault, rows: pl.DataFrame) -> Plan:
    """The plan with these public rows, drawn from its schema or synthetic, in place of a public table."""
    data = plan.data.model_copy(update={"public": keep_frame(rows, vault, "public", plan.privacy.domain)})
    return with_snapshots(plan.model_copy(update={"data": data}), vault, "public")
