"""The certificate: what is promised about a published classifier, to whom, at what cost, and how to check it.

It is public and deterministic: it holds no private data, not even the number of private rows, and no times.
`schema()` is published with every certificate; a change of the schema needs a new FORMAT, checked by
tests/artifacts/test_certificate_schema.py. The result of an attack on a mechanism is a separate `AuditReport`.
"""

import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from concord import __version__
from concord.artifacts.guarantee import CAVEATS, UNWITNESSED, DomainCharge, Guarantee
from concord.artifacts.measures import PublicTest, TestRecord
from concord.artifacts.schemas import Budget, CertificatePart, Ref
from concord.artifacts.sections import AboutPlan
from concord.artifacts.sessions import Session

CertificateFormat = Literal["concord certificate 1", "concord certificate 2", "concord certificate 3"]
CERTIFICATE_FORMAT: Final = "concord certificate 3"
SECOND_FORMAT: Final = "concord certificate 2"
"""The same, without measures by class, warnings, features and what the plan says about itself."""
FIRST_FORMAT: Final = "concord certificate 1"
"""The format of version 0.1.0: as the second, without parts of units and private tests."""
CERTIFICATE_FILE: Final = "certificate.json"
SCHEMA_FILE: Final = "certificate.schema.json"
"""Where the certificate and its schema lie, in the session's folder."""
LIBRARIES = ("cryptography", "dp-accounting", "numpy", "opendp", "scikit-learn", "scipy", "skops")
"""Packages on which noise, costs or the student depend."""
OPENED = "concord when opened"
"""The key in `versions` for the version of Concord that opened the session: its faults concern the guarantee."""


