"""Verify the evidence published with a certificate: the signature, and the excerpt of the ledger that proves the claim.

The ledger's rule is checked over the excerpt (tasks.verify.reckoning), and the certificate's statements about its
domain, its unit and its session must agree with the excerpt.

Assumes      the certificate was parsed from the published bytes; files are read by their paths
Guarantees   found and named: a file that is not the one signed, or that the statement leaves out; a statement that
             claims other than the certificate; another signer than was named; an excerpt that breaks the ledger's rule,
             or that carries another unit, cap, charge, claim or count than is certified
Not covered  an excerpt made up as a whole, with all other files, by the holder of the key, or by anyone if no key is
             named
             Checked by tests/tasks/verify/test_verify_signed.py, with two hundred planted changes, and by
             test_verify_excerpt.py
"""

import json
import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from pydantic import ValidationError

from concord import __version__
from concord.artifacts.answers import Promising
from concord.artifacts.attestation import ATTESTATION_FILE, KEY_FILE, LedgerHead, PrivacyClaim, Statement
from concord.artifacts.certificate import (
    CERTIFICATE_FILE,
    CERTIFICATE_FORMAT,
    FIRST_FORMAT,
    OPENED,
    SCHEMA_FILE,
    Certificate,
    promised_together,
)
from concord.artifacts.domains import Domain
from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.guarantee import LOST_WITNESS, UNWITNESSED, WITNESSED
from concord.artifacts.home.released import sha256
from concord.artifacts.home.signing import PAYLOAD_TYPE, PublicKey, payload_of
from concord.artifacts.ledger.excerpt import EXCERPT_FILE, Excerpt
from concord.artifacts.ledger.reading import Reading
from concord.artifacts.model_signature import MODEL_KEY_FILE, MODEL_SIGNATURE_FILE
from concord.artifacts.model_signature import check as check_model
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Session
from concord.artifacts.vulnerabilities import oldest
from concord.tasks.publish.describe import caveats, claims_of_tests, domain_charge, proof_of, tests_of
from concord.tasks.verify.checks import equal
from concord.tasks.verify.folder import PublishedSession, Read
from concord.tasks.verify.reckoning import reckon
from concord.tasks.verify.recompute import SLACK, least_delta

UNSIGNED = (
    "NOBODY SIGNED THIS: nothing is signed, and there is no excerpt of the ledger, as version 0.1.0 published. Anybody "
    "can make such a folder; what it says is worth no more than your trust in whoever handed it to you, and what the "
    "domain was charged is not checked here. A publisher who signs can publish it again; name their key with --key"
)
BESIDE = (CERTIFICATE_FILE, SCHEMA_FILE, EXCERPT_FILE, KEY_FILE)
"""Files of a session's folder that a statement always covers."""

LARGEST_SETTINGS = {
    **dict.fromkeys(("steps", "threshold"), 2**22),
    **dict.fromkeys(("threshold_scale", "query_scale"), 2**18),
    **dict.fromkeys(("copies", "classes"), 2**10),
    "least": 2**16,
    "cutoff": 2**30,
    "queries": 2**40,
}
"""Recomputing the cost of larger numbers might not end. Only settings for millions of teachers have any."""
LARGEST_OF = {"laplace_release": {"threshold": 2**15}, "laplace_votes": {"queries": 2**32}, "tallies": {"steps": 2**16}}
"""The same for single mechanisms; for a single question, every distance up to the threshold is computed."""

LONGEST_REFUSALS = 2**25
"""Characters of a table of refusals, which are more than 3,000,000 entries, and of calibrated ones 2,420,000 were the
most. Each is priced by itself, in about 0.1 ms: so what an excerpt asks is bounded by its size."""
MOST_ROUNDS = 2**8
"""More rounds than a session has; each is priced separately, with all other settings."""


def checks_beside(at: PublishedSession, key: str | None) -> dict[str, Callable[[], str]]:
    """The checks of excerpt and signature; none for a certificate that never had them, unless a key is named."""
    if unsigned(at) and key is None:
        return {}
    return {
        "ledger excerpt": lambda: excerpt(at.certificate, at.read),
        "signature": lambda: signature(at, key),
    }


def unsigned(at: PublishedSession) -> bool:
    """Whether the certificate has the only format that was published without evidence, and no evidence is there."""
    files = (at.folder / name for name in (ATTESTATION_FILE, EXCERPT_FILE, KEY_FILE))
    return at.certificate.format == FIRST_FORMAT and not any(map(os.path.lexists, files))


