"""Students on private units set aside: the choice of one among candidates, and its test, as a plan asks for them."""

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
"""How the student of a run's plan is fitted, to a file in that folder of released ones."""


@dataclass(frozen=True)
class ChosenRun:
    """A run whose plan names one student, and what passed the door before it; `files` are what the choice released."""

    run: RunContext
    passed: Disclosure
    files: Sequence[Ref]


def check_test(run: RunContext, admitted: Admitted[Asking]) -> Admitted[Asking]:
    """What was admitted, if the domain covers the choice and the test that the plan asks for as well: what it lacks of
    them is opened without being asked for again, since the plan asks for it.

    Raises BudgetRefused if that is not covered, or if the session has chosen among others; spends nothing.
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
    """The session that a choice is asked for in."""
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
    """The run with the one student to publish: that of its plan, or the one chosen among its candidates, once.

    codes   what the decoded model of tallies reads of a row
    also    files that this run published before, beside those that passed the door
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
    """Where candidates lie until one is chosen: the others are never published, nor when counting began."""
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
    """Fit the candidates to what was released, count their errors in private, and choose one at the door."""
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
    """What a test of a session's student may cost, with or without a choice among students."""
    charges = [(choice.reserved, choice.epsilon) for choice in choices(run, session)]
    return left_for_test(session.reserved, session.epsilon, charges)


def test_asked(plan: Plan, trial: Trial, encoding: Encoding, vault: Vault) -> Asked:
    """The session that a test is asked for in."""
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
    """The test that the plan asks for: of the first student of a session. Another one is not tested unasked.

    codes   what a linear student reads of a row; others read encoded ones
    also    files that this run published before, beside those that passed the door
    Returns what passed the door before, at the moment the last of it did: none that is published may be earlier.
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
    known = plan.tallied or (plan.votes and plan.student.learner != "universal")  # `concord test` has it again
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
    """Count in private, and release noisy counts at the door; or replay them. Raises BudgetRefused.

    again   make one more test if there is one of this student and these settings
    """
    plan, stores, encoding = run.plan, run.stores, admitted.stream.encoding
    trial = trial_of(plan, mechanism, passed.session, student.ref, stores.vault)
    read = codes if plan.student.learner == "linear" else None
    asked = test_asked(plan, trial, encoding, stores.vault)
    # Times of files published before would tell how long the units were counted, and so how many there are.
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
    """A session that stands beside the one that learned, with what is to be forgotten with it."""
    stream, plan = admitted.stream, run.kept
    checkpoint = Checkpoint(
        plan=plan, encoding=stream.encoding, teachers=(counts,), sources=stream.sources, private=private.with_rows
    )
    write_checkpoint(run.stores.vault, session.id, checkpoint)
    return session
