"""Certify: the certificate (JSON), its report and figures, the evidence by which it can be checked without the home it
came from, and its record in MLflow, from released files, the ledger and public rows alone.

The evidence is an excerpt of the ledger (artifacts.ledger.excerpt), a signed statement over everything published
(artifacts.published), its schema, and the public half of the key. All of it is published together with the
certificate, and moved into place before it.

Assumes      as in tasks.publish.describe; the certificate was made of this ledger, at this moment or an earlier one
Guarantees   the same certificate and ledger give the same files, whenever and however often this runs. They appear
             together, with the student that it names (artifacts.home.released). Of the vault, the secrets that sign and
             hide and the staged public rows are read, and nothing else
Not covered  whether the guarantee is right: tasks.verify.verify recomputes it; what artifacts.home.released does not
             cover; times of files that no certificate names yet, as while a command runs or after it was killed; see
             artifacts.mlflow.write. Checked by tests/tasks/publish/test_certify.py and test_report.py, and
             tests/artifacts/mlflow/test_tracking.py
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.compute as pc
from numpy.typing import NDArray

from concord.artifacts.certificate import (
    CERTIFICATE_FILE,
    SCHEMA_FILE,
    Certificate,
    Certified,
    Noise,
    StudentRecord,
    library_versions,
    schema,
)
from concord.artifacts.errors import NotVerified
from concord.artifacts.guarantee import DomainCharge
from concord.artifacts.home.released import Released, digest_of, sha256_of_all
from concord.artifacts.home.signing import PAYLOAD_TYPE, SigningKey
from concord.artifacts.home.vault import Staged
from concord.artifacts.learners import StudentPlan
from concord.artifacts.ledger.excerpt import EXCERPT_FILE, Excerpt, hiding
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.ledger.reading import Reading
from concord.artifacts.measures import PublicTest
from concord.artifacts.mlflow.describe import (
    ColumnType,
    Publication,
    datasets_of,
)
from concord.artifacts.parts import Counted, by_part, largest
from concord.artifacts.plan import Plan
from concord.artifacts.privacy import Charge
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
from concord.artifacts.schemas import WORDS, Encoding, PublicBatch, PublicRows, Ref
from concord.artifacts.sessions import Session
from concord.artifacts.stores import Public
from concord.tasks.advice.expectation import TYPICAL_AGREEMENT, expectation, odds, profile
from concord.tasks.data.concord_student import Chosen
from concord.tasks.data.encode import read_frame
from concord.tasks.data.tables import open_public
from concord.tasks.mechanisms.catalogue import of_votes
from concord.tasks.publish.describe import describe, outcomes_in, refusals, voted
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
from concord.tasks.publish.report import render, shown_scorecard
from concord.tasks.student import concord_tallied
from concord.tasks.student.concord_tallied import Tallied, TalliedNumber
from concord.tasks.student.model import load, modules_needed
from concord.tasks.student.study import Student

EXPECTED_DIGITS = 6
"""Digits to which an expected share is rounded."""


def certificate_of(
    plan: Plan,
    files: Mapping[str, Sequence[Ref]],
    student: Student,
    features: Sequence[str],
    stores: Public,
    views: str | None = None,
) -> Certificate:
    """The certificate of a session by the present ledger, without the versions that `write` adds.

    files     released files by session: those of the certificate's own first, then of others of the same run. They are
              all batches in order, also those not asked; for a choice, the hypothesis; for tallies, the rounds and the
              labels inferred from them
    features  columns of a row that the student may read
    views     which views of a row were counted, and why
    Raises NotVerified if a file is not what was written, or if its rows are not those on record.
    """
    leading, labels = next(iter(files.items()))
    session = stores.ledger.session(leading)
    stated = {
        "learned": _student(plan.student, student, session, views),
        "about": plan.about,
        "units": plan.labeling.rows,
        "features": tuple(features),
        "noise": noise_in(plan, session, labels, stores.released),
    }
    made = stores.ledger.at_once(lambda now: describe(files, stated, now, stores.released))
    return made.model_copy(update={"versions": {}})


def write(certificate: Certificate, classes: Sequence[str], stores: Public) -> Certified:
    """Publish a certificate in its session's folder, with the versions of the libraries that write it, its report, its
    figures and the files that waited for it.

    The same certificate gives the same files. Raises NotVerified if a file of labels is not what was written.
    """
    certificate = certificate.model_copy(update={"versions": library_versions()})
    session, released = stores.ledger.session(certificate.session), stores.released
    drawn = {"budget": budget_figure(certificate.domain)}
    if isinstance(measures := certificate.student.public_test, PublicTest) and measures.calibration:
        drawn["reliability"] = reliability_figure(measures.calibration)
    if len(history := certificate.student.history) > 1:
        drawn["releases"] = releases_figure(history)
    if labels := voted(session, certificate.leading.files):
        outcomes = outcomes_in(labels, released)
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
        card = shown_scorecard(load(released.read(waiting[learned.path] or learned)))
    documents = {"report.html": render(certificate, drawn, card).encode()}
    documents |= {f"{name}.svg": svg.encode() for name, svg in drawn.items()}
    files = publish_certificate(certificate, {**held, **documents}, stores)
    shown = tuple(file for name, file in files.items() if name not in held)
    return Certified(certificate=files[CERTIFICATE_FILE], report=files["report.html"], files=shown)


def certify_answers(session: str, stores: Public) -> Ref:
    """Write the certificate of a session from which no student learns, with its evidence. Raises NotVerified."""
    certificate = stores.ledger.at_once(
        lambda now: describe({session: now.released_by(session)}, {}, now, stores.released)
    )
    return publish_certificate(certificate, {}, stores)[CERTIFICATE_FILE]


def _student(plan: StudentPlan, student: Student, session: Session, views: str | None) -> StudentRecord:
    tallied = Tallied if session.facts.classes else TalliedNumber
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
        views=views,
    )


def noise_in(plan: Plan, session: Session, labels: Sequence[Ref], released: Released) -> Noise | None:
    """The share of released labels that noise is expected to have changed, from public things alone: the noisy counts
    if they were released (their margins err equally in both directions), otherwise a typical agreement of teachers.

    None if no single label was released.
    """
    if not (labels := voted(session, labels)) or not session.answered:
        return None
    mechanism, classes = of_votes(session.mechanism), len(plan.data.classes)
    if not mechanism.counts:
        votes = profile(TYPICAL_AGREEMENT, classes) * session.teachers
        return Noise(changed=round(expectation(mechanism, votes, session.asked).changed, EXPECTED_DIGITS), by="guess")
    changed, rows = 0.0, 0
    for file in labels:
        table = released.labels([file])
        counts = pc.list_flatten(table["scores"].drop_null().combine_chunks()).to_numpy().reshape(-1, classes)
        if len(counts):
            by_row = odds(mechanism, -np.sort(-counts.astype(np.float64), axis=1))
            changed, rows = changed + float(by_row.changed.sum()), rows + len(counts)
    return Noise(changed=round(changed / max(1, rows), EXPECTED_DIGITS), by="counts")


CHARGING = ("domain", "recap", "divide", "open", "settle")
"""Kinds of entries that may change the charges of a domain."""


def publish_certificate(certificate: Certificate, files: Mapping[str, bytes | Ref], stores: Public) -> dict[str, Ref]:
    """Publish a certificate together with its schema and its evidence: excerpt, key, statement and its schema.

    All files that the certificate names get new times: their own would show how long private work went on after them.

    files   further files of its session's folder, by name, that are published with it
    Returns all of them by name. Raises NotVerified if the certificate agrees with no state of the ledger.
    """
    released, folder, home = stores.released, certificate.session, stores.released.root.parent
    excerpt, key = excerpt_of(certificate, stores.ledger, home), SigningKey.of(home)
    evidence = {
        SCHEMA_FILE: _json(schema()),
        EXCERPT_FILE: excerpt.text,
        KEY_FILE: key.public.pem,
        ATTESTATION_SCHEMA_FILE: _json(attestation_schema()),
    }
    text = {CERTIFICATE_FILE: certificate.model_dump_json(indent=2).encode()}
    refs = [
        Ref(path=f"{folder}/{name}", digest=digest_of(data)) for name, data in {**files, **evidence, **text}.items()
    ]
    subjects = {file.path: file for file in (*refs, *certificate.files)}
    statement = Statement(
        subject=tuple(Subject.of(subjects[path]) for path in sorted(subjects)),
        predicate=PrivacyClaim.of(certificate, LedgerHead(entries=len(excerpt.entries), head=excerpt.head)),
    )
    signed = {ATTESTATION_FILE: key.envelope(PAYLOAD_TYPE, statement.text)}
    released.restamp([file for file in certificate.files if file not in refs])
    return released.publish(folder, {**files, **evidence, **signed, **text})


def _json(value: dict[str, Any]) -> bytes:
    return json.dumps(value, indent=2).encode()


def excerpt_of(certificate: Certificate, ledger: Ledger, home: Path) -> Excerpt:
    """The ledger's excerpt on the domain, as of a moment that agrees with the certificate. Raises NotVerified."""
    name, records, hide = certificate.domain.name, ledger.records(), hiding(home)
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
    return domain is not None and DomainCharge.of(domain, moment) == certificate.domain


