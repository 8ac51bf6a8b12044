"""Addresses of SQLite databases, as SQLAlchemy and those that build on it (Prefect, MLflow) read them.

In an address a `?` begins options, and nothing stands for it in a plain path. Only SQLite's own file addresses can name
such a file, with all that is not plain written in per cent.
"""

from pathlib import Path
from urllib.parse import quote, unquote


def sqlite_address(file: Path, driver: str = "") -> str:
    """The address of a database file, by an absolute path; `driver` where it is not the usual one."""
    if "?" not in str(file):
        return f"sqlite{driver and '+'}{driver}:///{file}"
    return f"sqlite+{driver or 'pysqlite'}:///file:{quote(str(file))}?uri=true"


def sqlite_file(address: str) -> Path | None:
    """The database file that an address means, where it is SQLite's."""
    kind, _, place = address.partition(":///")
    database, _, options = place.partition("?")
    if kind.partition("+")[0] != "sqlite" or not database:
        return None
    if database.startswith("file:") and "uri=true" in options.split("&"):
        return Path(unquote(database.removeprefix("file:")))
    return Path(database)
