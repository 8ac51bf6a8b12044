"""What is asked of private rows besides labels:

ask       one question to every shard, its common answer or a refusal, and the certificate of it
estimate  the teachers' error, released with noise, and a suggested cutoff
a test    of the student, on private units that the plan sets aside
"""

import json
import warnings
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from concord.artifacts.errors import BudgetRefused, WrongInput
from concord.artifacts.guarantee import Guarantee
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Ref, canonical_json
from concord.artifacts.sessions import Session
from concord.flows.admit import admit, begin, open_together
from concord.flows.console import err
from concord.flows.home import plan_and_home
from concord.flows.operation import PlanOrFile, operation
from concord.flows.private_stages import StudentFile, count_units, measure, split
from concord.flows.public_stages import encode
from concord.flows.run import Admitted, ExactNumbers, PrivateFiles, RunContext, running
from concord.flows.stage import Disclosure
from concord.flows.steps import Learned
from concord.tasks.asking.questions import Question, rehearse_question
from concord.tasks.asks.estimate import EstimateAsk, Suggestion, check_parameters
from concord.tasks.asks.kinds import private_tests_of
from concord.tasks.asks.questions import QuestionsAsk, QuestionTerms, ask_shards, check_code
from concord.tasks.asks.student_test import StudentTestAsk, planned_test
from concord.tasks.door.admit import check_ensemble, find_session, is_clean, opening_of, planned_domain
from concord.tasks.door.door import batch_of
from concord.tasks.mechanisms.catalogue import recorded_as
from concord.tasks.mechanisms.private_test import PrivateTest
from concord.tasks.publish.certify import certify_answers
from concord.tasks.student.study import Student
from concord.tasks.units.teachers import rehearse_teachers

MOST_LOGGED = 6000
"""Most characters of an answer that MLflow takes as a parameter."""


def ask(plan: Plan, question: Question, home: Path, terms: QuestionTerms) -> dict[str, Any]:
    """Ask every shard of the plan the question, and release the common answer; or replay it, by its name."""

    @operation("ask", "ask")
    def asking() -> dict[str, Any]:  # without parameters: Prefect keeps those, and a question is code
        return answer_of_shards(*plan_and_home(plan, home), question, terms)

    return asking()


def answer_of_shards(plan: Plan, home: Path, question: Question, terms: QuestionTerms) -> dict[str, Any]:
    """As `ask`, within its flow."""
    check_shards(plan, "a question is asked of the shards", "ask a copy of the plan without [relabel]")
    with running(plan, home, workers=False, new_session=terms.new_session) as run:
        public = encode(run, run.plan, run.table("public"))
        rehearse_question(question, public.batches, public.encoding, run.stores.staged)
        domain = planned_domain(run.stores, run.plan)
        questions = QuestionsAsk.of(run.plan, question, domain.filter.order, terms)
        (admitted,) = admit(run, domain, [questions], public)  # refuses here
        session = admitted.session
        replayed = session is not None and batch_of(run.stores, session.id, question.name) is not None
        if session is None or not replayed:
            session = put_to_shards(run, admitted, question)
        passed = run.stages.pass_door(session, partial(admitted.ask.steps, name=question.name))
        same_code = check_code(question, run.stores.released.read(passed.released[-1]), session.id)
        if replayed and not same_code:
            warnings.warn(f"{question.name!r} is replayed; whether its code has changed is unknown", stacklevel=2)
        return certified(run, admitted, passed)


def put_to_shards(run: RunContext, admitted: Admitted[QuestionsAsk], question: Question) -> Session:
    """Open the session, ask every shard and keep the answers; nothing is drawn yet."""
    if admitted.session is not None and admitted.session.ended:
        raise BudgetRefused(
            f"session {admitted.session.id} has ended ({admitted.session.status}): another question needs a further "
            "session, which costs again and must be asked for by new_session=True"
        )
    encoding, shards = admitted.stream.encoding, list[Ref]()

    def count(admitted: Admitted[QuestionsAsk], private: PrivateFiles) -> ExactNumbers:
        shards.extend(split(run, run.plan, private.read_by(encoding)))
        digests = [ref.digest for ref in shards]
        check_ensemble(run.stores, admitted.session, digests)
        return ExactNumbers(digests, ())

    (opened,), _ = open_together(run, [admitted], [count])
    session = opened.session.id
    run.stages.uncached("ask", lambda: (ask_shards(run.stores, session, question, shards, encoding), False))
    return opened.session


def certified(run: RunContext, admitted: Admitted[Any], passed: Disclosure) -> dict[str, Any]:
    """Certify the outcome of a question, and record it. Returns the details for the operator."""
    session, stores, (*_, file) = passed.session, run.stores, passed.released
    record = json.loads(stores.released.read(file))
    released = {name: record[name] for name in ("question", "outcome", "answer")}
    answer = canonical_json(released["answer"])
    logged = {**released, "answer": answer if len(answer) <= MOST_LOGGED else f"in {file.path}"}
    logged |= {"name": session.facts.name, "shards": session.teachers}
    with stores.publishing(session.id):
        certificate = certify_answers(session.id, stores)
        details = {
            **released,
            "shards": session.teachers,
            "file": str(stores.released.root / file.path),
            "certificate": str(stores.released.root / certificate.path),
            "certificate_text": stores.released.read(certificate).decode(),
        }
        return details | record_release(run, admitted, passed, logged, answer=file.path)


