"""The chain: what the ledger writes down, as lines of text each sealed by the digest of the line before.

A line's body is canonical JSON and must be, to the letter, what this version would write for what it reads: an unknown
key, another spelling of a number or a later version's entry is refused. Checked by tests/artifacts/test_chain.py.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError

from artifacts.errors import NotVerified
from artifacts.remarks import Remark
from artifacts.restoration import Restoration, Watch
from artifacts.sessions import Admission, Batch, Domain, Outcome, Recap, Settlement

GENESIS = "0" * 64
"""What the first line follows."""

Event = Domain | Recap | Remark | Restoration | Watch | Admission | Batch | Outcome | Settlement
"""Everything the ledger writes down."""

KINDS: dict[str, type[Event]] = {
    "domain": Domain,
    "recap": Recap,
    "remark": Remark,
    "restore": Restoration,
    "watch": Watch,
    "open": Admission,
    "begin": Batch,
    "commit": Outcome,
    "settle": Settlement,
}
UNSAID = [("version", "")]
"""What is left out of a body, for earlier versions did not write it, and is read as that."""
_KIND_OF = {event: kind for kind, event in KINDS.items()}
_ADAPTERS: dict[str, TypeAdapter[Any]] = {kind: TypeAdapter(event) for kind, event in KINDS.items()}


@dataclass(frozen=True, kw_only=True)
class Entry:
    """An event and whose it is; `session` is empty for what concerns the domain alone, `domain` too for all of them."""

    domain: str
    session: str = ""
    event: Event


@dataclass(frozen=True, kw_only=True)
class Line:
    """An entry as it is kept. `at` is the operator's clock and decides nothing: the order is `seq`, from 1."""

    seq: int
    at: str
    domain: str
    session: str
    kind: str
    body: str
    previous: str
    digest: str

    @classmethod
    def after(cls, head: Self | None, entry: Entry, at: str) -> Self:
        """The line of `entry` following `head`, or the first one."""
        kind = _KIND_OF[type(entry.event)]
        text = {"at": at, "domain": entry.domain, "session": entry.session, "kind": kind, "body": _text(entry.event)}
        seq, previous = _next(head)
        return cls(seq=seq, previous=previous, digest=_digest(seq, previous, **text), **text)

    def entry_after(self, head: Self | None) -> Entry:
        """What this line says. Raises NotVerified where it does not follow `head` or cannot be read."""
        text = {"at": self.at, "domain": self.domain, "session": self.session, "kind": self.kind, "body": self.body}
        try:
            chained = (self.seq, self.previous) == _next(head)
            chained = chained and self.digest == _digest(self.seq, self.previous, **text)
        except TypeError:  # a cell holds something else than text
            chained = False
        if not chained:
            raise NotVerified("it does not follow from the entries before")
        return Entry(domain=self.domain, session=self.session, event=_event(self.kind, self.body))


def _next(head: Line | None) -> tuple[int, str]:
    return (1, GENESIS) if head is None else (head.seq + 1, head.digest)


def _digest(seq: int, previous: str, *, at: str, domain: str, session: str, kind: str, body: str) -> str:
    return hashlib.sha256(json.dumps([seq, at, domain, session, kind, body, previous]).encode()).hexdigest()


def _text(event: Event) -> str:
    plain = _ADAPTERS[_KIND_OF[type(event)]].dump_python(event, mode="json")
    plain = {name: value for name, value in plain.items() if (name, value) not in UNSAID}
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _event(kind: str, body: str) -> Event:
    if kind not in KINDS:
        raise NotVerified("this version does not know its kind: go on with the version that wrote it")
    try:
        event: Event = _ADAPTERS[kind].validate_json(body)
        faithful = _text(event) == body
    except (ValidationError, ValueError):
        faithful = False
    if not faithful:
        raise NotVerified("its body is not what this version writes")
    return event