def check_counts(settings: object) -> None:
    """Raise NotVerified if one of LARGEST_SETTINGS, anywhere inside settings, is larger than that, or no number."""
    largest = LARGEST_SETTINGS | LARGEST_OF.get(str(settings.get("name")), {}) if isinstance(settings, dict) else {}
    for name, item in settings.items() if isinstance(settings, dict) else ():
        if name == "rounds" and isinstance(item, list) and len(item) > MOST_ROUNDS:
            raise NotVerified(f"the mechanism has {len(item):,} rounds, with which Concord does not run")
        if name == "refusal" and isinstance(item, str) and len(item) > LONGEST_REFUSALS:
            raise NotVerified("the mechanism's table of refusals is longer than any that Concord runs with")
        if name not in largest or item is None:
            continue
        if not isinstance(item, int | float) or not 0 <= item <= largest[name]:
            raise NotVerified(
                f"the mechanism's {name} is beyond {largest[name]:,}, or no number: its cost is not computed here"
            )
    for part in settings.values() if isinstance(settings, dict) else settings if isinstance(settings, list) else ():
        check_counts(part)


def signer(certificate: Promising, read: Read) -> PublicKey:
    """The key that is published with a certificate. Raises NotVerified if the file holds no key."""
    try:
        return PublicKey.of_pem(read(f"{certificate.session}/{KEY_FILE}"))
    except NotVerified as wrong:
        raise NotVerified(f"{KEY_FILE}: {wrong}") from None


def _named(certificate: Promising, read: Read, trusted: str | None) -> PublicKey:
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
    must = {f"{certificate.session}/{name}" for name in BESIDE} | {file.path for file in certificate.files}
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
    if isinstance(certificate, Certificate) and (path := f"{certificate.session}/{MODEL_SIGNATURE_FILE}") in signed:
        _model(certificate.student.file, read(path), read(f"{certificate.session}/{MODEL_KEY_FILE}"))
    found = f"{len(signed) - len(missing)} files are as the key {key.fingerprint} signed them"
    if missing:
        more = f" (and {len(missing) - 1} more)" if missing[1:] else ""
        raise NotVerified(f"{missing[0]}{more}; the other {found}")
    return found


def _model(file: Ref, bundle: bytes, key: bytes) -> None:
    """The model's own signature, if one was published. Raises NotVerified."""
    try:
        check_model(bundle, key, Path(file.path).name, file.digest)
    except NotVerified as wrong:
        raise NotVerified(f"{MODEL_SIGNATURE_FILE}: {wrong}") from None


def kept_excerpt(certificate: Promising, read: Read, trusted: str | None) -> Excerpt:
    """The excerpt that was signed with a certificate; other published files need not be there.

    Raises NotVerified if certificate or excerpt is not what the key signed, or the key is not the `trusted` one.
    """
    statement = statement_of(certificate, read, _named(certificate, read, trusted))
    for name in (CERTIFICATE_FILE, EXCERPT_FILE):
        path = f"{certificate.session}/{name}"
        if statement.digests.get(path) != sha256(read(path)):
            raise NotVerified(f"the published file {path} is not the one that was signed")
    return Excerpt.read(read(f"{certificate.session}/{EXCERPT_FILE}"))


def statement_of(certificate: Promising, read: Read, key: PublicKey) -> Statement:
    """The statement that the key signed. Raises NotVerified if there is none."""
    try:
        payload = payload_of(read(f"{certificate.session}/{ATTESTATION_FILE}"), PAYLOAD_TYPE, key)
    except NotVerified as wrong:
        raise NotVerified(f"{ATTESTATION_FILE} is not signed by what {KEY_FILE} holds: {wrong}") from None
    try:
        statement = Statement.model_validate_json(payload)
    except ValidationError:
        raise NotVerified(f"{ATTESTATION_FILE} holds no statement of a differential-privacy claim") from None
    if statement.text != payload or len(statement.digests) != len(statement.subject):
        raise NotVerified(f"{ATTESTATION_FILE} holds another statement than Concord writes")
    return statement


