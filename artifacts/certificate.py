"""The certificate: what is promised about a published classifier, to whom, at what cost, and how to check it.

Public and deterministic: it holds nothing of the private data, not even how much of it there is, and no times.
`schema()` is published beside every certificate; another schema is another FORMAT (tests/test_certificate_schema.py).
"""

import math
import operator
import platform
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from importlib.metadata import version
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from artifacts.privacy import Charge
from artifacts.schemas import Ref
from artifacts.sessions import NEIGHBOURS, Domain, Session, Status

FORMAT: Final = "concord certificate 1"
SCHEMA_FILE: Final = "certificate.schema.json"
"""Where the schema lies, beside the certificate."""
LIBRARIES = ("concord", "cryptography", "dp-accounting", "numpy", "opendp", "scikit-learn", "scipy", "skops")
"""Packages on which noise, costs or the student depend."""

UNWITNESSED = (
    "If the whole home folder is put back to an older copy, that cannot be detected from within: answers given since "
    "would be paid for again, and neither charge knows of the other."
)
WITNESSED = (
    "A home folder put back to an older copy is found by a witness, a file kept outside it, and goes on only when what "
    "may have been spent since is charged. If the witness is put back or taken away as well, that cannot be detected."
)
CAVEATS = (
    "The guarantee is computational in one respect: secret draws come from a pseudo-random function keyed with 256 "
    "bits from the operating system (AES-256 in counter mode, HKDF-SHA256), or from OpenDP's generator.",
    "The guarantee covers what is published: certificate, report, released labels, student and MLflow's records. It "
    "does not cover who holds the private data, the machine's console, or running times of private work.",
    "It bounds what can be learned because someone's rows were used. It does not prevent learning about a person what "
    "would be just as true of them had their rows been left out.",
)


LABELS_ALONE = (
    "Labels alone are protected. Features of the records, and who is among them, are not: they were treated as public, "
    "and may be read off what is published. Nothing is promised about them."
)
"""The caveat of a session whose plan says that only labels are secret."""

RELABELLED = (
    "The guarantee rests on a subset of the records that stays secret, and on a hypothesis chosen on it that is not "
    "private and stays secret too. The session was charged whole when it was opened: nothing of it returns to the "
    "budget. No further relabelled session can be opened in its domain."
)
"""The caveat of a session whose rows were relabelled."""


def linked_caveat(domain: Domain, others: Sequence[Domain]) -> str:
    """What is promised to people who may be in several domains: by basic composition, the sum of their caps.

    Only where all of them protect the same: what is secret in one domain may be public in another.
    """
    names = ", ".join(other.name for other in others)
    linked = f"The domain {domain.name} is linked on the record to {names}: the same people may be in each. "
    if any((one.unit, one.neighbours) != (domain.unit, domain.neighbours) for one in others):
        return (
            f"{linked}They differ in unit or neighbours, so nothing is promised over the life of all of them together."
        )
    epsilon = math.fsum(one.filter.epsilon for one in (domain, *others))
    delta = math.fsum(one.filter.delta for one in (domain, *others))
    return (
        f"{linked}Over the life of all of them together they are promised the sum of the caps, ε = {epsilon:g}, "
        f"δ = {delta:g}, and no less."
    )


