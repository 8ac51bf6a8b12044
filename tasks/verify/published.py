"""Verify a published folder of a session, or a copy of it, without the home it came from.

Assumes      the folder holds the certificate and the files beside it; those of other sessions, if it names any, lie in
             folders beside this one
Guarantees   found and named: a certificate whose bytes no Concord writes, one that its own settings do not prove or
             that says more was asked than they pay for, or whose budget passes the cap; a warning or caveat that is
             left out or does not follow; a clean test of units that were not set aside; a file that it names and that
             is missing or has another digest; released labels that are not as many as it counts, of another session or
             of more classes than votes were paid for; a file that is not the one signed, or that the statement leaves
             out; a statement that claims other than the certificate; another signer than was named; an excerpt of the
             ledger that breaks its rule (tasks.verify.replay), or carries another unit, cap, charge, claim or count
             than is certified. Whatever cannot be read is a fault that is found: no file makes a check end otherwise
             With a certificate that somebody kept: that this one's excerpt denies what that one's did
Not covered  what nobody can tell without the ledger (`LEFT`, which a check lists); an excerpt made up as a whole, with
             all other files, by the holder of the key, or by anyone if no key is named. Checked by
             tests/tasks/verify/test_every_field.py, test_tampering.py and test_verify_folder.py
"""

import json
import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from concord import __version__
from concord.artifacts.certificate import CERTIFICATE_FILE, SCHEMA_FILE, TABLE, Certificate, later, schema
from concord.artifacts.domains import NEIGHBOURS
from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.guarantee import CAVEATS, DomainCharge, Guarantee
from concord.artifacts.home.released import inferred_schema, labels_schema, sha256
from concord.artifacts.ledger.excerpt import EXCERPT_FILE, Excerpt
from concord.artifacts.ledger.home_contents import named
from concord.artifacts.ledger.reading import Reading
from concord.artifacts.parts import EVERY, LEARNING, TEST, paid
from concord.artifacts.published import (
    ATTESTATION_FILE,
    ATTESTATION_SCHEMA_FILE,
    KEY_FILE,
    LedgerHead,
    PrivacyClaim,
    attestation_schema,
    is_published,
)
from concord.artifacts.records import SessionRecord, promised
from concord.artifacts.schemas import Budget
from concord.artifacts.student_warnings import student_warnings
from concord.tasks.asks.kinds import mechanism_of, remarks_of
from concord.tasks.publish.describe import caveats, followers
from concord.tasks.verify.checks import Check, NotIncluded, alike, checked, equal
from concord.tasks.verify.recompute import SLACK, StreamSettings, least_delta, read_settings
from concord.tasks.verify.records import PublishedSession
from concord.tasks.verify.released import released_as_certified
from concord.tasks.verify.replay import ledger_faults
from concord.tasks.verify.reproduce import RANKED, public_test, student_as_released

LEFT = (
    "whether these settings ran and no others; whether the ledger has a charge beyond its excerpt; what happened "
    "later; whether people of this domain are also in another domain; and what the publisher states: [about], the "
    "number of private units, the data's version, features and how cells are coded by public rows, parameters of the "
    "student, `refused`, `named`, `views`, `noise`, rows that were not asked, groups, accuracies of earlier releases, "
    "versions of libraries, and earlier sessions on tested units. Report and figures are not read: the certificate "
    "counts. `concord verify --kept FOLDER` compares the certificate with the ledger of its home, and `concord verify "
    "LATER --kept FOLDER` with a later certificate"
)
LEFT_OUT = {"identity", "ensemble", "data_version", "naming", "reason"} | {
    *("question_digest", "exact_digest", "path", "digest")
}
"""Fields of the ledger's entries that an excerpt shows as empty: what they say is private, or known elsewhere."""
REQUIRED = (CERTIFICATE_FILE, SCHEMA_FILE, EXCERPT_FILE, KEY_FILE)
"""Files of a session's folder that a statement always covers."""


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
    results = [checked(f"{at.certificate.session}: {name}", check) for name, check in checks.items()]
    return [*results, *_left(at, key)]


