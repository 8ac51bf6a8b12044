"""Verify certificates against the ledger of their home, and hand on a student whose certificate agrees with it.

The ledger goes on after a certificate is written, so it must agree at any one moment at which the session, and those
beside it, had answered exactly the batches that the certificate covers. The history is read once for all certificates.
A certificate states how many sessions its domain had and how many of them were open; only at moments with these numbers
is it computed again and compared.

Assumes      the ledger's chain holds; released labels are read as the certificate digests them
Guarantees   found and named: a field that never agreed with the ledger at such a moment; an answer of any kind that it
             names and the ledger never committed; a label file that is left out before others that are covered; counts
             that differ from those of its files
             No student is handed on (`export`, `predict`, `load_student`) if its certificate never agreed with the
             ledger of its home; if a file is not the one that was signed with it, or nobody signed it. The bytes that
             were compared are handed on. Links, pipes and devices are no files
Not covered  the version that wrote it. The words of warnings that another version wrote; its signature covers them.
             Who signed a folder that is handed on, and whether its settings prove what is claimed: `concord verify`
             says that. Checked by tests/tasks/verify/test_tampering.py and test_checked_student.py
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow.compute as pc

from concord import __version__
from concord.artifacts.certificate import CERTIFICATE_FILE, Certificate
from concord.artifacts.errors import ConcordError, NotVerified, WrongInput
from concord.artifacts.home.atomic import is_home
from concord.artifacts.home.released import Released
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.ledger.reading import Reading
from concord.artifacts.published import ATTESTATION_FILE, DOCUMENTS, SYNTHETIC_FILE, PublishedStudent
from concord.artifacts.schemas import Ref
from concord.tasks.publish.describe import describe
from concord.tasks.verify.checks import difference, equal
from concord.tasks.verify.recompute import SketchSettings, read_settings
from concord.tasks.verify.records import PublishedSession

REGISTRY = "models:/"
DomainStanding = tuple[str, int, int]
"""A domain, how many sessions it had, and how many of them were open."""


@dataclass
class Claim:
    """A certificate and the result of its comparison so far.

    covered   batches of each session that it covers; `since` counts the rows answered after those
    alike     number of its parts that agreed at the best moment so far; `wrong` is about the next one, if there is one
    """

    certificate: Certificate
    covered: dict[str, int]
    since: int
    alike: int = -1
    wrong: str | None = None

    @property
    def agreed(self) -> bool:
        """Whether it agreed with the ledger at some moment."""
        return self.alike >= 0 and self.wrong is None

    @classmethod
    def of(cls, session: str, ledger: Reading, released: Released) -> "Claim":
        """The claim of a session's certificate. Raises NotVerified if its files are not as it states."""
        path = f"{session}/{CERTIFICATE_FILE}"
        ref = released.find(path)
        if ref is None:
            raise NotVerified(f"the released file {path} is missing")
        certificate = Certificate.read(released.read(ref), path)
        equal("the session that the certificate is of", certificate.session, session)
        for file in certificate.files:
            released.read(file)
        covered, since = {}, 0
        for record in certificate.sessions:
            name = record.session
            covered[name], later = _covered(name, record.files, ledger, released)
            since += later
        return cls(certificate, covered, since)

    @property
    def standing(self) -> DomainStanding:
        """The state of its domain, as the certificate states it."""
        domain = self.certificate.domain
        return domain.name, domain.sessions, sum(charge.status == "open" for charge in domain.charges)

    def compare(self, moment: Reading, released: Released) -> None:
        """Compare with the certificate that is due at that moment, and keep the result if it is the best so far."""
        certificate, by = self.certificate, self.certificate.versions["concord"]
        run = (certificate.leading, *certificate.other_sessions)
        try:
            due = describe({record.session: record.files for record in run}, certificate.stated, moment, released)
        except ConcordError as unlike:  # a file does not say what the ledger did then
            self.wrong = str(unlike) if self.alike < 0 else self.wrong
            return
        stated, expected = _parts(certificate, by), _parts(due, by)
        wrong = [name for name in {**stated, **expected} if stated.get(name) != expected.get(name)]
        alike = [*stated, *expected].index(wrong[0]) if wrong else len(stated)
        if alike >= self.alike:
            first = wrong[0] if wrong else ""
            differs = difference(f"the certificate's {first}", stated.get(first), expected.get(first))
            self.alike, self.wrong = alike, differs if wrong else None

    def gone_so_far(self, moment: Reading) -> bool:
        """Whether each session had committed exactly the batches that the certificate covers."""
        return all(_committed(moment, name) == count for name, count in self.covered.items())


