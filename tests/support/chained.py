"""Ledgers that are rewritten and chained again, so that every record follows from the one before."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from concord.artifacts.ledger.events import GENESIS, _digest


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
        previous = GENESIS
        for seq, item in enumerate(details, start=1):
            body = json.dumps(item.body, sort_keys=True, separators=(",", ":"))
            text = {"at": "then", "domain": item.domain, "session": item.session, "kind": item.kind, "body": body}
            digest = _digest(seq, previous, **text)
            database.execute(
                "INSERT INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?)", (seq, *text.values(), previous, digest)
            )
            previous = digest
        database.commit()
