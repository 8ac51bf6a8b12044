"""The test of a student on private units that the plan sets aside."""

import json
from dataclasses import replace
from functools import partial
from typing import Any

from concord.artifacts.errors import BudgetRefused
from concord.artifacts.ledger.reading import private_tests_of
from concord.flows import stages
from concord.flows.admit import begin
from concord.flows.console import err
from concord.flows.run import Admitted, ExactNumbers, PrivateFiles, RunContext
from concord.flows.steps import Learned
from concord.tasks.asks.student_test import StudentTestAsk, planned_test
from concord.tasks.door.admit import check_ensemble, find_session, opening_of
from concord.tasks.mechanisms.private_test import PrivateTest
from concord.tasks.student.study import Student
from concord.tasks.units.counts import is_clean


def check_test(run: RunContext, admitted: Admitted[Any]) -> None:
    """Check that the domain also covers the test that the plan asks for, which is opened without --new-session.

    Raises BudgetRefused if it is not covered; spends nothing.
    """
    plan, domain, encoding = run.plan, admitted.balance.domain, admitted.stream.encoding
    if plan.test is None or admitted.session is not None:
        return
    test = planned_test(plan, domain, domain.filter.charge(admitted.ask.cost), admitted.ask.epsilon)
    ask = StudentTestAsk.of(plan, test, "asked for", "", clean=True)
    run.stores.ledger.check_opening(opening_of(plan, ask, encoding, run.stores.vault), domain, further=True)


def run_planned_test(learned: Learned, private: PrivateFiles, student: Student) -> Learned:
    """Make the test that the plan asks for, of the session's first student. Later ones are not tested.

    Returns `learned` with the time of the last release: no published time may be earlier.
    """
    run, session = learned.run, learned.session
    if run.plan.test is None:
        return learned
    known = private_tests_of(run.stores.ledger.sessions(session.domain), session.id)
    own = [test for test in known if test.kind.student == student.ref.digest]
    if known and not own:
        return _passed_over(learned, "is not the one that was tested")
    try:
        domain = learned.admitted.balance.domain
        planned = None if own else planned_test(run.plan, domain, session.reserved, session.epsilon)
        return _pass_test(learned, private, student, planned or PrivateTest.from_settings(own[-1].kind))
    except BudgetRefused as refused:
        return _passed_over(learned, f"is not tested: {refused}")


def _passed_over(learned: Learned, why: str) -> Learned:
    err.print(f"{'test':>8} the student {why}", soft_wrap=True)
    return learned


def _pass_test(learned: Learned, private: PrivateFiles, student: Student, mechanism: PrivateTest) -> Learned:
    """Count the private units, open the test's session unless it is open, and release noisy counts at the door; or
    replay them. Raises BudgetRefused."""
    run, plan, stores, passed = learned.run, learned.run.plan, learned.run.stores, learned.passed
    constant = None
    if plan.data.bounds is not None:  # what the last released model says of public rows on average
        (low, high), (*_, last) = plan.data.bounds, stores.ledger.released_by(passed.session.id)
        (place,) = json.loads(stores.released.read(last))["decoded"]["prior"]
        constant = float((1 - place) * low + place * high)
    clean, digest = is_clean(plan, passed.session, stores.vault), student.ref.digest
    asked = StudentTestAsk.of(plan, mechanism, passed.session.id, digest, clean=clean, constant=constant)
    codes = learned.codes if plan.student.learner == "linear" else None
    file = stages.StudentFile(student.ref, plan.student.estimator, codes)
    counts = stages.count_units(run, plan, private.read_by(learned.encoding), file, constant)
    session, ask = find_session(stores, plan, asked, learned.encoding, new_session=False)
    found = replace(learned.admitted, ask=ask, session=None if session is None else run.lock_session(session.id))
    opened = begin(run, found, private, ExactNumbers((counts.digest,), (counts,)), further=True)
    check_ensemble(stores.vault, opened, (counts.digest,))
    released = run.stages.pass_door(opened, partial(ask.steps, exact=[counts]), ask.stage)
    return replace(learned, passed=replace(passed, at=released.at))
