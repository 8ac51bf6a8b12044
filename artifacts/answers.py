"""The certificate of answers: the guarantee for questions asked of shards of the private rows.

Like `artifacts.certificate`, but without a student. It is public and deterministic, and holds no private data and no
times. It names each question that was asked, its outcome, and the guarantee of all of them together. Its JSON schema,
`answers_schema`, is published with it; a change of the schema needs a new ANSWERS_FORMAT, checked by
tests/artifacts/test_certificate_schema.py.
"""

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field, ValidationError

from concord.artifacts.certificate import SCHEMA_FILE, Certificate, Counts, MechanismRecord, library_versions
from concord.artifacts.errors import NotVerified
from concord.artifacts.guarantee import DomainCharge, Guarantee
from concord.artifacts.schemas import CertificatePart, Ref

ANSWERS_FORMAT: Final = "concord certificate of answers 1"
Outcome = Literal["answered", "no answer", "refused"]
"""The common answer; none, if that is the common answer; or a refusal, since the shards disagree."""


class AnswerRecord(CertificatePart):
    """What was released for one question.

    code     digest of the question's source text and the values it takes from around it; empty if one was not known
    answer   in the plain form of `tasks.asking.answers`; null if there is none
    """

    question: str
    code: str
    outcome: Outcome
    answer: Any
    file: Ref


class AnswersCertificate(CertificatePart):
    """What is promised of a session of questions, and how to check it.

    shards    disjoint parts of the private units, each of which answered every question
    versions  of Concord and packages by which it was written, and of Concord when the session was opened
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    schema_file: Annotated[Literal["certificate.schema.json"], Field(alias="$schema")] = SCHEMA_FILE
    format: Literal["concord certificate of answers 1"] = ANSWERS_FORMAT
    session: str
    data_version: str
    guarantee: Guarantee
    mechanism: MechanismRecord
    shards: int
    counts: Counts
    domain: DomainCharge
    answers: tuple[AnswerRecord, ...]
    caveats: tuple[str, ...]
    versions: dict[str, str] = Field(default_factory=library_versions)

    @property
    def promise(self) -> Guarantee:
        """The guarantee of everything that the session published."""
        return self.guarantee

    @property
    def files(self) -> tuple[Ref, ...]:
        """The released files of all answers, in order."""
        return tuple(answer.file for answer in self.answers)


Promising = Certificate | AnswersCertificate
"""A published certificate: of a student, or of answers."""


def promising(text: bytes, path: str, *, asks: bool) -> Promising:
    """The certificate that a file holds: of answers if the session asks questions. Raises NotVerified if none."""
    try:
        return AnswersCertificate.model_validate_json(text) if asks else Certificate.model_validate_json(text)
    except ValidationError:
        raise NotVerified(f"{path} is not a certificate{' of answers' * asks}") from None


def answers_schema() -> dict[str, Any]:
    """The JSON Schema of certificates of ANSWERS_FORMAT."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{ANSWERS_FORMAT.replace(' ', ':')}",
    }
    return head | AnswersCertificate.model_json_schema(mode="serialization")
