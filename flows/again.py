"""The flow of `concord test`: one more private test of a session's student."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from prefect import flow

from concord.artifacts.errors import BudgetRefused, WrongInput
from concord.artifacts.ledger.reading import trials_of
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Session
from concord.flows import stages
from concord.flows.outcome import Summary, shown
from concord.flows.run import Admitted, Private, PublicStream, RunContext, running
from concord.flows.stage import Disclosure
from concord.flows.steps import go_on, publish
from concord.flows.tally import (
    go_on_tallies,
    labels_of,
    last_codes,
    publish_tallies,
    rounds_replayed,
    study_tallies,
)
from concord.flows.trial import left_now, pass_test, test_asked
from concord.flows.vote import replay_labels
from concord.tasks.data.codes import Codes
from concord.tasks.data.parts import division_of, plan_of
from concord.tasks.door.checkpoint import Checkpoint, checkpoint_to_test
from concord.tasks.door.release import Stores
from concord.tasks.door.trial import planned_test, settled_now, trial_of
from concord.tasks.mechanisms.private_test import PrivateTest
from concord.tasks.student.infer import Follower, public_codes
from concord.tasks.student.study import Student


@flow(name="test", flow_run_name="test {session}")
def try_again(session: str, home: Path, epsilon: float | None = None, again: bool = False) -> Summary:
    """Test the session's student on private units set aside, and certify the noisy counts.

    epsilon   the ε the test may cost; without it the last test is shown, and nothing is spent
    again     draw anew if the same was asked before, which costs again
    """
    stores = Stores.of(home)
    learned = stores.ledger.session(session)
    plan = settled_now(stores, learned, checkpoint_to_test(stores.vault, learned).plan)
    with running(plan, home) as run:
        known = run.hold(session)
        checkpoint = checkpoint_to_test(run.stores.vault, known)
        if plan.tallied:
            return shown(_try_tallied(run, known, checkpoint, epsilon, again=again))
        admitted = go_on(run, known, checkpoint)
        stream = PublicStream.of(run, known, checkpoint.encoding, checkpoint.sources)
        labels = replay_labels(run, known, admitted)
        student = stages.study(run, session, run.plan, stream.encoding, stream.batches, labels.released, run.test)
        labels = _asked_again(run, admitted, labels, student, epsilon, again=again)
        return shown(publish(run, admitted, labels, student))


def _try_tallied(
    run: RunContext, session: Session, checkpoint: Checkpoint, epsilon: float | None, *, again: bool
) -> Summary:
    """As `try_again`, for a session that released tallies."""
    admitted, codes = go_on_tallies(run, session, checkpoint)
    passed = rounds_replayed(run, session)
    rows = public_codes(admitted.stream.batches, codes, run.stores.vault)
    codes = last_codes(run, Follower(admitted.mechanism.mechanism, codes, rows), passed)
    labels = labels_of(run, admitted, codes, passed)
    student = study_tallies(run, admitted, codes, passed, labels, session.id)
    passed = _asked_again(run, admitted, passed, student, epsilon, codes, also=[labels], again=again)
    return publish_tallies(run, admitted, codes, passed, labels, student)


def _asked_again(
    run: RunContext,
    admitted: Admitted[Any],
    passed: Disclosure,
    student: Student,
    epsilon: float | None,
    codes: Codes | None = None,
    *,
    also: Sequence[Ref] = (),
    again: bool,
) -> Disclosure:
    session = passed.session
    divided = replace(run, plan=_divided(run, session))
    if epsilon is not None:
        private, mechanism = Private.of(divided, admitted.stream.sources), _at(divided.plan, epsilon)
        return pass_test(divided, admitted, private, passed, student, mechanism, codes, also=also, again=again)
    if not _tests(run, session, student):
        raise BudgetRefused(_price(divided, admitted, session, student))
    return passed


def _at(plan: Plan, epsilon: float) -> PrivateTest:
    classes, secret = len(plan.data.classes), plan.privacy.secret
    return PrivateTest.calibrate(epsilon=epsilon, delta=plan.privacy.delta, classes=classes, secret=secret)


def _tests(run: RunContext, session: Session, student: Student) -> list[Session]:
    """The session's tests of exactly that student."""
    known = trials_of(run.stores.ledger.sessions(session.domain), session.id)
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
    trial = trial_of(plan, mechanism, session, student.ref, vault)
    opening = test_asked(plan, trial, admitted.stream.encoding, vault).opening(division_of(plan, vault))
    price = run.stores.ledger.price(opening)
    return f"a test of this student must be asked for with --epsilon; at the ε of its session, {price}"
