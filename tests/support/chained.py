"""Ledgers that are rewritten and chained again, so that every record follows from the one before."""

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

from tests.world import Entry, Event, LedgerState, LogRecord


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


def lines(home: Path) -> list[LogRecord]:
    """Every line of a home's ledger."""
    with database(home) as entries:
        entries.row_factory = sqlite3.Row
        return [LogRecord(**dict(row)) for row in entries.execute("SELECT * FROM entries ORDER BY seq")]


def read(chain: list[LogRecord]) -> LedgerState:
    """What a chain of lines says, each checked."""
    state = LedgerState()
    for line in chain:
        state.read(line)
    return state


def forged(chain: list[LogRecord], event: Event, domain: str = "census", session: str = "two") -> LogRecord:
    """A line that chains, as somebody who may write the database could make it."""
    return LogRecord.after(
        chain[-1], Entry(domain=domain, session=session, event=event), at="2030-01-01T00:00:00+00:00"
    )


def rechained(line: LogRecord, **changes: str) -> LogRecord:
    """The line with other cells and a digest that fits them, computed as the format says and not by the code."""
    new = {**asdict(line), **changes}
    cells = [new[column] for column in ("seq", "at", "domain", "session", "kind", "body", "previous")]
    return LogRecord(**{**new, "digest": hashlib.sha256(json.dumps(cells).encode()).hexdigest()})