def folder_checks(
    at: PublishedSession, test: str | None, key: str | None, home: Path | None = None
) -> dict[str, Callable[[], str]]:
    """The checks of a published folder, by any reader.

    home   which may remember where the public test table is
    """
    certificate = at.certificate
    checks: dict[str, Callable[[], str]] = {
        "certificate": lambda: _as_written(certificate, at.text),
        "guarantee": lambda: guarantee_as_proved(certificate),
        "budget": lambda: _within_cap(certificate),
        "files": lambda: _files(at),
        "released labels": lambda: _all_of(
            partial(released_as_certified, record, at) for record in certificate.sessions
        ),
    }
    if certificate.learned is not None:
        checks["public test"] = lambda: public_test(certificate, at.named, test, home)
        checks["what it says"] = lambda: _consistent(at)
        checks["student"] = lambda: student_as_released(at)
    return checks | {
        "ledger excerpt": lambda: excerpt_as_certified(certificate, at.excerpt),
        "signature": lambda: signature(at, key),
    }


def _not_denied(at: PublishedSession, kept: Path) -> str:
    """Check that the ledger's excerpt holds all entries of the earlier excerpt."""
    earlier = PublishedSession.at(kept)
    before = earlier.signed_excerpt(None)
    before.check_later(at.excerpt)
    return (
        f"it holds all {len(before.entries)} entries that session {earlier.certificate.session} was signed with by the "
        f"key {earlier.key.fingerprint}"
    )


def _left(at: PublishedSession, key: str | None) -> Iterator[Check]:
    """Warnings about what was not checked, and about the signer."""
    session = at.certificate.session
    with suppress(NotVerified):  # a check has found that
        if key is None:
            by = at.key.fingerprint
            detail = f"signed by the key {by}; to check the signer, give a key that you trust with --key"
            yield Check(name=f"{session}: signer", ok=True, warning=True, detail=detail)
        there = {at.path(str(file.relative_to(at.folder))) for file in _files_in(at.folder)}
        if others := there - at.statement.digests.keys() - {at.path(ATTESTATION_FILE)}:
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
    if later(by := certificate.versions["concord"], __version__):
        raise NotVerified(f"Concord {by} wrote it, which is later than this {__version__}: verify it with that version")
    return f"in the exact form that Concord writes, SHA-256 {sha256(text)}"


def guarantee_as_proved(certificate: Certificate) -> str:
    """Check that settings prove the claim of each session, and that the other numbers follow from these claims."""
    whole = certificate.guarantee
    equal("the guarantee", whole, Guarantee.at(whole.epsilon, whole.delta, whole.unit, whole.neighbours))
    if whole.neighbours not in NEIGHBOURS.values():
        raise NotVerified(f"Concord proves nothing of neighbours {whole.neighbours!r}")
    proofs, several = list[str](), len(certificate.sessions) > 1
    for record in certificate.sessions:
        claim, mechanism = record.guarantee, record.mechanism
        kind = read_settings(mechanism.settings)
        equal("the mechanism's name", kind.name, mechanism.name)
        equal("what is protected", whole.neighbours, NEIGHBOURS.get(kind.secret or "", whole.neighbours))
        of = f" of session {record.session}" if several else ""
        proofs.append(proved(mechanism.settings, (claim.epsilon, claim.delta), of))
        if record.stream and not isinstance(kind, StreamSettings):  # of which only the largest session counts
            raise NotVerified(f"session {record.session} names a stream, and is no season of it")
    claimed = Budget(epsilon=whole.epsilon, delta=whole.delta)
    equal("what is promised of all that was published", claimed, promised(certificate.sessions))
    return "; ".join(proofs)


def proved(settings: Mapping[str, Any], claim: tuple[float, float], of: str = "") -> str:
    """Check that settings state a claim (ε, δ), if they state any, and prove it. Raises NotVerified.

    of   whose settings they are, in the words of a sentence
    """
    kind = read_settings(settings)
    for term, claimed, stated in zip(("epsilon", "delta"), claim, kind.claim, strict=True):
        equal(f"the {term} that is claimed{of}", claimed, claimed if stated is None else stated)
    if kind.classes == 0:
        kind.stated_bounds()
    epsilon, delta = claim
    least = least_delta(kind, epsilon)
    if not least <= delta * SLACK:
        raise NotVerified(f"at ε = {epsilon:g} the settings{of} prove δ = {least:.6g}, claimed {delta:g}")
    return f"at ε = {epsilon:g} the settings prove δ = {least:.6g}; claimed: {delta:g}"


