"""A published student as it is handed on: the bytes that were checked, and no other copy of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from concord.artifacts.attestation import ATTESTATION_FILE, ATTESTATION_SCHEMA_FILE, KEY_FILE
from concord.artifacts.certificate import CERTIFICATE_FILE, SCHEMA_FILE, Certificate
from concord.artifacts.ledger.excerpt import EXCERPT_FILE

EVIDENCE: Final = (ATTESTATION_FILE, ATTESTATION_SCHEMA_FILE, EXCERPT_FILE, KEY_FILE)
DOCUMENTS: Final = (CERTIFICATE_FILE, SCHEMA_FILE, "report.html", *EVIDENCE)
"""The files beside a student that are handed on with it."""
CARD_FILE: Final = "MODEL_CARD.md"
"""The model card of an exported student, by which its folder is known as an export."""


@dataclass(frozen=True)
class Published:
    """A student that was found to be the published one: only `tasks.verify.handing` makes one.

    student   the content of its file; `documents` those of the files of DOCUMENTS that were published, by name
    """

    certificate: Certificate
    student: bytes
    documents: Mapping[str, bytes]
