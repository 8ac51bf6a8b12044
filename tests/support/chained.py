"""Ledgers that are rewritten and chained again, so that every record follows from the one before."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from concord.artifacts.ledger.events import LogRecord


@dataclass
class Said:
    """The texts of a record, to be changed."""

    domain: str
    session: str
    kind: str
    body: dict[str, Any]


def rewrite(home: Path, change: Callable[[list[Said]], object]) -> None:
    """Change the records of a home's ledger, and chain them again."""
    with closing(sqlite3.connect(home / "ledger.db")) as database:
        read = database.execute("SELECT domain, session, kind, body FROM entries ORDER BY seq").fetchall()
        details = [Said(domain, session, kind, json.loads(body)) for domain, session, kind, body in read]
        change(details)
        database.execute("DELETE FROM entries")
        head: LogRecord | None = None
        for item in details:
            body = json.dumps(item.body, sort_keys=True, separators=(",", ":"))
            text = LogRecord(at="then", domain=item.domain, session=item.session, kind=item.kind, body=body)
            head = text.following(head)
            database.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?)", astuple(head))
        database.commit()
