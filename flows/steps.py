"""The steps of a run between its stages: what is decided before it, the ways to learn, and what is published after it.

A student learns by votes, by tallies, or by a choice among hypotheses. They differ in the steps of `Learning` and in
nothing else: `flows.learn` runs each of them.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from concord.artifacts.certificate import Certificate, Certified
from concord.artifacts.domains import Domain
from concord.artifacts.errors import WrongInput
from concord.artifacts.learners import StudentPlan
from concord.artifacts.mlflow.describe import Tracked
from concord.artifacts.privacy import Cost
from concord.artifacts.schemas import PublicRows, Ref
from concord.artifacts.sessions import Session
from concord.flows.cache import Place
from concord.flows.console import err
from concord.flows.mirror import mirrored
from concord.flows.outcome import Summary, briefly, extension_in_words, measures_of, merge_reports, season_of
from concord.flows.run import Admitted, Asking, Balance, Counted, PrivateFiles, PublicStream, RunContext, ready_mlflow
from concord.flows.stage import Disclosure, stage
from concord.tasks.advice.choose import decided
from concord.tasks.data.codes import Codes
from concord.tasks.data.encode import grouping, labelled_rows
from concord.tasks.door.admit import on_record
from concord.tasks.door.checkpoint import Checkpoint
from concord.tasks.door.door import released_by
from concord.tasks.door.stores import Stores
from concord.tasks.publish import certify as publish_certify
from concord.tasks.publish.certify import certificate_of
from concord.tasks.publish.track import column_types, track
from concord.tasks.student.study import Student, rehearse_student

if TYPE_CHECKING:
    from concord.artifacts.mlflow.write import Tracking


@dataclass
class Learning(ABC, Generic[Asking]):
    """One way, for one run.

    public   the encoding, and the plan's own public rows
    codes    codes by which the decoded model of tallies reads a row, once they are known; None for other ways

    reopens  whether its session can be looked at again: tested, extended, learned from once more
    """

    run: RunContext
    public: PublicRows
    codes: Codes | None = None

    reopens: ClassVar[bool] = True

    def rehearse(self) -> None:
        """Raise WrongInput now, while nothing is spent, if a student or the test table would fail later."""
        for student in self.students():
            rehearse_student(student, self.public.encoding)
        if (data := self.run.plan.data).test is not None:
            labelled_rows(self.run.plan.path("test"), self.public.encoding)
            grouping(self.run.plan.path("test"), data.groups or (), self.public.encoding)

    def students(self) -> Sequence[StudentPlan]:
        """The students that may be fitted."""
        return self.run.plan.student.each

    @abstractmethod
    def ask(self, domain: Domain, session: Session | None = None) -> Asking:
        """What the plan asks of its private rows, in a domain, or what it asked in the session that goes on."""

    def ask_of_plan(self, domain: Domain) -> Asking:
        """What the plan asks, and if a session asked it with what another version advised, as that session."""
        return self.ask(domain)

    @abstractmethod
    def count(self, admitted: Admitted[Asking], private: PrivateFiles) -> Counted:
        """Compute what the session answers from. Raises NotVerified if it was opened with other private data."""

    @abstractmethod
    def release(self, session: Session, admitted: Admitted[Asking], counted: Counted) -> Disclosure:
        """Pass the door, or replay what passed it."""

    @abstractmethod
    def fit(self, run: RunContext, admitted: Admitted[Asking], passed: Disclosure, where: str) -> Student:
        """The student of that run's plan, in the folder `where` of released files."""

    def after(self, admitted: Admitted[Asking]) -> Admitted[Asking]:
        """The session with what stands for its public rows once it has released."""
        return admitted

    def resume(self, session: Session, checkpoint: Checkpoint) -> Admitted[Asking]:
        """An open session that goes on, with all rows of its checkpoint.

        Raises NotVerified if it would not go on as it began or rows are gone, WrongInput if its tables no longer fit.
        """
        run, domain = self.run, self.run.stores.ledger.domain_of(session)
        ask = on_record(run.stores, session, self.ask(domain, session))
        self.rehearse()
        column_types(run.plan.path("public"), checkpoint.encoding)  # checked now: MLflow needs them after the spend
        stream = PublicStream.of(run, session, checkpoint.encoding, checkpoint.sources)
        return Admitted(Balance.of(run, domain), ask, stream, session)

    def replay(self, session: Session, admitted: Admitted[Asking]) -> Disclosure:  # noqa: ARG002, since some need it
        """What the session released. Raises WrongInput if some of it is still to be asked."""
        released = released_by(self.run.stores, session.id)
        if len(released) < (session.queries or 0):
            raise WrongInput(f"session {session.id} has rounds left to ask: run its plan, which asks them")
        return Disclosure(session, released, 0, datetime.now(UTC))


AnyLearning = Learning[Any]


def decide(run: RunContext, public: PublicRows) -> RunContext:
    """The run with mechanism = "auto" resolved: from here on the same as if the plan had named the mechanism."""
    if not run.plan.undecided:
        return run
    plan, reason = decided(run.plan, public.encoding)
    err.print(f"{'auto':>8} {plan.labeling.mechanism}: {reason}", soft_wrap=True, markup=False)
    return replace(run, plan=plan)


