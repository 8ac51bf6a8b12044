"""Tables elsewhere: the objects of a store, by Arrow's own file systems, and the rows of a database's query.

A query's cells are converted to text by the database itself (`CAST … AS TEXT`), except bytes: a driver makes objects of
cells, and fails on some, such as dates of the year 20000. So a word depends on its cell alone, and no cell can fail.
Moments with a zone are in UTC. In SQLite each cell has a type of its own, and `word_of` writes it.

Assumes      credentials are in the environment. A query is public, as a plan is; its transaction cannot write
Guarantees   memory holds ROWS rows of a query. No error shows a database's address, a credential or a value
Not covered  a query that fails on a value, such as 1/x: a private value then ends the run. gs:// and az:// except for
             refusals: no test server for them runs everywhere. Checked by tests/tasks/data/test_sources.py and
             test_object_store.py, and by tests/deployments/test_query_postgresql.py
"""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import lru_cache
from typing import Any, cast
from urllib.parse import quote

import pyarrow as pa
import pyarrow.fs
from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from concord.artifacts.errors import EnvironmentFailed, WrongInput
from concord.artifacts.settings import required, sqlite_file
from concord.tasks.data.places import StoredFile
from concord.tasks.units.identifiers import ESCAPED, word_of

RETRY_FOR = timedelta(seconds=15)  # of each request to Google's store; by default a quarter of an hour
ROWS = 1 << 12  # of a query, fetched at a time
ONE_FORMAT = """SELECT set_config('timezone', 'UTC', true), set_config('datestyle', 'ISO, YMD', true),
                       set_config('extra_float_digits', '1', true), current_setting('server_encoding')"""
WORDS = {17: '"{}"', 1184: """CAST("{}" AT TIME ZONE 'UTC' AS TEXT)"""}
"""How cells of PostgreSQL become words, by type: `bytea`, `timestamp with time zone`. All others are cast."""
ASK: dict[str, Any] = {"no_parameters": True, "stream_results": True, "max_row_buffer": ROWS}
SYNTAX = "42"  # the class of SQLSTATE codes of queries with syntax errors or unknown names


class Remote(StoredFile):
    """An object of a store, by its address."""

    def __init__(self, address: str) -> None:
        super().__init__(address, (address,))

    def raw(self) -> pa.NativeFile:
        store, path = _store_of(self.name)
        return store.open_input_file(path)

    def write_bytes(self, content: bytes) -> None:
        """Write the object, replacing any earlier one."""
        store, path = _store_of(self.name)
        with store.open_output_stream(path) as file:
            file.write(content)


def objects(address: str, field: str) -> list[Remote]:
    """The object at an address, or those of the folder there, sorted by name; hidden ones do not count."""
    start = address.split("/")[: 3 if address.startswith("az://") else 2]
    with reachable(address, field):
        store, path = _store_of(address)
        found = [store.get_file_info(path)]
        if found[0].type == pyarrow.fs.FileType.Directory:
            listed = store.get_file_info(pyarrow.fs.FileSelector(path, recursive=True))
            found = [item for item in listed if item.base_name[0] not in "._"]
    return [Remote("/".join([*start, file])) for file in sorted(item.path for item in found if item.is_file)]


def _store_of(address: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """The file system of an address, and the path in it: az://ACCOUNT/CONTAINER/PATH, or s3://BUCKET/PATH."""
    scheme, _, path = address.partition("://")
    bucket, _, rest = path.partition("/")
    return _store(scheme, bucket), (rest if scheme == "az" else path).rstrip("/")


@lru_cache(maxsize=8)
def _store(scheme: str, bucket: str) -> pyarrow.fs.FileSystem:
    if scheme == "gs":
        return pyarrow.fs.GcsFileSystem(retry_time_limit=RETRY_FOR)
    return pyarrow.fs.AzureFileSystem(bucket) if scheme == "az" else pyarrow.fs.FileSystem.from_uri(f"s3://{bucket}")[0]


@contextmanager
def reachable(address: str, field: str) -> Iterator[None]:
    """Context that turns errors of a store into one sentence, which holds only AWS's code of its own message."""
    try:
        yield
    except FileNotFoundError:
        raise WrongInput(f"{field}: {address} does not exist") from None
    except (OSError, ValueError, pa.ArrowException) as failed:
        _store.cache_clear()  # credentials may have been changed: the next try reads them again
        code = re.search("AWS Error ([A-Z_]+)", str(failed))
        reason = code[1].lower().replace("_", " ") if code else type(failed).__name__
        rule = f"cannot be read ({reason}): credentials come from the environment"
        raise EnvironmentFailed(f"{field}: {address} {rule}") from None


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
            with ask(f"SELECT * FROM {rows} LIMIT 0") as result:  # of no row, so that its error holds no value
                types = {name: kind for name, kind, *_ in cast(Any, result.cursor).description}
        except DBAPIError as failed:
            if not (getattr(failed.orig, "sqlstate", SYNTAX) or "").startswith(SYNTAX):
                raise
            reason = str(failed.orig).partition("\n")[0]
            raise WrongInput(f"{field}: the database does not understand the query: {reason}") from None
        words = [WORDS.get(kind, 'CAST("{}" AS TEXT)').format(name.replace('"', '""')) for name, kind in types.items()]
        result = ask(f"SELECT {', '.join(words) if is_postgresql else '*'} FROM {rows}")  # SQLite's casts would round
        yield [*types], ([tuple(map(word_of, row)) for row in part] for part in result.partitions(ROWS))


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
    with suppress(ArgumentError, ValueError, ModuleNotFoundError):  # no address: a message may show it
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
