"""The excerpt: what a ledger says of one domain's charges, to be published; the rest is committed to and hidden.

An excerpt is a small ledger of its own, in which charge, cap and admission are recomputed. It holds the entries of one
domain that decide what it is charged. Reasons, keyed digests of settings, teachers and rows, names of data versions and
all times are left out, and of other domains everything; which key serves a session is told by a commitment alone. The
batches of a session are one, since its charge follows from how many rows were asked and refused; an open session's are
left out, unless the certificate covers them.

    commitment of an entry = SHA-256(salt ‖ digest),  salt = HMAC(secret of the vault, digest)

The digest is that of the ledger's own entry, and so binds all entries up to it, hidden ones as well. The salt keeps who
has not the secret from guessing them. Between two entries any number may be hidden: neither its place in the ledger nor
how many come before it is told, since that would count private files. An excerpt ends with the last entry about a
charge, so that what is done later without one changes no byte.

Assumes      the secret is uniform and stays in the vault; SHA-256 is collision resistant, HMAC a pseudo-random function
Guarantees   the same entries give the same bytes. Two ledgers that differ anywhere up to an entry have other
             commitments to it
Not covered  hidden entries that came after the last charge: the next certificate binds them. That a domain has sessions
             which published nothing is told, with their settings, as every certificate does
             Checked by tests/artifacts/ledger/test_excerpt.py
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from concord.artifacts.domains import Recap
from concord.artifacts.errors import NotVerified
from concord.artifacts.home.vault import Vault, derive, keyed_digest
from concord.artifacts.ledger.events import Entry, Event, LogRecord, Restoration, Watch
from concord.artifacts.ledger.reading import Reading
from concord.artifacts.ledger.state import LedgerState
from concord.artifacts.parts import Division
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Admission, Batch, BatchOutcome

EXCERPT_FORMAT: Final = "concord ledger excerpt 1"
EXCERPT_FILE: Final = "ledger.json"
EXCERPT_SECRET = "excerpts"
"""The secret of the vault that hides what an excerpt commits to."""
Hide = Callable[[str], str]
"""The commitment to an entry of the ledger, by its digest."""


def hiding(vault: Vault) -> Hide:
    """How the excerpts of a home commit to its ledger."""
    key = derive(vault.secret(EXCERPT_SECRET), "excerpts")

    def commitment(digest: str) -> str:
        return hashlib.sha256(bytes.fromhex(keyed_digest(key, digest)) + digest.encode()).hexdigest()

    return commitment


class Line(BaseModel):
    """An entry of an excerpt, and the commitment to the ledger up to it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    commitment: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    domain: str
    session: str
    kind: str
    body: dict[str, Any]


class Excerpt(BaseModel):
    """Entries about the charges of one domain, in the ledger's order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["concord ledger excerpt 1"] = EXCERPT_FORMAT
    entries: tuple[Line, ...]

    @classmethod
    def of(cls, records: Sequence[LogRecord], domain: str, covered: Mapping[str, int], hide: Hide) -> "Excerpt":
        """What those records say of the domain's charges; of a session that is open, the batches that are `covered`."""
        disclosed = _disclosed(records, domain, covered)
        lines = [
            _line(record, event, hide)
            for record in records
            for event in _shown(record, domain, disclosed.get(record.seq, ()), hide)
        ]
        return cls(entries=tuple(lines))

    @classmethod
    def read(cls, text: bytes) -> "Excerpt":
        """The excerpt that a file holds. Raises NotVerified if it is none, byte by byte."""
        try:
            excerpt = cls.model_validate_json(text)
        except ValueError:
            raise NotVerified(f"{EXCERPT_FILE} is no excerpt of a ledger") from None
        if excerpt.text != text:
            raise NotVerified(f"{EXCERPT_FILE} holds other bytes than Concord writes for what it says")
        return excerpt

    @property
    def text(self) -> bytes:
        """As it is published."""
        return self.model_dump_json(indent=1).encode()

    @property
    def records(self) -> list[LogRecord]:
        """The small ledger that it is: each entry's commitment is in the place of its time."""
        head: LogRecord | None = None
        records = []
        for line in self.entries:
            body = json.dumps(line.body, sort_keys=True, separators=(",", ":"))
            head = LogRecord.following(head, line.commitment, line.domain, line.session, line.kind, body)
            records.append(head)
        return records

    @property
    def head(self) -> str:
        """The digest of the last of its records, which binds all of them. Raises NotVerified if there is none."""
        if not self.entries:
            raise NotVerified(f"{EXCERPT_FILE} has no entry")
        return self.records[-1].digest

    @property
    def reading(self) -> Reading:
        """What it adds up to. Raises NotVerified if it cannot."""
        state = LedgerState()
        for record in self.records:
            state.read(record)
        return Reading(state)

    def check_ledger(self, records: Sequence[LogRecord], hide: Hide) -> None:
        """Raise NotVerified unless that ledger holds all that this says and commits to."""
        known = {hide(record.digest): record.seq for record in records}
        domain = self.records[0].domain if self.entries else ""
        for at, line in enumerate(self.entries, 1):
            if line.commitment not in known:
                raise NotVerified(
                    f"the ledger denies entry {at} ({line.kind} {line.session or domain}) of an excerpt that was "
                    "signed, or the vault lacks the secret that it was made with"
                )
        last = known[self.entries[-1].commitment] if self.entries else 0
        disclosed = {line.session: line.body["asked"] for line in self.entries if line.kind == "commit"}
        names = {line.domain for line in self.entries if line.domain}
        if len(names) != 1 or Excerpt.of(records[:last], names.pop(), disclosed, hide) != self:
            raise NotVerified("the ledger says otherwise what an excerpt says that was signed")

    def check_later(self, later: "Excerpt") -> None:
        """Raise NotVerified unless `later`, which was made of the same ledger, holds all that this says and commits to.

        Rows of an open session may have become more, or are left out. That needs no secret and no ledger.
        """
        after = _without_rows(later)
        for at, line in enumerate(_without_rows(self)):
            if after[at : at + 1] != [line]:
                raise NotVerified(
                    f"the later excerpt denies what was signed before ({line.kind} {line.session or line.domain}), or "
                    "it is the earlier of the two, or of another domain or home"
                )
        ended, rows = {line.session for line in self.entries if line.kind == "settle"}, _rows_told(later)
        for session, (told, lines) in _rows_told(self).items():
            if session not in rows and session not in ended:
                continue
            more, others = rows.get(session, (told, []))
            fewer = any(more.get(name, 0) < count for name, count in told.items())
            if fewer or ((more == told or session in ended) and others != lines):
                raise NotVerified(f"the later excerpt denies rows of session {session} that were signed before")