def library_versions() -> dict[str, str]:
    """Versions of Python and of the packages the guarantee depends on."""
    return {"python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}


class Published(BaseModel):
    """A part of the certificate: frozen, finite, and no key it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Budget(Published):
    """An (ε, δ) pair."""

    epsilon: float
    delta: float


class Guarantee(Budget):
    """The session's claim, at its cutoff or last row.

    unit         whose data one unit is
    neighbours   which pairs of tables the claim compares
    replace_one  what it implies where one unit is replaced by another: two steps, (2ε, (1 + e^ε)·δ); None where only
                 labels are secret, and nobody is added, removed or replaced
    """

    unit: str
    neighbours: str
    replace_one: Budget | None

    @classmethod
    def of(cls, domain: Domain, session: Session) -> Self:
        """The claim of a session of that domain."""
        return cls.at(session.epsilon, session.delta, domain.unit, domain.neighbours)

    @classmethod
    def at(cls, epsilon: float, delta: float, unit: str, neighbours: str) -> Self:
        """That claim for those units and neighbours."""
        twice = Budget(epsilon=2 * epsilon, delta=min(1.0, (1 + _exp(epsilon)) * delta))
        return cls(
            epsilon=epsilon,
            delta=delta,
            unit=unit,
            neighbours=neighbours,
            replace_one=None if neighbours == NEIGHBOURS["labels"] else twice,
        )

    @property
    def labels_only(self) -> bool:
        """Whether labels alone are protected."""
        return self.neighbours == NEIGHBOURS["labels"]

    @property
    def factor(self) -> float:
        """e^ε: how much likelier one unit can make any outcome, but for δ."""
        return _exp(self.epsilon)


class MechanismRecord(Published):
    """The mechanism at the door: its name, the public settings it ran with, and where its proof is."""

    name: str
    settings: dict[str, Any]
    proof: str


class RelabellingRecord(Published):
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
        """What the settings of the sessions of one run say of it; None where none of them was relabelled."""
        for settings in (one for one in mechanisms if "relabel" in one):
            told = {name: value for name, value in settings["relabel"].items() if name in cls.model_fields}
            inner, whole = (Budget(epsilon=of["epsilon"], delta=of["delta"]) for of in (settings, settings["relabel"]))
            return cls(inner=inner, whole=whole, **told)
        return None


class Counts(Published):
    """Public rows: asked, of which answered or refused; and those that came after the session's end.

    Where nobody votes there is one question, which hypothesis to publish, and one answer.
    """

    asked: int
    answered: int
    refused: int
    not_asked: int


class SessionCharge(Budget):
    """One session of a domain: its own claim, and the share of the domain's lifetime budget it is charged.

    status   open (charged its whole reservation), spent or closed
    """

    session: str
    mechanism: str
    share: float
    status: Status

    @classmethod
    def of(cls, session: Session, domain: Domain) -> Self:
        """What a session of that domain is charged."""
        return cls(
            epsilon=session.epsilon,
            delta=session.delta,
            session=session.id,
            mechanism=str(session.mechanism["name"]),
            share=_share(session.charge, domain),
            status=session.status,
        )


class DomainCharge(Published):
    """What the domain may spend over its lifetime, what is charged to it, and what is left: by the ledger's rule.

    order     the Rényi order at which charges add up, frozen when the domain was named
    charges   its sessions in order
    lost      share of the budget that restorations charged for sessions the ledger no longer knows
    """

    name: str
    sessions: int
    order: float
    cap: Budget
    spent: Budget
    remaining: Budget
    charges: tuple[SessionCharge, ...]
    lost: float

    @classmethod
    def of(cls, domain: Domain, sessions: Sequence[Session], lost: Charge) -> Self:
        """The domain's state after those sessions, and what was lost to an older copy."""
        total = reduce(operator.add, (session.charge for session in sessions), lost)
        cap, (epsilon, delta) = domain.filter, domain.filter.spent(total)
        return cls(
            name=domain.name,
            sessions=len(sessions),
            order=cap.order,
            charges=tuple(SessionCharge.of(session, domain) for session in sessions),
            lost=_share(lost, domain),
            cap=Budget(epsilon=cap.epsilon, delta=cap.delta),
            spent=Budget(epsilon=epsilon, delta=delta),
            remaining=Budget(epsilon=max(0.0, cap.epsilon - epsilon), delta=max(0.0, cap.delta - delta)),
        )


class StudentRecord(Published):
    """The published classifier: what it is, its file, and its share of right answers on public test rows.

    refused   what refused rows taught it; None for one that no label taught
    """

    estimator: str
    params: dict[str, Any]
    refused: str | None
    file: Ref
    accuracy: float | None


class Beside(Published):
    """Another session of the same run on the same records: its claim, and the files it released."""

    session: str
    mechanism: str
    guarantee: Budget
    teachers: int
    labels: tuple[Ref, ...]


class Certificate(Published):
    """What is promised, and how to check it.

    labels     released files of the session's answers
    beside     what the same run bought in other sessions; `together` is what all of it promises, by basic composition
    """

    model_config = ConfigDict(validate_by_name=True, validate_by_alias=True, serialize_by_alias=True)

    schema_file: Annotated[Literal["certificate.schema.json"], Field(alias="$schema")] = SCHEMA_FILE
    format: Literal["concord certificate 1"] = FORMAT
    session: str
    data_version: str
    guarantee: Guarantee
    mechanism: MechanismRecord
    relabelling: RelabellingRecord | None = None
    teachers: int
    counts: Counts
    domain: DomainCharge
    labels: tuple[Ref, ...]
    student: StudentRecord
    beside: tuple[Beside, ...] = ()
    together: Budget | None = None
    caveats: tuple[str, ...] = (*CAVEATS, UNWITNESSED)
    versions: dict[str, str] = Field(default_factory=library_versions)

    @property
    def promise(self) -> Guarantee:
        """What everything this run published promises: the session's claim, or that of all its sessions together."""
        if self.together is None:
            return self.guarantee
        whole = self.together
        return Guarantee.at(whole.epsilon, whole.delta, self.guarantee.unit, self.guarantee.neighbours)

    @property
    def checksums(self) -> tuple[str, ...]:
        """A line for each released file it names, as `sha256sum --check` reads them in the folder `released`."""
        files = (self.student.file, *self.labels, *(file for other in self.beside for file in other.labels))
        return tuple(f"{file.digest}  {file.path}" for file in files)


def schema() -> dict[str, Any]:
    """The JSON Schema of certificates of this FORMAT."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"urn:{FORMAT.replace(' ', ':')}"}
    return head | Certificate.model_json_schema(mode="serialization")


def _share(charge: Charge, domain: Domain) -> float:
    budget = domain.filter.budget
    return float(charge.renyi / budget) if budget > 0 else float(charge.renyi > 0)


def together(guarantee: Budget, beside: Sequence[Beside]) -> Budget | None:
    """The sum of a session's claim and of those beside it, if there are any."""
    if not beside:
        return None
    claims = (guarantee, *(other.guarantee for other in beside))
    return Budget(epsilon=sum(claim.epsilon for claim in claims), delta=sum(claim.delta for claim in claims))


def _exp(epsilon: float) -> float:
    return math.exp(min(epsilon, 700.0))
