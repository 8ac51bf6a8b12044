"""Sources: read a table that is not a local file once, into a snapshot whose files are used like local ones.

    s3://… gs://… az://…     the bytes of each object, as they are
    { query, connection }    the rows of a database query as words, in the order of keyed digests of their cells
    a frame of Python        its columns as they are, as an Arrow IPC file

    VAULT/tables/DOMAIN/KEY/READING/00000 …      the bytes of each file, sealed
    VAULT/tables/DOMAIN/KEY/READING/files.json   the sealed list of its files, which is written last

Public tables lie at VAULT/public/tables/KEY, and are not erased. A second reading replaces the first: a run that was
reading that one is refused, and never gets rows of both.

A query's cells are converted to text by the database itself (`CAST … AS TEXT`), except bytes: a driver makes objects of
cells, and fails on some, such as dates of the year 20000. So a word depends on its cell alone, and no cell can fail.
Moments with a zone are in UTC. In SQLite each cell has a type of its own, and `word_of` writes it.

Assumes      a plan's `[data] version` names the state of the private data: a table is read once for each of them.
             Credentials are in the environment. A query is public, as a plan is; its transaction cannot write
Guarantees   no byte leaves the vault unsealed, and nothing is read from a snapshot that was not written by this vault;
             one is complete or absent. The same rows of a query give the same bytes in any order, and their order
             reveals nothing; memory holds QUERY_ROWS of them. No cell can fail: rows are copied, and cast later
             (tasks.data.cells). A keyed digest of the query is on record. No error shows a database's address, a
             credential or a value
Not covered  a query that fails on a value, such as 1/x: a private value then ends the run.
             Checked by tests/tasks/data/test_sources.py and test_object_store.py, by
             tests/deployments/test_postgresql.py, and to the bit by tests/privacy/test_row_alone.py
"""

import json
import shutil
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, cast
from urllib.parse import quote

import polars as pl
import pyarrow as pa
from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from concord.artifacts.errors import EnvironmentFailed, NotVerified, WrongInput
from concord.artifacts.home.atomic import locked
from concord.artifacts.home.vault import Sink, Vault, derive, hashed
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import canonical_json
from concord.artifacts.settings import required, sqlite_file
from concord.artifacts.sources import TableSource
from concord.tasks.data.encode import public_features
from concord.tasks.data.files import PRIVATE, find_files
from concord.tasks.data.frames import frame_table
from concord.tasks.data.places import FILES, SCHEME, Format, Listed, Remote, SnapshotTable, reachable
from concord.tasks.data.tables import open_public
from concord.tasks.units.guard import private_stage
from concord.tasks.units.identifiers import ESCAPED, word_of
from concord.tasks.units.spill import spilling

ORDER_COLUMN = "concord.order"
ORDER_PARTS = 64
"""Parts over which the rows of a query are spread; each is sorted in memory by itself."""
QUERY_ROWS = 1 << 12
"""Rows of a query that are fetched at a time."""
ONE_FORMAT = """SELECT set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO, YMD', true),
                       set_config('extra_float_digits', '1', true), current_setting('server_encoding')"""
WORDS = {17: '"{}"', 1184: """CAST("{}" AT TIME ZONE 'UTC' AS TEXT)"""}
"""How cells of PostgreSQL become words, by type: `bytea`, `timestamp with time zone`. All others are cast."""
ASK: dict[str, Any] = {"no_parameters": True, "stream_results": True, "max_row_buffer": QUERY_ROWS}
SYNTAX = "42"  # the class of SQLSTATE codes of queries with syntax errors or unknown names


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
    snapshots, domain = dict[str, SnapshotTable](), plan.privacy.domain
    for field, table in not_local(plan).items():
        if fields and field not in fields:
            continue
        frame = None if isinstance(table, str) else table.frame
        named = table if isinstance(table, str) else table.model_dump(exclude_none=True)
        key = frame or vault.digest("table", canonical_json([named, plan.data.version]))[:32]
        place = snapshot_place(field, domain, key)
        if frame is not None and not vault.paths(place, "*"):
            place = snapshot_place("unlabelled", domain, key)
        write = partial(read_table, table, f"data.{field}")
        snapshots[field] = snapshot_at(vault, place, write, again=again and frame is None)
    return plan.model_copy(update={"data": plan.data.model_copy(update=snapshots)}) if snapshots else plan


