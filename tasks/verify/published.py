"""Verify a published folder of a session, or a copy of it, without the home it came from.

Assumes      the folder holds the certificate and the files beside it; those of other sessions, if it names any, lie in
             folders beside this one
Guarantees   found and named: a certificate whose bytes no Concord writes, one that its own settings do not prove or
             that says more was asked than they pay for, or whose budget passes the cap; a file that it names and that
             is missing or has another digest; released labels that are not as many as it counts, of another session
             or of more classes than votes were paid for; and what tasks.verify.signed finds of signature and ledger.
             Whatever cannot be read is a fault that is found: no file makes a check end otherwise
             With a certificate that somebody kept: that this one's excerpt denies what that one's did
Not covered  what nobody can tell without the ledger (`LEFT`, which a check lists). Checked by
             tests/tasks/verify/test_tampering.py, test_verify_folder.py and test_verify_excerpt.py
"""

import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from concord import __version__
from concord.artifacts.certificate import CERTIFICATE_FILE, Certificate, is_version, later, student_warnings
from concord.artifacts.domains import NEIGHBOURS
from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.guarantee import CAVEATS, Guarantee
from concord.artifacts.home.released import sha256
from concord.artifacts.ledger.excerpt import EXCERPT_FILE, Excerpt
from concord.artifacts.ledger.home_contents import named
from concord.artifacts.published import ATTESTATION_FILE, is_published
from concord.artifacts.records import SessionRecord, promised
from concord.artifacts.schemas import Budget
from concord.tasks.verify.checks import NotIncluded, checked, equal, proved
from concord.tasks.verify.folder import PublishedSession
from concord.tasks.verify.kinds import Kind, Stream
from concord.tasks.verify.limited import Check
from concord.tasks.verify.measured import public_test
from concord.tasks.verify.recompute import SLACK
from concord.tasks.verify.released import released_as_certified, student_as_released
from concord.tasks.verify.signed import excerpt, kept_excerpt, signature, signer, statement_of

LEFT = (
    "whether these settings ran and no others; whether the ledger has a charge beyond its excerpt; what happened "
    "later; whether people of this domain are also in another domain; and what the publisher "
    "states: [about], the number of private units, features, parameters of the student, and earlier sessions on tested "
    "units. Report and figures repeat the certificate. `concord verify --kept FOLDER` compares the certificate with "
    "the ledger of its home, and `concord verify LATER --kept FOLDER` with a later certificate"
)


def verify_published(
    path: Path | str, test: str | None = None, key: str | None = None, kept: Path | str | None = None
) -> list[Check]:
    """Check a session's published folder, or the certificate in it; nothing if nothing is published there.

    test   path of the public test table
    key    the key, or its fingerprint, that the reader trusts, in hex
    kept   an earlier published folder of the same domain, which this one must not contradict
    """
    with suppress(PermissionError):  # of which the next step tells
        if not is_published(Path(path)):
            return []
    try:
        at = PublishedSession.at(Path(path))
    except (NotVerified, WrongInput) as wrong:
        return [Check(name="certificate", ok=False, detail=str(wrong))]
    checks = folder_checks(at, test, key)
    if kept is not None:
        checks["kept certificate"] = lambda: _not_denied(at, Path(kept))
    found = [checked(f"{at.certificate.session}: {name}", check) for name, check in checks.items()]
    return [*found, *_left(at, key)]


def folder_checks(
    at: PublishedSession, test: str | None, key: str | None, home: Path | None = None
) -> dict[str, Callable[[], str]]:
    """The checks of a published folder, by any reader.

    home   which may remember where the public test table is
    """
    certificate = at.certificate
    checks: dict[str, Callable[[], str]] = {
        "certificate": lambda: _as_written(certificate, at.text),
        "guarantee": lambda: _proved(certificate),
        "budget": lambda: _within_cap(certificate),
        "files": lambda: _files(at),
        "released labels": lambda: _all_of(partial(released_as_certified, each, at) for each in certificate.sessions),
    }
    if certificate.learned is not None:
        checks["public test"] = lambda: public_test(certificate, at.named, test, home)
        checks["what it says"] = lambda: _consistent(certificate)
        checks["student"] = lambda: student_as_released(at)
    return checks | {
        "ledger excerpt": lambda: excerpt(certificate, at.read),
        "signature": lambda: signature(at, key),
    }


