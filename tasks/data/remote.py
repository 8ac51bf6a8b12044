"""Tables elsewhere: the objects of a store, the rows of a database's query.

Object stores (s3://, gs://, az://) are Arrow's own file systems; an object is read like a `pathlib.Path`.

A query's cells are converted to text by the database itself (`CAST … AS TEXT`), except bytes: a driver makes objects of
cells, and fails on some, such as dates of the year 20000. So a word depends on its cell alone, and no cell can fail.
Moments with a zone are in UTC. In SQLite each cell has a type of its own, and `word_of` writes it.

Assumes      credentials are in the environment. A query is public, as a plan is; its transaction cannot write
Guarantees   memory holds ROWS rows of a query. No error shows a database's address, a credential, a value, or the
             message of a database or a store
Not covered  a query that fails on a value, such as 1/x: a private value then ends the run. Databases other than SQLite
             and PostgreSQL with text in UTF-8: refused. gs:// and az:// except for refusals: no test server for them
             runs everywhere. Checked by tests/tasks/data/test_sources.py and test_object_store.py, and by
             tests/deployments/test_query_postgresql.py
"""

import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import quote, urlsplit

import pyarrow as pa
import pyarrow.fs
from sqlalchemy import Connection, CursorResult, create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from concord.artifacts.errors import ConcordError, EnvironmentFailed, WrongInput
from concord.artifacts.settings import check_answers, required, sqlite_file
from concord.tasks.data.identifiers import ESCAPED, word_of
from concord.tasks.data.places import PRIVATE, StoredFile

RETRY_FOR = timedelta(seconds=15)  # of each request to Google's store; by default a quarter of an hour
AWS_CODE = re.compile(r"AWS Error ([A-Z_]+)")
STAMPS = ("etag", "last-modified", "content-length")
ROWS = 1 << 12  # of a query, fetched at a time
ZONED, BYTES = 1184, 17  # PostgreSQL's numbers of the types `timestamp with time zone` and `bytea`
SYNTAX = "42"  # the class of SQLSTATE codes of queries with syntax errors or unknown names


@dataclass(frozen=True)
class Remote(StoredFile):
    """An object of a store, by its address."""

    address: str

    def raw(self) -> Any:
        store, path = _store_of(self.address)
        with _without_its_words():
            return store.open_input_file(path)

    @property
    def origins(self) -> tuple[str, ...]:
        return (self.address,)

    def write_bytes(self, content: bytes) -> None:
        """Write the object, replacing any earlier one."""
        store, path = _store_of(self.address)
        with _without_its_words(), store.open_output_stream(path) as file:
            file.write(content)

    def stamp(self) -> object:
        """The store's metadata of the object, which change if it is written again."""
        with self.raw() as file:
            return sorted((name, value) for name, value in file.metadata().items() if name.lower() in STAMPS)

    def __str__(self) -> str:
        return self.address


def objects(address: str, field: str) -> list[Remote]:
    """The object at an address, or those of the folder there, sorted by name; hidden ones do not count."""
    start = address.split("/")[: 3 if address.startswith("az://") else 2]
    with reachable(address, field), _without_its_words():
        store, path = _store_of(address)
        found = [store.get_file_info(path)]
        if found[0].type == pyarrow.fs.FileType.Directory:
            listed = store.get_file_info(pyarrow.fs.FileSelector(path, recursive=True))
            found = [item for item in listed if item.base_name[0] not in "._"]
        files = sorted(item.path for item in found if item.is_file)
    return [Remote("/".join([*start, file])) for file in files]


def _store_of(address: str) -> tuple[pyarrow.fs.FileSystem, str]:
    """The file system of an address, and the path in it: az://ACCOUNT/CONTAINER/PATH, or s3://BUCKET/PATH."""
    scheme, _, path = address.partition("://")
    bucket, _, rest = path.partition("/")
    return _store(scheme, bucket), (rest if scheme == "az" else path).rstrip("/")


@lru_cache(maxsize=8)
def _store(scheme: str, bucket: str) -> pyarrow.fs.FileSystem:
    if scheme == "gs":
        return pyarrow.fs.GcsFileSystem(retry_time_limit=RETRY_FOR)
    if scheme != "az":
        return pyarrow.fs.FileSystem.from_uri(f"{scheme}://{bucket}")[0]
    ours = os.environ.get("AZURE_STORAGE_ACCOUNT", bucket) == bucket  # a key is not sent to another account
    key, token = (os.environ.get(f"AZURE_STORAGE_{name}") if ours else None for name in ("KEY", "SAS_TOKEN"))
    signed = f"?{token.removeprefix('?')}" if token and not key else None  # Arrow appends it to addresses
    return pyarrow.fs.AzureFileSystem(bucket, account_key=key, sas_token=signed)


@contextmanager
def _without_its_words() -> Iterator[None]:
    """Context that reduces an error to its type and AWS's code: Azure's messages hold the access token."""
    try:
        yield
    except OSError as failed:
        _store.cache_clear()  # credentials may have been changed: the next try reads them again
        code = AWS_CODE.search(str(failed))
        raise type(failed)(code[0] if code else "the object store failed") from None


@contextmanager
def reachable(address: str, field: str) -> Iterator[None]:
    """Context that turns errors of a store into one sentence without its own message, which may show a secret."""
    try:
        yield
    except ConcordError:
        raise
    except FileNotFoundError:
        raise WrongInput(f"{field}: {address} does not exist") from None
    except (OSError, ValueError, pa.ArrowException) as failed:
        code = AWS_CODE.search(str(failed))
        reason = code[1].lower().replace("_", " ") if code else type(failed).__name__
    else:
        return
    raise EnvironmentFailed(f"{field}: {address} cannot be read ({reason}): credentials come from the environment")