def excerpt(certificate: Promising, read: Read) -> str:
    """Check that the excerpt keeps the ledger's rule and agrees with the certificate. Raises NotVerified."""
    found = Excerpt.read(read(f"{certificate.session}/{EXCERPT_FILE}"))
    for line in found.entries:
        check_counts(line.body)
    for wrong in reckon(found.records):
        raise NotVerified(f"{EXCERPT_FILE}: {wrong}")
    moment = found.reading
    try:
        session = moment.session(certificate.session)
        others = [moment.session(name) for name in _other_sessions(certificate)]
    except WrongInput as missing:
        raise NotVerified(f"{EXCERPT_FILE}: {missing}") from None
    _carries(certificate, moment, session)
    if not isinstance(certificate, Certificate):
        equal("the shards", certificate.shards, session.teachers)
        equal("the version that opened the session", certificate.versions.get(OPENED), oldest([session]))
        return _summary(found)
    equal("the version that opened the session", certificate.versions.get(OPENED), oldest([session, *others]))
    equal("the teachers", certificate.teachers, session.teachers)
    for other in (*others, *tests_of([session, *others], moment)):
        _claimed(other)
    whole = promised_together(certificate.guarantee, certificate.beside, claims_of_tests([session, *others], moment))
    equal("what is promised of all that was published", certificate.together, whole)
    for other, of in zip(others, certificate.beside, strict=True):
        claim = (of.mechanism, of.guarantee.epsilon, of.guarantee.delta, of.teachers)
        due = (other.mechanism.get("name"), other.epsilon, other.delta, other.teachers)
        equal(f"what is certified of session {other.id}", claim, due)
    return _summary(found)


def _claimed(session: Session) -> None:
    """Check that the settings of another session covered by the certificate prove its claim."""
    stated = {**session.mechanism, **session.mechanism.get("relabel", {})}
    for term in ("epsilon", "delta"):
        claim = getattr(session, term)
        equal(f"the {term} that session {session.id} claims", claim, stated.get(term, claim))
    delta = _least_delta(json.dumps(session.mechanism, sort_keys=True), session.epsilon)
    if not delta <= session.delta * SLACK:
        raise NotVerified(
            f"at ε = {session.epsilon:g} the settings of session {session.id} prove δ = {delta:.6g}, and it claims "
            f"{session.delta:g}"
        )


@lru_cache(maxsize=256)
def _least_delta(settings: str, epsilon: float) -> float:
    """What the same settings of any number of sessions prove."""
    return least_delta(json.loads(settings), epsilon)


def _carries(certificate: Promising, moment: Reading, session: Session) -> None:
    domain, claim = moment.domain_of(session), certificate.guarantee
    equal("the unit", claim.unit, domain.unit)
    equal("what is protected", claim.neighbours, domain.neighbours)
    equal("the session's claim", (claim.epsilon, claim.delta), (session.epsilon, session.delta))
    equal("the mechanism's settings", certificate.mechanism.settings, session.mechanism)
    due = domain_charge(domain, moment)
    for name in type(due).model_fields:
        equal(f"the domain's {name}", getattr(certificate.domain, name), getattr(due, name))
    if certificate.versions.get("concord") == __version__:
        _in_words(certificate, moment, domain, session)
    counts = certificate.counts
    found = (session.asked, session.answered, session.refused)
    equal("the rows asked, answered and refused", (counts.asked, counts.answered, counts.refused), found)


def _in_words(certificate: Promising, moment: Reading, domain: Domain, session: Session) -> None:
    """Check that the named proof is the mechanism's, and that no caveat due by the excerpt is left out.

    A witness may have been added later; the certificate may not claim one that is not in the excerpt.
    """
    equal("the proof", certificate.mechanism.proof, proof_of(session.mechanism))
    form = certificate.format if isinstance(certificate, Certificate) else CERTIFICATE_FORMAT
    sessions = [session, *map(moment.session, _other_sessions(certificate))]
    due = {*caveats(domain, sessions, moment, __version__, form)} - {LOST_WITNESS}
    if moment.witnessed and UNWITNESSED in certificate.caveats:
        due -= {WITNESSED}
    for text in sorted(due - {*certificate.caveats}):
        raise NotVerified(f"the certificate leaves out what must stand in it: {text}")


def _other_sessions(certificate: Promising) -> Sequence[str]:
    """The sessions beside the certificate's. Raises NotVerified if one is named again: each is recomputed."""
    names = [other.session for other in certificate.beside] if isinstance(certificate, Certificate) else []
    if len({certificate.session, *names}) <= len(names):
        raise NotVerified("the certificate names a session twice that was published with it")
    return names


def _summary(found: Excerpt) -> str:
    return f"{len(found.entries)} entries of the ledger keep its rule, and carry the domain's charges and the claim"
