"""Known vulnerabilities: faults by which a guarantee of an earlier version may not hold, and when it still does.

They are in vulnerabilities.toml, for any program to read: one entry per fault, with the first version without it; an
entry is never removed. `concord verify` lists those that can concern a session, in its home or a published folder, by
the version that opened it: that version assigned its rows, trained its teachers and fixed how it draws. Checked by
tests/artifacts/test_vulnerabilities.py.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict

from concord.artifacts.domains import Domain
from concord.artifacts.sessions import NEIGHBOURS, Session

WITHOUT_A_NAME = "0.1.0"
"""The version of a session that names none: the ledger has recorded the opening version since 0.2.0."""


def is_version(text: str) -> bool:
    """Whether a text is a version: three numbers, written so that no version has two names."""
    return re.fullmatch(r"(0|[1-9][0-9]{0,8})(\.(0|[1-9][0-9]{0,8})){2}", text) is not None


def older(text: str, other: str) -> bool:
    """Whether version `text` came before `other`; three numbers each."""
    return _numbers(text) < _numbers(other)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


Scope = Literal[
    "every session", "relabelled as published, or an estimate", "units named by a column", "only labels are secret"
]


class Promised(Protocol):
    """Whose protection a session promises: a domain, or a certificate's guarantee."""

    @property
    def unit(self) -> str: ...
    @property
    def neighbours(self) -> str: ...


class Vulnerability(BaseModel):
    """A fault that may weaken a guarantee.

    name     its name
    fixed    the first version without it
    scope    which sessions it can concern, by their public settings
    what     what went wrong, and the effect on the guarantee
    unless   when a certificate is not affected after all; only the holder of the private data can tell
    """

    model_config = ConfigDict(frozen=True)

    name: str
    fixed: str
    scope: Scope
    what: str
    unless: str

    def concerns(self, version: str, mechanism: Mapping[str, Any], promised: Promised) -> bool:
        """Whether the fault can concern a session that this version opened with those settings."""
        return older(version, self.fixed) and SCOPES[self.scope](mechanism, promised)


def opening_version(session: Session) -> str:
    """The version that opened a session."""
    return session.version or WITHOUT_A_NAME


def oldest(sessions: Iterable[Session]) -> str:
    """The oldest version that opened one of those sessions."""
    return reduce(lambda session, other: other if older(other, session) else session, map(opening_version, sessions))


def concerning(session: Session, domain: Domain) -> tuple[Vulnerability, ...]:
    """All known faults that can concern a session of that domain."""
    return faults_of(opening_version(session), session.mechanism, domain)


def faults_of(version: str, mechanism: Mapping[str, Any], promised: Promised) -> tuple[Vulnerability, ...]:
    """All known faults that can concern a session opened by this version, by its settings and whom it protects."""
    return tuple(each for each in VULNERABILITIES if each.concerns(version, mechanism, promised))


def _form(relabel: object) -> object:
    """The form of relabelling, if the settings have one: they may come from a stranger's certificate."""
    return relabel.get("form") if isinstance(relabel, Mapping) else None


SCOPES: Mapping[Scope, Callable[[Mapping[str, Any], Promised], bool]] = {
    "every session": lambda _, __: True,
    "relabelled as published, or an estimate": lambda mechanism, _: (
        mechanism.get("name") == "error_estimate" or _form(mechanism.get("relabel")) == "published"
    ),
    "units named by a column": lambda _, promised: "all rows of one " in promised.unit,
    "only labels are secret": lambda _, promised: promised.neighbours == NEIGHBOURS["labels"],
}
"""For each scope, the test whether a session is in it, by its mechanism's settings and its domain."""

VULNERABILITIES = tuple(
    Vulnerability(**entry)
    for entry in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["vulnerability"]
)
"""All known faults."""
