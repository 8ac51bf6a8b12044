"""Databases: the rows of a query, as words, a few at a time.

The database itself converts cells to text (`CAST … AS TEXT`), except bytes: a driver makes objects of cells, and fails
on some, such as dates of the year 20000. So the result depends on the cell alone, and no cell can fail. Moments with a
zone are converted to UTC. SQLite's columns have no types to cast: each cell has its own, and `word_of` writes it.

Assumes      the query is public, as a plan is, and only reads: it is run in a transaction that cannot write
Guarantees   memory holds ROWS rows; no error shows the address, a value, or the database's own message
Not covered  a query that fails on a value, such as 1/x: a private value then ends the run. Databases other than
             PostgreSQL, whose text must be UTF-8, and SQLite: refused. Checked by tests/tasks/data/test_sources.py
             and tests/deployments/test_query_postgresql.py
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote, urlsplit

from sqlalchemy import Connection, CursorResult, create_engine
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from concord.artifacts.errors import ConcordError, EnvironmentFailed, WrongInput
from concord.artifacts.settings import check_answers, required, sqlite_file
from concord.tasks.data.files import PRIVATE
from concord.tasks.data.frames import word_of
from concord.tasks.data.identifiers import ESCAPED

ROWS = 1 << 12
"""Rows fetched at a time."""
ZONED, BYTES = 1184, 17
"""PostgreSQL's numbers of the types `timestamp with time zone` and `bytea`."""
UTF8 = "UTF8"
CONNECT_SECONDS = 10
"""Seconds until a connection attempt fails."""
SYNTAX = "42"
"""Class of SQLSTATE codes of queries with syntax errors or unknown names."""
Words = tuple[str | None, ...]


@contextmanager
def rows_of_query(query: str, variable: str, field: str) -> Iterator[tuple[list[str], Iterator[Sequence[Words]]]]:
    """The columns of a query, and its rows as words, some at a time, read in one transaction.

    variable   environment variable with the address of the database
    Raises EnvironmentFailed if the database cannot be reached or fails, WrongInput if it rejects the query.
    """
    place = f"{field}: the database that {variable} names"
    inner = query.strip().rstrip(";")
    with _opened(variable, place) as connection:
        with _understood(field, place):
            described = _execute(connection, f"SELECT * FROM ({inner}\n) AS concord_rows LIMIT 0", streamed=True)
            names = list(described.keys())
            types = [column[1] for column in described.cursor.description] if described.cursor else []
            described.close()
        if twice := [name for name in names if names.count(name) > 1]:
            shown = "" if field == PRIVATE else f", got {twice[0]!r} twice"  # as of a pivoted table: names are values
            raise WrongInput(f"{field}: the query must name each column once{shown}")
        try:
            columns = _cast(connection, names, types)
            result = _execute(connection, f"SELECT {columns} FROM ({inner}\n) AS concord_rows", streamed=True)
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
    address = _address(variable, place)
    check_answers(variable)
    try:
        connection = _engine(address).connect()
        encoding = _settled(connection) if address.get_backend_name() == "postgresql" else UTF8
    except (SQLAlchemyError, sqlite3.Error) as failed:
        kind = type(getattr(failed, "orig", failed)).__name__
    else:
        with connection:
            if encoding != UTF8:
                raise EnvironmentFailed(f"{place} must hold text as {UTF8}, got {encoding}")
            yield connection
        return
    raise EnvironmentFailed(f"{place} cannot be opened ({kind}): is the address right, and are we let in?")


def _address(variable: str, place: str) -> URL:
    """The address, if both parsers agree on it: one that splits a password wrongly would show half of it."""
    text = required(variable, "the address of a database, such as postgresql://USER:PASSWORD@HOST/NAME")
    try:
        address, parts = make_url(text), urlsplit(text)
        same = (address.host or "").lower() == (parts.hostname or "") and address.port == parts.port
    except (ArgumentError, ValueError):
        address, same = None, False
    if address is None or address.get_backend_name() not in ("postgresql", "sqlite"):
        raise EnvironmentFailed(f"{place} must be postgresql://… or sqlite:///…, and is neither")
    if not same:
        raise EnvironmentFailed(f"{place} must be written with %23 for # in a password, and other signs of it likewise")
    return address


def _engine(address: URL) -> Any:
    if address.get_backend_name() == "sqlite":
        file = sqlite_file(address.render_as_string(hide_password=False))
        return create_engine("sqlite://", creator=lambda: _sqlite(str(file)), poolclass=NullPool)
    try:
        return create_engine(
            address.set(drivername="postgresql+psycopg"),
            poolclass=NullPool,
            connect_args={"connect_timeout": CONNECT_SECONDS, "client_encoding": UTF8},
            execution_options={"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
            hide_parameters=True,
        )
    except ModuleNotFoundError:
        raise EnvironmentFailed("a query to PostgreSQL needs the extra concord[postgresql]: install it") from None


def _sqlite(file: str) -> sqlite3.Connection:
    """Open a database that is there, to read it; text that is not UTF-8 is escaped."""
    connection = sqlite3.connect(f"file:{quote(file)}?mode=ro", uri=True, check_same_thread=False)
    connection.text_factory = lambda word: word.decode(errors=ESCAPED)
    return connection


def _settled(connection: Connection) -> str:
    """Set how PostgreSQL writes cells; returns the encoding of its text."""
    for setting in ("timezone = 'UTC'", "datestyle = 'ISO, YMD'", "extra_float_digits = 1"):
        _execute(connection, f"SET {setting}")
    return str(_execute(connection, "SHOW server_encoding").scalar())


def _cast(connection: Connection, names: Sequence[str], types: Sequence[Any]) -> str:
    """Expressions of all columns as words; bytes as they are, and all columns of SQLite, since its casts round."""
    if connection.dialect.name == "sqlite":
        return "*"
    quoted = ['"' + name.replace('"', '""') + '"' for name in names]
    return ", ".join(_as_words(name, kind) for name, kind in zip(quoted, types, strict=True))


def _as_words(name: str, kind: Any) -> str:
    zone = " AT TIME ZONE 'UTC'" if kind == ZONED else ""
    return name if kind == BYTES else f"CAST({name}{zone} AS TEXT)"


def _execute(connection: Connection, statement: str, *, streamed: bool = False) -> CursorResult[Any]:
    """Run a statement without parameters, so that the driver interprets none of its characters.

    streamed   use a cursor of the server, which takes a single statement, so that a query cannot add others
    """
    options = {"no_parameters": True, "stream_results": streamed, "max_row_buffer": ROWS}
    return connection.exec_driver_sql(statement, execution_options=options)


@contextmanager
def _understood(field: str, place: str) -> Iterator[None]:
    """Context that turns a database's rejection of a query, before any row was read, into WrongInput."""
    try:
        yield
    except DBAPIError as failed:
        code, reason = getattr(failed.orig, "sqlstate", SYNTAX) or "", str(failed.orig).partition("\n")[0]
    else:
        return
    if code.startswith(SYNTAX):
        raise WrongInput(f"{field}: the database does not understand the query: {reason}") from None
    raise EnvironmentFailed(f"{place} cannot be asked (SQLSTATE {code})") from None
