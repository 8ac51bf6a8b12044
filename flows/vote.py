"""The steps of votes: admitting a session, training teachers, and asking them about public rows batch by batch.

    for each batch of public rows:  its votes are counted, a few batches ahead ─ it passes the door

Counting stops once the session has ended. That depends on released data alone, so it reveals nothing. But private work
goes on after the first release, and no published time may show for how long: all files of labels get new times at the
end, and the disclosure has the time of the end. Checked by tests/flows/test_interleaved.py
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import count, takewhile

from concord.artifacts.home.released import labels_path
from concord.artifacts.learners import TeachersPlan
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Session
from concord.flows import stages
from concord.flows.run import Admitted, RunContext
from concord.flows.stage import Disclosure
from concord.flows.stages import Public
from concord.flows.steps import check_unchanged, covered, find, saying_room
from concord.tasks.asking import relabel as asking_relabel
from concord.tasks.asking.teachers import ARRAY, TOGETHER, learner_of, teachers_kind
from concord.tasks.data.encode import PublicBatch
from concord.tasks.door.admit import Asked, calibrated, planned_domain, session_identity, training
from concord.tasks.door.asked import online_votes, recounted
from concord.tasks.door.checkpoint import read_checkpoint
from concord.tasks.door.release import Stores, replay
from concord.tasks.mechanisms.mechanism import Mechanism
from concord.tasks.mechanisms.relabelled import Relabelled, Relabelling

FAR_AHEAD = 64
"""Batches counted ahead on a cluster that is not ours, whose size is unknown."""


def admit(run: RunContext, public: Public) -> Admitted[Mechanism]:
    """The plan's session of votes: the open one, or a new one that may be opened. Raises BudgetRefused."""
    return saying_room(covered(run, find_votes(run, public)))


def find_votes(run: RunContext, public: Public) -> Admitted[Mechanism]:
    """The plan's session of votes, without a check whether it may be opened."""
    plan, vault, domain = run.plan, run.stores.vault, planned_domain(run.stores, run.plan)
    mechanism = calibrated(plan, public.encoding, public.batches, domain.filter.order, vault)
    identity = session_identity(vault, plan, mechanism, public.encoding, public.batches)
    return find(run, public, domain, mechanism, Asked.labels(plan, mechanism, identity))


@dataclass(frozen=True)
class Training:
    """The teachers' training rows.

    shards      blocks of shards
    relabelled  files that relabelling wrote, to be forgotten with the session
    made_of     everything private that answers depend on: how teachers are trained, and the shards
    """

    shards: Sequence[Ref]
    relabelled: tuple[Ref, ...]
    made_of: Sequence[str]


def relabelling_of(mechanism: Mechanism) -> Relabelling | None:
    """How private rows are relabelled, if the plan asks for it."""
    return mechanism.relabelling if isinstance(mechanism, Relabelled) else None


def share(mechanism: Mechanism) -> float | None:
    """The probability that a unit is in the secret subset that is relabelled, if there is one."""
    settings = relabelling_of(mechanism)
    return None if settings is None else settings.share


def training_rows(run: RunContext, admitted: Admitted[Mechanism], shards: list[Ref]) -> Training:
    """The shards, relabelled if the plan asks for it. Raises NotVerified if the session was opened with others."""
    settings, relabelled = relabelling_of(admitted.mechanism), tuple[Ref, ...]()
    encoding, own = admitted.stream.encoding, admitted.stream.sources[0].batches
    space = asking_relabel.candidates(run.plan, encoding, own, run.stores.vault)
    if settings is not None and space is not None:
        made = stages.relabel(run, run.plan, shards, encoding, space, settings)
        shards, relabelled = list(made.blocks), (made.choice, *shards, *made.blocks)
    trained = Training(shards, relabelled, training(run.plan, shards))
    check_unchanged(run, admitted.session, trained.made_of)
    return trained


def teach(run: RunContext, admitted: Admitted[Mechanism], trained: Training) -> list[Ref]:
    """Train one teacher per shard, block by block: as arrays if the plan wants that and the learner is known, otherwise
    by its estimator. An open session keeps the kind it began with, in any version: its votes are on record, and those
    of another kind differ on rows near a tie.
    """
    plan, encoding, session = run.plan, admitted.stream.encoding, admitted.session
    begun = read_checkpoint(run.stores.vault, session.id, online=False) if session else None
    new = TOGETHER if plan.teachers.arrays else ""
    kind = teachers_kind(begun.teachers) if begun else new
    trains = {TOGETHER: stages.teach_together, ARRAY: stages.teach_arrays, "": stages.teach_models}
    known = learner_of(plan.teachers, encoding) is not None
    return trains[kind if known else ""](run, stages.blocks(plan, trained.shards), plan, encoding)


def ask(run: RunContext, session: Session, admitted: Admitted[Mechanism], teachers: Sequence[Ref]) -> Disclosure:
    """Have the teachers vote on the stream and pass it through the door, batch by batch."""
    stores, stream, classes = run.stores, admitted.stream, run.plan.data.classes

    def there(batch: PublicBatch) -> Ref | None:
        with recounted():
            return stores.vault.find(online_votes(stores.vault, teachers, batch))

    lacking = [batch for batch in stream.batches if there(batch) is None]
    if not session.ended:
        _note_unstamped(stores, session)
    with stages.poll.in_turn(run, lacking, _ahead(run.plan.teachers, session), teachers, stream.encoding) as polled:
        passed = stages.release(
            run, session, admitted.mechanism, classes, stream.batches, lambda batch: there(batch) or polled(batch)
        )
    _stamp_together(stores, session)
    return replace(passed, at=datetime.now(UTC))


def replay_labels(run: RunContext, session: Session, admitted: Admitted[Mechanism]) -> Disclosure:
    """The labels, as released. Raises WrongInput if rows have no label yet, NotVerified if a file is gone."""
    classes, batches = run.plan.data.classes, admitted.stream.batches

    def work() -> tuple[list[Ref], bool]:
        return replay(run.stores, session, admitted.mechanism, classes, batches), True

    released = run.stages.uncached("release", work)
    _stamp_together(run.stores, session)  # an earlier command may have been killed before this
    return Disclosure(session, released, 0, datetime.now(UTC))


def _note_unstamped(door: Stores, session: Session) -> None:
    """Note that files of labels written from now on have their own times, until they are stamped together."""
    begun = session.batches - (session.pending is not None)
    door.vault.keep(_unstamped(session), lambda: str(begun).encode())


def _stamp_together(door: Stores, session: Session) -> None:
    """Give all noted files of labels new times at once: their own would show how long later votes took to count. Files
    of a run that was killed before this are stamped by the next command.
    """
    noted = door.vault.find(_unstamped(session))
    if noted is not None:
        files = (door.released.find(labels_path(session.id, at)) for at in count(int(door.vault.read(noted))))
        door.released.restamp([ref for ref in takewhile(bool, files) if ref is not None])
        door.vault.destroy(noted.path)


def _unstamped(session: Session) -> str:
    return f"sessions/{session.id}/unstamped"


def _ahead(teachers: TeachersPlan, session: Session) -> int:
    """The number of batches to count ahead: enough to keep the machine busy, none if no row can be new."""
    if session.ended:
        return 0
    return FAR_AHEAD if teachers.address else (os.cpu_count() or 1) - 1
