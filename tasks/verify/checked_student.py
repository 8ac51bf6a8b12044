"""Hand on a published student: what `export` and `predict`, and `load_student` in Python, make things of.

Assumes      as in tasks.verify.certificate and tasks.verify.signed
Guarantees   nothing is handed on if the certificate never agreed with the ledger of its home; if a file is not the one
             that was signed with it, or nobody signed it. The bytes that were compared are handed on. Links, pipes and
             devices are no files
Not covered  who signed a folder, and whether its settings prove what is claimed: `concord verify` says that.
             Checked by tests/tasks/verify/test_checked_student.py
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from concord.artifacts.certificate import CERTIFICATE_FILE
from concord.artifacts.errors import ConcordError, NotVerified, WrongInput
from concord.artifacts.home.atomic import is_home
from concord.artifacts.home.released import Released, sha256
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.published import ATTESTATION_FILE, DOCUMENTS, Published
from concord.tasks.verify.certificate import Certificates
from concord.tasks.verify.checks import CheckedSession
from concord.tasks.verify.folder import PublishedSession
from concord.tasks.verify.signed import signer, statement_of

REGISTRY = "models:/"


def handed_on(subject: str, home: Path) -> Published:
    """The published student of a session, of a folder that holds one, or of a model in MLflow's registry.

    Raises WrongInput if no student is published there, NotVerified as said above.
    """
    if subject.startswith(REGISTRY):
        from concord.artifacts.mlflow.read import Records  # heavy, and rarely asked for

        subject = Records.of(home).session_of(subject)
    folder = Path(subject) if Path(subject).is_dir() else home / "released" / subject
    at = _found(folder)
    if is_home(home) and folder.resolve().parent == (home / "released").resolve():
        _agrees(folder.name, home)
    return _signed(at)


def _found(folder: Path) -> PublishedSession:
    """The published session in a folder. Raises WrongInput if there is none, NotVerified if it has no certificate."""
    try:
        return PublishedSession.at(folder)
    except WrongInput as missing:
        others = ", ".join(_students_of(folder.name, folder.parent))
        known = f"{folder.name} is a domain; name one of its sessions: {others}"
        raise WrongInput(known if others else f"no student is published in {folder}: {missing}") from None


def _students_of(domain: str, released: Path) -> Iterator[str]:
    """The sessions of a domain that published a student, sorted."""
    for file in sorted(released.glob(f"*/{CERTIFICATE_FILE}")):
        with suppress(ConcordError):
            certificate = PublishedSession.at(file).certificate
            if certificate.learned is not None and certificate.domain.name == domain:
                yield file.parent.name


def _agrees(session: str, home: Path) -> None:
    """Raise NotVerified unless the certificate of a home's session agreed with its ledger at one moment."""
    ledger, released = Ledger.of(home), Released(home)
    ledger.verify()
    try:
        subject = CheckedSession(ledger.session(session), ledger, released, run=None, latest=True)
        Certificates([subject], ledger, released).check(subject)
    except WrongInput as unknown:  # a session in the certificate that the ledger does not know
        raise NotVerified(str(unknown)) from None


def _signed(at: PublishedSession) -> Published:
    """The files of a session, each as it was signed. Raises NotVerified."""
    certificate = at.certificate
    own = Path(certificate.student.file.path).name
    there = (name for name in DOCUMENTS if os.path.lexists(at.folder / name))
    files = {name: at.read(f"{certificate.session}/{name}") for name in (own, *there)}

    def read(path: str) -> bytes:
        return files.get(path.removeprefix(f"{certificate.session}/")) or at.read(path)

    if sha256(files[own]) != certificate.student.file.digest:
        raise NotVerified(f"the student's file in {at.folder} is not the one that its certificate names")
    signed = statement_of(certificate, read, signer(certificate, read)).digests
    for name in files.keys() - {ATTESTATION_FILE}:  # the statement's own file is compared byte by byte
        path = f"{certificate.session}/{name}"
        if signed.get(path) != sha256(files[name]):
            raise NotVerified(f"the published file {path} is not the one that was signed")
    return Published(certificate, files.pop(own), files)
