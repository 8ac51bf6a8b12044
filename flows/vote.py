"""Learning by votes: teachers are trained, and label public rows batch by batch.

    for each batch of public rows:  its votes are counted, a few batches ahead ─ it passes the door

Counting stops once the session has ended. That depends on released data alone, so it reveals nothing. But private work
goes on after the first release, and no published time may show for how long: files get new times with the certificate
(tasks.publish.certify), and the disclosure has the time of the end. Checked by tests/flows/test_interleaved.py
"""

import os
from dataclasses import replace
from functools import partial

from concord.artifacts.domains import Domain
from concord.artifacts.schemas import Encoding, PublicRows, Ref
from concord.artifacts.sessions import Session
from concord.flows.admit import Opened
from concord.flows.private_stages import poll, relabel, split, teach
from concord.flows.run import Admitted, ExactNumbers, PrivateFiles, RunContext
from concord.flows.steps import Learned, rehearse_published
from concord.tasks.asks.hypothesis_space import candidates
from concord.tasks.asks.votes import VotesAsk, training
from concord.tasks.door.admit import check_ensemble
from concord.tasks.mechanisms.relabelled import Relabelled
from concord.tasks.units.teachers import rehearse_teachers

FAR_AHEAD = 64
"""Batches counted ahead on a cluster that is not ours, whose size is unknown."""


def rehearse(run: RunContext, encoding: Encoding) -> None:
    """Raise WrongInput if teachers, student or test table would fail."""
    rehearse_teachers(run.plan.teachers, encoding)
    rehearse_published(run, encoding, run.plan.student)


def ask(run: RunContext, public: PublicRows, domain: Domain, session: Session | None = None) -> VotesAsk:
    """Labels of the public rows."""
    return VotesAsk.of(run.plan, public, domain.filter.order, run.stores.staged, session)


def count_exact(run: RunContext, admitted: Admitted[VotesAsk], private: PrivateFiles) -> ExactNumbers:
    """Split the private rows, relabel them if the plan asks for it, and train the teachers, who have not voted yet."""
    plan, encoding = run.plan, admitted.stream.encoding
    mechanism = admitted.ask.mechanism
    settings = mechanism.relabelling if isinstance(mechanism, Relabelled) else None
    share = None if settings is None else settings.share
    shards, relabelled = split(run, plan, private.read_by(encoding), share=share), tuple[Ref, ...]()
    space = candidates(plan, encoding, admitted.stream.sources[0].batches, run.stores.staged)
    if settings is not None and space is not None:
        made = relabel(run, plan, shards, encoding, space, settings)
        shards, relabelled = list(made.blocks), (made.choice, *shards, *made.blocks)
    private_digests = training(plan, shards)
    check_ensemble(run.stores, admitted.session, private_digests)
    return ExactNumbers(private_digests, teach(run, shards, plan, encoding), relabelled)


def release(run: RunContext, opened: Opened[VotesAsk]) -> Learned:
    """Have the teachers vote on the stream and pass it through the door, batch by batch."""
    admitted, stream = opened.admitted, opened.admitted.stream
    busy = FAR_AHEAD if run.plan.teachers.address else (os.cpu_count() or 1) - 1
    ahead = 0 if opened.session.ended else busy  # then no row can be new
    with poll.in_turn(run, stream.batches, ahead, opened.exact.kept, stream.encoding) as polled:
        steps = partial(admitted.ask.steps, batches=stream.batches, votes=polled)
        passed = run.stages.pass_door(opened.session, steps)
    return Learned(run, admitted, replace(passed, at=run.stores.ledger.now()))


def replay(run: RunContext, session: Session, admitted: Admitted[VotesAsk]) -> Learned:
    """The labels, as released. Raises WrongInput if rows have no label yet, NotVerified if a file is gone."""
    steps = partial(admitted.ask.steps, batches=admitted.stream.batches, votes=None)
    return Learned(run, admitted, run.stages.pass_door(session, steps))
