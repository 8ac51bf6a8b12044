"""What makes a folder a published one, and a student as it is handed on: the bytes that were checked, and no others."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from concord.artifacts.attestation import ATTESTATION_FILE, ATTESTATION_SCHEMA_FILE, KEY_FILE
from concord.artifacts.certificate import CERTIFICATE_FILE, SCHEMA_FILE, Certificate
from concord.artifacts.ledger.excerpt import EXCERPT_FILE

EVIDENCE: Final = (ATTESTATION_FILE, ATTESTATION_SCHEMA_FILE, EXCERPT_FILE, KEY_FILE)
SIGNED_WITH: Final = (ATTESTATION_FILE, EXCERPT_FILE, KEY_FILE)
"""Files whose presence shows that a folder was published."""
SYNTHETIC_FILE: Final = "synthetic.parquet"
"""Synthetic rows, if the session is one of a sketch."""
SYNTHETIC: Final = "synthetic rows, drawn from released tables, and labels inferred for them: nobody's rows"
"""What the metadata of that file says of it."""
NOBODYS: Final = (
    "No synthetic row is a person's: one may equal a person's row by chance, and reveals no more about anyone than the "
    "guarantee allows."
)
DOCUMENTS: Final = (CERTIFICATE_FILE, SCHEMA_FILE, "report.html", SYNTHETIC_FILE, *EVIDENCE)
"""The files beside a student that are handed on with it."""
CARD_FILE: Final = "MODEL_CARD.md"
"""The model card of an exported student, by which its folder is known as an export."""


def is_published(path: Path) -> bool:
    """Whether a path names a published folder, even one without its certificate, or a certificate."""
    return certificate_file(path).is_file() or any((path / name).is_file() for name in SIGNED_WITH)


def certificate_file(path: Path) -> Path:
    """The certificate's file in a folder, or at that path."""
    return path / CERTIFICATE_FILE if path.is_dir() else path


@dataclass(frozen=True)
class Published:
    """A student that was found to be the published one: only `tasks.verify.checked_student` makes one.

    student   the content of its file; `documents` those of the files of DOCUMENTS that were published, by name
    """

    certificate: Certificate
    student: bytes
    documents: Mapping[str, bytes]
