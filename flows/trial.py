"""The choice of a student among candidates, and its test, both on private units that the plan sets aside."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from concord.artifacts.errors import BudgetRefused
from concord.artifacts.home.released import HELD
from concord.artifacts.home.vault import Vault
from concord.artifacts.ledger.reading import choices_of, trials_of
from concord.artifacts.parts import TEST
from concord.artifacts.plan import Plan
from concord.artifacts.privacy import Charge
from concord.artifacts.schemas import Encoding, Ref
from concord.artifacts.sessions import Opening, Session
from concord.flows import stages
from concord.flows.console import err
from concord.flows.run import Admitted, Asking, Private, RunContext
from concord.flows.stage import Disclosure
from concord.flows.steps import note_earlier, stamp_earlier
from concord.tasks.data.codes import Codes
from concord.tasks.data.parts import division_of
from concord.tasks.door.admit import Asked, check_ensemble, claim, going_on, reserve_session
from concord.tasks.door.checkpoint import Checkpoint, write_checkpoint
from concord.tasks.door.trial import (
    Trial,
    choice_of,
    is_clean,
    left_for_test,
    planned_choice,
    planned_test,
    settled_now,
    trial_of,
    with_chosen_student,
)
from concord.tasks.mechanisms.mechanism import Once
from concord.tasks.mechanisms.private_test import PrivateTest
from concord.tasks.mechanisms.student_choice import StudentChoice
from concord.tasks.student.study import Student

FitStudent = Callable[[RunContext, str], Student]
"""Fits the student of a run's plan, into a file in that folder of released files."""


@dataclass(frozen=True)
class ChosenRun:
    """A run whose plan names one student, and the disclosure so far; `files` were released by the choice."""

    run: RunContext
    passed: Disclosure
    files: Sequence[Ref]


def check_test(run: RunContext, admitted: Admitted[Asking]) -> Admitted[Asking]:
    """`admitted`, if the domain also covers the choice and the test that the plan asks for. Those not there yet are
    opened without --new-session, since the plan asks for them.

    Raises BudgetRefused if they are not covered, or if the session chose among other candidates; spends nothing.
    """
    plan, session, domain = run.plan, admitted.session, admitted.balance.domain
    choice = planned_choice(plan)
    if plan.test is None:
        return admitted
    if session is not None and (
        choice is None or with_chosen_student(run.stores, session, plan) or choices(run, session)
    ):
        return admitted
    reserved = domain.filter.charge(admitted.asked.mechanism.cost) if session is None else session.reserved
    charges = [(domain.filter.charge(choice.cost), choice.epsilon)] if choice else []
    learning, epsilon = left_for_test(reserved, admitted.asked.epsilon, charges)
    encoding, vault, about = admitted.stream.encoding, run.stores.vault, "asked for"
    lacking = list[Asked]()
    if choice is not None:
        lacking.append(choice_asked(plan, choice_of(plan, choice, about, (), clean=True), encoding, vault))
    if session is None:
        named = {"session": about, "student": "", "share": plan.test.share, "clean": True}
        lacking.append(test_asked(plan, Trial(planned_test(plan, domain, learning, epsilon), named), encoding, vault))
    division = division_of(plan, vault)
    whole = Opening.of_all([asked.opening(division) for asked in lacking])
    run.stores.ledger.check_opening(whole, domain, further=True)
    return admitted


def choices(run: RunContext, session: Session) -> list[Session]:
    return choices_of(run.stores.ledger.sessions(session.domain), session.id)


def choice_asked(plan: Plan, choice: Once[StudentChoice], encoding: Encoding, vault: Vault) -> Asked:
    """The request for the session of a choice."""
    return Asked.once(plan, choice, encoding, vault, {"chosen": choice.settings()}, part=TEST)


def choose(
    run: RunContext,
    admitted: Admitted[Any],
    private: Private,
    passed: Disclosure,
    fit: FitStudent,
    codes: Codes | None = None,
    *,
    also: Sequence[Ref] = (),
) -> ChosenRun:
    """The run with the one student to publish: the plan's, or the one chosen among its candidates, once.

    codes   the codes by which the decoded model of tallies reads a row
    also    files that this run published before, besides those that passed the door
    """
    plan, stores, session = run.plan, run.stores, passed.session
    known = with_chosen_student(stores, session, plan)
    if known is plan:
        return ChosenRun(run, passed, ())
    if known is None:
        passed = _pass_choice(run, admitted, private, passed, fit, codes, also=also)
        known = settled_now(stores, session, plan)
    else:
        run.stages.uncached("choose", lambda: (None, True))
    stores.released.discard(_folder(session))
    made = stores.ledger.choice(session)
    return ChosenRun(replace(run, plan=known), passed, () if made is None else (made[1],))


def _folder(session: Session) -> str:
    """The folder of candidates until one is chosen: neither the others nor their files' times are ever published."""
    return f"{HELD}/{session.id}"


