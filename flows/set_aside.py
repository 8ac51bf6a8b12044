"""The test of a student on private units that the plan sets aside."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

from concord.artifacts.errors import BudgetRefused
from concord.artifacts.learners import StudentPlan
from concord.artifacts.ledger.reading import private_tests_of
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Session
from concord.flows import stages
from concord.flows.admit import begin
from concord.flows.console import err
from concord.flows.run import Admitted, ExactNumbers, PrivateFiles, RunContext
from concord.flows.stage import pass_door
from concord.flows.steps import Learned
from concord.tasks.asks.student_test import StudentTestAsk, planned_test
from concord.tasks.door.admit import check_ensemble, find_session, opening_of
from concord.tasks.door.ask import SingleAsk
from concord.tasks.door.door import released_by
from concord.tasks.mechanisms.private_test import PrivateTest
from concord.tasks.student.study import Student


def check_test(run: RunContext, admitted: Admitted[Any]) -> None:
    """Check that the domain also covers the test that the plan asks for, which is opened without --new-session.

    Raises BudgetRefused if it is not covered; spends nothing.
    """
    plan, domain, encoding = run.plan, admitted.balance.domain, admitted.stream.encoding
    if plan.test is None or admitted.session is not None:
        return
    test = planned_test(plan, domain, domain.filter.charge(admitted.ask.cost), admitted.ask.epsilon)
    ask = StudentTestAsk.named(plan, test, "asked for", "", clean=True)
    run.stores.ledger.check_opening(opening_of(plan, ask, encoding, run.stores.vault), domain, further=True)


def _file_of(ref: Ref, student: StudentPlan, learned: Learned) -> stages.StudentFile:
    """The file of a student that was fitted by its section of a plan."""
    return stages.StudentFile(ref, student.estimator, learned.codes if student.learner == "linear" else None)


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


def run_planned_test(learned: Learned, private: PrivateFiles, student: Student) -> Learned:
    """Make the test that the plan asks for, of the session's first student. Later ones are not tested.

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
            domain = learned.admitted.balance.domain
            mechanism = planned_test(run.plan, domain, session.reserved, session.epsilon)
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
