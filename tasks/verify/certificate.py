"""Verify certificates against the ledger: each must agree with the ledger as it was at one moment of its history.

The ledger goes on after a certificate is written, so it must agree at any one moment at which the session, and those
beside it, had answered exactly the batches that the certificate covers. The history is read once for all certificates.
A certificate states how many sessions its domain had and how many of them were open; only at moments with these numbers
is it computed again and compared.

Assumes      the ledger's chain holds; released labels are read as the certificate digests them
Guarantees   found and named: a field that never agreed with the ledger at such a moment; an answer of any kind that it
             names and the ledger never committed; a label file that is left out before others that are covered; counts
             that differ from those of its files
Not covered  the version that wrote it. The words of warnings that another version wrote; its signature covers them.
             Checked by tests/tasks/verify/test_tampering.py
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from concord import __version__
from concord.artifacts.certificate import CERTIFICATE_FILE, Certificate, Stated, is_version
from concord.artifacts.errors import ConcordError, NotVerified, WrongInput
from concord.artifacts.home.released import Released
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.ledger.reading import Reading
from concord.artifacts.published import SYNTHETIC_FILE
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Session
from concord.tasks.publish.describe import counted, describe
from concord.tasks.verify.checks import CheckedSession, difference, equal, holds_answers

DomainStanding = tuple[str, int, int]
"""A domain, how many sessions it had, and how many of them were open."""


@dataclass
class Claim:
    """A certificate and the result of its comparison so far; it may be long, so only a reference to its file is kept.

    by        the version of Concord that wrote it
    standing  the state of its domain, as the certificate states it
    covered   batches of each session that it covers; `since` counts the rows answered after those
    alike     number of its parts that agreed at the best moment so far; `wrong` is about the next one, if there is one
    """

    ref: Ref
    session: str
    by: str
    standing: DomainStanding
    covered: dict[str, int]
    since: int
    files: int
    stated: Stated
    alike: int = -1
    wrong: str | None = None

    @property
    def agreed(self) -> bool:
        """Whether it agreed with the ledger at some moment."""
        return self.alike >= 0 and self.wrong is None

    @classmethod
    def of(cls, subject: CheckedSession) -> "Claim":
        """The claim of a session's certificate. Raises NotVerified if its files are not as it states."""
        path = f"{subject.session.id}/{CERTIFICATE_FILE}"
        ref = subject.released.find(path)
        if ref is None:
            raise NotVerified(f"the released file {path} is missing")
        certificate = Certificate.read(subject.released.read(ref), path)
        equal("the session that the certificate is of", certificate.session, subject.session.id)
        for file in certificate.files:
            subject.released.read(file)
        by = certificate.versions.get("concord", "")
        if not is_version(by):
            raise NotVerified(f"the certificate's version of concord is {by!r}, which is not a version")
        covered, since = {}, 0
        for record in certificate.sessions:
            name, ledger = record.session, subject.ledger
            covered[name], later = _covered(name, record.files, ledger, subject.released)
            since += later
            counted(_as_of(ledger.session(name), covered[name], ledger), record.files, subject.released)
        domain = certificate.domain
        return cls(
            ref=ref,
            session=subject.session.id,
            by=by,
            standing=(domain.name, domain.sessions, sum(charge.status == "open" for charge in domain.charges)),
            covered=covered,
            since=since,
            files=len(certificate.files),
            stated=certificate.stated,
        )

    def compare(self, moment: Reading, released: Released) -> None:
        """Compare with the certificate that is due at that moment, and keep the result if it is the best so far."""
        certificate = Certificate.read(released.read(self.ref), self.ref.path)
        run = (certificate.leading, *certificate.other_sessions)
        due = describe({each.session: each.files for each in run}, self.stated, moment, released)
        found, expected = _parts(certificate, self.by), _parts(due, self.by)
        wrong = [name for name in {**found, **expected} if found.get(name) != expected.get(name)]
        alike = [*found, *expected].index(wrong[0]) if wrong else len(found)
        if alike >= self.alike:
            self.alike = alike
            self.wrong = (
                difference(f"the certificate's {wrong[0]}", found.get(wrong[0]), expected.get(wrong[0]))
                if wrong
                else None
            )

    def gone_so_far(self, moment: Reading) -> bool:
        """Whether each session had committed exactly the batches that the certificate covers."""
        return all(_committed(moment, name) == count for name, count in self.covered.items())


