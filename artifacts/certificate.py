"""The certificate: what is promised about what was published, to whom, at what cost, and how to check it.

It is a list of sessions' records (artifacts.records), with the student that was learned from them, if there is one. It
is public and deterministic: it holds no private data, not even the number of private rows, and no times.
`schema()` is published with every certificate; a change of the schema needs a new FORMAT, checked by
tests/artifacts/test_published_schemas.py.
"""

import platform
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from concord import __version__
from concord.artifacts.errors import OF_ANOTHER, NotVerified, WrongInput
from concord.artifacts.facts import Facts
from concord.artifacts.guarantee import CAVEATS, DomainCharge, Guarantee
from concord.artifacts.measures import (
    AnyPublicTest,
    AnyTested,
    Estimate,
    thresholds_of,
)
from concord.artifacts.records import Counts, MechanismRecord, SessionRecord
from concord.artifacts.schemas import Budget, CertificatePart, Ref
from concord.artifacts.sections import AboutPlan

CERTIFICATE_FORMAT: Final = "concord certificate 5"
FIRST_VERSION: Final = "2.0.0"
"""The version that wrote this format first: an earlier one, whose words would not be compared, wrote none."""
CERTIFICATE_FILE: Final = "certificate.json"
SCHEMA_FILE: Final = "certificate.schema.json"
"""File names of the certificate and its schema, in the session's folder."""
TABLE: Final = ".arrow"
"""Suffix of the names of tables of labels."""
LIBRARIES = ("cryptography", "dp-accounting", "numpy", "opendp", "polars", "pyarrow", "scikit-learn", "scipy", "skops")
"""Packages on which noise, costs, the student or what a row becomes depend."""


def is_version(text: str) -> bool:
    """Whether a text is a version: three numbers, written so that no version has two names."""
    return re.fullmatch(r"(0|[1-9][0-9]{0,8})(\.(0|[1-9][0-9]{0,8})){2}", text) is not None


def later(version: str, other: str) -> bool:
    """Whether a version came after another."""
    return [*map(int, version.split("."))] > [*map(int, other.split("."))]


