"""Remarks: what stands on the record of a domain and charges nothing.

    forgotten   a session's key, teachers and votes were destroyed; about: the session
    erased      a unit's rows, and what depended on them, were destroyed; about: a keyed digest of the unit's id
    holds       a private file was learned from; about: its digest, keyed by the vault that read it
    linked      the domain may hold files, and people, of another one; about: that domain

Checked by tests/artifacts/test_remarks.py.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from artifacts.errors import WrongInput

RemarkKind = Literal["forgotten", "erased", "holds", "linked"]


@dataclass(frozen=True, kw_only=True)
class Remark:
    """Something that is so of a domain from here on.

    about    what it is said of, by a name that may be told or a keyed digest: never a private value or plain digest
    reason   why, in the operator's words; may be empty
    """

    kind: RemarkKind
    about: str
    reason: str = ""


class Remarks:
    """What was remarked so far, by domain; the same is said once."""

    def __init__(self) -> None:
        self._said: dict[str, dict[tuple[str, str], Remark]] = {}

    def add(self, domain: str, remark: Remark) -> None:
        """A further remark on the domain."""
        self._said.setdefault(domain, {})[remark.kind, remark.about] = remark

    def on(self, domain: str) -> tuple[Remark, ...]:
        """All remarks on the domain, in order."""
        return tuple(self._said.get(domain, {}).values())

    def has(self, domain: str, remark: Remark) -> bool:
        """Whether that was said of the domain, with whatever reason."""
        return (remark.kind, remark.about) in self._said.get(domain, {})

    def linked(self, domain: str) -> set[str]:
        """The domains it is linked to, by one link or by several, in either direction."""
        links = [{name, about} for name, said in self._said.items() for kind, about in said if kind == "linked"]
        reached = {domain}
        while any(link & reached and not link <= reached for link in links):
            reached |= {name for link in links if link & reached for name in link}
        return reached - {domain}

    def check_holding(self, domain: str, files: Iterable[str]) -> None:
        """Raise WrongInput where a domain that this one is not linked to holds one of the files."""
        own, asked = {domain, *self.linked(domain)}, [("holds", file) for file in files]
        for other, said in self._said.items():
            if other not in own and not said.keys().isdisjoint(asked):
                raise WrongInput(
                    f"a file of data.private belongs to domain {other!r}, where its people are counted already: name "
                    f"that domain, or let `concord link {other} {domain}` say that people may be in both"
                )
