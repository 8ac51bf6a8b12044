"""The flow of `concord test`: one more private test of a session's student."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from prefect import flow

from concord.artifacts.errors import BudgetRefused, WrongInput
from concord.artifacts.ledger.reading import private_tests_of
from concord.artifacts.plan import Plan
from concord.artifacts.sessions import Session
from concord.flows.learning import Resumable
from concord.flows.outcome import Summary, shown
from concord.flows.run import Admitted, PrivateFiles, RunContext, running
from concord.flows.set_aside import left_now, pass_test
from concord.flows.stage import Disclosure
from concord.flows.steps import publish
from concord.flows.tally import BySums
from concord.flows.vote import ByVotes
from concord.tasks.asks.labelled import checkpoint_to_test
from concord.tasks.asks.student_choice import settled_now
from concord.tasks.asks.student_test import StudentTestAsk, planned_test
from concord.tasks.data.codes import Codes
from concord.tasks.data.parts import plan_of
from concord.tasks.door.admit import opening_of
from concord.tasks.door.stores import Stores
from concord.tasks.mechanisms.private_test import PrivateTest
from concord.tasks.student.study import Student


@flow(name="test", flow_run_name="test {session}")
def retest(session: str, home: Path, epsilon: float | None = None, again: bool = False) -> Summary:
    """Test the session's student on private units set aside, and certify the noisy counts.

    epsilon   the ε the test may cost; without it the last test is shown, and nothing is spent
    again     draw anew if the same was asked before, which costs again
    """
    stores = Stores.of(home)
    learned = stores.ledger.session(session)
    plan = settled_now(stores, learned, checkpoint_to_test(stores.vault, learned).plan)
    with running(plan, home) as run:
        known = run.lock_session(session)
        checkpoint = checkpoint_to_test(run.stores.vault, known)
        way: Resumable[Any] = (BySums if plan.tallied else ByVotes)(run, checkpoint.public)
        admitted = way.resume(known, checkpoint)
        passed = way.replay(known, admitted)
        student = way.fit(run, admitted, passed, session)
        passed = _asked_again(run, admitted, passed, student, epsilon, way.codes, again=again)
        return shown(publish(run, admitted, passed, student, codes=way.codes))


def _asked_again(
    run: RunContext,
    admitted: Admitted[Any],
    passed: Disclosure,
    student: Student,
    epsilon: float | None,
    codes: Codes | None,
    *,
    again: bool,
) -> Disclosure:
    session = passed.session
    divided = replace(run, plan=_divided(run, session))
    if epsilon is not None:
        private, mechanism = PrivateFiles.of(divided, admitted.stream.sources), _at(divided.plan, epsilon)
        return pass_test(divided, admitted, private, passed, student, mechanism, codes, again=again)
    if not _tests(run, session, student):
        raise BudgetRefused(_price(divided, admitted, session, student))
    return passed


def _at(plan: Plan, epsilon: float) -> PrivateTest:
    classes, secret = len(plan.data.classes), plan.privacy.secret
    return PrivateTest.calibrate(epsilon=epsilon, delta=plan.privacy.delta, classes=classes, secret=secret)


def _tests(run: RunContext, session: Session, student: Student) -> list[Session]:
    """The session's tests of exactly that student."""
    known = private_tests_of(run.stores.ledger.sessions(session.domain), session.id)
    return [test for test in known if test.mechanism["student"] == student.ref.digest]


def _divided(run: RunContext, session: Session) -> Plan:
    """The session's plan with its domain's division, which may be newer than the session."""
    division = run.stores.ledger.division(session.domain)
    if run.plan.test is not None:
        return run.plan
    if division is None:
        raise WrongInput(
            f"domain {session.domain!r} has no units set aside to test on: a plan with [test] share sets them aside, "
            "before a session learns"
        )
    return run.plan.model_copy(update={"test": plan_of(division)})


def _price(run: RunContext, admitted: Admitted[Any], session: Session, student: Student) -> str:
    plan, vault = run.plan, run.stores.vault
    mechanism = planned_test(plan, admitted.balance.domain, *left_now(run, session))
    test = StudentTestAsk.of(plan, mechanism, session, student.ref, vault)
    opening = opening_of(plan, test, admitted.stream.encoding, vault)
    price = run.stores.ledger.price(opening)
    return f"a test of this student must be asked for with --epsilon; at the ε of its session, {price}"