EXAMPLE_ROWS = 5
MetricPoints = list[tuple[int, float]]


def publication_of(plan: Plan, certified: Certified, public: PublicRows, stores: Public) -> Publication:
    """What MLflow is given about a session and its student, of a plan and its staged public rows.

    Raises NotVerified if a released file is not what was written.
    """
    from concord.tasks.student.trust import trusted_types

    staged, ledger, released = stores.staged, stores.ledger, stores.released
    certificate = Certificate.model_validate_json(released.read(certified.certificate))
    session = ledger.session(certificate.session)
    refused = refusals(session, certificate.leading.files, released)
    file = released.read(certificate.student.file)
    types = trusted_types(file, plan.student.estimator)
    by_release = [(number, accuracy.value) for number, accuracy in enumerate(certificate.student.history, start=1)]
    return Publication(
        certificate=certificate,
        files=[released.root / ref.path for ref in certified.files],
        series=_series(session, refused, ledger) | {"accuracy_by_release": by_release},
        datasets={
            **datasets_of(certificate),
            certificate.mechanism.facts.of_rows: sha256_of_all(staged.read(batch.ref) for batch in public.batches),
        },
        student=load(file, plan.student.estimator),
        student_file=file,
        trusted_types=types,
        example=_example(public.batches[0], public.encoding, staged),
        columns=column_types(plan.path("public"), public.encoding),
        code=[Path(str(part.__file__)) for part in modules_needed(types)],
    )


