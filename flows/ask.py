"""Flows of questions:

ask       one question to every shard, its common answer or a refusal, and the certificate of it
estimate  the teachers' error, released with noise, and a suggested cutoff
"""

import json
import warnings
from functools import partial
from pathlib import Path
from typing import Any

from concord.artifacts.errors import BudgetRefused
from concord.artifacts.guarantee import Guarantee
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Ref, canonical_json
from concord.artifacts.sessions import Session
from concord.flows.admit import admit, begin, open_together
from concord.flows.operation import PlanOrFile, given, operation
from concord.flows.run import Admitted, ExactNumbers, PrivateFiles, RunContext, running
from concord.flows.stage import Disclosure
from concord.flows.stages import blocks, encode, measure, split
from concord.tasks.asking.questions import Question, answers, rehearse_question
from concord.tasks.asks.estimate import EstimateAsk, Suggestion
from concord.tasks.asks.questions import QuestionsAsk, QuestionTerms, check_code, keep_answers
from concord.tasks.door.admit import check_ensemble, planned_domain
from concord.tasks.door.door import batch_of
from concord.tasks.mechanisms.error_estimate import ErrorEstimate, check_parameters
from concord.tasks.publish.certify import certify_answers
from concord.tasks.units.teachers import check_shards, rehearse_teachers

MOST_LOGGED = 6000
"""Most characters of an answer that MLflow takes as a parameter."""


def ask(plan: Plan, question: Question, home: Path, terms: QuestionTerms) -> dict[str, Any]:
    """Ask every shard of the plan the question, and release the common answer; or replay it, by its name."""

    @operation("ask", "ask")
    def asking() -> dict[str, Any]:  # without parameters: Prefect keeps those, and a question is code
        return answer_of_shards(*given(plan, home), question, terms)

    return asking()


def answer_of_shards(plan: Plan, home: Path, question: Question, terms: QuestionTerms) -> dict[str, Any]:
    """As `ask`, within its flow."""
    check_shards(plan, "a question is asked of the shards", "ask a copy of the plan without [relabel]")
    with running(plan, home, workers=False, new_session=terms.new_session) as run:
        public = encode(run, run.plan, run.table("public"))
        rehearse_question(question, public.batches, public.encoding, run.stores.vault)
        domain = planned_domain(run.stores, run.plan)
        questions = QuestionsAsk.of(run.plan, question, domain.filter.order, terms)
        (admitted,) = admit(run, domain, [questions], public)  # refuses here
        session = admitted.session
        known = None if session is None else batch_of(run.stores, session.id, question.name)
        if session is None or known is None:
            session = put_to_shards(run, admitted, question)
        passed = run.stages.pass_door(session, partial(admitted.ask.steps, name=question.name))
        same = check_code(question, run.stores.released.read(passed.released[-1]), session.id)
        if known is not None and not same:
            warnings.warn(f"{question.name!r} is replayed; whether its code has changed is unknown", stacklevel=2)
        return certified(run, admitted, passed)


def put_to_shards(run: RunContext, admitted: Admitted[QuestionsAsk], question: Question) -> Session:
    """Open the session, ask every shard and keep the answers; nothing is drawn yet."""
    if admitted.session is not None and admitted.session.ended:
        raise BudgetRefused(
            f"session {admitted.session.id} has ended ({admitted.session.status}): another question needs a further "
            "session, which costs again and must be asked for by new_session=True"
        )
    private, encoding = PrivateFiles.of(run, admitted.stream.sources), admitted.stream.encoding
    shards = split(run, run.plan, private.read_by(encoding))
    counted = ExactNumbers([ref.digest for ref in shards], ())
    check_ensemble(run.stores.vault, admitted.session, counted.private_digests)
    session = begin(run, admitted, private, counted)
    vault, parts = run.stores.vault, [(range(*block.shards), block.rows) for block in blocks(run.plan, shards)]

    def work() -> tuple[Ref, bool]:
        return keep_answers(vault, session.id, question, answers(question.portable, parts, encoding, vault)), False

    run.stages.uncached("ask", work)
    return session


