"""The excerpt: the published part of a ledger, with one domain's charges; the rest is committed to and hidden.

An excerpt is a small ledger of its own, in which charge, cap and admission can be recomputed. It holds the entries that
decide what one domain is charged. It leaves out reasons, keyed digests of settings, teachers and rows, names of data
versions, the rule by which units are named (columns, and the format of files), all times, and everything of other
domains; a session's key appears only as a commitment. The batches of a session are merged into one, since the charge
depends only on how many rows were asked and refused; those of an open session are left out, unless the certificate
covers them.

    commitment of an entry = SHA-256(salt ‖ digest),  salt = HMAC(secret of the vault, digest)

The digest is that of the ledger's own entry, and so binds all entries up to it, hidden ones as well. The salt keeps
anyone without the secret from guessing them. Between two entries any number may be hidden: neither an entry's place in
the ledger nor how many precede it is shown, since that would count private files. An excerpt ends with the last entry
about a charge, so that later entries without one change no byte.

Assumes      the secret is uniform and stays in the vault; SHA-256 is collision resistant, HMAC a pseudo-random function
Guarantees   the same entries give the same bytes. Two ledgers that differ anywhere up to an entry have different
             commitments to it
Not covered  hidden entries after the last charge: the next certificate binds them. Sessions of the domain that
             published nothing are shown with their settings, as in every certificate
             Checked by tests/artifacts/ledger/test_excerpt.py
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from concord.artifacts.domains import Division, NewCap
from concord.artifacts.errors import NotVerified
from concord.artifacts.home.vault import Vault, derive, keyed_digest
from concord.artifacts.ledger.events import Entry, Event, LogRecord, Restoration
from concord.artifacts.ledger.reading import Reading
from concord.artifacts.ledger.state import LedgerState
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Batch, BatchOutcome, Session

EXCERPT_FORMAT: Final = "concord ledger excerpt 2"
EXCERPT_FILE: Final = "ledger.json"
EXCERPT_SECRET = "excerpts"
"""The vault's secret for the salts of an excerpt's commitments."""
Hide = Callable[[str], str]
"""Maps the digest of a ledger's entry to the commitment to it."""


def hiding(home: Path) -> Hide:
    """The commitment function of a home's excerpts, salted by the vault's secret."""
    key = derive(Vault(home / "vault").make_secret(EXCERPT_SECRET), "excerpts")

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

    format: Literal["concord ledger excerpt 2"] = EXCERPT_FORMAT
    entries: tuple[Line, ...]

    @classmethod
    def of(cls, records: Sequence[LogRecord], domain: str, covered: Mapping[str, int], hide: Hide) -> "Excerpt":
        """The excerpt of those records for `domain`.

        covered   of each open session, by id: how many rows asked the certificate covers
        """
        disclosed, lines = _disclosed(records, domain, covered), list[Line]()
        for record in records:
            at = {"commitment": hide(record.digest), "domain": record.domain, "session": record.session}
            for event in _shown(record, domain, disclosed.get(record.seq, ()), hide):
                shown = LogRecord.after(None, Entry(domain=record.domain, session=record.session, event=event), "")
                lines.append(Line(**at, kind=shown.kind, body=json.loads(shown.body)))
        return cls(entries=tuple(lines))

    @classmethod
    def read(cls, text: bytes) -> "Excerpt":
        """Parse a published excerpt. Raises NotVerified unless writing it again gives the same bytes."""
        try:
            excerpt = cls.model_validate_json(text)
        except ValueError:
            raise NotVerified(f"{EXCERPT_FILE} is no excerpt of a ledger") from None
        if excerpt.text != text:
            raise NotVerified(f"{EXCERPT_FILE} holds other bytes than Concord writes for this content")
        return excerpt

    @property
    def text(self) -> bytes:
        """The bytes that are published."""
        return self.model_dump_json(indent=1).encode()

    @property
    def records(self) -> list[LogRecord]:
        """The entries as records of a small ledger, with each commitment in the field of the time."""
        head: LogRecord | None = None
        records = []
        for line in self.entries:
            body = json.dumps(line.body, sort_keys=True, separators=(",", ":"))
            text = LogRecord(at=line.commitment, domain=line.domain, session=line.session, kind=line.kind, body=body)
            head = text.following(head)
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
        """The state that the entries add up to. Raises NotVerified if one cannot follow those before."""
        state = LedgerState()
        for record in self.records:
            state.read(record)
        return Reading(state)

    def check_ledger(self, records: Sequence[LogRecord], hide: Hide) -> None:
        """Raise NotVerified unless the ledger holds every entry and commitment of this excerpt."""
        places = {hide(record.digest): record.seq for record in records}
        domain = self.records[0].domain if self.entries else ""
        for at, line in enumerate(self.entries, 1):
            if line.commitment not in places:
                raise NotVerified(
                    f"the ledger denies entry {at} ({line.kind} {line.session or domain}) of an excerpt that was "
                    "signed, or the vault lacks the secret that it was made with"
                )
        last = places[self.entries[-1].commitment] if self.entries else 0
        disclosed = {line.session: line.body["asked"] for line in self.entries if line.kind == "commit"}
        names = {line.domain for line in self.entries}
        if len(names) != 1 or Excerpt.of(records[:last], names.pop(), disclosed, hide) != self:
            raise NotVerified("the ledger contradicts a signed excerpt")

    def check_later(self, later: "Excerpt") -> None:
        """Raise NotVerified unless `later`, of the same ledger, holds all entries and commitments of this excerpt.

        The rows of an open session may have grown, or be left out. The check needs neither secret nor ledger.
        """
        before, after = (
            [line for line in excerpt.entries if line.kind not in ("begin", "commit")] for excerpt in (self, later)
        )
        for at, line in enumerate(before):
            if after[at : at + 1] != [line]:
                raise NotVerified(
                    f"the later excerpt denies what was signed before ({line.kind} {line.session or line.domain}), or "
                    "it is the earlier of the two, or of another domain or home"
                )
        ended, rows = {line.session for line in self.entries if line.kind == "settle"}, _rows_disclosed(later)
        for session, (signed, lines) in _rows_disclosed(self).items():
            if session not in rows and session not in ended:
                continue
            more, others = rows.get(session, (signed, []))
            fewer = any(more.get(name, 0) < count for name, count in signed.items())
            if fewer or ((more == signed or session in ended) and others != lines):
                raise NotVerified(f"the later excerpt denies rows of session {session} that were signed before")


