"""The choice of a student among candidates, and its test, both on private units that the plan sets aside."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from concord.artifacts.errors import BudgetRefused
from concord.artifacts.home.released import HELD
from concord.artifacts.learners import StudentPlan
from concord.artifacts.ledger.reading import choices_of, private_tests_of
from concord.artifacts.privacy import Charge
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Opening, Session
from concord.flows import stages
from concord.flows.admit import begin
from concord.flows.console import err
from concord.flows.run import Admitted, ExactNumbers, PrivateFiles, RunContext
from concord.flows.stage import pass_door
from concord.flows.steps import Learned
from concord.tasks.asks.student_choice import StudentChoiceAsk, planned_choice, settled_now, with_chosen_student
from concord.tasks.asks.student_test import StudentTestAsk, left_for_test, planned_test
from concord.tasks.asks.unit_counts import is_clean
from concord.tasks.door.admit import check_ensemble, find_session, opening_of
from concord.tasks.door.ask import SingleAsk
from concord.tasks.door.door import released_by
from concord.tasks.mechanisms.private_test import PrivateTest
from concord.tasks.student.study import Student

Fit = Callable[[Learned, str], Student]
"""Learns a student, into a folder of released files."""


def check_test(run: RunContext, admitted: Admitted[Any]) -> None:
    """Check that the domain also covers the choice and the test that the plan asks for. Those not there yet are opened
    without --new-session, since the plan asks for them.

    Raises BudgetRefused if they are not covered, or if the session chose among other candidates; spends nothing.
    """
    plan, session, domain = run.plan, admitted.session, admitted.balance.domain
    choice = planned_choice(plan)
    if plan.test is None:
        return
    if session is not None and (
        choice is None or with_chosen_student(run.stores, session, plan) or choices(run, session)
    ):
        return
    encoding, vault = admitted.stream.encoding, run.stores.vault
    reserved = domain.filter.charge(admitted.ask.cost) if session is None else session.reserved
    charges = [(domain.filter.charge(choice.cost), choice.epsilon)] if choice else []
    learning, epsilon = left_for_test(reserved, admitted.ask.epsilon, charges)
    about, asks = "asked for", list[SingleAsk[Any]]()
    if choice is not None:
        asks.append(StudentChoiceAsk.of(plan, choice, about, (), clean=True))
    if session is None:
        test = planned_test(plan, domain, learning, epsilon)
        asks.append(StudentTestAsk.named(plan, test, about, "", clean=True))
    whole = Opening.of_all([opening_of(plan, ask, encoding, vault) for ask in asks])
    run.stores.ledger.check_opening(whole, domain, further=True)


def _file_of(ref: Ref, student: StudentPlan, learned: Learned) -> stages.StudentFile:
    """The file of a student that was fitted by its section of a plan."""
    return stages.StudentFile(ref, student.estimator, learned.codes if student.reads_codes else None)


def choices(run: RunContext, session: Session) -> list[Session]:
    return choices_of(run.stores.ledger.sessions(session.domain), session.id)


def choose_student(learned: Learned, private: PrivateFiles, fit: Fit) -> Learned:
    """`learned`, with the one student to publish: the plan's, or the one chosen among its candidates, once."""
    run, plan, session = learned.run, learned.run.plan, learned.session
    known = with_chosen_student(run.stores, session, plan)
    if known is plan:
        return learned
    if known is None:
        learned = _pass_choice(learned, private, fit)
        known = settled_now(run.stores, session, plan)
    else:
        run.stages.uncached("choose", lambda: (None, True))
    run.stores.released.discard(f"{HELD}/{session.id}/candidates")  # neither the others nor their times are published
    return replace(learned, run=replace(run, plan=known))


