"""Events: the entries of the ledger, and the chain of records that holds them.

A record is a line of text sealed by the digest of the record before. Its body is canonical JSON, and must be exactly
what this version would write for the same entry: an unknown key, another spelling of a number or a later version's
entry is refused. Besides the events of domains and sessions (artifacts.domains, artifacts.sessions) there are
restorations, and remarks, which are recorded for a domain and charge nothing:

    forgotten   a session's key, teachers and votes were destroyed; about: the session
    erased      a unit's rows, and what depended on them, were destroyed; about: a keyed digest of the unit's id
    holds       a private file was learned from; about: a digest of its real path or address, keyed by the vault that
                read it
    secret      the only secret by which a domain, or a stream of it, knows its units; about: its name in the vault, and
                a digest keyed by it; no other is ever used (tasks.door.keys)

Checked by test_chain.py and test_ledger.py in tests/artifacts/ledger.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from pydantic import TypeAdapter, ValidationError

from concord.artifacts.domains import Division, Domain, NewCap
from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.sessions import STATE, Batch, BatchOutcome, Draw, Session, Settlement

RemarkKind = Literal["forgotten", "erased", "holds", "secret"]


@dataclass(frozen=True, kw_only=True)
class Remark:
    """A fact about a domain that holds from this entry on.

    about    its subject, as a public name or a keyed digest: never a private value or a plain digest
    reason   the operator's reason, in their words; may be empty
    """

    kind: RemarkKind
    about: str
    reason: str = ""


class Remarks:
    """All remarks so far, by domain; equal remarks are kept once."""

    def __init__(self) -> None:
        self._remarks: dict[str, dict[tuple[str, str], Remark]] = {}

    def add(self, domain: str, remark: Remark) -> None:
        """Add a remark on the domain."""
        self._remarks.setdefault(domain, {})[remark.kind, remark.about] = remark

    def on(self, domain: str) -> tuple[Remark, ...]:
        """All remarks on the domain, in order."""
        return tuple(self._remarks.get(domain, {}).values())

    def has(self, domain: str, remark: Remark) -> bool:
        """Whether the domain has that remark, with whatever reason."""
        return (remark.kind, remark.about) in self._remarks.get(domain, {})

    def check_secret(self, domain: str, secret: Remark) -> None:
        """Raise NotVerified if another digest is on record under the name of the secret."""
        name, _, digest = secret.about.rpartition(" ")
        secrets = (other.about.rpartition(" ") for other in self.on(domain) if other.kind == "secret")
        if any(other == name and its != digest for other, _, its in secrets):
            raise NotVerified(
                f"the vault's secrets/{name} is not the one on record, which identifies units: restore that one"
            )

    def check_holding(self, domain: str, files: Iterable[str]) -> None:
        """Raise WrongInput if another domain holds one of the files."""
        holdings = [("holds", file) for file in files]
        for other, remarks in self._remarks.items():
            if other != domain and not remarks.keys().isdisjoint(holdings):
                raise belongs_to(other)


def belongs_to(other: str) -> WrongInput:
    """The refusal of a file of `other` as one of another domain."""
    return WrongInput(
        f"a file of data.private belongs to domain {other!r}, which counts its people already: name that domain"
    )


@dataclass(frozen=True, kw_only=True)
class Restoration:
    """A domain goes on from an older copy of its home: every open session is charged whole and closed, since the newer
    copy may have drawn on it. What was opened in the newer copy is not on record.

    reason   the operator's reason, in their words
    """

    reason: str


GENESIS = "0" * 64
"""The digest that the first record follows."""

Event = Domain | NewCap | Division | Remark | Restoration | Session | Batch | Draw | BatchOutcome | Settlement
"""Every type of event in the ledger."""

EVENT_KINDS: dict[str, type[Event]] = {
    "domain": Domain,
    "recap": NewCap,
    "divide": Division,
    "remark": Remark,
    "restore": Restoration,
    "open": Session,
    "begin": Batch,
    "draw": Draw,
    "commit": BatchOutcome,
    "settle": Settlement,
}
_KIND = {event: kind for kind, event in EVENT_KINDS.items()}
_ADAPTERS: dict[str, TypeAdapter[Any]] = {kind: TypeAdapter(event) for kind, event in EVENT_KINDS.items()}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An event with its domain and session: `session` is empty if the event is the domain's."""

    domain: str
    session: str = ""
    event: Event


@dataclass(frozen=True, kw_only=True)
class LogRecord:
    """An entry as it is stored. `at` is the operator's clock and decides nothing: the order is `seq`, from 1.

    A record without `seq`, `previous` and `digest` is a text that `following` puts into a chain.
    """

    seq: int = 0
    at: str
    domain: str
    session: str
    kind: str
    body: str
    previous: str = ""
    digest: str = ""

    @classmethod
    def after(cls, head: Self | None, entry: Entry, at: str) -> Self:
        """The record of `entry` following `head`, or the first one. Raises WrongInput if it could not be read back."""
        kind = _KIND[type(entry.event)]
        text = cls(at=at, domain=entry.domain, session=entry.session, kind=kind, body=_text(entry.event))
        record = text.following(head)
        try:
            record.entry_after(head)
        except NotVerified:
            raise WrongInput(
                f"the ledger could not read back this entry ({kind}): a text in it is no Unicode"
            ) from None
        return record

    def following(self, head: Self | None) -> Self:
        """This text as the record after `head`, or as the first one; the text is not checked."""
        seq, previous = _next(head)
        record = replace(self, seq=seq, previous=previous)
        return replace(record, digest=record.seal)

    @property
    def seal(self) -> str:
        """The digest that the record has, if none of its cells was changed. Raises TypeError if one is no text."""
        cells = [self.seq, self.at, self.domain, self.session, self.kind, self.body, self.previous]
        return hashlib.sha256(json.dumps(cells).encode()).hexdigest()

    @property
    def event(self) -> Event:
        """The event in the body, whatever the record follows. Raises NotVerified if it cannot be read."""
        return _event(self.kind, self.body)

    def entry_after(self, head: Self | None) -> Entry:
        """The entry in this record. Raises NotVerified if it does not follow `head` or cannot be read."""
        try:
            chained = (self.seq, self.previous) == _next(head) and self.digest == self.seal
        except TypeError:  # a cell holds something other than text
            chained = False
        if not chained:
            raise NotVerified("it does not follow from the entries before")
        return Entry(domain=self.domain, session=self.session, event=_event(self.kind, self.body))


def _next(head: LogRecord | None) -> tuple[int, str]:
    return (1, GENESIS) if head is None else (head.seq + 1, head.digest)


def _text(event: Event) -> str:
    later = STATE if isinstance(event, Session) else None
    plain = _ADAPTERS[_KIND[type(event)]].dump_python(event, mode="json", exclude=later)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _event(kind: str, body: str) -> Event:
    if kind not in EVENT_KINDS:
        raise NotVerified("this version does not know its kind: go on with the version that wrote it")
    try:
        event: Event = _ADAPTERS[kind].validate_json(body)
        faithful = _KIND[type(event)] == kind and _text(event) == body
    except (ValidationError, ValueError):
        faithful = False
    if not faithful:
        raise NotVerified("its body is not what this version writes: another version reads its own alone")
    return event
