"""Known vulnerabilities: by which faults a guarantee of an earlier version may not hold, and when it still does.

One entry a fault, named by the first version without it; an entry is never removed. `concord verify` says which of them
concern a session, by the version that opened it: that version assigned its rows, trained its teachers and fixed how it
draws. Checked by tests/artifacts/test_vulnerabilities.py.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from concord.artifacts.sessions import NEIGHBOURS, Domain, Session

WITHOUT_A_NAME = "0.1.0"
"""The version of whatever does not say: the ledger names the version that opened a session since 0.2.0."""


def is_version(text: str) -> bool:
    """Whether a text is a version: three numbers."""
    return re.fullmatch(r"\d+\.\d+\.\d+", text) is not None


def older(text: str, other: str) -> bool:
    """Whether one version came before the other: three numbers each."""
    return _numbers(text) < _numbers(other)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


Scope = Literal[
    "every session", "relabelled as published, or an estimate", "units named by a column", "only labels are secret"
]


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

    def concerns(self, session: Session, domain: Domain) -> bool:
        """Whether it can concern a session of that domain."""
        return older(opened_by(session), self.fixed) and SCOPES[self.scope](session.mechanism, domain)


def opened_by(session: Session) -> str:
    """The version that opened a session."""
    return session.version or WITHOUT_A_NAME


def oldest(sessions: Iterable[Session]) -> str:
    """The oldest of the versions that opened some sessions."""
    return reduce(lambda session, other: other if older(other, session) else session, map(opened_by, sessions))


def concerning(session: Session, domain: Domain) -> tuple[Vulnerability, ...]:
    """All that can concern a session of that domain."""
    return tuple(vulnerability for vulnerability in VULNERABILITIES if vulnerability.concerns(session, domain))


SCOPES: Mapping[Scope, Callable[[Mapping[str, Any], Domain], bool]] = {
    "every session": lambda _, __: True,
    "relabelled as published, or an estimate": lambda mechanism, _: (
        mechanism.get("relabel", {}).get("form") == "published" or mechanism.get("name") == "error_estimate"
    ),
    "units named by a column": lambda _, domain: "all rows of one " in domain.unit,
    "only labels are secret": lambda _, domain: domain.neighbours == NEIGHBOURS["labels"],
}
"""Which sessions each scope holds, by their mechanism's settings and their domain."""

VULNERABILITIES = (
    Vulnerability(
        name="negative-zero",
        fixed="0.2.0",
        scope="every session",
        what="a private cell of -0.0 became 0.0 when its row was read alone and stayed when it was read with others, "
        "so that one unit more or less could change three shards, and with them the votes of three teachers, where "
        "the guarantee is for one",
        unless="no column of decimals that was read, of features or units, held -0.0",
    ),
    Vulnerability(
        name="renumbered-rows",
        fixed="0.2.0",
        scope="relabelled as published, or an estimate",
        what='one row more could renumber identical rows of others, and with relabel.form = "published" their copies '
        "reached other teachers: more votes changed than were paid for; in an estimate, which of identical rows of "
        "different units was set aside could change",
        unless="no two private rows were identical in label and features",
    ),
    Vulnerability(
        name="one-id-two-units",
        fixed="0.2.0",
        scope="units named by a column",
        what="an id that files stored in two ways (text and bytes, a number and a decimal, moments of two precisions, "
        "two spellings) counted as two units, so that what is promised to one person was promised to each part",
        unless="every private file stored the unit column in the same type, and no id was written in two ways",
    ),
    Vulnerability(
        name="cell-ends-run",
        fixed="0.2.0",
        scope="every session",
        what="a private cell that its file format allows and a reader refused ended the run, so that a certificate's "
        "being there at all told that no row held such a cell",
        unless="the private table was CSV, or every cell of it was well formed whoever was in it",
    ),
    Vulnerability(
        name="label-breaks-line",
        fixed="0.2.0",
        scope="only labels are secret",
        what="in a private table in CSV, a label with a line break in it made two rows of one: without a unit column "
        "every row after it went to another shard and another part, so that one label could change all teachers and "
        "the public rows; with one, the label could add rows in anybody's name",
        unless="the private table was Parquet or Arrow, or no label in it held a line break or could have",
    ),
    Vulnerability(
        name="believed-cache",
        fixed="0.2.0",
        scope="every session",
        what="results that were cached below the home folder were believed as they lay there: edited, they could make "
        "one teacher count as several, or publish an accuracy that nobody measured",
        unless="nobody but the operator could write in the home folder's results/",
    ),
    Vulnerability(
        name="believed-server",
        fixed="0.2.0",
        scope="every session",
        what="without PREFECT_API_URL, whoever answered on the port that a command chose was believed to be its own "
        "server, and could run code as the operator and read the vault",
        unless="PREFECT_API_URL named a server of the operator's, or nobody else could run programs on that machine",
    ),
)