def note_earlier(door: Stores, session: Session, files: Sequence[Ref]) -> None:
    """Note that private work begins after `files` of a session were released: their times would tell how long it takes.
    `stamp_earlier` gives them new times; so does any later command before it publishes.
    """
    stamp_earlier(door, session)
    door.vault.keep(_earlier(session), lambda: json.dumps([ref.path for ref in files]).encode())


def stamp_earlier(door: Stores, session: Session) -> None:
    """Give the files noted by `note_earlier` new times; missing ones are skipped."""
    noted = door.vault.find(_earlier(session))
    if noted is not None:
        found = map(door.released.find, json.loads(door.vault.read(noted)))
        door.released.restamp([ref for ref in found if ref is not None])
        door.vault.destroy(noted.path)


def _earlier(session: Session) -> str:
    return f"sessions/{session.id}/earlier"


def publish(
    run: RunContext,
    admitted: Admitted[Any],
    passed: Disclosure,
    student: Student,
    before: Sequence[Disclosure] = (),
    codes: Codes | None = None,
) -> Summary:
    """Publish certificate, report and MLflow run for what passed the door. Returns the summary of the run.

    before   what other sessions of this run released: of labels, beside which the student was chosen
    codes    the codes of rows, for tallies, from which all public rows are labelled
    """
    session, released = passed.session, run.stores.released.root
    labelled = before[0].session if before else session
    stamp_earlier(run.stores, session)
    with run.stores.publishing(session.id):
        certified, tracked = _certified_and_tracked(run, admitted, passed, student, before)
    certificate = Certificate.model_validate_json(run.stores.released.read(certified.certificate))
    return Summary(
        run_id=tracked.run_id,
        domain=certificate.domain.name,
        session=session.id,
        certificate=str(released / certified.certificate.path),
        certificate_digest=certified.certificate.digest,
        report=str(released / certified.report.path),
        guarantee=certificate.guarantee.model_dump() | {"units": certificate.units},
        mechanism=briefly(session.mechanism),
        teachers=labelled.teachers,
        asks=labelled.asks,
        asked=labelled.asked,
        answered=labelled.answered,
        refused=labelled.refused,
        asked_now=passed.asked_now,
        not_asked=admitted.stream.rows - labelled.asked if before else certificate.counts.not_asked,
        later_rows=extension_in_words(session),
        season=season_of(session),
        inferred=admitted.stream.rows if codes else 0,
        student=measures_of(certificate) | {"model_uri": tracked.model_uri, "champion": tracked.champion},
        choice=None if certificate.choice is None else certificate.choice.shown(),
        test=None if certificate.test is None else certificate.test.shown(),
        warnings=list(certificate.warnings),
        stages=merge_reports(run.stages.reports),
        **admitted.balance.charged(run),
    )


@stage("certify", version=6)
def certify(
    place: Place,
    certificate: Certificate,
    classes: Sequence[str],
    per_refusal: Cost | None,
    signer: str,  # noqa: ARG001, so that another key signs again
) -> Certified:
    """Write the certificate and its report, signed by the key of that fingerprint."""
    door = Stores.of(place.home)
    written = publish_certify.written_now(certificate)
    return publish_certify.write(
        written, classes, per_refusal=per_refusal, ledger=door.ledger, released=door.released, vault=door.vault
    )


def _certified_and_tracked(
    run: RunContext,
    admitted: Admitted[Any],
    passed: Disclosure,
    student: Student,
    before: Sequence[Disclosure],
) -> tuple[Certified, Tracked]:
    """Certificate and report, written or from the cache; and their run in MLflow, recorded if it is missing."""
    session, stores, studied = passed.session, run.stores, datetime.now(UTC)

    def work() -> tuple[tuple[Certified, Tracked], bool]:
        certificate = certificate_of(
            run.plan,
            session.id,
            passed.released,
            student,
            others={each.session.id: each.released for each in before},
            features=admitted.stream.encoding.features,
            ledger=stores.ledger,
            released=stores.released,
        )
        classes, per_refusal = run.plan.data.classes, admitted.ask.per_refusal
        certified, cached = certify.with_cached(run, certificate, classes, per_refusal, run.signer)
        tracked, there = mirrored(
            stores,
            run.plan.privacy.domain,
            certified,
            partial(_recorded, run, admitted, passed, certified, studied),
            again=run.stages.again("certify"),
            ready=ready_mlflow if run.stages.in_replay else None,
        )
        return (certified, tracked), cached and there

    both: tuple[Certified, Tracked] = run.stages.uncached("certify", work)
    return both


def _recorded(
    run: RunContext,
    admitted: Admitted[Any],
    passed: Disclosure,
    certified: Certified,
    studied: datetime,
    tracking: "Tracking",
) -> Tracked:
    """Record the session in MLflow, as begun at the door."""
    stores = run.stores
    return track(
        run.plan,
        certified,
        admitted.stream.encoding,
        admitted.stream.batches,
        per_refusal=admitted.ask.per_refusal,
        started=passed.at,
        studied=studied,
        vault=stores.vault,
        ledger=stores.ledger,
        released=stores.released,
        tracking=tracking,
    )
