"""Verify the evidence published with a certificate: the signature, and the excerpt of the ledger that proves the claim.

The ledger's rule is checked over the excerpt (tasks.verify.reckoning), and the certificate's statements about its
domain, its unit and its session must agree with the excerpt.

Assumes      the certificate was parsed from the published bytes; files are read by their paths
Guarantees   found and named: a file that is not the one signed, or that the statement leaves out; a statement that
             claims other than the certificate; another signer than was named; an excerpt that breaks the ledger's rule,
             or that carries another unit, cap, charge, claim or count than is certified
Not covered  an excerpt made up as a whole, with all other files, by the holder of the key, or by anyone if no key is
             named
             Checked by tests/tasks/verify/test_tampering.py, with two hundred planted changes, and by
             test_verify_excerpt.py
"""

import json

from pydantic import ValidationError

from concord import __version__
from concord.artifacts.certificate import CERTIFICATE_FILE, SCHEMA_FILE, Certificate, schema
from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.home.released import sha256
from concord.artifacts.home.signing import PAYLOAD_TYPE, PublicKey, payload_of
from concord.artifacts.ledger.excerpt import EXCERPT_FILE, Excerpt
from concord.artifacts.ledger.reading import Reading
from concord.artifacts.published import (
    ATTESTATION_FILE,
    ATTESTATION_SCHEMA_FILE,
    KEY_FILE,
    LedgerHead,
    PrivacyClaim,
    Statement,
    attestation_schema,
)
from concord.artifacts.records import SessionRecord, promised
from concord.artifacts.schemas import Budget
from concord.tasks.asks.kinds import mechanism_of
from concord.tasks.publish.describe import caveats, domain_charge, followers
from concord.tasks.verify.checks import NotIncluded, equal, proved
from concord.tasks.verify.folder import PublishedSession, Read
from concord.tasks.verify.reckoning import ledger_faults

REQUIRED = (CERTIFICATE_FILE, SCHEMA_FILE, EXCERPT_FILE, KEY_FILE)
"""Files of a session's folder that a statement always covers."""


def signer(certificate: Certificate, read: Read) -> PublicKey:
    """The key that is published with a certificate. Raises NotVerified if the file holds no key."""
    try:
        return PublicKey.of_pem(read(f"{certificate.session}/{KEY_FILE}"))
    except NotVerified as wrong:
        raise NotVerified(f"{KEY_FILE}: {wrong}") from None


def _named(certificate: Certificate, read: Read, trusted: str | None) -> PublicKey:
    key = signer(certificate, read)
    if trusted is not None and not key.is_named(trusted):
        raise NotVerified(f"{KEY_FILE} holds the key {key.fingerprint}, which is not the one that you named")
    return key


def signature(at: PublishedSession, trusted: str | None) -> str:
    """Check that one key, the `trusted` one if it is named, signed everything as it is. Raises NotVerified."""
    certificate, read = at.certificate, at.read
    key = _named(certificate, read, trusted)
    statement = statement_of(certificate, read, key)
    signed = statement.digests
    must = {f"{certificate.session}/{name}" for name in REQUIRED} | {file.path for file in certificate.files}
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
    excerpt = Excerpt.read(read(f"{certificate.session}/{EXCERPT_FILE}"))
    head = LedgerHead(entries=len(excerpt.entries), head=excerpt.head)
    claim = PrivacyClaim.of(certificate, head, statement.predicate.version)
    equal("the claim that was signed", statement.predicate, claim)
    _as_written(certificate, read, key)
    found = f"{len(signed) - len(missing)} files are unchanged since the key {key.fingerprint} signed them"
    if missing:
        more = f" (and {len(missing) - 1} more)" if missing[1:] else ""
        kind = NotIncluded if at.exported and all("is not included" in each for each in missing) else NotVerified
        raise kind(f"{missing[0]}{more}; the other {found}")
    return found


def _as_written(certificate: Certificate, read: Read, key: PublicKey) -> None:
    """Check that the key and, if this version wrote them, the schemas have the bytes that Concord writes."""
    due = {KEY_FILE: key.pem}
    if certificate.versions.get("concord") == __version__:
        schemas = {SCHEMA_FILE: schema(), ATTESTATION_SCHEMA_FILE: attestation_schema()}
        due |= {name: json.dumps(content, indent=2).encode() for name, content in schemas.items()}
    for name, text in due.items():
        if read(f"{certificate.session}/{name}") != text:
            raise NotVerified(f"{name} holds other bytes than Concord writes")