def _series(session: Session, refused: NDArray[np.bool_], ledger: Ledger) -> dict[str, MetricPoints]:
    """The metrics named by SERIES: ε charged over rows and over batches, and to the domain over its sessions."""
    committed = [batch.outcome.asked for batch in ledger.batches(session.id) if batch.outcome]
    by_row = spending(session, refused)
    by_batch = spending(session, refused, np.cumsum(committed, dtype=np.int64))
    domain = ledger.domain_of(session)
    totals = running_totals(ledger.counted(domain.name))
    by_session = [domain.filter.spent(total)[0] for total in totals]
    return {
        "epsilon_charged": list(zip(by_row.rows.tolist(), by_row.epsilon.tolist(), strict=True)),
        "epsilon_charged_by_batch": list(enumerate(by_batch.epsilon.tolist(), start=1)),
        "domain_epsilon_by_session": list(enumerate(by_session)),
    }


def column_types(path: str, encoding: Encoding) -> dict[str, ColumnType]:
    """The type of each feature column in MLflow's signature, by the public table at `path`.

    Integers, lists of them and columns of text files are "any": the same column may arrive as int64, float64 (with a
    null) or text, which MLflow does not convert.
    """
    table = open_public(path, form=encoding.format)
    text = table.files[0].is_text
    return {
        column.name: _column_type(table.type_of(column.name), column.kind, text=text) for column in encoding.columns
    }


def _column_type(dtype: pl.DataType, kind: str, *, text: bool) -> ColumnType:
    if dtype == pl.String and kind in WORDS:
        return "string"
    if text or dtype.is_integer() or kind in WORDS:
        return "any"
    if dtype.is_float():
        return "double"
    if kind == "boolean":
        return "boolean"
    return "datetime" if kind == "date" else "any"


def _example(batch: PublicBatch, encoding: Encoding, staged: Staged) -> object:
    """A few public rows as a pandas frame, with every feature column in order."""
    rows = read_frame(batch.ref, staged).head(EXAMPLE_ROWS)
    absent = [pl.lit(None).alias(name) for name in encoding.features if name not in rows.columns]
    frame = rows.with_columns(absent).select(encoding.features).to_pandas()
    frame.columns = frame.columns.astype(object)  # MLflow's comparison of names fails on pandas' own text type
    for column in encoding.columns:
        if column.kind == "list":
            frame[column.name] = [None if cell is None else cell.tolist() for cell in frame[column.name]]
    return frame


def running_totals(charges: Iterable[Counted]) -> Iterator[Charge]:
    """The charge of a domain before the first of those charges, and after each."""
    listed = list(charges)
    return (largest(by_part(listed[:count])) for count in range(len(listed) + 1))