def with_public_snapshots(plan: Plan, home: Path) -> Plan:
    """As `with_snapshots`, in that home, of the public tables alone: for what reads no private row."""
    fields = not_local(plan).keys() & {"public", "test"}
    return with_snapshots(plan, Vault(home / "vault"), *fields) if fields else plan


class SnapshotWriter:
    """A snapshot that is being written, file by file."""

    def __init__(self, vault: Vault, folder: str) -> None:
        self.vault, self.folder, self.files = vault, folder, list[Listed]()

    @contextmanager
    def file(self, name: str, form: Format, *origins: str) -> Iterator[Sink]:
        """Context with a sink for the bytes of a further file."""
        with self.vault.create(f"{self.folder}/{len(self.files):05d}") as sink:
            yield sink
        self.files.append(Listed(name=name, format=form, content=sink.ref, origins=origins))

    def arrow_file(self, name: str, form: Format, schema: pa.Schema, tables: Iterable[pa.Table], *origins: str) -> None:
        """Write a further file in Arrow's format."""
        with self.file(name, form, *origins) as sink, pa.ipc.new_file(sink, schema) as writer:
            for table in tables:
                writer.write_table(table.cast(schema), max_chunksize=1 << 16)


def snapshot_at(
    vault: Vault, place: str, write: Callable[[SnapshotWriter], None], *, again: bool = False
) -> SnapshotTable:
    """The table at a place of the vault; written by `write` if it is not there whole, or `again`.

    What was there before is removed once all is written, so that a table that cannot be read again stays as it was. Of
    two readings, which a killed run may leave, the later one counts.
    """
    name = f"{SCHEME}{vault.root.absolute()}#"
    with locked(vault.root / "locks" / f"table-{place.rpartition('/')[2]}"):
        earlier = sorted(vault.paths(place, "*"))
        for folder in () if again else reversed(earlier):
            with suppress(NotVerified, ValueError):  # ValueError: another version wrote the list
                for file, _ in (table := SnapshotTable(name + folder)).files:
                    file.raw()
                return table
        number = 1 + max((int(folder.rpartition("/")[2].partition("-")[0]) for folder in earlier), default=0)
        reading = SnapshotWriter(vault, f"{place}/{number:08d}-{token_hex(8)}")
        write(reading)
        with vault.create(f"{reading.folder}/files.json") as sink:
            sink.write(FILES.dump_json(reading.files))
        for folder in earlier:
            vault.destroy(folder)
        return SnapshotTable(name + reading.folder)


def snapshot_place(field: str, domain: str, key: str) -> str:
    """The place of a plan's table, or of its `unlabelled` rows; private ones are where erasing a unit removes them."""
    places = {"private": f"tables/{domain}/{key}", "unlabelled": f"unlabelled/{domain}/{key}"}
    return places.get(field, f"public/tables/{key}")


@private_stage
def read_table(source: str | TableSource, field: str, reading: SnapshotWriter) -> None:
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


def _read_query(query: str, variable: str, field: str, reading: SnapshotWriter) -> None:
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
    write = partial(SnapshotWriter.arrow_file, name=name, form="ipc", schema=table.schema, tables=[table])
    snapshot_at(vault, snapshot_place(field, domain, key), write)
    return TableSource(frame=key)