@cache
def library_versions() -> dict[str, str]:
    """Versions of Concord, of Python, and of the packages the guarantee depends on."""
    return {"concord": __version__, "python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


class RelabellingRecord(CertificatePart):
    """How rows were relabelled before teachers learned from them, and what each part of the guarantee is.

    hypotheses      the class over `features`, columns of the encoded matrix, from which one hypothesis was chosen
    inner           what the mechanism at the door costs on the relabelled subset
    choice_epsilon  ε of the choice
    share           how likely a unit was in the secret subset, which amplifies both into the whole
    """

    hypotheses: str
    features: tuple[str, ...]
    inner: Budget
    choice_epsilon: float
    share: float
    whole: Budget

    @classmethod
    def of(cls, sessions: Iterable[Facts]) -> Self | None:
        """The relabelling that the settings of one run's sessions record; None if none was relabelled."""
        for facts in sessions:
            if not isinstance(relabel := facts.relabel, Mapping):
                continue
            shown = {name: relabel.get(name) for name in ("hypotheses", "features", "choice_epsilon", "share")}
            whole = {name: relabel.get(name) for name in Budget.model_fields}
            try:
                return cls.model_validate({**shown, "inner": facts.model_dump(include={*whole}), "whole": whole})
            except ValidationError:  # of another version
                continue
        return None


class StudentRecord(CertificatePart):
    """The published student: what it is, its file, and its share of right answers on public test rows.

    accuracy      that of the public test; None as well if it predicts a number
    refused       what refused rows taught it; None for one that no label taught
    public_test   what stands beside that share, or the measures of a number: None if there are no such rows
    named         the classes that it predicts on the public rows; None if that was not determined, as when there is a
                  test
    history       of a stream: the accuracy of the student of each release so far, on the same public test rows
    views         of tallies and a sketch: which views of a row were counted, and why, by public facts alone; None if
                  there was no choice
    """

    estimator: str
    params: dict[str, Any]
    refused: str | None
    file: Ref
    accuracy: Estimate | None
    public_test: AnyPublicTest | None = None
    named: tuple[str, ...] | None = None
    history: tuple[Estimate, ...] = ()
    views: str | None = None


class Noise(CertificatePart):
    """The expected share of released labels that noise changed, and the public source of that figure.

    by   "counts": the noisy counts that were released; "guess": a public guess of how much teachers agree
    """

    changed: float
    by: Literal["counts", "guess"]


class Certificate(CertificatePart):
    """What is promised, and how to check it.

    about      the plan's account of the publication: who issues it, for what use, and when
    guarantee  of everything that all its sessions published, together
    units      how many private units there are, roughly, as the plan says in public; None if it does not
    sessions   the session that this certificate is about; others of the same run; and each test of their
               students
    noise      what noise did to released labels; None if no label was released by itself
    features   columns of a row that the student may read
    learned    the published student; None for a session that answered questions
    warnings   to users of the student (artifacts.measures)
    versions   of Concord and packages by which it was written
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    schema_file: Annotated[Literal["certificate.schema.json"], Field(alias="$schema")] = SCHEMA_FILE
    format: Literal["concord certificate 5"] = CERTIFICATE_FORMAT
    data_version: str
    about: AboutPlan = AboutPlan()
    guarantee: Guarantee
    units: int | None = None
    sessions: Annotated[tuple[SessionRecord, ...], Field(min_length=1)]
    noise: Noise | None = None
    domain: DomainCharge
    features: tuple[str, ...] = ()
    learned: Annotated[StudentRecord | None, Field(alias="student")] = None
    warnings: tuple[str, ...] = ()
    caveats: tuple[str, ...] = CAVEATS
    versions: dict[str, str] = Field(default_factory=library_versions)

    @classmethod
    def read(cls, text: bytes, path: str) -> Self:
        """The certificate that the file at `path` holds. Raises NotVerified if it holds none."""
        try:
            certificate = cls.model_validate_json(text)
        except ValidationError as wrong:
            form = [error["input"] for error in wrong.errors() if error["loc"] == ("format",)]
            if form and re.fullmatch("concord certificate [0-9]{1,3}", str(form[0])):
                raise NotVerified(f"{path} {OF_ANOTHER}") from None
            raise NotVerified(f"{path} is not a certificate") from None
        if not is_version(by := certificate.versions.get("concord", "")):
            raise NotVerified(f"{path} names a version {by!r} of Concord, which is not a version")
        if later(FIRST_VERSION, by):
            raise NotVerified(f"{path} names the version {by} of Concord, which wrote no {CERTIFICATE_FORMAT}")
        return certificate

    @property
    def delta_in_words(self) -> str:
        """A sentence by which a reader can judge δ: a mechanism that publishes each unit whole with that probability
        keeps the guarantee."""
        if not self.guarantee.delta:
            return "δ is 0, so the guarantee has no exception, for any number of private units."
        if self.units is None:
            return "δ is judged by the number of private units, which the plan does not state."
        return (
            f"The plan states about {self.units:,} private units: δ times that number, which should be far below 1, is "
            f"{self.guarantee.delta * self.units:.3g}."
        )

    @property
    def claim_in_words(self) -> str:
        """The guarantee, and what it is proved for, in a part of a sentence."""
        voters = f" with {self.teachers:,} teachers" if self.teachers else ""
        claim = f"{self.guarantee.in_words} ({self.guarantee.neighbours})"
        names = " and ".join(record.mechanism.name for record in (self.leading, *self.other_sessions))
        return f"{claim}: differential privacy, by {names}{voters}"

    @property
    def released_in_words(self) -> str:
        """What was asked and released, in a sentence."""
        if not self.teachers:
            return f"Released, without a teacher ensemble: {self.mechanism.releases}."
        asked, answered, refused = self.counts.asked, self.counts.answered, self.counts.refused
        return f"Of {asked:,} public rows asked, {answered:,} were answered and {refused:,} refused."

    @property
    def leading(self) -> SessionRecord:
        """The record of the session that the certificate is of."""
        return self.sessions[0]

    @property
    def session(self) -> str:
        """The session that the certificate is of."""
        return self.leading.session

    @property
    def mechanism(self) -> MechanismRecord:
        """The mechanism of the leading session."""
        return self.leading.mechanism

    @property
    def teachers(self) -> int:
        """The number of teachers, or shards, of the leading session."""
        return self.leading.teachers

    @property
    def counts(self) -> Counts:
        """The counts of the leading session."""
        return self.leading.counts

    @property
    def other_sessions(self) -> tuple[SessionRecord, ...]:
        """Other sessions of the same run on the same records."""
        return tuple(record for record in self.sessions[1:] if record.about is None)

    @property
    def what(self) -> str:
        """What the student is, in words."""
        return "model of a number" if self.mechanism.facts.classes == 0 else "classifier"

    @property
    def test(self) -> SessionRecord | None:
        """The latest test of this very student, if there was one."""
        student = None if self.learned is None else self.learned.file.digest
        tests = (record for record in self.sessions[::-1] if record.tested)
        return next((test for test in tests if test.mechanism.facts.student == student), None)

    @property
    def tested(self) -> AnyTested | None:
        """What that test says."""
        return None if self.test is None else self.test.tested

    @property
    def thresholds(self) -> dict[str, float]:
        """For each class that the student may never predict, the least probability at which to predict it."""
        return thresholds_of(self.student.public_test, self.tested, tallied=not self.teachers)

    @property
    def relabelling(self) -> RelabellingRecord | None:
        """How rows were relabelled, if they were."""
        return RelabellingRecord.of(record.mechanism.facts for record in self.sessions)

    @property
    def stated(self) -> dict[str, Any]:
        """Its fields that come from neither the ledger nor the door, by name."""
        return {name: getattr(self, name) for name in ("about", "units", "noise", "features", "learned")}

    @property
    def checksums(self) -> tuple[str, ...]:
        """One line per released file, in the format that `sha256sum --check` reads in the folder `released`."""
        return tuple(f"{file.digest}  {file.path}" for file in self.files)

    @property
    def files(self) -> tuple[Ref, ...]:
        """The released files that the certificate names: the student, and those of all sessions."""
        student = () if self.learned is None else (self.learned.file,)
        return *student, *(file for record in self.sessions for file in record.files)

    @property
    def tables(self) -> tuple[Ref, ...]:
        """The released files that are tables of labels."""
        return tuple(file for file in self.files if file.path.endswith(TABLE))

    @property
    def student(self) -> StudentRecord:
        """The published classifier. Raises WrongInput if nothing was learned."""
        if self.learned is None:
            raise WrongInput(f"{self.session}: questions were answered there, and no student is published")
        return self.learned


def reworded(value: Any, word: Callable[[str], str]) -> Any:
    """A certificate, or a part of it, with `word` of each text in its place."""
    match value:
        case str():
            return word(value)
        case BaseModel():
            return value.model_copy(update={name: reworded(part, word) for name, part in value})
        case list() | tuple():
            return type(value)(reworded(part, word) for part in value)
        case dict():
            return {word(name): reworded(part, word) for name, part in value.items()}
    return value


class Certified(BaseModel):
    """The files written for a session: its certificate and report, and with them all others, such as figures and the
    signed evidence (tasks.publish.certify)."""

    model_config = ConfigDict(frozen=True)

    certificate: Ref
    report: Ref
    files: tuple[Ref, ...]

    @property
    def session(self) -> str:
        """The id of the session."""
        return self.certificate.path.partition("/")[0]

    @property
    def digests(self) -> dict[str, str]:
        """The digests of all files, by the names that MLflow shows."""
        return {Path(ref.path).name: ref.digest for ref in self.files}


def schema() -> dict[str, Any]:
    """The JSON Schema of certificates of this FORMAT."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{CERTIFICATE_FORMAT.replace(' ', ':')}",
    }
    return head | Certificate.model_json_schema(mode="serialization")