@cache
def library_versions() -> dict[str, str]:
    """Versions of Concord, of Python, and of the packages the guarantee depends on."""
    return {"concord": __version__, "python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


class MechanismRecord(CertificatePart):
    """The mechanism at the door: its name, the public settings it ran with, and where its proof is."""

    name: str
    settings: dict[str, Any]
    proof: str


class RelabellingRecord(CertificatePart):
    """How rows were relabelled before teachers learned from them, and what each part of the guarantee is.

    hypotheses      the class over `features`, columns of the encoded matrix, from which one hypothesis was chosen
    form            how rows were resampled; a row may have reached as many teachers as it may have `copies`
    inner           what the mechanism at the door costs on the relabelled subset
    choice_epsilon  ε of the choice
    share           how likely a unit was in the secret subset, which amplifies both into the whole
    """

    hypotheses: str
    features: tuple[str, ...]
    form: str
    copies: int
    inner: Budget
    choice_epsilon: float
    share: float
    whole: Budget

    @classmethod
    def of(cls, mechanisms: Iterable[Mapping[str, Any]]) -> Self | None:
        """The relabelling that the mechanism settings of one run's sessions record; None if none was relabelled."""
        for settings in (mechanism for mechanism in mechanisms if "relabel" in mechanism):
            details = {name: value for name, value in settings["relabel"].items() if name in cls.model_fields}
            inner, whole = (Budget(epsilon=of["epsilon"], delta=of["delta"]) for of in (settings, settings["relabel"]))
            return cls(inner=inner, whole=whole, **details)
        return None


class Counts(CertificatePart):
    """Public rows: asked, of which answered or refused; and those that came after the session's end.

    If nobody votes there is one question, which hypothesis to publish, and one answer.
    """

    asked: int
    answered: int
    refused: int
    not_asked: int

    @property
    def of_rows(self) -> tuple[int, int]:
        """How many public rows were asked, and how many there are in total."""
        return self.asked, self.asked + self.not_asked


class StudentRecord(CertificatePart):
    """The published classifier: what it is, its file, and its share of right answers on public test rows.

    refused       what refused rows taught it; None for one that no label taught
    public_test   what stands beside that share: None if there are no such rows
    named         the classes that it names on the public rows; None if that was not looked at, as if there is a test
    """

    estimator: str
    params: dict[str, Any]
    refused: str | None
    file: Ref
    accuracy: float | None
    public_test: PublicTest | None = None
    named: tuple[str, ...] | None = None


class ChoiceRecord(CertificatePart):
    """A student of the session, chosen among candidates by their errors on private units that were set aside.

    session     the session of its own that paid for it; `file` is what it released
    clean       whether the candidates learned from none of the units that chose
    candidates  how each learns, as in the plan; `chosen` is the place of the one chosen, from 0
    """

    session: str
    guarantee: Budget
    file: Ref
    share: float
    clean: bool
    candidates: tuple[dict[str, Any], ...]
    chosen: int

    @classmethod
    def of(cls, session: Session, file: Ref, text: bytes) -> Self:
        """The choice that the session released in `file`, whose content is `text`."""
        named = {name: session.mechanism[name] for name in ("share", "clean", "candidates")}
        guarantee = Budget(epsilon=session.epsilon, delta=session.delta)
        return cls(session=session.id, guarantee=guarantee, file=file, chosen=json.loads(text)["chosen"], **named)


class Beside(CertificatePart):
    """Another session of the same run on the same records: its claim, and the files it released."""

    session: str
    mechanism: str
    guarantee: Budget
    teachers: int
    labels: tuple[Ref, ...]

    @classmethod
    def of(cls, session: Session, labels: Sequence[Ref]) -> Self:
        """Another session of the run, with the files it released."""
        return cls(
            session=session.id,
            mechanism=str(session.mechanism["name"]),
            guarantee=Budget(epsilon=session.epsilon, delta=session.delta),
            teachers=session.teachers,
            labels=tuple(labels),
        )


class Noise(CertificatePart):
    """What part of the released labels noise is expected to have changed, and from what public thing that follows.

    by   "counts": the noisy counts that were released; "guess": the plan's public guess of how much teachers agree
    """

    changed: float
    by: Literal["counts", "guess"]


class Expected(CertificatePart):
    """What the same way to ask would be expected to teach at another ε, by public facts alone: nothing was measured.

    labels   labelled rows, free of noise, that would teach a student as much
    lost     the share of rows, roughly, that a student of so many labels gets wrong for want of more
    """

    epsilon: float
    labels: int
    lost: float


class Stated(CertificatePart):
    """The parts of a certificate that come from neither the ledger nor the door.

    about      the plan's account of the publication: who issues it, for what use, and when
    features   columns of a row that the student may read
    """

    student: StudentRecord
    about: AboutPlan = AboutPlan()
    features: tuple[str, ...] = ()
    noise: Noise | None = None
    expected: tuple[Expected, ...] = ()


class Certificate(CertificatePart):
    """What is promised, and how to check it.

    warnings   what whoever relies on the student must know (artifacts.measures)
    about      what the plan says about the publication; `features` what the student may read of a row
    noise      what noise did to released labels; None if no label was released by itself
    expected   what other ε would be expected to teach, the planned one among them; empty if nothing is known of it
    labels     released files of the session's answers
    choice     among students of the session, if there was one
    test       of this very student, the latest
    beside     what the same run bought in other sessions; `together` is what all of it, and all choices among the
               session's students and tests of them, promise, by basic composition
    versions   of Concord and packages by which it was written, and of Concord when the oldest session was opened
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    schema_file: Annotated[Literal["certificate.schema.json"], Field(alias="$schema")] = SCHEMA_FILE
    format: CertificateFormat = CERTIFICATE_FORMAT
    session: str
    data_version: str
    about: AboutPlan = AboutPlan()
    guarantee: Guarantee
    mechanism: MechanismRecord
    relabelling: RelabellingRecord | None = None
    teachers: int
    counts: Counts
    noise: Noise | None = None
    expected: Annotated[tuple[Expected, ...], Field(exclude_if=lambda expected: not expected)] = ()
    domain: DomainCharge
    labels: tuple[Ref, ...]
    features: tuple[str, ...] = ()
    student: StudentRecord
    choice: ChoiceRecord | None = None
    test: TestRecord | None = None
    warnings: tuple[str, ...] = ()
    beside: tuple[Beside, ...] = ()
    together: Budget | None = None
    caveats: tuple[str, ...] = (*CAVEATS, UNWITNESSED)
    versions: dict[str, str] = Field(default_factory=library_versions)

    @property
    def stated(self) -> Stated:
        """The parts of the certificate that come from neither the ledger nor the door."""
        return Stated(**{name: getattr(self, name) for name in Stated.model_fields})

    @property
    def promise(self) -> Guarantee:
        """The guarantee of everything this run published: the session's claim, or that of all its sessions together."""
        if self.together is None:
            return self.guarantee
        whole = self.together
        return Guarantee.at(whole.epsilon, whole.delta, self.guarantee.unit, self.guarantee.neighbours)

    @property
    def checksums(self) -> tuple[str, ...]:
        """One line per released file, in the format that `sha256sum --check` reads in the folder `released`."""
        return tuple(f"{file.digest}  {file.path}" for file in self.files)

    @property
    def files(self) -> tuple[Ref, ...]:
        """The released files that the certificate names: the student and all answers."""
        tested = tuple(tried.file for tried in (self.choice, self.test) if tried)
        return self.student.file, *tested, *self.labels, *(file for other in self.beside for file in other.labels)


class Certified(BaseModel):
    """The files written for a session: certificate, its schema, report, figures by subject, and the signed evidence
    (tasks.publish.attest)."""

    model_config = ConfigDict(frozen=True)

    certificate: Ref
    schema_file: Ref
    report: Ref
    figures: dict[str, Ref]
    evidence: tuple[Ref, ...] = ()

    @property
    def files(self) -> list[Ref]:
        """All files that were written."""
        return [self.certificate, self.schema_file, self.report, *self.figures.values(), *self.evidence]


def schema() -> dict[str, Any]:
    """The JSON Schema of certificates of this FORMAT."""
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{CERTIFICATE_FORMAT.replace(' ', ':')}",
    }
    return head | Certificate.model_json_schema(mode="serialization")


def promised_together(
    guarantee: Budget, beside: Sequence[Beside], tests: Sequence[tuple[Budget, bool]]
) -> Budget | None:
    """The (ε, δ) of a session, the other sessions of its run and its tests together; None if it is the session's own.

    tests   the claim of each, and whether it touches no unit that the sessions do: then no unit pays for both
    """
    learning = _sum([guarantee, *(other.guarantee for other in beside)])
    separate, shared = (_sum([claim for claim, own in tests if own == kind]) for kind in (True, False))
    learned, tested = _sum([learning, shared]), _sum([separate, shared])
    whole = Budget(epsilon=max(learned.epsilon, tested.epsilon), delta=max(learned.delta, tested.delta))
    return whole if beside or (whole.epsilon, whole.delta) != (guarantee.epsilon, guarantee.delta) else None


def _sum(claims: Sequence[Budget]) -> Budget:
    return Budget(epsilon=sum(claim.epsilon for claim in claims), delta=sum(claim.delta for claim in claims))


class AuditReport(BaseModel):
    """An empirical lower bound on ε against what is claimed. Public: its votes are made up, the mechanism is known."""

    mechanism: str
    epsilon_claimed: float
    delta: float
    epsilon_lower_bound: float
    confidence: float
    trials: int
    attack: str
    event: str

    @property
    def holds(self) -> bool:
        """Whether the claim stands: the attack proved no lower bound above it."""
        return self.epsilon_lower_bound <= self.epsilon_claimed