def _pass_choice(
    run: RunContext,
    admitted: Admitted[Any],
    private: Private,
    passed: Disclosure,
    fit: FitStudent,
    codes: Codes | None,
    *,
    also: Sequence[Ref],
) -> Disclosure:
    """Fit the candidates to the released labels, count their private errors, and choose one at the door."""
    plan, stores, encoding, session = run.plan, run.stores, admitted.stream.encoding, passed.session
    mechanism, each = planned_choice(plan), plan.student.each
    if mechanism is None:
        raise AssertionError("a plan without candidates has nothing to choose")
    runs = [replace(run, plan=plan.model_copy(update={"student": student})) for student in each]
    files = [fit(made, f"{_folder(session)}/{number}").ref for number, made in enumerate(runs, start=1)]
    read = [codes if student.learner == "linear" else None for student in each]
    estimators = [student.estimator for student in each]
    note_earlier(stores, session, [*passed.released, *also])
    counts = stages.count_aside(run, plan, private.table, encoding, files, estimators, read, run.erased)
    choice = choice_of(plan, mechanism, session.id, files, clean=is_clean(plan, session, stores.vault))
    asked = choice_asked(plan, choice, encoding, stores.vault)
    opened = going_on(stores, asked, new_session=False)
    if opened is None:
        if before := choices(run, session):
            raise BudgetRefused(
                f"session {before[-1].id} was opened to choose among students that came out otherwise: another choice "
                "costs again, with what is learned from, so ask for it with --new-session; or name one in [student]"
            )
        claim(stores, plan, private.with_rows)
        opened = reserve_session(stores, asked, (counts.digest,), new_session=True)
    opened = keep_aside(run, admitted, private, run.hold(opened.id), counts)
    check_ensemble(stores.vault, opened, (counts.digest,))
    released = stages.choose_candidate(run, opened, choice, counts)
    stamp_earlier(stores, session)
    return replace(passed, at=released.at)


def left_now(run: RunContext, session: Session) -> tuple[Charge, float]:
    """The budget left for a test of a session's student, with or without a choice among students."""
    charges = [(choice.reserved, choice.epsilon) for choice in choices(run, session)]
    return left_for_test(session.reserved, session.epsilon, charges)


def test_asked(plan: Plan, trial: Trial, encoding: Encoding, vault: Vault) -> Asked:
    """The request for the session of a test."""
    depends, delta = {"tried": trial.settings()}, trial.mechanism.delta
    return Asked.once(plan, trial, encoding, vault, depends, delta=delta, part=TEST)


def try_student(
    run: RunContext,
    admitted: Admitted[Any],
    private: Private,
    passed: Disclosure,
    student: Student,
    codes: Codes | None = None,
    *,
    also: Sequence[Ref] = (),
) -> Disclosure:
    """Make the test that the plan asks for, of the session's first student; later students are tested only on request.

    codes   the codes by which a linear student reads a row; other students read encoded rows
    also    files that this run published before, besides those that passed the door
    Returns `passed` with the time of the last release: no published time may be earlier.
    """
    if run.plan.test is None:
        return passed
    session, domain = passed.session, admitted.balance.domain
    known = trials_of(run.stores.ledger.sessions(session.domain), session.id)
    own = [test for test in known if test.mechanism["student"] == student.ref.digest]
    if own:
        mechanism = PrivateTest.from_settings(own[-1].mechanism)
    elif known:
        return _passed_over(run.plan, passed, "is another than the one that was tested")
    else:
        try:
            mechanism = planned_test(run.plan, domain, *left_now(run, session))
        except BudgetRefused as refused:
            return _passed_over(run.plan, passed, f"is not tested: {refused}")
    try:
        return pass_test(run, admitted, private, passed, student, mechanism, codes, also=also)
    except BudgetRefused as refused:
        return _passed_over(run.plan, passed, f"is not tested: {refused}")


def _passed_over(plan: Plan, passed: Disclosure, why: str) -> Disclosure:
    known = plan.tallied or (plan.votes and plan.student.learner != "universal")  # `concord test` can repeat it
    more = f"; `concord test {passed.session.id}` tests it at a price" if known else ""
    err.print(f"{'test':>8} the student {why}{more}", soft_wrap=True)
    return passed


def pass_test(
    run: RunContext,
    admitted: Admitted[Any],
    private: Private,
    passed: Disclosure,
    student: Student,
    mechanism: PrivateTest,
    codes: Codes | None = None,
    *,
    also: Sequence[Ref] = (),
    again: bool = False,
) -> Disclosure:
    """Count the private units, and release noisy counts at the door; or replay them. Raises BudgetRefused.

    again   make one more test even if there is one of this student and these settings
    """
    plan, stores, encoding = run.plan, run.stores, admitted.stream.encoding
    trial = trial_of(plan, mechanism, passed.session, student.ref, stores.vault)
    read = codes if plan.student.learner == "linear" else None
    asked = test_asked(plan, trial, encoding, stores.vault)
    # Times of files published before would show how long counting took, and so how many units there are.
    note_earlier(stores, passed.session, [*passed.released, *also, student.ref])
    counts = stages.try_out(run, plan, private.table, encoding, student.ref, read, run.erased)
    test = going_on(stores, asked, new_session=again)
    if test is None:
        claim(stores, plan, private.with_rows)
        test = reserve_session(stores, asked, (counts.digest,), new_session=True)
    test = keep_aside(run, admitted, private, run.hold(test.id), counts)
    check_ensemble(stores.vault, test, (counts.digest,))
    released = stages.release_test(run, test, trial, counts, plan.data.classes)
    stamp_earlier(stores, passed.session)
    return replace(passed, at=released.at)


def keep_aside(run: RunContext, admitted: Admitted[Any], private: Private, session: Session, counts: Ref) -> Session:
    """Write the checkpoint of the session of a test or choice, with its counts to be forgotten with it. Returns it."""
    stream, plan = admitted.stream, run.kept
    checkpoint = Checkpoint(
        plan=plan, encoding=stream.encoding, teachers=(counts,), sources=stream.sources, private=private.with_rows
    )
    write_checkpoint(run.stores.vault, session.id, checkpoint)
    return session