def _within_cap(certificate: Certificate) -> str:
    """Check that the domain's charges include this session's claim, and stay within the cap in each part of units."""
    domain, charges = certificate.domain, certificate.domain.charges
    equal("the number of sessions", len(charges), domain.sessions)
    claims = defaultdict[str, list[tuple[Budget, str, str]]](list)
    for charge in charges:
        claims[charge.session].append((Budget(epsilon=charge.epsilon, delta=charge.delta), charge.part, charge.stream))
        if not charge.share >= 0 or (charge.share > 0 and not domain.spent.epsilon > 0):
            raise NotVerified(f"session {charge.session} is charged {charge.share:g} of a budget that it did not spend")
    for record in certificate.sessions:
        said, claimed = claims[record.session], (record.guarantee, record.part, record.stream)
        equal(f"what the domain says that session {record.session} claims", said, [claimed])
    for part in {charge.part for charge in charges} | {EVERY}:
        touching = ((charge.stream, charge.share) for charge in charges if charge.part in (part, EVERY))
        if not math.fsum(paid(touching, max)) <= SLACK:
            raise NotVerified("the domain's sessions are charged more than its cap")
    for name in ("epsilon", "delta"):
        cap, spent, remaining = (getattr(of, name) for of in (domain.cap, domain.spent, domain.remaining))
        if not 0 <= spent <= cap * SLACK or not math.isclose(remaining, cap - spent, rel_tol=1e-9, abs_tol=cap * 1e-9):
            raise NotVerified(f"of the domain's {name} {cap:g}, {spent:g} spent and {remaining:g} remaining do not add")
    sessions = f"{domain.sessions} session{'s' * (domain.sessions != 1)}"
    return f"{sessions} of the domain {domain.name}, within its ε = {domain.cap.epsilon:g}"


def _consistent(at: PublishedSession) -> str:
    """Check that all figures of the student's accuracy are equal, and that no due warning or caveat is left out."""
    certificate, student = at.certificate, at.certificate.student
    equal("the student's accuracy", student.accuracy, getattr(student.public_test, "accuracy", None))
    for latest in student.history[-1:]:  # up to rows whose class a rounding decides
        alike("the accuracy of the latest release", latest, student.accuracy, RANKED)
    if certificate.versions["concord"] == __version__:
        due = _due_warnings(at)
        for text in (*due, *CAVEATS):
            if text not in (*certificate.warnings, *certificate.caveats):
                raise NotVerified(f"the certificate leaves out what must stand in it: {text}")
        equal("the warnings", certificate.warnings, certificate.warnings if at.exported else due)
    return f"{len(certificate.warnings)} warnings and {len(certificate.caveats)} caveats are stated"


def _due_warnings(at: PublishedSession) -> tuple[str, ...]:
    """The warnings that follow from certificate, labels and rounds, of which an export has none."""
    record, learned, remarks = at.certificate.leading, None, tuple[str, ...]()
    with suppress(NotIncluded):
        rounds = (at.named(file) for file in record.files if file.path.endswith(".json"))
        remarks = remarks_of(record.mechanism.name, rounds)
        form = labels_schema if record.teachers else inferred_schema
        tables = [file for file in record.files if file.path.endswith(TABLE)]
        if tables and at.certificate.student.public_test is None:
            batches = (batch for file in tables for batch in at.batches(file, form))
            learned = tuple({name for batch in batches for name in batch["label"].drop_null().unique().to_pylist()})
    return *student_warnings(at.certificate, learned), *remarks


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