def with_rows(plan: Plan, vault: Vault, rows: pl.DataFrame) -> Plan:
    """The plan with these public rows, drawn from its schema or synthetic, in place of a public table."""
    data = plan.data.model_copy(update={"public": keep_frame(rows, vault, "public", plan.privacy.domain)})
    return with_snapshots(plan.model_copy(update={"data": data}), vault, "public")


@contextmanager
def rows_of_query(query: str, variable: str, field: str) -> Iterator[tuple[list[str], Iterator[list[tuple[Any, ...]]]]]:
    """The columns of a query to the database that a variable names, and its rows as words or None, some at a time.

    Raises EnvironmentFailed if the database cannot be reached or fails, WrongInput if it rejects the query.
    """
    place, rows = f"{field}: the database that {variable} names", f"({query.strip().rstrip(';')}\n) AS concord_rows"
    with _in_one_sentence(f"{place} cannot be opened with that address and those credentials"):
        connection = _engine(variable, place).connect()
    with connection, _in_one_sentence(f"{place} failed while the query was read"):
        is_postgresql, ask = connection.dialect.name == "postgresql", connection.exec_driver_sql
        if is_postgresql and (encoding := ask(ONE_FORMAT).one()[-1]) != "UTF8":
            raise EnvironmentFailed(f"{place} must hold text as UTF8, got {encoding}")
        try:
            with ask(f"SELECT * FROM {rows} LIMIT 0") as result:  # of no row, so that an error holds no value
                types = {name: kind for name, kind, *_ in cast(Any, result.cursor).description}
        except DBAPIError as failed:
            if not (getattr(failed.orig, "sqlstate", SYNTAX) or "").startswith(SYNTAX):
                raise
            reason = str(failed.orig).partition("\n")[0]
            raise WrongInput(f"{field}: the database does not understand the query: {reason}") from None
        words = [WORDS.get(kind, 'CAST("{}" AS TEXT)').format(name.replace('"', '""')) for name, kind in types.items()]
        result = ask(f"SELECT {', '.join(words) if is_postgresql else '*'} FROM {rows}")  # SQLite's casts would round
        yield [*types], ([tuple(map(word_of, row)) for row in part] for part in result.partitions(QUERY_ROWS))


@contextmanager
def _in_one_sentence(sentence: str) -> Iterator[None]:
    """Context that turns an error of a database into a sentence, outside the handler: its message may hold a value."""
    try:
        return (yield)
    except (SQLAlchemyError, sqlite3.Error) as failed:
        kind = type(getattr(failed, "orig", failed)).__name__
    raise EnvironmentFailed(f"{sentence} ({kind})")


def _engine(variable: str, place: str) -> Engine:
    """The database that a variable names, to be read only. No driver interprets a statement's characters, and the
    server-side cursor takes a single statement, so that a query cannot add others."""
    text = required(variable, "the address of a database, such as postgresql://USER:PASSWORD@HOST/NAME")
    with suppress(ArgumentError, ValueError, ModuleNotFoundError):  # the library's message may show the address
        address = make_url(text)
        if address.get_backend_name() == "sqlite":
            return create_engine("sqlite://", creator=lambda: _opened(text), poolclass=NullPool, execution_options=ASK)
        if address.get_backend_name() == "postgresql":
            return create_engine(
                address.set(drivername="postgresql+psycopg"),
                poolclass=NullPool,
                connect_args={"connect_timeout": 10, "client_encoding": "UTF8"},
                execution_options={"isolation_level": "REPEATABLE READ", "postgresql_readonly": True, **ASK},
            )
    raise EnvironmentFailed(f"{place} must be sqlite:///…, or postgresql://… with the extra concord[postgresql]")


def _opened(address: str) -> sqlite3.Connection:
    """A database that is there, only to read it; text that is not UTF-8 is escaped."""
    connection = sqlite3.connect(f"file:{quote(str(sqlite_file(address)))}?mode=ro", uri=True)
    connection.text_factory = lambda word: word.decode(errors=ESCAPED)
    return connection