def _without_rows(excerpt: Excerpt) -> list[Line]:
    """All entries but those about rows, of which the same session may have more later."""
    return [line for line in excerpt.entries if line.kind not in ("begin", "commit")]


def _rows_told(excerpt: Excerpt) -> dict[str, tuple[dict[str, int], list[Line]]]:
    """How many rows of each session are told, by what became of them, and the entries that tell it."""
    found: dict[str, tuple[dict[str, int], list[Line]]] = {}
    for line in excerpt.entries:
        if line.kind in ("begin", "commit"):
            counts, lines = found.setdefault(line.session, ({}, []))
            lines.append(line)
            for name in ("rows",) if line.kind == "begin" else ("asked", "answered", "refused"):
                counts[name] = counts.get(name, 0) + line.body[name]
    return found


def _disclosed(records: Iterable[LogRecord], domain: str, covered: Mapping[str, int]) -> dict[int, list[Event]]:
    """The batches of each session of the domain as one, at the entry that ends it; a batch that was begun and never
    committed is told if its session was settled, since its rows may have been refused."""
    asked: dict[str, list[tuple[LogRecord, Batch | BatchOutcome]]] = {}
    settled = set()
    for record in records:
        if record.domain == domain and record.kind in ("begin", "commit"):
            event = record.event
            asked.setdefault(record.session, []).append((record, event))  # type: ignore[arg-type]  # of these kinds
        settled |= {record.session} if record.kind == "settle" else set()
    found: dict[int, list[Event]] = {}
    for session, steps in asked.items():
        most = math.inf if session in settled else covered.get(session, 0)
        found |= _as_one(steps, most, pending=session in settled)
    return found


def _as_one(
    steps: Sequence[tuple[LogRecord, Batch | BatchOutcome]], most: float, *, pending: bool
) -> dict[int, list[Event]]:
    """The batches of a session, up to `most` rows asked, as one, by the entry where that ends."""
    rows, last = dict.fromkeys(("rows", "asked", "answered", "refused"), 0), 0
    begun: tuple[LogRecord, Batch] | None = None
    for record, step in steps:
        if isinstance(step, Batch):
            begun = (record, step)
        elif begun is None or rows["asked"] + step.asked > most:
            break
        else:
            now = {"rows": begun[1].rows, "asked": step.asked, "answered": step.answered, "refused": step.refused}
            rows, last, begun = {name: rows[name] + now[name] for name in rows}, record.seq, None
    found: dict[int, list[Event]] = {}
    if last:
        counts = {name: count for name, count in rows.items() if name != "rows"}
        found[last] = [_batch(0, 0, rows["rows"]), BatchOutcome(index=0, **counts, released=Ref(path="", digest=""))]
    if pending and begun is not None:
        found[begun[0].seq] = [_batch(1 if last else 0, rows["rows"], begun[1].rows)]
    return found


def _batch(index: int, first: int, rows: int) -> Batch:
    return Batch(index=index, first=first, rows=rows, rows_digest="", votes_digest="")


def _shown(record: LogRecord, domain: str, batches: Iterable[Event], hide: Hide) -> Iterator[Event]:
    """What is told of an entry: nothing if it is not about the domain's charges."""
    if record.kind in ("begin", "commit"):
        yield from batches
        return
    if record.domain not in (domain, "") or record.kind == "remark":
        return
    match record.event:
        case Recap() as event:
            yield replace(event, reason="")
        case Watch() as event:
            yield replace(event, reason="")
        case Restoration() as event:
            own = tuple(standing for standing in event.standings if standing.domain.name == domain)
            yield replace(event, witnessed=hide(event.witnessed), standings=own, reason="")
        case Admission() as event:
            yield replace(
                event,
                identity="",
                ensemble="",
                data_version="",
                commitment=hide(event.commitment),
                division=hide(event.division) if event.division else "",
            )
        case Division() as event:
            yield replace(event, commitment=hide(event.commitment))
        case event:
            yield event


def _line(record: LogRecord, event: Event, hide: Hide) -> Line:
    shown = LogRecord.after(None, Entry(domain=record.domain, session=record.session, event=event), "")
    return Line(
        commitment=hide(record.digest),
        domain=record.domain,
        session=record.session,
        kind=shown.kind,
        body=json.loads(shown.body),
    )
