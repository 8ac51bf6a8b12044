"""Learning by a choice: the student is a hypothesis, chosen by its private errors (Nandi & Bassily 2020)."""

from functools import partial

from concord.artifacts.domains import Domain
from concord.artifacts.schemas import Encoding, PublicRows
from concord.artifacts.sessions import Session
from concord.flows.admit import Opened
from concord.flows.private_stages import count
from concord.flows.run import Admitted, ExactNumbers, PrivateFiles, RunContext
from concord.flows.steps import Learned, rehearse_published
from concord.tasks.asks.hypothesis import HypothesisAsk
from concord.tasks.door.admit import check_ensemble


def rehearse(run: RunContext, encoding: Encoding) -> None:
    """Raise WrongInput if student or test table would fail."""
    rehearse_published(run, encoding, run.plan.student)


def ask(run: RunContext, public: PublicRows, domain: Domain, session: Session | None = None) -> HypothesisAsk:  # noqa: ARG001
    """The choice among the hypotheses that differ on the public rows, at one cost in every domain."""
    return HypothesisAsk.of(run.plan, public.encoding, public.batches, run.stores.staged)


def count_exact(run: RunContext, admitted: Admitted[HypothesisAsk], private: PrivateFiles) -> ExactNumbers:
    """Count the errors of every candidate."""
    stream = admitted.stream
    counts = count(run, run.plan, private.read_by(stream.encoding), stream.batches)
    check_ensemble(run.stores, admitted.session, (counts.digest,))
    return ExactNumbers((counts.digest,), [counts], steps=partial(admitted.ask.steps, exact=[counts]))


def release(run: RunContext, opened: Opened[HypothesisAsk]) -> Learned:
    """Choose once."""
    admitted = opened.admitted
    return Learned(run, admitted, run.stages.pass_door(opened.session, opened.exact.steps, admitted.ask.stage))