class Certificates:
    """The certificates of some sessions, compared with the history of a ledger."""

    def __init__(self, sessions: Iterable[str], ledger: Ledger, released: Released) -> None:
        self._released = released
        self._claims: dict[str, Claim | ConcordError] = {}
        for session in sessions:
            try:
                self._claims[session] = Claim.of(session, ledger, released)
            except ConcordError as wrong:
                self._claims[session] = wrong
        claims = [claim for claim in self._claims.values() if isinstance(claim, Claim)]
        if claims:
            self._walk(claims, ledger)
        for claim in claims:
            if claim.alike < 0:  # its domain never stood so: the sentence tells how it stands now
                claim.compare(ledger, released)

    def check(self, session: str) -> str:
        """Check that the certificate agrees with the ledger, and that the files it names have their digests."""
        claim = self._claims[session]
        if isinstance(claim, ConcordError):
            raise claim
        if claim.wrong is not None:
            raise NotVerified(claim.wrong)
        since = f"; {claim.since} rows were answered since, which the next run certifies" if claim.since else ""
        return f"it agrees with the ledger, and so do the {len(claim.certificate.files)} files it names{since}"

    def _walk(self, claims: Iterable[Claim], ledger: Ledger) -> None:
        """Go through the history once, comparing each certificate at the moments that agree with its standing."""
        sessions, still_open = Counter[str](), Counter[str]()
        for record, moment in ledger.history():
            sessions[record.domain] += record.kind == "open"
            still_open[record.domain] += (record.kind == "open") - (record.kind == "settle")
            for claim in claims:
                domain = claim.standing[0]
                stood = claim.standing == (domain, sessions[domain], still_open[domain])
                silent = record.kind == "begin" or (record.kind == "commit" and record.session not in claim.covered)
                if stood and not silent and not claim.agreed and claim.gone_so_far(moment):
                    claim.compare(moment, self._released)


def _covered(session: str, labels: tuple[Ref, ...], ledger: Reading, released: Released) -> tuple[int, int]:
    """Number of batches of a session that these files cover, and of rows answered after them. Raises NotVerified."""
    committed = [batch.outcome for batch in ledger.batches(session) if batch.outcome]
    named, following = set(labels), {f"{session}/labels.arrow", f"{session}/{SYNTHETIC_FILE}"}
    for path in sorted(file.path for file in named - {outcome.released for outcome in committed}):
        if path not in following and holds_answers(released, path):  # those follow from released rounds
            raise NotVerified(f"the certificate names {path}, which the ledger never committed: it was cut back")
    is_covered = [outcome.released in named for outcome in committed]
    covered = is_covered.index(False) if False in is_covered else len(committed)
    if any(is_covered[covered:]) or (committed and not covered):
        raise NotVerified(f"the certificate's labels leave out some that session {session} released")
    return covered, sum(outcome.asked for outcome in committed[covered:])


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


def holds_answers(released: Released, path: str) -> bool:
    """Whether a released file holds an answer: any does but a table of rows that were not asked, since they came after
    the end of a session and cost nothing."""
    ref = released.find(path)
    if not path.endswith(".arrow"):
        return ref is not None
    try:
        return ref is not None and pc.any(pc.not_equal(released.labels([ref])["outcome"], "not asked")).as_py() is True
    except (ValueError, KeyError):  # no table of labels
        raise NotVerified(f"the released file {path} is not what was written") from None


def handed_on(subject: str, home: Path) -> PublishedStudent:
    """The published student of a session, of a folder that holds one, or of a model in MLflow's registry.

    Raises WrongInput if no student is published there, NotVerified as said above.
    """
    if subject.startswith(REGISTRY):
        from concord.artifacts.mlflow.read import Records  # heavy, and rarely asked for

        subject = Records.of(home).session_of(subject)
    folder = Path(subject) if Path(subject).is_dir() else home / "released" / subject
    try:
        at = PublishedSession.at(folder)
    except WrongInput as missing:
        others = ", ".join(_students_of(folder.name, folder.parent))
        domains = f"{folder.name} is a domain; name one of its sessions: {others}"
        reason = missing if folder.is_dir() else "name such a folder, or a session, which `concord budget` lists"
        raise WrongInput(domains if others else f"no student is published in {folder}: {reason}") from None
    if is_home(home) and folder.resolve().parent == (home / "released").resolve():
        _agrees(folder.name, home)
    return _signed(at)


def _students_of(domain: str, released: Path) -> Iterator[str]:
    """The sessions of a domain that published a student, sorted."""
    for file in sorted(released.glob(f"*/{CERTIFICATE_FILE}")):
        with suppress(ConcordError):
            certificate = PublishedSession.at(file).certificate
            if certificate.learned is not None and certificate.domain.name == domain:
                yield file.parent.name


def _agrees(session: str, home: Path) -> None:
    """Raise NotVerified unless the certificate of a home's session agreed with its ledger at one moment."""
    ledger = Ledger.of(home)
    ledger.verify()
    try:
        ledger.session(session)
        Certificates([session], ledger, Released(home)).check(session)
    except WrongInput as unknown:  # a session in the certificate that the ledger does not know
        raise NotVerified(str(unknown)) from None


def _signed(at: PublishedSession) -> PublishedStudent:
    """The files of a session, each as it was signed. Raises NotVerified."""
    file = at.certificate.student.file
    documents = {name: at.read(at.path(name)) for name in DOCUMENTS if os.path.lexists(at.folder / name)}
    student = at.named(file)
    for path, data in (*((at.path(name), data) for name, data in documents.items()), (file.path, student)):
        if path != at.path(ATTESTATION_FILE):  # the statement's own file is compared byte by byte
            at.check_signed(path, data)
    return PublishedStudent(at.certificate, student, documents, tuple(_tables(at)))


def _tables(at: PublishedSession) -> Iterator[bytes]:
    """The released steps of a sketch that counted tables, which come first, as they were signed; none if they do not
    lie beside the certificate. Raises NotVerified."""
    record = at.certificate.leading
    if not isinstance(settings := read_settings(record.mechanism.settings), SketchSettings):
        return
    steps = record.files[: sum(paid.what == "codes" for paid in settings.rounds)]
    if not all(os.path.lexists(at.folder / file.path.partition("/")[2]) for file in steps):
        return
    at.forms(record, steps)  # refuses what is no step of a sketch
    for file in steps:
        content = at.named(file)
        at.check_signed(file.path, content)
        yield content