def _not_denied(at: PublishedSession, kept: Path) -> str:
    """Check that the ledger's excerpt holds all entries of the earlier excerpt."""
    earlier = PublishedSession.at(kept)
    session, by = earlier.certificate.session, signer(earlier.certificate, earlier.read)
    found = kept_excerpt(earlier.certificate, earlier.read, None)
    found.check_later(Excerpt.read(at.read(f"{at.certificate.session}/{EXCERPT_FILE}")))
    return (
        f"it holds all {len(found.entries)} entries that session {session} was signed with by the key {by.fingerprint}"
    )


def _left(at: PublishedSession, key: str | None) -> Iterator[Check]:
    """Warnings about what was not checked, and about the signer."""
    session = at.certificate.session
    with suppress(NotVerified):  # a check has found that
        by = signer(at.certificate, at.read)
        if key is None:
            detail = f"signed by the key {by.fingerprint}; to check the signer, give a key that you trust with --key"
            yield Check(name=f"{session}: signer", ok=True, warning=True, detail=detail)
        covered = statement_of(at.certificate, at.read, by).digests
        there = {f"{session}/{file.relative_to(at.folder)}" for file in _files_in(at.folder)}
        if others := there - covered.keys() - {f"{session}/{ATTESTATION_FILE}"}:
            detail = f"not signed with the rest: {named(others)}"
            yield Check(name=f"{session}: other files", ok=True, warning=True, detail=detail)
    yield Check(name=f"{session}: not checked here", ok=True, warning=True, detail=LEFT)


def _files_in(folder: Path) -> Iterator[Path]:
    """All that lies in a folder; of a folder in it that cannot be listed, or is a link, itself."""
    closed = list[OSError]()
    for place, folders, files in os.walk(folder, onerror=closed.append):
        below = Path(place)
        yield from (below / name for name in files)
        yield from (below / name for name in folders if os.path.islink(below / name))
    yield from (Path(failed.filename) for failed in closed)


def _as_written(certificate: Certificate, text: bytes) -> str:
    """Check that the file has exactly the bytes that Concord writes for its content."""
    if text != certificate.model_dump_json(indent=2).encode():
        raise NotVerified(f"{CERTIFICATE_FILE} holds other bytes than Concord writes for this content")
    by = certificate.versions.get("concord", "")
    if not is_version(by):
        raise NotVerified(f"the certificate names a version {by!r} of Concord, which is not a version")
    if later(by, __version__):
        raise NotVerified(f"Concord {by} wrote it, which is later than this {__version__}: verify it with that version")
    return f"in the exact form that Concord writes, SHA-256 {sha256(text)}"


def _proved(certificate: Certificate) -> str:
    """Check that settings prove the claim of each session, and that the other numbers follow from these claims."""
    whole = certificate.guarantee
    equal("the guarantee", whole, Guarantee.at(whole.epsilon, whole.delta, whole.unit, whole.neighbours))
    found = [_proves(record, whole.neighbours) for record in certificate.sessions]
    _check_streams(certificate.sessions)
    together = promised(certificate.sessions)
    equal("what is promised of all that was published", Budget(epsilon=whole.epsilon, delta=whole.delta), together)
    return "; ".join(found)


def _check_streams(records: Sequence[SessionRecord]) -> None:
    """Raise NotVerified if a session names a stream and is no season of it.

    Of a stream only the largest session counts in the guarantee, so a session that names one must ask no unit again.
    """
    for record in records:
        if record.stream and not isinstance(Kind.of(record.mechanism.settings), Stream):
            raise NotVerified(f"session {record.session} names a stream, and is no season of it")


