"""The flow of the command `estimate`: how much teachers err, released with noise, and the cutoff that suggests.

An estimate has a session of its own. No row is answered in it.
"""

from pathlib import Path
from typing import Any

from prefect import flow

from concord.artifacts.errors import WrongInput
from concord.artifacts.mlflow.write import Tracking
from concord.artifacts.plan import Plan
from concord.flows.console import out
from concord.flows.outcome import spent_in_words
from concord.flows.run import Balance, Private, RunContext, running
from concord.flows.stage import Disclosure
from concord.flows.stages import blocks, encode, measure, release_estimate, split
from concord.flows.steps import begin_session, check_unchanged, covered, find
from concord.tasks.asking.teachers import rehearse_teachers
from concord.tasks.door.admit import Asked, planned_domain
from concord.tasks.door.choose import HeldOut, Suggestion, estimate_depends_on
from concord.tasks.mechanisms.error_estimate import ErrorEstimate, check


@flow(name="estimate")
def estimate(plan: Plan, home: Path, epsilon: float, share: float, beta: float, again: bool = False) -> dict[str, Any]:
    """Estimate how much the plan's teachers err, at a cost of (epsilon, 0), and suggest a cutoff.

    share   how likely a unit is set aside to try its shard's teacher on
    beta    how likely the suggested cutoff may be too low
    again   open a further estimate in the domain, which costs again
    """
    check(fractions={"share": share, "beta": beta}, positive={"epsilon": epsilon})
    if not plan.votes:
        raise WrongInput("an estimate tries teachers, and the plan has none: it must have [teachers] and [labeling]")
    if plan.relabel is not None:
        raise WrongInput(
            "an estimate tries teachers that learn from the private rows as they are, not from the secret subset of "
            "[relabel], which nothing else may look at: choose a cutoff by `concord plan` and a public guess, or "
            "estimate a copy of the plan without [relabel], whose teachers have more rows and other labels"
        )
    held_out = HeldOut(ErrorEstimate.calibrate(epsilon=epsilon, shards=plan.teachers.count), {"share": share})
    with running(plan, home, new_session=again) as run:
        public = encode(run, run.plan, run.files("public"))
        rehearse_teachers(run.plan.teachers, public.encoding)
        domain = planned_domain(run.stores, run.plan)
        depends, teachers = estimate_depends_on(run.plan, held_out), run.plan.teachers.count
        asked = Asked.once(run.plan, held_out, public.encoding, run.stores.vault, depends, teachers=teachers)
        admitted = covered(run, find(run, public, domain, held_out, asked))  # refuses here
        stream = admitted.stream
        private = Private.of(run, stream.sources)
        shards = split(run, run.plan, private.table, stream.encoding, run.erased, aside=share)
        measured = measure(run, blocks(run.plan, shards), run.plan, stream.encoding)
        made_of = [ref.digest for ref in measured]
        check_unchanged(run, admitted.session, made_of)
        session = begin_session(run, admitted, private, made_of, measured)
        passed = release_estimate(run, session, held_out, measured)
        released = run.stores.released.read(passed.released[0])
        suggestion = Suggestion.of(held_out, released, queries=stream.rows, beta=beta)
        return write_down(run, admitted.balance, passed, suggestion)


def write_down(run: RunContext, balance: Balance, passed: Disclosure, suggestion: Suggestion) -> dict[str, Any]:
    """What the estimate came to, kept in MLflow if it is new."""
    session = passed.session
    claim = {"epsilon": session.epsilon, "delta": session.delta}
    fields = {**claim, **suggestion.model_dump(), **session.mechanism}
    return {
        "session": session.id,
        "guarantee": {**claim, "unit": balance.domain.unit},
        "teachers": session.teachers,
        **suggestion.model_dump(),
        "estimate": str(run.stores.released.root / passed.released[0].path),
        "stages": [report.model_dump() for report in run.stages.reports],
        **balance.charged(run),
        "run_id": Tracking.of(run.home).keep_estimate(balance.domain.name, session.id, fields, passed.at),
    }


def show_estimate(details: dict[str, Any]) -> None:
    """The estimate, its cost, and what to do with it."""
    guarantee = details["guarantee"]
    rows = {
        "teachers": f"{details['teachers']} err on {details['rate']:.1%} of rows set aside, by a noisy estimate",
        "guarantee": f"ε = {guarantee['epsilon']:g}, δ = 0 for {guarantee['unit']}, in session {details['session']}",
        "spent now": spent_in_words(details["spent_now"], details["conversion"]),
        "next": f"set cutoff = {details['cutoff']} in [labeling]: enough for {details['queries']:,} public rows, "
        f"but for a chance of {details['beta']:g} (BTT18, Theorem 3.2)",
        "estimate": details["estimate"],
    }
    if details["cutoff"] >= details["queries"]:
        rows["next"] = (
            "take a mechanism that pays by row: they err too often for a cutoff below the number of public rows"
        )
    for name, value in rows.items():
        out.print(f"{name:<11}  {value}", soft_wrap=True, markup=False)
