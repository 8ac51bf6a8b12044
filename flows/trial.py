"""The flow of one more private test: a session's student, tried out again on units set aside, at a stated price."""

from dataclasses import replace
from pathlib import Path

from prefect import flow

from concord.artifacts.errors import BudgetRefused, WrongInput
from concord.artifacts.plan import Plan
from concord.artifacts.sessions import Session, trials_of
from concord.flows import stages
from concord.flows.outcome import Summary, shown
from concord.flows.run import Admitted, Private, PublicStream, RunContext, running
from concord.flows.steps import go_on, publish
from concord.flows.study import checkpoint_of, replayed
from concord.flows.trying import pass_test, test_asked
from concord.tasks.data.parts import division_of, plan_of
from concord.tasks.door.release import Stores
from concord.tasks.door.trial import planned_test, trial_of
from concord.tasks.mechanisms.mechanism import Mechanism
from concord.tasks.mechanisms.private_test import PrivateTest
from concord.tasks.student.study import Student


@flow(name="test", flow_run_name="test {session}")
def try_again(session: str, home: Path, epsilon: float | None = None, again: bool = False) -> Summary:
    """Try the session's student out on private units set aside, and certify what noisy counts say of it.

    epsilon   what it may cost; without it, what was released before is shown, and nothing is spent
    again     draw anew if the same was asked before, which costs again
    """
    with running(checkpoint_of(Stores.of(home), session).plan, home) as run:
        known = run.hold(session)
        checkpoint = checkpoint_of(run.stores, session)
        admitted = go_on(run, known, checkpoint)
        stream = PublicStream.of(run, known, checkpoint.encoding, checkpoint.sources)
        labels = replayed(run, known, admitted)
        student = stages.study(run, session, run.plan, stream.encoding, stream.batches, labels.released, run.test)
        divided = replace(run, plan=_divided(run, known))
        if epsilon is not None:
            private, mechanism = Private.of(divided, stream.sources), _at(divided.plan, epsilon)
            labels = pass_test(divided, admitted, private, labels, student, mechanism, again=again)
        elif not _tests(run, known, student):
            raise BudgetRefused(_price(divided, admitted, known, student))
        return shown(publish(run, admitted, labels, student))


def _at(plan: Plan, epsilon: float) -> PrivateTest:
    classes, secret = len(plan.data.classes), plan.privacy.secret
    return PrivateTest.calibrate(epsilon=epsilon, delta=plan.privacy.delta, classes=classes, secret=secret)


def _tests(run: RunContext, session: Session, student: Student) -> list[Session]:
    """The tests of that very student."""
    known = trials_of(run.stores.ledger.sessions(session.domain), session.id)
    return [test for test in known if test.mechanism["student"] == student.ref.digest]


def _divided(run: RunContext, session: Session) -> Plan:
    """The session's plan with its domain's division: that may be younger than the session."""
    division = run.stores.ledger.division(session.domain)
    if run.plan.test is not None:
        return run.plan
    if division is None:
        raise WrongInput(
            f"domain {session.domain!r} has no units set aside to test on: a plan with [test] share sets them aside, "
            "before a session learns"
        )
    return run.plan.model_copy(update={"test": plan_of(division)})


def _price(run: RunContext, admitted: Admitted[Mechanism], session: Session, student: Student) -> str:
    plan, vault = run.plan, run.stores.vault
    mechanism = planned_test(plan, admitted.balance.domain, session.reserved, session.epsilon)
    trial = trial_of(plan, mechanism, session, student.ref, vault)
    opening = test_asked(plan, trial, admitted.stream.encoding, vault).opening(division_of(plan, vault))
    price = run.stores.ledger.price(opening)
    return f"a test of this student must be asked for with --epsilon; at the ε of its session, {price}"
