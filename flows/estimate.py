"""The flow of the command `estimate`: how much teachers err, released with noise, and the cutoff that suggests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prefect import flow
from rich.console import Console

from concord.artifacts.errors import WrongInput
from concord.artifacts.mlflow.write import Tracking
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, Ref
from concord.artifacts.sessions import Session
from concord.flows import work
from concord.flows.keys import Public, only
from concord.flows.outcome import spent_in_words
from concord.flows.pipeline import Pipeline
from concord.tasks.asking import teachers as asking_teachers
from concord.tasks.door.admit import Asked, admit, check_ensemble, claim, planned_domain, reserve_session, spent
from concord.tasks.door.choose import HeldOut, Suggestion, estimate_depends_on
from concord.tasks.mechanisms.error_estimate import ErrorEstimate, check

out = Console(highlight=False)


class Estimating(Pipeline):
    """One estimate, in a session of its own. No row is answered in it."""

    def __init__(self, plan: Plan, home: Path, held_out: HeldOut, *, again: bool) -> None:
        super().__init__(plan, home, new_session=again)
        self.held_out = held_out

    def rehearse(self, encoding: Encoding) -> None:
        """Raise WrongInput where teachers cannot be trained at all."""
        asking_teachers.rehearse_teachers(self.plan.teachers, encoding)

    def admit(self, public: Public) -> Public:
        """Find the session of this very estimate, or make sure that one may be opened."""
        self.domain = planned_domain(self.door, self.plan)
        self.spent_before = spent(self.door, self.domain)
        depends, teachers = estimate_depends_on(self.plan, self.held_out), self.plan.teachers.count
        self.asked = Asked.once(self.plan, self.held_out, public.encoding, self.door.vault, depends, teachers=teachers)
        self.wait_for(self.asked.identity)
        self.session = admit(self.door, self.asked, new_session=self.new_session)
        if self.session is not None:
            self.hold(self.session.id)
        return self.walk(public.encoding, (self.own(public),))

    def set_aside(self, public: Public) -> list[Ref]:
        """Private rows by shard, those of some units set aside."""
        self.name_private()
        share = self.held_out.about["share"]
        shards: list[Ref] = self.stages.one(work.split, **self.units(public), share=None, aside=share)
        return shards

    def measure(self, public: Public, shards: Sequence[Ref]) -> list[Ref]:
        """Each teacher tried on what was set aside in its shard; mapped over blocks."""
        learner = {"plan": only(self.plan.teachers, "estimator", "params"), "encoding": public.encoding}
        blocks = zip(self.spans, shards, strict=True)
        calls = [{"block": block, "shards": span, **learner} for span, block in blocks]
        measured = self.stages.each(work.measure, calls)
        if self.session is not None:
            check_ensemble(self.door.vault, self.session, [ref.digest for ref in measured])
        return measured

    def open_estimate(self, public: Public, measured: Sequence[Ref]) -> None:
        """Reserve the cost where the session is not open yet, and keep what it is made from."""
        claim(self.door, self.plan, self.files_with_rows)
        if self.session is None:
            made_of = [ref.digest for ref in measured]
            self.hold(reserve_session(self.door, self.asked, made_of, new_session=self.new_session).id)
        self.keep(self._session, public, measured)

    def pass_the_door(self, measured: Sequence[Ref]) -> Ref:
        """Release the noisy sum; or replay what was released before."""
        session, measured = self._session, list(measured)
        estimate: Ref
        estimate, self.session = self.at_the_door(
            "release", session, lambda: work.release_estimate(self.home, session, self.held_out, measured)
        )
        return estimate

    def write_down(self, estimate: Ref, suggestion: Suggestion) -> dict[str, Any]:
        """What the estimate came to, kept in MLflow where it is new."""
        session = self._session
        details = {
            "session": session.id,
            "guarantee": {"epsilon": session.epsilon, "delta": session.delta, "unit": self.domain.unit},
            "teachers": session.teachers,
            **suggestion.model_dump(),
            "estimate": str(self.door.released.root / estimate.path),
            "stages": [report.model_dump() for report in self.stages.reports],
            **self.charged_now(),
        }
        return {**details, "run_id": self._tracked(session, suggestion)}

    def _tracked(self, session: Session, suggestion: Suggestion) -> str:
        fields = {"epsilon": session.epsilon, "delta": session.delta, **suggestion.model_dump(), **session.mechanism}
        return Tracking.of(self.home).keep_estimate(self.domain.name, session.id, fields, self.at_door)


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
    with Estimating(plan, home, held_out, again=again) as line:
        public = line.encode()
        stream = line.admit(public)  # refuses here, before anything private is read
        shards = line.set_aside(stream)
        measured = line.measure(stream, shards)
        line.open_estimate(stream, measured)
        released = line.pass_the_door(measured)
        text = line.door.released.read(released)
        return line.write_down(released, Suggestion.of(held_out, text, queries=stream.rows, beta=beta))


def show_estimate(details: dict[str, Any]) -> None:
    """The estimate, its cost, and what to do with it."""
    guarantee = details["guarantee"]
    lines = {
        "teachers": f"{details['teachers']} err on {details['rate']:.1%} of rows set aside, by a noisy estimate",
        "guarantee": f"ε = {guarantee['epsilon']:g}, δ = 0 for {guarantee['unit']}, in session {details['session']}",
        "spent now": spent_in_words(details["spent_now"], details["conversion"]),
        "next": f"set cutoff = {details['cutoff']} in [labeling]: enough for {details['queries']:,} public rows, "
        f"but for a chance of {details['beta']:g} (BTT18, Theorem 3.2)",
        "estimate": details["estimate"],
    }
    if details["cutoff"] >= details["queries"]:
        lines["next"] = (
            "take a mechanism that pays by row: they err too often for a cutoff below the number of public rows"
        )
    for name, value in lines.items():
        out.print(f"{name:<11}  {value}", soft_wrap=True, markup=False)