def signature(at: PublishedSession, trusted: str | None) -> str:
    """Check that one key, the `trusted` one if it is named, signed everything as it is. Raises NotVerified."""
    certificate, key, signed = at.certificate, at.signer(trusted), at.statement.digests
    must = {*map(at.path, REQUIRED), *(file.path for file in certificate.files)}
    for path in sorted(must - signed.keys()):
        raise NotVerified(f"{ATTESTATION_FILE} leaves out the published file {path}")
    missing = []
    for path, digest in signed.items():
        try:
            digested = at.digest(path)
        except NotVerified as absent:
            missing.append(str(absent))
            continue
        if digested != digest:
            raise NotVerified(f"the published file {path} is not the one that was signed")
    head, claim = LedgerHead(entries=len(at.excerpt.entries), head=at.excerpt.head), at.statement.predicate
    equal("the claim that was signed", claim, PrivacyClaim.of(certificate, head, claim.version))
    due = {KEY_FILE: key.pem}
    if certificate.versions["concord"] == __version__:  # another one may write other schemas
        schemas = {SCHEMA_FILE: schema(), ATTESTATION_SCHEMA_FILE: attestation_schema()}
        due |= {name: json.dumps(content, indent=2).encode() for name, content in schemas.items()}
    for name, text in due.items():
        if at.read(at.path(name)) != text:
            raise NotVerified(f"{name} holds other bytes than Concord writes")
    unchanged = f"{len(signed) - len(missing)} files are unchanged since the key {key.fingerprint} signed them"
    if missing:
        more = f" (and {len(missing) - 1} more)" if missing[1:] else ""
        kind = NotIncluded if at.exported and all("is not included" in reason for reason in missing) else NotVerified
        raise kind(f"{missing[0]}{more}; the other {unchanged}")
    return unchanged


def excerpt_as_certified(certificate: Certificate, excerpt: Excerpt) -> str:
    """Check that the excerpt keeps the ledger's rule and agrees with the certificate. Raises NotVerified."""
    for line in excerpt.entries:
        for name, value in {**line.body, **line.body.get("released", {})}.items():
            if name in LEFT_OUT and value != "":
                raise NotVerified(f"{EXCERPT_FILE} shows the {name} of an entry, which an excerpt leaves out")
    for wrong in ledger_faults(excerpt.records):
        raise NotVerified(f"{EXCERPT_FILE}: {wrong}")
    moment, run = excerpt.reading, [certificate.leading, *certificate.other_sessions]
    names = [record.session for record in certificate.sessions]
    if len({*names}) < len(names):  # each is recomputed
        raise NotVerified("the certificate names a session twice that was published with it")
    try:
        sessions = [moment.session(record.session) for record in run]
    except WrongInput as missing:
        raise NotVerified(f"{EXCERPT_FILE}: {missing}") from None
    due = [*sessions, *followers(sessions, moment)]
    equal("the sessions", sorted(names), sorted(session.id for session in due))
    domain, claim = moment.domain_of(sessions[0]), certificate.guarantee
    equal("the unit", claim.unit, domain.unit)
    equal("what is protected", claim.neighbours, domain.neighbours)
    equal("the domain", certificate.domain, DomainCharge.of(domain, moment))
    ours = certificate.versions["concord"] == __version__  # another one may name other proofs and caveats
    parts = {charge.session: charge.part for charge in certificate.domain.charges}
    division = moment.division(domain.name)
    for record in certificate.sessions:
        equal(f"the record of session {record.session}", record, _as_in(moment, record, ours))
        if record.tested is not None and record.tested.clean:
            read = record.part, parts.get(record.about or ""), record.tested.share
            apart = TEST, LEARNING, division and division.share
            equal(f"what the clean test {record.session} and its student read", read, apart)
    if ours:
        equal("the caveats", certificate.caveats, caveats(domain, sessions, moment))
    return f"{len(excerpt.entries)} entries follow the ledger's rule and agree with the certified charges and claim"


def _as_in(moment: Reading, record: SessionRecord, ours: bool) -> SessionRecord:
    """The record of a session as the excerpt has it, and if this version wrote it, as the mechanism does."""
    session = moment.session(record.session)
    rows = {"asked": session.asked, "answered": session.answered, "refused": session.refused}
    return record.with_(
        mechanism=mechanism_of(session) if ours else record.mechanism.with_(settings=session.mechanism),
        purpose=session.purpose,
        guarantee=Budget(epsilon=session.epsilon, delta=session.delta),
        part=moment.part_of(session.id),
        stream=moment.stream_of(session.id),
        teachers=session.teachers,
        counts=record.counts.with_(**rows),
    )