def _rows_disclosed(excerpt: Excerpt) -> dict[str, tuple[dict[str, int], list[Line]]]:
    """For each session: how many rows are shown by outcome, and the entries that show them."""
    disclosed: dict[str, tuple[dict[str, int], list[Line]]] = {}
    for line in excerpt.entries:
        if line.kind in ("begin", "commit"):
            counts, lines = disclosed.setdefault(line.session, ({}, []))
            lines.append(line)
            for name in ("rows",) if line.kind == "begin" else ("asked", "answered", "refused"):
                counts[name] = counts.get(name, 0) + line.body[name]
    return disclosed


def _disclosed(records: Iterable[LogRecord], domain: str, covered: Mapping[str, int]) -> dict[int, list[Event]]:
    """The batches of each session of the domain merged into one, at the entry that ends it: of an open session, up to
    the rows that are covered. A batch that was begun and never committed is shown if its session was settled, since its
    rows may have been refused."""
    by_session: dict[str, list[tuple[int, Event]]] = {}
    settled = set()
    for record in records:
        if record.domain == domain and record.kind in ("begin", "commit"):
            by_session.setdefault(record.session, []).append((record.seq, record.event))
        settled |= {record.session} if record.kind == "settle" else set()
    disclosed: dict[int, list[Event]] = {}
    for session, steps in by_session.items():
        most = math.inf if session in settled else covered.get(session, 0)
        rows, counts, last = 0, dict.fromkeys(("asked", "answered", "refused"), 0), 0
        pending: tuple[int, Batch] | None = None
        for seq, step in steps:
            if isinstance(step, Batch):
                pending = seq, step
            elif not isinstance(step, BatchOutcome) or pending is None or counts["asked"] + step.asked > most:
                break
            else:
                counts = {name: count + getattr(step, name) for name, count in counts.items()}
                rows, last, pending = rows + pending[1].rows, seq, None
        if last:
            outcome = BatchOutcome(index=0, **counts, released=Ref(path="", digest=""))
            disclosed[last] = [_batch(0, 0, rows), outcome]
        if session in settled and pending is not None:
            disclosed[pending[0]] = [_batch(1 if last else 0, rows, pending[1].rows)]
    return disclosed


def _batch(index: int, first: int, rows: int) -> Batch:
    return Batch(index=index, first=first, rows=rows, question_digest="", exact_digest="")


def _shown(record: LogRecord, domain: str, batches: Iterable[Event], hide: Hide) -> Iterator[Event]:
    """The published events for an entry: none if it is not about the domain's charges."""
    if record.kind in ("begin", "commit"):
        yield from batches
        return
    if record.domain != domain or record.kind in ("remark", "draw"):
        return
    match record.event:
        case NewCap() | Restoration() as event:
            yield replace(event, reason="")
        case Session() as event:
            yield replace(
                event,
                identity="",
                ensemble="",
                data_version="",
                commitment=hide(event.commitment),
                division=hide(event.division) if event.division else "",
            )
        case Division() as event:
            yield replace(event, commitment=hide(event.commitment), naming="")
        case event:
            yield event
