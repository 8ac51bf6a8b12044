"""Describe: the content of a session's certificate, from the ledger as of one moment.

It is a list of records, one a session, all made in the same way; what is particular to a kind of session stands in the
catalogue (tasks.asks.kinds).

Assumes      the ledger's record is complete; labels are those it names, and those of rows that were not asked
Guarantees   nothing here reads the vault: the content is a function of what was published before. Of labels, memory is
             bounded by one file, and one byte per row that was asked
Not covered  whether the guarantee is right: tasks.verify.verify recomputes it. Checked by
             tests/tasks/verify/test_tampering.py, tests/tasks/publish/test_certify.py
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from concord.artifacts.certificate import TABLE, Certificate
from concord.artifacts.domains import Domain
from concord.artifacts.errors import NotVerified
from concord.artifacts.guarantee import (
    CAVEATS,
    LABELS_ALONE,
    PRECHECKED,
    RELABELLED,
    RESTORED,
    DomainCharge,
    Guarantee,
)
from concord.artifacts.home.released import Released
from concord.artifacts.ledger.reading import Reading
from concord.artifacts.records import Counts, SessionRecord, promised
from concord.artifacts.schemas import Budget, Ref
from concord.artifacts.sessions import Session
from concord.artifacts.student_warnings import student_warnings
from concord.tasks.asks.kinds import mechanism_of, outcomes_of, remarks_of


def describe(
    files: Mapping[str, Sequence[Ref]],
    stated: Mapping[str, Any],
    ledger: Reading,
    released: Released,
) -> Certificate:
    """The certificate of sessions by `ledger`, the leading one first; tests of their students are added.

    files    of each session, what it released, in order; for rows that were not asked as well
    stated   fields that come from neither the ledger nor the door, as `Certificate.stated`; those left out are empty
    Raises NotVerified if a released file is not what was written, or does not say what the ledger does.
    """
    sessions = [*map(ledger.session, files)]
    leading = sessions[0]
    domain, after = ledger.domain_of(leading), followers(sessions, ledger)
    released_files = {**files, **{session.id: ledger.released_by(session.id) for session in after}}
    records = tuple(record_of(session, released_files[session.id], ledger, released) for session in (*sessions, *after))
    promise = promised(records)
    certificate = Certificate(
        data_version=leading.data_version,
        guarantee=Guarantee.at(promise.epsilon, promise.delta, domain.unit, domain.neighbours),
        sessions=records,
        domain=DomainCharge.of(domain, ledger),
        caveats=caveats(domain, sessions, ledger),
        **stated,
    )
    rounds = (released.read(file) for file in released_files[leading.id] if file.path.endswith(".json"))
    warned: tuple[str, ...] = ()
    if (student := certificate.learned) is not None:
        tables = tuple(file for file in certificate.leading.files if file.path.endswith(TABLE))
        learned = tuple(outcomes_in(tables, released).by_class) if tables and student.public_test is None else None
        warned = student_warnings(certificate, learned)
    return certificate.model_copy(update={"warnings": (*warned, *remarks_of(leading.facts.name, rounds))})


def record_of(session: Session, files: Sequence[Ref], ledger: Reading, released: Released) -> SessionRecord:
    """The record of a session, as `ledger` has it, that released those files. Raises NotVerified as `describe`."""
    counts = counted(session, tuple(files), released)
    for file in set(ledger.released_by(session.id)).difference(files):
        raise NotVerified(f"session {session.id} released {file.path}, which the certificate leaves out")
    return SessionRecord(
        session=session.id,
        purpose=session.purpose,
        mechanism=mechanism_of(session),
        guarantee=Budget(epsilon=session.epsilon, delta=session.delta),
        part=ledger.part_of(session.id),
        stream=ledger.stream_of(session.id),
        teachers=session.teachers,
        counts=counts,
        files=tuple(files),
        outcomes=outcomes_of(session, map(released.read, files), ledger),
    )


def followers(sessions: Sequence[Session], ledger: Reading) -> list[Session]:
    """The sessions that test students of these."""
    learned = {session.id for session in sessions}
    everything = ledger.sessions(sessions[0].domain)
    return [session for session in everything if session.facts.session in learned]


def caveats(domain: Domain, sessions: Sequence[Session], ledger: Reading) -> tuple[str, ...]:
    """The caveats of a certificate of these sessions of a domain, by `ledger`."""
    labels = (LABELS_ALONE,) if domain.labels_only else ()
    relabelled = (RELABELLED,) if any(session.relabelled for session in sessions) else ()
    restored = (RESTORED,) if ledger.restored(domain.name) else ()
    return (*labels, *relabelled, *restored, *CAVEATS, PRECHECKED)


@dataclass(frozen=True)
class Outcomes:
    """Public rows of a session by outcome.

    refused    (asked,) whether each row that was asked was refused, in order
    by_class   rows answered, by the class of their labels
    not_asked  rows after the session's end
    """

    refused: NDArray[np.bool_]
    by_class: Mapping[str, int]
    not_asked: int


@lru_cache(maxsize=8)
def outcomes_in(files: tuple[Ref, ...], released: Released) -> Outcomes:
    """The outcomes in released tables of labels; cached, because a session may be described as of many moments. Raises
    NotVerified if a file is not what was written."""
    parts, by_class, not_asked = [np.zeros(0, dtype=bool)], Counter[str](), 0
    for file in files:
        table = released.labels([file])
        was_asked = pc.not_equal(table["outcome"], "not asked")
        parts.append(pc.equal(table["outcome"].filter(was_asked), "refused").to_numpy())
        not_asked += table.num_rows - len(parts[-1])
        for count in pc.value_counts(table["label"].drop_null()).to_pylist():
            by_class[count["values"]] += count["counts"]
    return Outcomes(np.concatenate(parts), by_class, not_asked)


def voted(session: Session, files: Sequence[Ref]) -> tuple[Ref, ...]:
    """The files of a session that are tables of labels by votes; tables of inferred labels are left out."""
    return tuple(file for file in files if session.teachers and file.path.endswith(TABLE))


def refusals(session: Session, files: Sequence[Ref], released: Released) -> NDArray[np.bool_]:
    """Whether each row, round or question of a session was refused, (asked,): only votes are."""
    labels = voted(session, files)
    return outcomes_in(labels, released).refused if labels else np.zeros(session.asked, dtype=bool)


def counted(session: Session, files: tuple[Ref, ...], released: Released) -> Counts:
    """The queries by outcome, from the ledger; for rows, from the released files.

    Raises NotVerified if released labels and ledger differ.
    """
    if not (labels := voted(session, files)):
        return Counts(asked=session.asked, answered=session.answered, refused=session.refused, not_asked=0)
    outcomes = outcomes_in(labels, released)
    rows, refused = len(outcomes.refused), int(outcomes.refused.sum())
    counts = Counts(asked=rows, answered=rows - refused, refused=refused, not_asked=outcomes.not_asked)
    if (counts.answered, counts.refused) != (session.answered, session.refused):
        raise NotVerified(
            f"the released labels of session {session.id} hold {counts.answered} answers and {counts.refused} "
            f"refusals, but the ledger has {session.answered} and {session.refused}"
        )
    return counts