def _pass_choice(learned: Learned, private: PrivateFiles, fit: Fit) -> Learned:
    """Fit the candidates to what was released, count their private errors, and choose one at the door."""
    run, encoding, session = learned.run, learned.encoding, learned.session
    plan, stores, each = run.plan, run.stores, run.plan.student.each
    mechanism = planned_choice(plan)
    if mechanism is None:
        raise AssertionError("a plan without candidates has nothing to choose")
    files = list[Ref]()
    for number, student in enumerate(each, 1):
        candidate = replace(run, plan=plan.model_copy(update={"student": student}))
        files.append(fit(replace(learned, run=candidate), f"{session.id}/candidates/{number}").ref)
    students = [_file_of(ref, student, learned) for ref, student in zip(files, each, strict=True)]
    counts = stages.count_aside(run, plan, private.read_by(encoding), students)
    choice = StudentChoiceAsk.of(plan, mechanism, session.id, files, clean=is_clean(plan, session, stores.vault))
    before, (known, _) = choices(run, session), find_session(stores, plan, choice, encoding, new_session=False)
    if before and known is None:
        raise BudgetRefused(
            f"session {before[-1].id} was opened to choose among students that came out otherwise: another choice "
            "costs again, with what is learned from, so ask for it with --new-session; or name one in [student]"
        )
    return _pass_aside(learned, private, choice, counts)


def _pass_aside(learned: Learned, private: PrivateFiles, ask: SingleAsk[Any], counts: Ref) -> Learned:
    """Open the session of a question about units set aside, unless it is open, and pass the door, or replay its answer.

    Returns `learned` with the time of the release: no published time may be earlier. Raises BudgetRefused.
    """
    run, stores, passed = learned.run, learned.run.stores, learned.passed
    known, ask = find_session(stores, run.plan, ask, learned.encoding, new_session=False)
    found = replace(learned.admitted, ask=ask, session=None if known is None else run.lock_session(known.id))
    opened = begin(run, found, private, ExactNumbers((counts.digest,), (counts,)), further=True)
    check_ensemble(stores.vault, opened, (counts.digest,))
    released = pass_door(run, opened, partial(ask.steps, exact=[counts]), ask.stage)
    return replace(learned, passed=replace(passed, at=released.at))


def left_now(run: RunContext, session: Session) -> tuple[Charge, float]:
    """The budget left for a test of a session's student, with or without a choice among students."""
    charges = [(choice.reserved, choice.epsilon) for choice in choices(run, session)]
    return left_for_test(session.reserved, session.epsilon, charges)


def run_planned_test(learned: Learned, private: PrivateFiles, student: Student) -> Learned:
    """Make the test that the plan asks for, of the session's first student; later students are tested only on request.

    Returns `learned` with the time of the last release: no published time may be earlier.
    """
    run, session = learned.run, learned.session
    if run.plan.test is None:
        return learned
    if own := _tests(run, session, student):
        mechanism = PrivateTest.from_settings(own[-1].kind)
    elif private_tests_of(run.stores.ledger.sessions(session.domain), session.id):
        return _passed_over(learned, "is not the one that was tested")
    else:
        try:
            mechanism = planned_test(run.plan, learned.admitted.balance.domain, *left_now(run, session))
        except BudgetRefused as refused:
            return _passed_over(learned, f"is not tested: {refused}")
    try:
        return pass_test(learned, private, student, mechanism)
    except BudgetRefused as refused:
        return _passed_over(learned, f"is not tested: {refused}")


def _passed_over(learned: Learned, why: str) -> Learned:
    err.print(f"{'test':>8} the student {why}", soft_wrap=True)
    return learned


def pass_test(learned: Learned, private: PrivateFiles, student: Student, mechanism: PrivateTest) -> Learned:
    """Count the private units, and release noisy counts at the door; or replay them. Raises BudgetRefused."""
    run, plan, passed = learned.run, learned.run.plan, learned.passed
    constant = None
    if plan.data.bounds is not None:  # what the last released model says of public rows on average
        (low, high), (*_, last) = plan.data.bounds, released_by(run.stores, passed.session.id)
        (place,) = json.loads(run.stores.released.read(last))["decoded"]["prior"]
        constant = float((1 - place) * low + place * high)
    test = StudentTestAsk.of(plan, mechanism, passed.session, student.ref, run.stores.vault)
    rows, file = private.read_by(learned.encoding), _file_of(student.ref, plan.student, learned)
    if constant is None:
        counts = stages.count_confusion(run, plan, rows, file)
    else:
        test = test.beside(constant)
        counts = stages.count_number_errors(run, plan, rows, file, constant)
    return _pass_aside(learned, private, test, counts)


def _tests(run: RunContext, session: Session, student: Student) -> list[Session]:
    """The session's tests of exactly that student."""
    known = private_tests_of(run.stores.ledger.sessions(session.domain), session.id)
    return [test for test in known if test.kind.student == student.ref.digest]