@contextmanager
def rows_of_query(
    query: str, variable: str, field: str
) -> Iterator[tuple[list[str], Iterator[Sequence[tuple[str | None, ...]]]]]:
    """The columns of a query, and its rows as words, some at a time, read in one transaction.

    variable   environment variable with the address of the database
    Raises EnvironmentFailed if the database cannot be reached or fails, WrongInput if it rejects the query.
    """
    place = f"{field}: the database that {variable} names"
    inner = query.strip().rstrip(";")
    with _opened(variable, place) as connection:
        names, types = _described(connection, inner, field, place)
        if twice := [name for name in names if names.count(name) > 1]:
            shown = "" if field == PRIVATE else f", got {twice[0]!r} twice"  # names of a pivoted table are values
            raise WrongInput(f"{field}: the query must name each column once{shown}")
        words = [f'"{name.replace(chr(34), 2 * chr(34))}"' for name in names]
        for at, kind in enumerate(types):
            zone = " AT TIME ZONE 'UTC'" if kind == ZONED else ""
            words[at] = words[at] if kind == BYTES else f"CAST({words[at]}{zone} AS TEXT)"
        chosen = "*" if connection.dialect.name == "sqlite" else ", ".join(words)  # SQLite's casts would round
        try:
            result = _execute(connection, f"SELECT {chosen} FROM ({inner}\n) AS concord_rows")
            yield names, ([tuple(map(word_of, row)) for row in part] for part in result.partitions(ROWS))
        except ConcordError:
            raise
        except SQLAlchemyError as failed:
            kind = type(getattr(failed, "orig", failed)).__name__
        else:
            return
    raise EnvironmentFailed(f"{place} failed while the query was read ({kind}); nothing of the data is shown")


@contextmanager
def _opened(variable: str, place: str) -> Iterator[Connection]:
    """A read-only connection, in which PostgreSQL writes cells in one fixed format."""
    text = required(variable, "the address of a database, such as postgresql://USER:PASSWORD@HOST/NAME")
    try:  # both parsers must agree: one that splits a password wrongly would show half of it
        address, parts = make_url(text), urlsplit(text)
        same = (address.host or "").lower() == (parts.hostname or "") and address.port == parts.port
    except (ArgumentError, ValueError):
        address, same = None, False
    if address is None or address.get_backend_name() not in ("postgresql", "sqlite"):
        raise EnvironmentFailed(f"{place} must be postgresql://… or sqlite:///…, and is neither")
    if not same:
        raise EnvironmentFailed(f"{place} must be written with %23 for # in a password, and other signs of it likewise")
    check_answers(variable)
    encoding = "UTF8"
    try:
        connection = _engine(address).connect()
        if address.get_backend_name() == "postgresql":
            for setting in ("timezone = 'UTC'", "datestyle = 'ISO, YMD'", "extra_float_digits = 1"):
                connection.exec_driver_sql(f"SET {setting}")
            encoding = str(connection.exec_driver_sql("SHOW server_encoding").scalar())
    except (SQLAlchemyError, sqlite3.Error) as failed:
        kind = type(getattr(failed, "orig", failed)).__name__
    else:
        with connection:
            if encoding != "UTF8":
                raise EnvironmentFailed(f"{place} must hold text as UTF8, got {encoding}")
            yield connection
        return
    raise EnvironmentFailed(f"{place} cannot be opened ({kind}): check the address and the credentials")


def _engine(address: URL) -> Any:
    if address.get_backend_name() == "sqlite":
        file = sqlite_file(address.render_as_string(hide_password=False))

        def opened() -> sqlite3.Connection:
            """A database that is there, only to read it; text that is not UTF-8 is escaped."""
            connection = sqlite3.connect(f"file:{quote(str(file))}?mode=ro", uri=True, check_same_thread=False)
            connection.text_factory = lambda word: word.decode(errors=ESCAPED)
            return connection

        return create_engine("sqlite://", creator=opened, poolclass=NullPool)
    try:
        return create_engine(
            address.set(drivername="postgresql+psycopg"),
            poolclass=NullPool,
            connect_args={"connect_timeout": 10, "client_encoding": "UTF8"},
            execution_options={"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
            hide_parameters=True,
        )
    except ModuleNotFoundError:
        raise EnvironmentFailed("a query to PostgreSQL needs the extra concord[postgresql]: install it") from None


def _execute(connection: Connection, statement: str) -> CursorResult[Any]:
    """Run a statement without parameters, so that the driver interprets none of its characters. The server-side cursor
    takes a single statement, so a query cannot add others."""
    options = {"no_parameters": True, "stream_results": True, "max_row_buffer": ROWS}
    return connection.exec_driver_sql(statement, execution_options=options)


def _described(connection: Connection, query: str, field: str, place: str) -> tuple[list[str], list[Any]]:
    """The names and types of a query's columns. Raises WrongInput if the database rejects it."""
    try:
        result = _execute(connection, f"SELECT * FROM ({query}\n) AS concord_rows LIMIT 0")
        with closing(result):
            return [*result.keys()], [column[1] for column in result.cursor.description] if result.cursor else []
    except DBAPIError as failed:
        code, reason = getattr(failed.orig, "sqlstate", SYNTAX) or "", str(failed.orig).partition("\n")[0]
    if code.startswith(SYNTAX):
        raise WrongInput(f"{field}: the database does not understand the query: {reason}")
    raise EnvironmentFailed(f"{place} cannot be asked (SQLSTATE {code})")