class Certificates:
    """The certificates of some sessions, compared with the history of a ledger."""

    def __init__(self, subjects: Iterable[CheckedSession], ledger: Ledger, released: Released) -> None:
        self._released = released
        self._claims: dict[str, Claim | ConcordError] = {}
        for subject in subjects:
            try:
                self._claims[subject.session.id] = Claim.of(subject)
            except ConcordError as wrong:
                self._claims[subject.session.id] = wrong
        if self._pending:
            self._walk(ledger)
        for claim in self._pending:
            if claim.alike < 0:  # its domain never stood so: the sentence tells how it stands now
                claim.compare(ledger, released)

    def check(self, subject: CheckedSession) -> str:
        """Check that the certificate agrees with the ledger, and that the files it names have their digests."""
        claim = self._claims[subject.session.id]
        if isinstance(claim, ConcordError):
            raise claim
        if claim.wrong is not None:
            raise NotVerified(claim.wrong)
        since = f"; {claim.since} rows were answered since, which the next run certifies" if claim.since else ""
        return f"it agrees with the ledger, and so do the {claim.files} files it names{since}"

    @property
    def _pending(self) -> list[Claim]:
        return [claim for claim in self._claims.values() if isinstance(claim, Claim) and not claim.agreed]

    def _walk(self, ledger: Ledger) -> None:
        """Go through the history once, comparing each certificate at the moments that agree with its standing."""
        waiting: dict[DomainStanding, list[Claim]] = {}
        answering: dict[str, list[Claim]] = {}
        for claim in self._pending:
            waiting.setdefault(claim.standing, []).append(claim)
            for session in claim.covered:
                answering.setdefault(session, []).append(claim)
        had, opened = Counter[str](), Counter[str]()
        for record, moment in ledger.history():
            had[record.domain] += record.kind == "open"
            opened[record.domain] += (record.kind == "open") - (record.kind == "settle")
            if record.kind == "begin":
                continue
            touched = [record.domain] if record.kind in ("open", "settle") else list(had)
            due = (
                answering.get(record.session, [])
                if record.kind == "commit"
                else [claim for name in touched for claim in waiting.get((name, had[name], opened[name]), [])]
            )
            for claim in due:
                name = claim.standing[0]
                stood = claim.standing == (name, had[name], opened[name])
                if stood and not claim.agreed and claim.gone_so_far(moment):
                    claim.compare(moment, self._released)


def _covered(session: str, labels: tuple[Ref, ...], ledger: Reading, released: Released) -> tuple[int, int]:
    """Number of batches of a session that these files cover, and of rows answered after them. Raises NotVerified."""
    committed = [batch.outcome for batch in ledger.batches(session) if batch.outcome]
    named, following = set(labels), {f"{session}/labels.arrow", f"{session}/{SYNTHETIC_FILE}"}
    for path in sorted(file.path for file in named - {outcome.released for outcome in committed}):
        if path not in following and holds_answers(released, path):  # those follow from released rounds
            raise NotVerified(f"the certificate names {path}, which the ledger never committed: it was cut back")
    known = [outcome.released in named for outcome in committed]
    covered = known.index(False) if False in known else len(known)
    if any(known[covered:]) or (committed and not covered):
        raise NotVerified(f"the certificate's labels leave out some that session {session} released")
    return covered, sum(outcome.asked for outcome in committed[covered:])


def _as_of(session: Session, batches: int, ledger: Reading) -> Session:
    """The session when it had committed so many batches."""
    done = [batch.outcome for batch in ledger.batches(session.id)[:batches] if batch.outcome]
    totals = {name: sum(getattr(item, name) for item in done) for name in ("asked", "answered", "refused")}
    return replace(session, **totals)


def _committed(moment: Reading, name: str) -> int | None:
    """Number of batches that a session had committed at that moment; None if it was not open yet."""
    try:
        session = moment.session(name)
    except WrongInput:
        return None
    return session.batches - (session.pending is not None)


def _parts(certificate: Certificate, by: str) -> dict[str, object]:
    """The fields of each session's record and of the certificate, by name. The words of warnings are those of the
    version `by` that wrote it, and compared only with its own."""
    left_out = {"sessions", "versions", *(() if by == __version__ else ("warnings",))}
    fields = {name: part for name, part in certificate if name not in left_out}
    records = {f"{name} of session {record.session}": part for record in certificate.sessions for name, part in record}
    names = tuple(record.session for record in certificate.sessions)
    return {"sessions": names, **records, **fields}
