"""The report: the certificate as one HTML page that opens offline and fetches nothing.

Certify: the certificate (JSON), the report (HTML) and its figures, from released files and the ledger alone.

Assumes      the ledger's record is complete; labels are those it names, and those of rows that were not asked
Guarantees   nothing here reads the vault: all that is written is a function of what was published before
Not covered  whether the guarantee is right: tasks.verify.verify recomputes it. Checked by
             tests/tasks/publish/test_certify.py
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from pydantic import BaseModel, ConfigDict

from concord import __version__
from concord.artifacts.certificate import (
    OPENED,
    SCHEMA_FILE,
    Beside,
    Certificate,
    Counts,
    MechanismRecord,
    RelabellingRecord,
    StudentRecord,
    library_versions,
    schema,
    together,
)
from concord.artifacts.errors import NotVerified
from concord.artifacts.guarantee import (
    CAVEATS,
    LABELS_ALONE,
    LOST_WITNESS,
    RELABELLED,
    UNWITNESSED,
    WITNESSED,
    DomainCharge,
    Guarantee,
    faulty_caveat,
    linked_caveat,
)
from concord.artifacts.home.released import Released
from concord.artifacts.ledger.ledger import Ledger, Reading, domain_of
from concord.artifacts.plan import Plan
from concord.artifacts.privacy import Cost
from concord.artifacts.schemas import Ref
from concord.artifacts.sections import StudentPlan
from concord.artifacts.sessions import NEIGHBOURS, Domain, Session
from concord.artifacts.vulnerabilities import concerning, older, oldest
from concord.tasks.mechanisms.adaptive_adversary import GAME_PROOF
from concord.tasks.mechanisms.exponential import Universal
from concord.tasks.mechanisms.mechanism import mechanism_class
from concord.tasks.mechanisms.relabelled import RELABELLED_PROOF
from concord.tasks.publish.figures import (
    budget_figure,
    epsilon_if_stopped_early,
    labels_figure,
    spend_figure,
    spending,
    what_if_figure,
)
from concord.tasks.student.study import Chosen, Student

TEMPLATE = "report.html.j2"


def render(certificate: Certificate, figures: Mapping[str, str]) -> str:
    """The page. `figures` are SVG documents by what they show: spend, what_if, labels and budget, where there are such;
    all else is escaped."""
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    drawn = {name: _inline(name, figure) for name, figure in figures.items()}
    return templates.get_template(TEMPLATE).render(certificate=certificate, figures=drawn)


def _inline(name: str, figure: str) -> Markup:
    """A figure as a part of the page: scaled to its column, without a document's head, its ids its own."""
    image = figure[figure.index("<svg") :]
    image = re.sub(
        r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', rf'\1 role="img" aria-labelledby="{name}-caption"', image
    )
    image = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", image)
    return Markup(re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", image, flags=re.DOTALL))


class Certified(BaseModel):
    """What was written for a session: its certificate and its schema, its report, and the figures by what they show."""

    model_config = ConfigDict(frozen=True)

    certificate: Ref
    schema_file: Ref
    report: Ref
    figures: dict[str, Ref]

    @property
    def files(self) -> list[Ref]:
        """All that was written."""
        return [self.certificate, self.schema_file, self.report, *self.figures.values()]


def certify(
    plan: Plan,
    session_id: str,
    labels: Sequence[Ref],
    student: Student,
    *,
    beside: Mapping[str, Sequence[Ref]],
    per_refusal: Cost | None,
    ledger: Ledger,
    released: Released,
) -> Certified:
    """Write what is published about a session into its folder.

    labels       released files of all batches in order, those not asked among them; of a choice, the hypothesis
    beside       what other sessions of the same run released, by session
    per_refusal  what the mechanism says one refusal costs; None where it is charged whole
    Raises NotVerified where a file is not what was written, or its rows are not those on record, or the ledger is
    behind its witness.
    """
    ledger.check_witness()
    session = ledger.session(session_id)
    table = outcomes(session, labels, released)
    counts, record = counted(table, session), _student(plan.student, student)
    certificate = ledger.at_once(lambda now: describe(session_id, labels, counts, record, beside, now))
    return write(certificate, plan, session, table, per_refusal=per_refusal, released=released)


def write(
    certificate: Certificate,
    plan: Plan,
    session: Session,
    table: pa.Table,
    *,
    per_refusal: Cost | None,
    released: Released,
) -> Certified:
    """Write a certificate and what is drawn of it and of the session's labels: the same certificate, the same files."""
    drawn = {"budget": budget_figure(certificate.domain)}
    if session.teachers:
        spent = spending(session, per_refusal, table)
        drawn["spend"] = spend_figure(session, spent)
        drawn["labels"] = labels_figure(table, plan.data.classes, certificate.counts)
        sooner = epsilon_if_stopped_early(session, spent)
        if sooner is not None:
            drawn["what_if"] = what_if_figure(session, sooner)
    text = certificate.model_dump_json(indent=2)
    return Certified(
        certificate=released.write(f"{session.id}/certificate.json", text.encode()),
        schema_file=released.write(f"{session.id}/{SCHEMA_FILE}", json.dumps(schema(), indent=2).encode()),
        report=released.write(f"{session.id}/report.html", render(certificate, drawn).encode()),
        figures={name: released.write(f"{session.id}/{name}.svg", svg.encode()) for name, svg in drawn.items()},
    )


def describe(
    session_id: str,
    labels: Sequence[Ref],
    counts: Counts,
    student: StudentRecord,
    beside: Mapping[str, Sequence[Ref]],
    ledger: Reading,
    by: str = __version__,
) -> Certificate:
    """The certificate of a session as the ledger stands; `labels` and `beside` as in `certify`.

    by   the version of Concord that writes it: it says what that one knew
    """
    session = ledger.session(session_id)
    domain = domain_of(session, ledger)
    name, guarantee = str(session.mechanism["name"]), Guarantee.of(domain, session)
    others = [Beside.of(ledger.session(other), files) for other, files in beside.items()]
    sessions = [session, *map(ledger.session, beside)]
    return Certificate(
        session=session.id,
        data_version=session.data_version,
        guarantee=guarantee,
        mechanism=MechanismRecord(name=name, settings=session.mechanism, proof=_proof(session.mechanism)),
        relabelling=RelabellingRecord.of([session.mechanism for session in sessions]),
        teachers=session.teachers,
        counts=counts,
        domain=DomainCharge.of(domain, ledger.sessions(domain.name), ledger.lost(domain.name)),
        labels=tuple(labels),
        caveats=caveats(domain, sessions, ledger, by),
        student=student,
        beside=tuple(others),
        together=together(guarantee, others),
        versions={**library_versions(), OPENED: oldest(sessions)},
    )


def _student(plan: StudentPlan, student: Student) -> StudentRecord:
    universal = plan.learner == "universal"
    return StudentRecord(
        estimator=f"{Chosen.__module__}.{Chosen.__name__}" if universal else plan.estimator,
        params=plan.space.model_dump(mode="json") if universal else plan.params,
        refused=None if universal else plan.refused,
        file=student.ref,
        accuracy=student.accuracy,
    )


def caveats(domain: Domain, sessions: Sequence[Session], ledger: Reading, by: str = __version__) -> tuple[str, ...]:
    """What the certificate of those sessions of a domain does not promise, as the ledger stands; version `by` knew."""
    known = {item.name for session in sessions for item in concerning(session, domain) if not older(by, item.fixed)}
    faulty = (faulty_caveat(oldest(sessions), sorted(known)),) if known else ()
    labels = (LABELS_ALONE,) if domain.neighbours == NEIGHBOURS["labels"] else ()
    relabelled = (RELABELLED,) if any("relabel" in session.mechanism for session in sessions) else ()
    others = ledger.linked(domain.name)
    links = (linked_caveat(domain, others),) if others else ()
    lost = (LOST_WITNESS,) if ledger.lost_its_witness else ()
    return (*faulty, *labels, *relabelled, *links, *CAVEATS, *lost, WITNESSED if ledger.witnessed else UNWITNESSED)


def outcomes(session: Session, answers: Sequence[Ref], released: Released) -> pa.Table:
    """Released labels, one a public row; a choice counts as one row, answered. Raises NotVerified."""
    return released.labels(answers) if session.teachers else pa.table({"outcome": ["answered"]})


def counted(labels: pa.Table, session: Session) -> Counts:
    """Rows by outcome. Raises NotVerified where released labels and ledger do not say the same."""
    outcomes = {item["values"]: item["counts"] for item in pc.value_counts(labels["outcome"]).to_pylist()}
    answered, refused = outcomes.get("answered", 0), outcomes.get("refused", 0)
    if (answered, refused) != (session.answered, session.refused):
        raise NotVerified(
            f"the released labels of session {session.id} hold {answered} answers and {refused} refusals, "
            f"where the ledger has {session.answered} and {session.refused}"
        )
    return Counts(asked=answered + refused, answered=answered, refused=refused, not_asked=outcomes.get("not asked", 0))


def _proof(settings: Mapping[str, Any]) -> str:
    """Where the guarantee of such a session is proved."""
    if settings["name"] == Universal.name:
        return Universal.proof
    proof = mechanism_class(settings["name"]).proof
    if settings.get("accountant") == "game":
        proof = f"{proof}; {GAME_PROOF}"
    return f"{proof}; {RELABELLED_PROOF}" if "relabel" in settings else proof
