"""Attest: publish evidence with a certificate, so that it can be checked without the home it came from.

An excerpt of the ledger (artifacts.ledger.excerpt), a signed statement over everything published
(artifacts.published), its schema, and the public half of the key. All of it is published together with the
certificate, and moved into place before it.

Assumes      the certificate was made of this ledger, at this moment or an earlier one
Guarantees   of the vault, the secrets that sign and hide are read, and nothing else; the same certificate
             and ledger give the same bytes, whenever and however often this runs
Not covered  what artifacts.home.released does not cover; times of files that no certificate names yet, as while a
             command runs or after it was killed
             Checked by tests/tasks/publish/test_certify.py
"""

import json
from collections.abc import Mapping
from typing import Any

from concord.artifacts.certificate import CERTIFICATE_FILE, SCHEMA_FILE, Certificate, schema
from concord.artifacts.errors import NotVerified
from concord.artifacts.home.released import digest_of
from concord.artifacts.home.signing import PAYLOAD_TYPE, SigningKey
from concord.artifacts.home.vault import Vault
from concord.artifacts.ledger.excerpt import EXCERPT_FILE, Excerpt, hiding
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.ledger.reading import Reading
from concord.artifacts.published import (
    ATTESTATION_FILE,
    ATTESTATION_SCHEMA_FILE,
    KEY_FILE,
    LedgerHead,
    PrivacyClaim,
    Statement,
    Subject,
    attestation_schema,
)
from concord.artifacts.schemas import Ref
from concord.artifacts.stores import Stores
from concord.tasks.publish.describe import domain_charge

CHARGING = ("domain", "recap", "divide", "open", "settle")
"""Kinds of entries that may change the charges of a domain."""


def publish_certificate(certificate: Certificate, files: Mapping[str, bytes | Ref], stores: Stores) -> dict[str, Ref]:
    """Publish a certificate together with its schema and its evidence: excerpt, key, statement and its schema.

    All files that the certificate names get new times: their own would show how long private work went on after them.

    files   further files of its session's folder, by name, that are published with it
    Returns all of them by name. Raises NotVerified if the certificate agrees with no state of the ledger.
    """
    vault, released, folder = stores.vault, stores.released, certificate.session
    excerpt, key = excerpt_of(certificate, stores.ledger, vault), SigningKey.of(vault)
    evidence = {
        SCHEMA_FILE: _json(schema()),
        EXCERPT_FILE: excerpt.text,
        KEY_FILE: key.public.pem,
        ATTESTATION_SCHEMA_FILE: _json(attestation_schema()),
    }
    text = {CERTIFICATE_FILE: certificate.model_dump_json(indent=2).encode()}
    own = [Ref(path=f"{folder}/{name}", digest=digest_of(data)) for name, data in {**files, **evidence, **text}.items()]
    subjects = {file.path: file for file in (*own, *certificate.files)}
    statement = Statement(
        subject=tuple(Subject.of(subjects[path]) for path in sorted(subjects)),
        predicate=PrivacyClaim.of(certificate, LedgerHead(entries=len(excerpt.entries), head=excerpt.head)),
    )
    signed = {ATTESTATION_FILE: key.envelope(PAYLOAD_TYPE, statement.text)}
    released.restamp([file for file in certificate.files if file not in own])
    return released.publish(folder, {**files, **evidence, **signed, **text})


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=2).encode()


def excerpt_of(certificate: Certificate, ledger: Ledger, vault: Vault) -> Excerpt:
    """The ledger's excerpt on the domain, as of a moment that agrees with the certificate. Raises NotVerified."""
    name, records, hide = certificate.domain.name, ledger.records(), hiding(vault)
    made = Excerpt.of(records, name, rows_covered(certificate, ledger), hide)
    if _agrees(certificate, made.reading):
        return made
    then = 0  # another command charged the domain since
    for record, moment in ledger.history():
        charges = record.domain in (name, "") and record.kind in CHARGING
        if (not charges and then == record.seq - 1) or (charges and _agrees(certificate, moment)):
            then = record.seq
    made = Excerpt.of(records[:then], name, rows_covered(certificate, ledger), hide)
    if not made.entries or not _agrees(certificate, made.reading):
        raise NotVerified(f"the ledger never stood as the certificate of session {certificate.session} says")
    return made


def rows_covered(certificate: Certificate, ledger: Reading) -> dict[str, int]:
    """Number of rows asked in the batches that a certificate covers, by session."""
    return {
        record.session: sum(
            batch.outcome.asked
            for batch in ledger.batches(record.session)
            if batch.outcome is not None and batch.outcome.released in record.files
        )
        for record in certificate.sessions
    }


def _agrees(certificate: Certificate, moment: Reading) -> bool:
    """Whether the domain's charges at that moment are those in the certificate."""
    domain = moment.domain(certificate.domain.name)
    return domain is not None and domain_charge(domain, moment) == certificate.domain
