"""Ledgers that are rewritten and chained again, so that every record follows from the one before."""

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from tests.world import LogRecord


@dataclass
class Said:
    """The texts of a record, to be changed."""

    domain: str
    session: str
    kind: str
    body: dict[str, Any]


@contextmanager
def database(home: Path) -> Iterator[sqlite3.Connection]:
    """The database of a home's ledger; what is changed in it is committed."""
    with closing(sqlite3.connect(home / "ledger.db")) as connection:
        yield connection
        connection.commit()


def rewrite(home: Path, change: Callable[[list[Said]], object]) -> None:
    """Change the records of a home's ledger, and chain them again."""
    with database(home) as entries:
        read = entries.execute("SELECT domain, session, kind, body FROM entries ORDER BY seq").fetchall()
        details = [Said(domain, session, kind, json.loads(body)) for domain, session, kind, body in read]
        change(details)
        entries.execute("DELETE FROM entries")
        head: LogRecord | None = None
        for item in details:
            body = json.dumps(item.body, sort_keys=True, separators=(",", ":"))
            text = LogRecord(at="then", domain=item.domain, session=item.session, kind=item.kind, body=body)
            head = text.following(head)
            entries.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?)", astuple(head))
