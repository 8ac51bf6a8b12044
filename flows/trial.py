"""Private tests of a student, on units set aside: the steps of the one a plan asks for, and the flow of one more."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from prefect import flow

from concord.artifacts.errors import BudgetRefused, WrongInput
from concord.artifacts.home.vault import Vault
from concord.artifacts.parts import TEST
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, Ref
from concord.artifacts.sessions import Session, trials_of
from concord.flows import stages
from concord.flows.console import err
from concord.flows.outcome import Summary, shown
from concord.flows.run import Admitted, Asking, Private, PublicStream, RunContext, running
from concord.flows.stage import Disclosure
from concord.flows.steps import go_on, publish, replayed
from concord.tasks.data.codes import Codes
from concord.tasks.data.parts import division_of, plan_of
from concord.tasks.door.admit import Asked, check_ensemble, claim, going_on, reserve_session
from concord.tasks.door.checkpoint import Checkpoint, checkpoint_to_study, write_checkpoint
from concord.tasks.door.release import Stores
from concord.tasks.door.trial import Trial, planned_test, trial_of
from concord.tasks.mechanisms.mechanism import Mechanism
from concord.tasks.mechanisms.private_test import PrivateTest
from concord.tasks.student.study import Student


def check_test(run: RunContext, admitted: Admitted[Asking]) -> Admitted[Asking]:
    """What was admitted, if the domain covers the test that the plan asks for as well.

    Raises BudgetRefused if a session would be opened and its test not covered; spends nothing.
    """
    if run.plan.test is None or admitted.session is not None:
        return admitted
    domain = admitted.balance.domain
    learning = domain.filter.charge(admitted.asked.mechanism.cost)
    mechanism = planned_test(run.plan, domain, learning, admitted.asked.epsilon)
    about = {"session": "asked for", "student": "", "share": run.plan.test.share, "clean": True}
    asked = test_asked(run.plan, Trial(mechanism, about), admitted.stream.encoding, run.stores.vault)
    run.stores.ledger.check_opening(asked.opening(division_of(run.plan, run.stores.vault)), domain, further=True)
    return admitted


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

    codes   what the student reads of a row, if it does not read encoded ones
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
        mechanism = planned_test(run.plan, domain, session.reserved, session.epsilon)
    try:
        return pass_test(run, admitted, private, passed, student, mechanism, codes, also=also)
    except BudgetRefused as refused:
        return _passed_over(run.plan, passed, f"is not tested: {refused}")


def _passed_over(plan: Plan, passed: Disclosure, why: str) -> Disclosure:
    fitted = plan.votes and plan.student.learner != "universal"  # others `concord test` has no labels to fit to
    more = f"; `concord test {passed.session.id}` tests it at a price" if fitted else ""
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
    asked = test_asked(plan, trial, encoding, stores.vault)
    counts = stages.try_out(run, plan, private.table, encoding, student.ref, codes, run.erased)
    test = going_on(stores, asked, new_session=again)
    if test is None:
        claim(stores, plan, private.with_rows)
        test = reserve_session(stores, asked, (counts.digest,), new_session=True)
    test = _held(run, admitted, private, run.hold(test.id), counts)
    check_ensemble(stores.vault, test, (counts.digest,))
    released = stages.release_test(run, test, trial, counts, plan.data.classes)
    # Times of files published before would tell how long the units were counted, and so how many there are.
    stores.released.restamp([*passed.released, *also, student.ref])
    return replace(passed, at=released.at)


def _held(run: RunContext, admitted: Admitted[Any], private: Private, test: Session, counts: Ref) -> Session:
    """The session of a test, with what is to be forgotten with it."""
    stream, plan = admitted.stream, run.plan
    checkpoint = Checkpoint(
        plan=plan, encoding=stream.encoding, teachers=(counts,), sources=stream.sources, private=private.with_rows
    )
    write_checkpoint(run.stores.vault, test.id, checkpoint)
    return test


@flow(name="test", flow_run_name="test {session}")
def try_again(session: str, home: Path, epsilon: float | None = None, again: bool = False) -> Summary:
    """Try the session's student out on private units set aside, and certify what noisy counts say of it.

    epsilon   what it may cost; without it, what was released before is shown, and nothing is spent
    again     draw anew if the same was asked before, which costs again
    """
    stores = Stores.of(home)
    plan = checkpoint_to_study(stores.vault, stores.ledger.session(session)).plan
    with running(plan, home) as run:
        known = run.hold(session)
        checkpoint = checkpoint_to_study(run.stores.vault, known)
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