def record_release(
    run: RunContext, admitted: Admitted[Any], passed: Disclosure, logged: dict[str, Any], answer: str = ""
) -> dict[str, Any]:
    """Record in MLflow, if it is new, what was released and no student learns from. Returns what the details of each
    such release have: session, guarantee, stages, charge and run."""
    from concord.artifacts.mlflow.write import Tracking  # heavy; a cached run does without it

    session, domain, tracking = passed.session, admitted.domain, Tracking.of(run.home)
    claim = {"epsilon": session.epsilon, "delta": session.delta}
    return {
        "session": session.id,
        "guarantee": Guarantee.at(**claim, unit=domain.unit, neighbours=domain.neighbours).shown(),
        "stages": [report.model_dump() for report in run.stages.reports],
        **admitted.charged(run),
        "run_id": tracking.keep_estimate(domain.name, session.id, claim | logged, passed.at, answer=answer),
    }


@operation("estimate")
def estimate(
    plan: PlanOrFile,
    epsilon: float,
    share: float = 0.3,
    beta: float = 0.05,
    home: Path | None = None,
    again: bool = False,
) -> dict[str, Any]:
    """Estimate how much the plan's teachers err, at a cost of (epsilon, 0), and suggest a cutoff.

    plan, home   as for `learn`
    share   the probability that a unit is set aside to test its shard's teacher on
    beta    the probability that the suggested cutoff is too low, if teachers are as many as the theorem asks for
    again   open a further estimate in the domain, which costs again
    """
    plan, home = plan_and_home(plan, home)
    check_parameters(fractions={"share": share, "beta": beta}, positive={"epsilon": epsilon})
    instead = "choose a cutoff by a public guess, or estimate a copy of the plan without [relabel], "
    check_shards(plan, "an estimate evaluates the teachers", f"{instead}whose teachers have more rows and other labels")
    held_out = EstimateAsk.of(plan, epsilon, share)
    with running(plan, home, new_session=again) as run:
        public = encode(run, run.plan, run.table("public"))
        rehearse_teachers(run.plan.teachers, public.encoding)

        def errors(admitted: Admitted[Any], private: PrivateFiles) -> ExactNumbers:
            shards = split(run, run.plan, private.read_by(public.encoding), aside=share)
            files = measure(run, shards, run.plan, public.encoding)
            digests = [ref.digest for ref in files]
            check_ensemble(run.stores, admitted.session, digests)
            return ExactNumbers(digests, files, steps=partial(admitted.ask.steps, exact=files))

        domain = planned_domain(run.stores, run.plan)
        (opened,), _ = open_together(run, admit(run, domain, [held_out], public), [errors])  # refuses here
        admitted, passed = opened.admitted, run.stages.pass_door(opened.session, opened.exact.steps)
        released, (file,) = run.stores.released, passed.released
        suggestion = Suggestion.of(held_out, released.read(file), queries=admitted.stream.rows, beta=beta).model_dump()
        details = {**suggestion, "teachers": passed.session.teachers, "estimate": str(released.root / file.path)}
        with run.stores.publishing(passed.session.id):
            return details | record_release(run, admitted, passed, suggestion | passed.session.mechanism)


def check_test(run: RunContext, admitted: Admitted[Any]) -> None:
    """Check that the domain also covers the test that the plan asks for, which is opened without --new-session.

    Raises BudgetRefused if it is not covered; spends nothing.
    """
    plan, domain, encoding = run.plan, admitted.domain, admitted.stream.encoding
    if plan.test is None or admitted.session is not None:
        return
    learning = admitted.ask.mechanism
    test = planned_test(plan, domain, domain.filter.charge(learning.cost), learning.epsilon)
    ask = StudentTestAsk.of(plan, test, "asked for", "", clean=True)
    run.stores.ledger.check_opening(opening_of(run.stores, plan, ask, encoding), domain, further=True)


def run_planned_test(learned: Learned, private: PrivateFiles, student: Student) -> Learned:
    """Make the test that the plan asks for, of the session's first student. Later ones are not tested.

    Returns `learned` with the time of the last release: no published time may be earlier.
    """
    run, session = learned.run, learned.session
    if run.plan.test is None:
        return learned
    tests = private_tests_of(run.stores.ledger.sessions(session.domain), session.id)
    of_this_student = [test for test in tests if test.facts.student == student.ref.digest]
    if tests and not of_this_student:
        return _passed_over(learned, "is not the one that was tested")
    try:
        domain = learned.admitted.domain
        planned = None if of_this_student else planned_test(run.plan, domain, session.reserved, session.epsilon)
        return _pass_test(learned, private, student, planned or recorded_as(PrivateTest, of_this_student[-1].mechanism))
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
    clean, digest = is_clean(stores, plan, passed.session), student.ref.digest
    fresh = StudentTestAsk.of(plan, mechanism, passed.session.id, digest, clean=clean, constant=constant)
    codes = learned.codes if plan.student.learner == "linear" else None
    file = StudentFile(student.ref, plan.student.estimator, codes)
    counts = count_units(run, plan, private.read_by(learned.encoding), file, constant)
    session, ask = find_session(stores, plan, fresh, learned.encoding, new_session=False)
    admitted = replace(learned.admitted, ask=ask, session=None if session is None else run.lock_session(session.id))
    opened = begin(run, admitted, private, ExactNumbers((counts.digest,), (counts,)), further=True)
    check_ensemble(stores, opened, (counts.digest,))
    released = run.stages.pass_door(opened, partial(ask.steps, exact=[counts]), ask.stage)
    return replace(learned, passed=replace(passed, at=released.at))


def check_shards(plan: Plan, what: str, instead: str) -> None:
    """Raise WrongInput if a plan has no shards of its rows as they are, which `what` says that it needs."""
    if "votes" not in plan.ways:
        raise WrongInput(f"{what}, and the plan has none: it must have [teachers] and [labeling]")
    if plan.relabel is not None:
        rule = "of the private rows as they are, not of the secret subset of [relabel], which nothing else may read"
        raise WrongInput(f"{what} {rule}: {instead}")
