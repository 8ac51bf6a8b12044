"""Known vulnerabilities: faults by which a guarantee of a released version may not hold, and when it still does.

They are in vulnerabilities.toml, for any program to read: one entry per fault, with the first version without it, which
is the version that adds the entry; an entry is never removed. A fault is listed if a guarantee may not hold because of
it, or if something private may have been seen, in a version that was released; not if a guarantee is only stronger than
it says. `concord verify` lists those that can concern a session, in its home or a published folder, by the version that
opened it: that version assigned its rows, trained its teachers and fixed how it draws. Checked by
tests/artifacts/test_vulnerabilities.py.
"""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from pathlib import Path
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict

from concord.artifacts.domains import Domain
from concord.artifacts.sessions import Session


def is_version(text: str) -> bool:
    """Whether a text is a version: three numbers, written so that no version has two names."""
    return re.fullmatch(r"(0|[1-9][0-9]{0,8})(\.(0|[1-9][0-9]{0,8})){2}", text) is not None


def older(text: str, other: str) -> bool:
    """Whether version `text` came before `other`; three numbers each."""
    return _numbers(text) < _numbers(other)


def _numbers(version: str) -> tuple[int, ...]:
    """The numbers of a version; empty for any other text, which therefore counts as the oldest."""
    return tuple(int(part) for part in version.split(".")) if is_version(version) else ()


Scope = Literal["every session", "units named by a column", "only labels are secret"]


class Promised(Protocol):
    """Whose protection a session promises: a domain, or a certificate's guarantee."""

    @property
    def unit(self) -> str: ...
    @property
    def labels_only(self) -> bool: ...


class Vulnerability(BaseModel):
    """A fault that may weaken a guarantee.

    name     its name
    fixed    the first version without it
    scope    which sessions it can concern
    what     what went wrong, and the effect on the guarantee
    unless   when a certificate is not affected after all; only the holder of the private data can tell
    """

    model_config = ConfigDict(frozen=True)

    name: str
    fixed: str
    scope: Scope
    what: str
    unless: str

    def concerns(self, version: str, promised: Promised) -> bool:
        """Whether the fault can concern a session that this version opened."""
        return older(version, self.fixed) and SCOPES[self.scope](promised)


def oldest(sessions: Iterable[Session]) -> str:
    """The oldest version that opened one of those sessions."""
    versions = (session.version for session in sessions)
    return reduce(lambda version, other: other if older(other, version) else version, versions)


def concerning(session: Session, domain: Domain) -> tuple[Vulnerability, ...]:
    """All known faults that can concern a session of that domain."""
    return faults_of(session.version, domain)


def faults_of(version: str, promised: Promised) -> tuple[Vulnerability, ...]:
    """All known faults that can concern a session opened by this version, by whom it protects."""
    return tuple(each for each in VULNERABILITIES if each.concerns(version, promised))


SCOPES: Mapping[Scope, Callable[[Promised], bool]] = {
    "every session": lambda _: True,
    "units named by a column": lambda promised: "all rows of one " in promised.unit,
    "only labels are secret": lambda promised: promised.labels_only,
}
"""For each scope, the test whether a session of a domain is in it."""


def listed(file: Path) -> tuple[Vulnerability, ...]:
    """The faults in a list."""
    entries = tomllib.loads(file.read_text(encoding="utf-8")).get("vulnerability", [])
    return tuple(Vulnerability(**entry) for entry in entries)


VULNERABILITIES = listed(Path(__file__).with_suffix(".toml"))
"""All known faults."""
