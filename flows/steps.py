"""The steps of a run between its stages: admitting and opening sessions, and publishing their results."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from concord.artifacts.certificate import Certificate, Certified
from concord.artifacts.domains import Domain
from concord.artifacts.guarantee import NO_LATER_ROWS, later_rows_in_words
from concord.artifacts.mlflow.describe import Tracked
from concord.artifacts.schemas import Encoding, Ref
from concord.artifacts.sessions import Session
from concord.flows import stages
from concord.flows.console import err
from concord.flows.mirror import mirrored
from concord.flows.outcome import Summary, briefly, extension_in_words, measures_of, merge_reports
from concord.flows.run import Admitted, Asking, Balance, Private, PublicStream, RunContext, ready_mlflow
from concord.flows.stage import Disclosure
from concord.flows.stages import Public
from concord.tasks.advice.choose import PublicFacts, decided, expected_at
from concord.tasks.advice.tallies import planned_codes
from concord.tasks.asking import teachers as asking_teachers
from concord.tasks.data.codes import Codes
from concord.tasks.data.encode import labelled_rows, read_frame
from concord.tasks.data.parts import division_of
from concord.tasks.door.admit import (
    Asked,
    as_opened,
    calibrated,
    check_ensemble,
    check_going_on,
    claim,
    going_on,
    planned_domain,
    reserve_session,
)
from concord.tasks.door.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from concord.tasks.door.release import Stores
from concord.tasks.mechanisms.mechanism import Mechanism
from concord.tasks.publish.certify import certificate_of
from concord.tasks.publish.track import column_types, track
from concord.tasks.student import study as student_study
from concord.tasks.student.study import Student

if TYPE_CHECKING:
    from concord.artifacts.mlflow.write import Tracking


def decide(run: RunContext, public: Public) -> RunContext:
    """The run with mechanism = "auto" resolved: from here on the same as if the plan had named the mechanism."""
    if not run.plan.undecided:
        return run
    encoding, vault = public.encoding, run.stores.vault
    frames = [batch.ref for batch in public.batches]
    facts = PublicFacts(
        rows=sum(batch.rows for batch in public.batches),
        encoding=encoding,
        codes=lambda asked: planned_codes(asked, encoding, (read_frame(ref, vault) for ref in frames)),
        order=planned_domain(run.stores, run.plan).filter.order,
    )
    plan, reason = decided(run.plan, facts)
    err.print(f"{'auto':>8} {plan.labeling.mechanism}: {reason}", soft_wrap=True, markup=False)
    return replace(run, plan=plan)


def rehearse(run: RunContext, encoding: Encoding) -> None:
    """Raise WrongInput now, while nothing is spent, if teachers, student or test table would fail later."""
    plan = run.plan
    if run.stages.in_replay:
        return  # cached results show that it ran
    if plan.votes:
        asking_teachers.rehearse_teachers(plan.teachers, encoding)
    for student in plan.student.each:
        if student.learner != "universal":
            student_study.rehearse_student(student, encoding)
    if plan.data.test is not None:
        labelled_rows(plan.path("test"), encoding)


def find(run: RunContext, public: Public, domain: Domain, mechanism: Asking, asked: Asked) -> Admitted[Asking]:
    """The session that is asked for, if it exists, once no other command is opening or using it.

    Its stream is the plan's own rows, then those it was extended with.
    """
    run.wait_for(asked.identity)
    balance, session = Balance.of(run, domain), going_on(run.stores, asked, new_session=run.new_session)
    sources = [run.own(public.batches)]
    if session is not None:
        session = run.hold(session.id)
        checkpoint = read_checkpoint(run.stores.vault, session.id)
        sources.extend(checkpoint.sources[1:] if checkpoint else ())
    return Admitted(balance, mechanism, asked, PublicStream.of(run, session, public.encoding, sources), session)


def covered(run: RunContext, found: Admitted[Asking]) -> Admitted[Asking]:
    """`found`, if the domain covers it. Raises BudgetRefused if the session would have to be opened and may not be;
    spends nothing."""
    if found.session is None:
        opening = found.asked.opening(division_of(run.plan, run.stores.vault))
        run.stores.ledger.check_opening(opening, found.balance.domain, further=run.new_session)
    return found


def go_on(run: RunContext, session: Session, checkpoint: Checkpoint) -> Admitted[Mechanism]:
    """An open session, admitted again with the stream of its checkpoint.

    Raises NotVerified if it would not go on as it began, WrongInput if its tables no longer fit.
    """
    vault, domain, encoding = run.stores.vault, run.stores.ledger.domain_of(session), checkpoint.encoding
    plan = as_opened(run.plan, session)
    mechanism = calibrated(plan, encoding, checkpoint.sources[0].batches, domain.filter.order, vault)
    check_going_on(vault, session, mechanism)
    rehearse(run, encoding)
    column_types(run.plan.path("public"), encoding)  # checked now: MLflow needs them after the spend
    balance, asked = Balance.of(run, domain), Asked.labels(plan, mechanism, session.identity)
    return Admitted(balance, mechanism, asked, PublicStream(encoding, checkpoint.sources), session)


def saying_room(found: Admitted[Asking]) -> Admitted[Asking]:
    """Return `found`; if a session would be opened, print how it can be extended, before anything private is read."""
    if found.session is None:
        ends = found.asked.mechanism
        words = NO_LATER_ROWS
        if found.asked.teachers:
            words = later_rows_in_words(queries=ends.queries, cutoff=ends.cutoff, asked=found.stream.rows, refused=0)
        err.print(f"{'later':>8} rows {words}", soft_wrap=True, markup=False)
    return found


def check_unchanged(run: RunContext, session: Session | None, made_of: Sequence[str]) -> None:
    """Raise NotVerified if the open session was opened with other private data."""
    if session is not None:
        check_ensemble(run.stores.vault, session, made_of)


def begin_session(
    run: RunContext,
    admitted: Admitted[Any],
    private: Private,
    made_of: Sequence[str],
    kept: Sequence[Ref],
    relabelled: tuple[Ref, ...] = (),
    *,
    further: bool | None = None,
) -> Session:
    """Reserve the cost of the session if it is not open yet, and keep its checkpoint. Raises BudgetRefused.

    made_of  digests of everything private that its answers depend on
    kept     its teachers; if nobody votes, the numbers it answers from
    further  whether one more session may be opened in the domain; default: the run's `new_session`
    """
    further, session = run.new_session if further is None else further, admitted.session
    claim(run.stores, run.plan, private.with_rows)
    if session is None:
        session = run.hold(reserve_session(run.stores, admitted.asked, made_of, new_session=further).id)
    checkpoint = Checkpoint(
        plan=run.kept,
        encoding=admitted.stream.encoding,
        teachers=tuple(kept),
        sources=admitted.stream.sources,
        private=private.with_rows,
        relabelled=relabelled,
    )
    write_checkpoint(run.stores.vault, session.id, checkpoint)
    return session


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
    others: Mapping[str, list[Ref]] | None = None,
    codes: Codes | None = None,
) -> Summary:
    """Publish certificate, report and MLflow run for what passed the door. Returns the summary of the run.

    others   the files that other sessions of this run released, by session
    codes    the codes of rows, for tallies
    """
    session, released = passed.session, run.stores.released.root
    stamp_earlier(run.stores, session)
    certified, tracked = _certified_and_tracked(run, admitted, passed, student, dict(others or {}), codes)
    certificate = Certificate.model_validate_json(run.stores.released.read(certified.certificate))
    return Summary(
        run_id=tracked.run_id,
        session=session.id,
        certificate=str(released / certified.certificate.path),
        certificate_digest=certified.certificate.digest,
        report=str(released / certified.report.path),
        guarantee=certificate.promise.model_dump(),
        mechanism=briefly(session.mechanism),
        teachers=session.teachers,
        asked=session.asked,
        answered=session.answered,
        refused=session.refused,
        asked_now=passed.asked_now,
        later_rows=extension_in_words(session),
        student=measures_of(certificate) | {"model_uri": tracked.model_uri, "champion": tracked.champion},
        choice=None if certificate.choice is None else certificate.choice.model_dump(mode="json"),
        test=None if certificate.test is None else certificate.test.model_dump(mode="json"),
        warnings=list(certificate.warnings),
        stages=merge_reports(run.stages.reports),
        **admitted.balance.charged(run),
    )


def _certified_and_tracked(
    run: RunContext,
    admitted: Admitted[Any],
    passed: Disclosure,
    student: Student,
    others: Mapping[str, list[Ref]],
    codes: Codes | None,
) -> tuple[Certified, Tracked]:
    """Certificate and report, written or from the cache; and their run in MLflow, recorded if it is missing."""
    session, stores, studied = passed.session, run.stores, datetime.now(UTC)

    def work() -> tuple[tuple[Certified, Tracked], bool]:
        certificate = certificate_of(
            run.plan,
            session.id,
            passed.released,
            student,
            beside=others,
            features=admitted.stream.encoding.features,
            expected=expected_at(run.plan, admitted.stream.encoding, admitted.stream.rows, codes),
            ledger=stores.ledger,
            released=stores.released,
        )
        classes, per_refusal = run.plan.data.classes, admitted.mechanism.per_refusal
        certified, cached = stages.certify.with_cached(run, certificate, classes, per_refusal, run.signer)
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
        per_refusal=admitted.mechanism.per_refusal,
        started=passed.at,
        studied=studied,
        vault=stores.vault,
        ledger=stores.ledger,
        released=stores.released,
        tracking=tracking,
    )
