"""What makes a folder a published one, and a student as it is handed on: the bytes that were checked, and no others.

Its attestation is an in-toto statement about the files a session published and the guarantee it claims for them.

    subject        every published file that the statement covers, by its path and SHA-256
    predicate      a differential-privacy claim: (ε, δ) for which unit, by which mechanism, within which domain and cap,
                   and the head of the ledger's excerpt that it rests on

It is signed in an envelope (artifacts.home.signing) and published beside the certificate with `attestation_schema`,
the JSON Schema of the statement. It holds no time. Checked by tests/artifacts/test_published_schemas.py, against
in-toto's own rules for a statement.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from concord import __version__
from concord.artifacts.certificate import CERTIFICATE_FILE, SCHEMA_FILE, Certificate
from concord.artifacts.guarantee import Guarantee
from concord.artifacts.home.signing import STATEMENT_TYPE
from concord.artifacts.ledger.excerpt import EXCERPT_FILE
from concord.artifacts.schemas import Budget, Ref

ATTESTATION_FILE: Final = "attestation.json"
ATTESTATION_SCHEMA_FILE: Final = "attestation.schema.json"
KEY_FILE: Final = "key.pem"
"""File names of the envelope, of the schema of its statement, and of the public key, beside the certificate."""
EVIDENCE: Final = (ATTESTATION_FILE, ATTESTATION_SCHEMA_FILE, EXCERPT_FILE, KEY_FILE)
SIGNED_WITH: Final = (ATTESTATION_FILE, EXCERPT_FILE, KEY_FILE)
"""Files whose presence shows that a folder was published."""
SYNTHETIC_FILE: Final = "synthetic.parquet"
"""Synthetic rows, if the session is one of a sketch."""
SYNTHETIC: Final = "synthetic rows, drawn from released tables, and labels inferred for them: nobody's rows"
"""What the metadata of that file says of it."""
PROBABILITY_DIGITS: Final = 4
"""Digits of the probability beside the label of a synthetic row."""
NOBODYS: Final = (
    "No synthetic row is a person's: one may equal a person's row by chance, and reveals no more about anyone than the "
    "guarantee allows."
)
DOCUMENTS: Final = (CERTIFICATE_FILE, SCHEMA_FILE, "report.html", SYNTHETIC_FILE, *EVIDENCE)
"""The files beside a student that are handed on with it."""
CARD_FILE: Final = "MODEL_CARD.md"
"""The model card of an exported student, by which its folder is known as an export."""
PREDICATE_TYPE: Final = "urn:concord:differential-privacy-claim:2"
Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Signed(BaseModel):
    """A part of the statement: frozen, finite, and no key it does not know."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, validate_by_name=True, serialize_by_alias=True
    )


class Sha256(Signed):
    """The digest of a file."""

    sha256: Digest


class Subject(Signed):
    """A published file: its path begins with the session's folder."""

    name: str
    digest: Sha256

    @classmethod
    def of(cls, file: Ref) -> Self:
        """A released file as a subject."""
        return cls(name=file.path, digest=Sha256(sha256=file.digest))


class ClaimedDomain(Signed):
    """The body of private data, its cap over its lifetime, and how many sessions it had."""

    name: str
    cap: Budget
    sessions: int


class LedgerHead(Signed):
    """The excerpt of the ledger that the claim rests on: its entries, and the digest that binds them all."""

    entries: int
    head: Digest


class PrivacyClaim(Signed):
    """What is claimed.

    guarantee  of everything that was published together; the certificate says what of it each session promises
    mechanism  what the answers were drawn by
    version    of Concord that signed
    """

    session: str
    guarantee: Guarantee
    mechanism: str
    domain: ClaimedDomain
    ledger: LedgerHead
    version: str

    @classmethod
    def of(cls, certificate: Certificate, ledger: LedgerHead, version: str = __version__) -> Self:
        """The claim of `certificate`, resting on the ledger excerpt with that head."""
        domain = certificate.domain
        return cls(
            session=certificate.session,
            guarantee=certificate.guarantee,
            mechanism=certificate.mechanism.name,
            domain=ClaimedDomain(name=domain.name, cap=domain.cap, sessions=domain.sessions),
            ledger=ledger,
            version=version,
        )


class Statement(Signed):
    """An in-toto statement, version 1."""

    type_: Annotated[Literal["https://in-toto.io/Statement/v1"], Field(alias="_type")] = STATEMENT_TYPE
    subject: Annotated[tuple[Subject, ...], Field(min_length=1)]
    predicate_type: Annotated[Literal["urn:concord:differential-privacy-claim:2"], Field(alias="predicateType")] = (
        PREDICATE_TYPE
    )
    predicate: PrivacyClaim

    @property
    def text(self) -> bytes:
        """The bytes that are signed."""
        return self.model_dump_json().encode()

    @property
    def digests(self) -> dict[str, str]:
        """The SHA-256 of every file the statement covers, by path."""
        return {subject.name: subject.digest.sha256 for subject in self.subject}


def attestation_schema() -> dict[str, Any]:
    """The JSON Schema of the statement."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": PREDICATE_TYPE}
    return head | Statement.model_json_schema(mode="serialization")


def is_published(path: Path) -> bool:
    """Whether a path names a published folder, even one without its certificate, or a certificate."""
    return certificate_file(path).is_file() or any((path / name).is_file() for name in SIGNED_WITH)


def certificate_file(path: Path) -> Path:
    """The certificate's file in a folder, or at that path."""
    return path / CERTIFICATE_FILE if path.is_dir() else path


@dataclass(frozen=True)
class PublishedStudent:
    """A student that was found to be the published one: only `tasks.verify.certificate` makes one.

    student   the content of its file; `documents` those of the files of DOCUMENTS that were published, by name
    tables    the released steps of a sketch that counted tables, JSON; none if they do not lie beside the certificate
    """

    certificate: Certificate
    student: bytes
    documents: Mapping[str, bytes]
    tables: tuple[bytes, ...] = ()