def _proves(record: SessionRecord, neighbours: str) -> str:
    """Check that the settings of a session prove its claim."""
    claim, mechanism = record.guarantee, record.mechanism
    equal("the mechanism's name", Kind.of(mechanism.settings).name, mechanism.name)
    equal("what is protected", neighbours, NEIGHBOURS[Kind.of(mechanism.settings).secret or _secret(neighbours)])
    return proved(mechanism.settings, (claim.epsilon, claim.delta))


def _secret(neighbours: str) -> str:
    """The secret part of a unit for these neighbours. Raises NotVerified if Concord has no such neighbours."""
    secret = next((secret for secret, words in NEIGHBOURS.items() if words == neighbours), None)
    if secret is None:
        raise NotVerified(f"Concord proves nothing of neighbours {neighbours!r}")
    return secret


def _within_cap(certificate: Certificate) -> str:
    """Check that the domain's charges include this session's claim, and stay within the cap in each part of units."""
    domain = certificate.domain
    equal("the number of sessions", len(domain.charges), domain.sessions)
    shares: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    claims: dict[str, list[tuple[Budget, str, str]]] = defaultdict(list)
    for charge in domain.charges:
        own = shares[charge.part]
        own[charge.stream] = max(own[charge.stream], charge.share) if charge.stream else own[""] + charge.share
        claims[charge.session].append((Budget(epsilon=charge.epsilon, delta=charge.delta), charge.part, charge.stream))
        if not charge.share >= 0 or (charge.share > 0 and not domain.spent.epsilon > 0):
            raise NotVerified(f"session {charge.session} is charged {charge.share:g} of a budget that it did not spend")
    for record in certificate.sessions:
        said, claimed = claims[record.session], (record.guarantee, record.part, record.stream)
        equal(f"what the domain says that session {record.session} claims", said, [claimed])
    in_every = shares.pop("", {})
    for part in shares.values() or [{}]:
        streams = {*in_every, *part} - {""}
        seasons = [max(in_every.get(stream, 0.0), part.get(stream, 0.0)) for stream in streams]
        if not math.fsum([in_every.get("", 0.0), part.get("", 0.0), *seasons]) <= SLACK:
            raise NotVerified("the domain's sessions are charged more than its cap")
    for name in ("epsilon", "delta"):
        cap, spent, remaining = (getattr(of, name) for of in (domain.cap, domain.spent, domain.remaining))
        if not 0 <= spent <= cap * SLACK or not math.isclose(remaining, cap - spent, rel_tol=1e-9, abs_tol=cap * 1e-9):
            raise NotVerified(f"of the domain's {name} {cap:g}, {spent:g} spent and {remaining:g} remaining do not add")
    sessions = f"{domain.sessions} session{'s' * (domain.sessions != 1)}"
    return f"{sessions} of the domain {domain.name}, within its ε = {domain.cap.epsilon:g}"


def _consistent(certificate: Certificate) -> str:
    """Check that both figures of the student's accuracy are equal, and that no due warning or caveat is left out."""
    if (measured := certificate.student.public_test) is not None:
        equal("the student's accuracy", certificate.student.accuracy, getattr(measured, "accuracy", None))
    if certificate.versions.get("concord") == __version__:
        for text in (*student_warnings(certificate), *CAVEATS):
            if text not in (*certificate.warnings, *certificate.caveats):
                raise NotVerified(f"the certificate leaves out what must stand in it: {text}")
    return f"{len(certificate.warnings)} warnings and {len(certificate.caveats)} caveats are stated"


def _files(at: PublishedSession) -> str:
    """Check that every file named by the certificate is there and has its digest."""
    _all_of(partial(at.check, ref) for ref in at.certificate.files)
    return f"{len(at.certificate.files)} files match their digests in the certificate"


def _all_of(checks: Iterable[Callable[[], str | None]]) -> str:
    """The results of all these checks. Raises NotIncluded, after all were made, if an export leaves out files of some;
    NotVerified as the first one does."""
    results, absent = list[str](), list[str]()
    for check in checks:
        try:
            results.append(check() or "")
        except NotIncluded as left_out:
            absent.append(str(left_out))
    if absent:
        raise NotIncluded(f"{absent[0]}{f' (and {len(absent) - 1} more)' * (len(absent) > 1)}")
    return "; ".join(results)