def certified(run: RunContext, admitted: Admitted[Any], passed: Disclosure) -> dict[str, Any]:
    """Certify the outcome of a question, and record it. Returns the details for the operator."""
    session, stores, (*_, file) = passed.session, run.stores, passed.released
    record, domain = json.loads(stores.released.read(file)), admitted.balance.domain
    claim = {"epsilon": session.epsilon, "delta": session.delta}
    shown = {name: record[name] for name in ("question", "outcome", "answer")}
    answer = canonical_json(shown["answer"])
    logged = {**shown, "answer": answer if len(answer) <= MOST_LOGGED else f"in {file.path}"}
    fields = {**claim, **logged, "name": session.kind.name, "shards": session.teachers}
    with stores.publishing(session.id):
        certificate = certify_answers(session.id, stores)
        return {
            **shown,
            "session": session.id,
            "guarantee": Guarantee.at(**claim, unit=domain.unit, neighbours=domain.neighbours).shown(),
            "shards": session.teachers,
            "file": str(stores.released.root / file.path),
            "certificate": str(stores.released.root / certificate.path),
            "certificate_text": stores.released.read(certificate).decode(),
            **recorded(run, admitted, passed, fields, answer=file.path),
        }


def recorded(
    run: RunContext, admitted: Admitted[Any], passed: Disclosure, fields: dict[str, Any], answer: str = ""
) -> dict[str, Any]:
    """Record in MLflow, if it is new, what was released and no student learns from: the end of the details."""
    from concord.artifacts.mlflow.write import Tracking  # heavy; a cached run does without it

    domain, tracking = admitted.balance.domain.name, Tracking.of(run.home)
    return {
        "stages": [report.model_dump() for report in run.stages.reports],
        **admitted.balance.charged(run),
        "run_id": tracking.keep_estimate(domain, passed.session.id, fields, passed.at, answer=answer),
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
    beta    the probability that the suggested cutoff is too low
    again   open a further estimate in the domain, which costs again
    """
    plan, home = given(plan, home)
    check_parameters(fractions={"share": share, "beta": beta}, positive={"epsilon": epsilon})
    instead = "choose a cutoff by a public guess, or estimate a copy of the plan without [relabel], "
    check_shards(plan, "an estimate evaluates the teachers", f"{instead}whose teachers have more rows and other labels")
    held_out = EstimateAsk(ErrorEstimate.calibrate(epsilon=epsilon, shards=plan.teachers.count), {"share": share})
    with running(plan, home, new_session=again) as run:
        public = encode(run, run.plan, run.table("public"))
        rehearse_teachers(run.plan.teachers, public.encoding)

        def errors(admitted: Admitted[Any], private: PrivateFiles) -> ExactNumbers:
            shards = split(run, run.plan, private.read_by(public.encoding), aside=share)
            files = measure(run, blocks(run.plan, shards), run.plan, public.encoding)
            digests = [ref.digest for ref in files]
            check_ensemble(run.stores.vault, admitted.session, digests)
            return ExactNumbers(digests, files, steps=partial(admitted.ask.steps, exact=files))

        domain = planned_domain(run.stores, run.plan)
        (opened,), _ = open_together(run, domain, [held_out], [errors], public)  # refuses here
        admitted, passed = opened.admitted, run.stages.pass_door(opened.session, opened.exact.steps)
        released = run.stores.released.read(passed.released[0])
        suggestion = Suggestion.of(held_out, released, queries=admitted.stream.rows, beta=beta)
        claim, domain = {"epsilon": passed.session.epsilon, "delta": passed.session.delta}, admitted.balance.domain
        details = {
            "session": passed.session.id,
            "guarantee": Guarantee.at(**claim, unit=domain.unit, neighbours=domain.neighbours).shown(),
            "teachers": passed.session.teachers,
            **suggestion.model_dump(),
            "estimate": str(run.stores.released.root / passed.released[0].path),
        }
        fields = {**claim, **suggestion.model_dump(), **passed.session.mechanism}
        with run.stores.publishing(passed.session.id):
            return details | recorded(run, admitted, passed, fields)
