"""Known vulnerabilities: by which faults a guarantee of an earlier version may not hold, and when it still does.

They lie in vulnerabilities.toml, for any program to read: one entry a fault, with the first version without it; an
entry is never removed. `concord verify` says which of them concern a session, in its home and of what was published, by
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
"""The version of whatever does not say: the ledger names the version that opened a session since 0.2.0."""


def is_version(text: str) -> bool:
    """Whether a text is a version: three numbers, written in one way, so that no two names are of the same."""
    return re.fullmatch(r"(0|[1-9][0-9]{0,8})(\.(0|[1-9][0-9]{0,8})){2}", text) is not None


def older(text: str, other: str) -> bool:
    """Whether one version came before the other: three numbers each."""
    return _numbers(text) < _numbers(other)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


Scope = Literal[
    "every session", "relabelled as published, or an estimate", "units named by a column", "only labels are secret"
]


class Promised(Protocol):
    """Who is protected: a domain, or a certificate's guarantee."""

    @property
    def unit(self) -> str: ...
    @property
    def neighbours(self) -> str: ...


class Vulnerability(BaseModel):
    """A fault that may weaken a guarantee.

    name     what it is called
    fixed    the first version without it
    scope    which sessions it can concern, by what is public of them
    what     what went wrong, and what that does to the guarantee
    unless   when a certificate is not affected all the same: for who holds the private data to say
    """

    model_config = ConfigDict(frozen=True)

    name: str
    fixed: str
    scope: Scope
    what: str
    unless: str

    def concerns(self, version: str, mechanism: Mapping[str, Any], promised: Promised) -> bool:
        """Whether it can concern a session that this version opened with such settings."""
        return older(version, self.fixed) and SCOPES[self.scope](mechanism, promised)


def opening_version(session: Session) -> str:
    """The version that opened a session."""
    return session.version or WITHOUT_A_NAME


def oldest(sessions: Iterable[Session]) -> str:
    """The oldest of the versions that opened some sessions."""
    return reduce(lambda session, other: other if older(other, session) else session, map(opening_version, sessions))


def concerning(session: Session, domain: Domain) -> tuple[Vulnerability, ...]:
    """All that can concern a session of that domain."""
    return faults_of(opening_version(session), session.mechanism, domain)


def faults_of(version: str, mechanism: Mapping[str, Any], promised: Promised) -> tuple[Vulnerability, ...]:
    """All that can concern a session that this version opened, by its settings and whom it protects."""
    return tuple(each for each in VULNERABILITIES if each.concerns(version, mechanism, promised))


def _form(relabel: object) -> object:
    """How rows were relabelled, if that is said at all: settings may be those of a stranger's certificate."""
    return relabel.get("form") if isinstance(relabel, Mapping) else None


SCOPES: Mapping[Scope, Callable[[Mapping[str, Any], Promised], bool]] = {
    "every session": lambda _, __: True,
    "relabelled as published, or an estimate": lambda mechanism, _: (
        mechanism.get("name") == "error_estimate" or _form(mechanism.get("relabel")) == "published"
    ),
    "units named by a column": lambda _, promised: "all rows of one " in promised.unit,
    "only labels are secret": lambda _, promised: promised.neighbours == NEIGHBOURS["labels"],
}
"""Which sessions each scope holds, by their mechanism's settings and their domain."""

VULNERABILITIES = tuple(
    Vulnerability(**entry)
    for entry in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))["vulnerability"]
)
"""Known faults: a session of an earlier version is told of those that can concern it, and of no others."""
