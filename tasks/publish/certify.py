"""Certify: the certificate (JSON), the report (HTML) and its figures, from released files and the ledger alone.

The report is the certificate as one page that opens offline and fetches nothing.

Assumes      as in tasks.publish.describe
Guarantees   the same certificate gives the same files. They appear together, with the student that it names
             (artifacts.home.released). Of the vault, only the secrets named in tasks.publish.attest are read
Not covered  whether the guarantee is right: tasks.verify.verify recomputes it. Checked by
             tests/tasks/publish/test_certify.py and test_report.py
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
from markupsafe import Markup

from concord.artifacts.certificate import (
    CERTIFICATE_FILE,
    SCHEMA_FILE,
    Certificate,
    Certified,
    Noise,
    Stated,
    StudentRecord,
    library_versions,
)
from concord.artifacts.home.released import Released
from concord.artifacts.learners import StudentPlan
from concord.artifacts.measures import PublicTest
from concord.artifacts.plan import Plan
from concord.artifacts.published import NOBODYS
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Session
from concord.artifacts.stores import Stores
from concord.tasks.data.concord_student import Chosen
from concord.tasks.mechanisms.mechanism import expectation, from_settings
from concord.tasks.mechanisms.odds import TYPICAL_AGREEMENT, profile
from concord.tasks.publish.attest import publish_certificate
from concord.tasks.publish.describe import Outcomes, describe, tables, voted
from concord.tasks.publish.disclosures import in_words, reworded
from concord.tasks.publish.explain import Scorecard, scorecard
from concord.tasks.publish.figures import (
    budget_figure,
    epsilon_if_stopped_early,
    labels_figure,
    releases_figure,
    reliability_figure,
    spend_figure,
    spending,
    what_if_figure,
)
from concord.tasks.publish.first_page import first_page, page_of
from concord.tasks.student import concord_tallied
from concord.tasks.student.concord_tallied import Tallied, TalliedNumber
from concord.tasks.student.model import load
from concord.tasks.student.study import Student

MUCH = 3.0
"""Least scale of noise, in units, at which a count below ten may well stand for none or for twice as many."""
EXPECTED_DIGITS = 6
"""Digits to which an expected share is rounded."""


def render(certificate: Certificate, figures: Mapping[str, str], card: Scorecard | None = None) -> str:
    """The report as HTML. `figures` are SVG documents by name: spend, what_if, labels, reliability and budget, if
    they exist; all other content is escaped.

    card   of an additive student
    """
    drawn = {name: _inline(name, figure) for name, figure in figures.items()}
    shown, given = reworded(certificate, in_words), {"nobodys": NOBODYS, "small_counts": small_counts(certificate)}
    return page_of(certificate=shown, page=first_page(shown), figures=drawn, card=card, **given)


def small_counts(certificate: Certificate) -> str:
    """Why counts below ten may be released, or that none is."""
    noise = [part.noise for record in certificate.sessions for part in record.mechanism.kind.noise]
    if not noise:
        return "No count or sum of records is released, only labels of public rows or the choice of a model."
    small = (
        "So a number below ten, or below zero, may stand for many units, and one above ten for none: a small number "
        "reveals no more about a person than a large one."
        if min(noise) >= MUCH
        else "With so little noise, a number is close to the exact count, and so is a small one. Only ε justifies its "
        "release, and so large an ε may not be enough for you."
    )
    return (
        "No exact count of records is released. A rule against counts below ten protects exact counts; every number "
        f"released here has noise of scale {min(noise):.3g} units or more. {small} ε covers what one unit can change "
        "in all numbers together."
    )


def _inline(name: str, figure: str) -> Markup:
    """A figure to inline in the page: scaled to its column, without a document's head, and with unique ids."""
    image = figure[figure.index("<svg") :]
    image = re.sub(
        r'(<svg[^>]*?) width="[^"]*" height="[^"]*"', rf'\1 role="img" aria-labelledby="{name}-caption"', image
    )
    image = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", image)
    return Markup(re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", image, flags=re.DOTALL))


def certificate_of(
    plan: Plan,
    files: Mapping[str, Sequence[Ref]],
    student: Student,
    features: Sequence[str],
    stores: Stores,
) -> Certificate:
    """The certificate of a session by the present ledger, without the versions that `written_now` adds.

    files     released files by session: those of the certificate's own first, then of others of the same run. They are
              all batches in order, also those not asked; for a choice, the hypothesis; for tallies, the rounds and the
              labels inferred from them
    features  columns of a row that the student may read
    Raises NotVerified if a file is not what was written, or if its rows are not those on record.
    """
    own, labels = next(iter(files.items()))
    session = stores.ledger.session(own)
    stated = Stated(
        learned=_student(plan.student, student, session),
        about=plan.about,
        units=plan.labeling.rows,
        features=tuple(features),
        noise=noise_in(plan, session, labels, stores.released),
    )
    made = stores.ledger.at_once(lambda now: describe(files, stated, now, stores.released))
    return made.model_copy(update={"versions": {}})


def written_now(certificate: Certificate) -> Certificate:
    """A certificate made by `certificate_of`, with the versions of the libraries that write it."""
    return certificate.model_copy(update={"versions": library_versions()})


def write(certificate: Certificate, classes: Sequence[str], stores: Stores) -> Certified:
    """Publish a certificate in its session's folder, with its report, its figures and the files that waited for it.

    The same certificate gives the same files. Raises NotVerified if a file of labels is not what was written.
    """
    session, released = stores.ledger.session(certificate.session), stores.released
    drawn = {"budget": budget_figure(certificate.domain)}
    if isinstance(found := certificate.student.public_test, PublicTest) and found.calibration:
        drawn["reliability"] = reliability_figure(found.calibration)
    if len(history := certificate.student.history) > 1:
        drawn["releases"] = releases_figure(history)
    if labels := voted(session, certificate.leading.files):
        outcomes = Outcomes.of(labels, released)
        spent = spending(session, outcomes.refused)
        if len(set(spent.epsilon.tolist())) > 1:  # a flat line shows nothing
            drawn["spend"] = spend_figure(session, spent)
        drawn["labels"] = labels_figure(outcomes.by_class, classes, certificate.counts)
        sooner = epsilon_if_stopped_early(session, spent)
        if sooner is not None:
            drawn["what_if"] = what_if_figure(session, sooner)
    waiting = {file.path: released.held_back(file) for file in certificate.files}
    held = {Path(path).name: kept for path, kept in waiting.items() if kept is not None}
    card = None
    if certificate.student.estimator.startswith(f"{concord_tallied.NAME}."):  # any other would be loaded in vain
        learned = certificate.student.file
        card = scorecard(load(released.read(waiting[learned.path] or learned)))
    beside = {"report.html": render(certificate, drawn, card).encode()}
    beside |= {f"{name}.svg": svg.encode() for name, svg in drawn.items()}
    files = publish_certificate(certificate, {**held, **beside}, stores)
    named = {CERTIFICATE_FILE, SCHEMA_FILE, *held, *beside}
    return Certified(
        certificate=files[CERTIFICATE_FILE],
        schema_file=files[SCHEMA_FILE],
        report=files["report.html"],
        figures={name: files[f"{name}.svg"] for name in drawn},
        evidence=tuple(file for name, file in files.items() if name not in named),
    )


def certify_answers(session: str, stores: Stores) -> Ref:
    """Write the certificate of a session from which no student learns, with its evidence. Raises NotVerified."""
    certificate = stores.ledger.at_once(
        lambda now: describe({session: now.released_by(session)}, Stated(), now, stores.released)
    )
    return publish_certificate(certificate, {}, stores)[CERTIFICATE_FILE]


def _student(plan: StudentPlan, student: Student, session: Session) -> StudentRecord:
    tallied = Tallied if session.kind.classes else TalliedNumber
    made = {"universal": Chosen, "linear": tallied}.get(plan.learner)
    params = {"universal": plan.space.model_dump(mode="json"), "linear": {}}.get(plan.learner, plan.params)
    return StudentRecord(
        estimator=plan.estimator if made is None else f"{made.__module__}.{made.__name__}",
        params=params,
        refused=plan.refused if session.teachers and made is None else None,
        file=student.ref,
        accuracy=student.accuracy,
        public_test=student.test,
        named=student.named,
        history=student.history,
    )


def noise_in(plan: Plan, session: Session, labels: Sequence[Ref], released: Released) -> Noise | None:
    """The share of released labels that noise is expected to have changed, from public things alone: the noisy counts
    if they were released (their margins err equally in both directions), otherwise a typical agreement of teachers.

    None if no single label was released.
    """
    if not (labels := voted(session, labels)) or not session.answered:
        return None
    mechanism, classes = from_settings(session.kind), len(plan.data.classes)
    if not mechanism.counts:
        votes = profile(TYPICAL_AGREEMENT, classes) * session.teachers
        return Noise(changed=round(expectation(mechanism, votes, session.asked).changed, EXPECTED_DIGITS), by="guess")
    changed, rows = 0.0, 0
    for table in tables(labels, released):
        counts = pc.list_flatten(table["scores"].drop_null().combine_chunks()).to_numpy().reshape(-1, classes)
        if len(counts):
            odds = mechanism.odds(-np.sort(-counts.astype(np.float64), axis=1))
            changed, rows = changed + float(np.broadcast_to(odds.changed, len(counts)).sum()), rows + len(counts)
    return Noise(changed=round(changed / max(1, rows), EXPECTED_DIGITS), by="counts")
