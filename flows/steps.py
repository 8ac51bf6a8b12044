"""The steps of a run that learns, whatever it asks: what is decided before it, and what is published after it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from concord.artifacts.certificate import Certificate, Certified
from concord.artifacts.errors import EnvironmentFailed
from concord.artifacts.guarantee import season_in_words
from concord.artifacts.learners import StudentPlan
from concord.artifacts.mlflow.describe import Tracked
from concord.artifacts.schemas import Encoding, PublicRows
from concord.artifacts.sessions import Session
from concord.artifacts.stores import PublicPlace, Stores
from concord.flows.console import err
from concord.flows.outcome import Summary, extension_in_words, measures_of, merge_reports
from concord.flows.public_stages import study
from concord.flows.run import Admitted, RunContext
from concord.flows.stage import Disclosure, stage
from concord.tasks.advice.planned import decided
from concord.tasks.data.codes import Codes
from concord.tasks.data.encode import grouping, labelled_rows
from concord.tasks.publish import certify as publish_certify
from concord.tasks.publish.certify import certificate_of, publication_of
from concord.tasks.student.study import Student, rehearse_student


@dataclass(frozen=True)
class Learned:
    """What a session has released that a student learns from.

    run       its plan names the student
    admitted  the session as it was admitted, with the public rows that the student learns from
    codes     codes by which the decoded model of tallies reads a row; None for other students
    views     which views of a row were counted, and why
    before    what other sessions of this run released, beside which the student learns
    """

    run: RunContext
    admitted: Admitted[Any]
    passed: Disclosure
    codes: Codes | None = None
    views: str | None = None
    before: tuple[Disclosure, ...] = ()

    @property
    def session(self) -> Session:
        """The session, after its release."""
        return self.passed.session

    @property
    def encoding(self) -> Encoding:
        """The encoding of public rows."""
        return self.admitted.stream.encoding


def fit(learned: Learned) -> Student:
    """The student of whatever was released, measured on the plan's test table if there is one."""
    run, public = learned.run, learned.admitted.stream.public
    return study(run, run.plan, public, run.test, learned.passed.released, learned.codes)


def rehearse_published(run: RunContext, encoding: Encoding, student: StudentPlan) -> None:
    """Raise WrongInput now, while nothing is spent, if the student or the test table would fail later."""
    rehearse_student(student, encoding)
    if (data := run.plan.data).test is not None:
        labelled_rows(run.plan.path("test"), encoding)
        grouping(run.plan.path("test"), data.groups or (), encoding)


def decide(run: RunContext, public: PublicRows) -> RunContext:
    """The run with mechanism = "auto" resolved: from here on the same as if the plan had named the mechanism."""
    plan, reason = decided(run.plan, public.encoding)
    if not reason:
        return run
    err.print(f"{'auto':>8} {plan.labeling.mechanism}: {reason}", soft_wrap=True, markup=False)
    return replace(run, plan=plan)


def publish(learned: Learned, student: Student) -> Summary:
    """Publish certificate, report and MLflow run for what passed the door. Returns the summary of the run."""
    run, admitted, passed, before = learned.run, learned.admitted, learned.passed, learned.before
    session, released = passed.session, run.stores.released.root
    labelled = before[0].session if before else session
    with run.stores.publishing(session.id):
        certified, tracked = _certified_and_tracked(learned, student)
    certificate = Certificate.model_validate_json(run.stores.released.read(certified.certificate))
    return Summary(
        run_id=tracked.run_id,
        domain=certificate.domain.name,
        session=session.id,
        certificate=str(released / certified.certificate.path),
        certificate_digest=certified.certificate.digest,
        report=str(released / certified.report.path),
        guarantee=certificate.guarantee.shown(certificate.units),
        mechanism={name: value for name, value in session.mechanism.items() if name != "refusal"},
        teachers=labelled.teachers,
        asks=labelled.asks,
        asked=labelled.asked,
        answered=labelled.answered,
        refused=labelled.refused,
        asked_now=passed.asked_now,
        not_asked=admitted.stream.rows - labelled.asked if before else certificate.counts.not_asked,
        later_rows=extension_in_words(session),
        season=season_in_words(session),
        inferred=admitted.stream.rows if learned.codes else 0,
        of_rows=session.facts.of_rows,
        student=measures_of(certificate) | {"model_uri": tracked.model_uri, "champion": tracked.champion},
        test=None if certificate.test is None else certificate.test.shown(),
        warnings=list(certificate.warnings),
        stages=merge_reports(run.stages.reports),
        **admitted.charged(run),
    )


@stage("certify", version=7)
def certify(
    place: PublicPlace,
    certificate: Certificate,
    classes: Sequence[str],
    signer: str,  # noqa: ARG001, so that another key signs again
) -> Certified:
    """Write the certificate and its report, signed by the key of that fingerprint."""
    return publish_certify.write(certificate, classes, Stores.of(place.home))


def _certified_and_tracked(learned: Learned, student: Student) -> tuple[Certified, Tracked]:
    """Certificate and report, written or from the cache; and their run in MLflow, recorded if it is missing."""
    run, stores = learned.run, learned.run.stores

    def work() -> tuple[tuple[Certified, Tracked], bool]:
        disclosures = (learned.passed, *learned.before)
        files = {disclosed.session.id: disclosed.released for disclosed in disclosures}
        certificate = certificate_of(run.plan, files, student, learned.encoding.features, stores, learned.views)
        certified, cached = certify.with_cached(run, certificate, run.plan.data.classes, run.signer)
        tracked, recorded = mirrored(learned, certified)
        return (certified, tracked), cached and recorded

    both: tuple[Certified, Tracked] = run.stages.uncached("certify", work)
    return both


def mirrored(learned: Learned, certified: Certified) -> tuple[Tracked, bool]:
    """A session's place in MLflow, recorded now if it is missing; and whether it was there.

    The ledger and the released files are the record; MLflow repeats them. So if a store was deleted, or failed when a
    session was to be recorded, the next command that uses the session records it again: nothing is drawn, asked or
    spent.

    Assumes      the process that records a session holds its lock RUN, so that it is recorded once
    Guarantees   a run that shows the same files is not made twice
    Not covered  sessions that no command uses; estimates and audits, which have no released file
                 Checked by tests/flows/test_mlflow_lost.py
    Raises EnvironmentFailed if MLflow fails.
    """
    run, stores, session = learned.run, learned.run.stores, certified.session
    from concord.artifacts.mlflow.write import Tracking  # takes a second

    try:
        tracking = Tracking.of(run.home)
        tracked = tracking.find(run.plan.privacy.domain, session, certified.digests)
        if tracked is not None and not run.stages.again("certify"):
            return tracked, True
        publication = publication_of(run.plan, certified, learned.admitted.stream.public, stores)
        return tracking.publish(publication, learned.passed.at), False
    except EnvironmentFailed as failed:
        raise EnvironmentFailed(
            f"session {session} is certified, its files are in {stores.released.root}, and it is not recorded: "
            f"{failed}; once that is mended, the same command records it and spends nothing"
        ) from None