def kept_excerpt(certificate: Certificate, read: Read, trusted: str | None) -> Excerpt:
    """The excerpt that was signed with a certificate; other published files need not be there.

    Raises NotVerified if certificate or excerpt is not what the key signed, or the key is not the `trusted` one.
    """
    statement = statement_of(certificate, read, _named(certificate, read, trusted))
    for name in (CERTIFICATE_FILE, EXCERPT_FILE):
        path = f"{certificate.session}/{name}"
        if statement.digests.get(path) != sha256(read(path)):
            raise NotVerified(f"the published file {path} is not the one that was signed")
    return Excerpt.read(read(f"{certificate.session}/{EXCERPT_FILE}"))


def statement_of(certificate: Certificate, read: Read, key: PublicKey) -> Statement:
    """The statement that the key signed. Raises NotVerified if there is none."""
    try:
        payload = payload_of(read(f"{certificate.session}/{ATTESTATION_FILE}"), PAYLOAD_TYPE, key)
    except NotVerified as wrong:
        raise NotVerified(f"{ATTESTATION_FILE} is not signed by the key in {KEY_FILE}: {wrong}") from None
    try:
        statement = Statement.model_validate_json(payload)
    except ValidationError:
        raise NotVerified(f"{ATTESTATION_FILE} holds no statement of a differential-privacy claim") from None
    if statement.text != payload or len(statement.digests) != len(statement.subject):
        raise NotVerified(f"{ATTESTATION_FILE} holds another statement than Concord writes")
    return statement


def excerpt(certificate: Certificate, read: Read) -> str:
    """Check that the excerpt keeps the ledger's rule and agrees with the certificate. Raises NotVerified."""
    found = Excerpt.read(read(f"{certificate.session}/{EXCERPT_FILE}"))
    for wrong in ledger_faults(found.records):
        raise NotVerified(f"{EXCERPT_FILE}: {wrong}")
    moment, run = found.reading, [certificate.leading, *certificate.other_sessions]
    names = [record.session for record in certificate.sessions]
    if len({*names}) < len(names):  # each is recomputed
        raise NotVerified("the certificate names a session twice that was published with it")
    try:
        sessions = [moment.session(record.session) for record in run]
    except WrongInput as missing:
        raise NotVerified(f"{EXCERPT_FILE}: {missing}") from None
    due = [*sessions, *followers(sessions, moment)]
    equal("the sessions", sorted(record.session for record in certificate.sessions), sorted(each.id for each in due))
    _carries(certificate, moment)
    for record in certificate.sessions:
        _records(record, moment)
    together = promised(certificate.sessions)
    claimed = Budget(epsilon=certificate.guarantee.epsilon, delta=certificate.guarantee.delta)
    equal("what is promised of all that was published", claimed, together)
    return f"{len(found.entries)} entries follow the ledger's rule and agree with the certified charges and claim"


def _records(record: SessionRecord, moment: Reading) -> None:
    """Check that the excerpt carries what is certified of a session, and that its settings prove its claim."""
    session, of = moment.session(record.session), f" of session {record.session}"
    equal(f"the mechanism's settings{of}", record.mechanism.settings, session.mechanism)
    equal(f"the purpose{of}", record.purpose, session.purpose)
    proved(session.mechanism, (session.epsilon, session.delta), of)
    equal(f"the claim{of}", (record.guarantee.epsilon, record.guarantee.delta), (session.epsilon, session.delta))
    equal(f"the part{of}", record.part, moment.part_of(session.id))
    equal(f"the stream{of}", record.stream, moment.stream_of(session.id))
    equal(f"the teachers{of}", record.teachers, session.teachers)
    counts, found = record.counts, (session.asked, session.answered, session.refused)
    equal(f"the rows asked, answered and refused{of}", (counts.asked, counts.answered, counts.refused), found)


def _carries(certificate: Certificate, moment: Reading) -> None:
    """Check that unit, neighbours and charges are those of the excerpt; and if this version wrote the certificate, that
    the named proofs are the mechanisms', and that no caveat due by the excerpt is left out.
    """
    domain, claim = moment.domain_of(moment.session(certificate.session)), certificate.guarantee
    equal("the unit", claim.unit, domain.unit)
    equal("what is protected", claim.neighbours, domain.neighbours)
    charge = domain_charge(domain, moment)
    for name in type(charge).model_fields:
        equal(f"the domain's {name}", getattr(certificate.domain, name), getattr(charge, name))
    if certificate.versions.get("concord") != __version__:
        return
    for record in certificate.sessions:
        equal("the mechanism", record.mechanism, mechanism_of(moment.session(record.session)))
    run = [moment.session(record.session) for record in (certificate.leading, *certificate.other_sessions)]
    for text in sorted({*caveats(domain, run, moment)} - {*certificate.caveats}):
        raise NotVerified(f"the certificate leaves out what must stand in it: {text}")
