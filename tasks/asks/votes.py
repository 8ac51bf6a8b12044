"""Votes: batch after batch of public rows is answered from the votes of teachers on it, or replayed.

Assumes      as in tasks.door.door; the votes of a batch are those of `tasks.asking.teachers.poll`
Guarantees   a row of a session is drawn for once, however often this runs, and only after it was paid for
Ends         with the session: at the cutoff, or at the last row paid for; rows after that are not asked
Not covered  as in tasks.door.door. Checked by tests/tasks/asks/test_votes.py and tests/promises/test_drawn_once.py
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from concord.artifacts.errors import WrongInput
from concord.artifacts.guarantee import guarantee_of_labels
from concord.artifacts.home.released import labels_path, labels_table
from concord.artifacts.home.vault import Vault
from concord.artifacts.kinds import Kind
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import PublicRows, Ref, canonical_json
from concord.artifacts.sessions import LABELS, Batch, BatchOutcome, Session
from concord.artifacts.stores import Stores
from concord.tasks.asking.relabel import candidates, relabelling
from concord.tasks.data.encode import PublicBatch
from concord.tasks.door.ask import StreamAsk
from concord.tasks.door.checkpoint import Randomness
from concord.tasks.door.door import Step, digest_in, open_door, replayed
from concord.tasks.mechanisms.distance import REFUSED, Answers, Ints
from concord.tasks.mechanisms.mechanism import Mechanism, VoteTerms, calibrate
from concord.tasks.mechanisms.relabelled import calibrate_relabelled

CountVotes = Callable[[PublicBatch], Ref]
"""Returns the file of `poll`'s counts for a batch, (rows, classes); called only if they are needed."""


@dataclass(frozen=True)
class VotesAsk(StreamAsk[Mechanism]):
    """Labels of public rows, from votes of the plan's teachers.

    public   digests of the plan's own public rows
    """

    plan: Plan
    public: tuple[str, ...]

    purpose: ClassVar[str] = LABELS

    @classmethod
    def of(
        cls, plan: Plan, public: PublicRows, order: float, vault: Vault, session: Session | None = None
    ) -> "VotesAsk":
        """What a plan asks about its staged public rows, at a cost that is finite at the domain's `order`.

        session   the session that goes on, if one does: a mechanism left to advice is the one it was opened with, since
                  another version may advise otherwise
        Raises WrongInput.
        """
        if session is not None and plan.undecided:
            plan = plan.naming(session.kind.name, session.cutoff)
        encoding, batches, labeling = public.encoding, public.batches, plan.labeling
        terms: VoteTerms = {
            "cutoff": labeling.cutoff,
            "queries": labeling.queries or sum(batch.rows for batch in batches),
            "classes": len(plan.data.classes),
            "teachers": plan.teachers.count,
            "order": order,
        }

        def made(epsilon: float, delta: float) -> Mechanism:
            return calibrate(labeling.mechanism, epsilon=epsilon, delta=delta, **terms)

        budget = {"epsilon": plan.epsilon_of_labels, "delta": plan.privacy.delta}
        space, known = candidates(plan, encoding, batches, vault), tuple(batch.ref.digest for batch in batches)
        if space is None:
            return cls(made(**budget), plan, known)
        return cls(calibrate_relabelled(relabelling(plan, space, encoding), make=made, **budget), plan, known)

    @property
    def epsilon(self) -> float:
        """ε of the plan's labels."""
        return self.plan.epsilon_of_labels

    @property
    def delta(self) -> float:
        """δ of the plan."""
        return self.plan.privacy.delta

    @property
    def teachers(self) -> int:
        """Number of teachers."""
        return self.plan.teachers.count

    @property
    def classes(self) -> Sequence[str]:
        """The classes that teachers vote for."""
        return self.plan.data.classes

    def steps(
        self, stores: Stores, session: Session, batches: Sequence[PublicBatch], votes: CountVotes
    ) -> Iterator[Step[Answers] | Ref]:
        """The batches in order.

        votes   called in order, for no batch after the session's end; meanwhile another process can close the session
        """
        with open_door(stores, session):
            stream = LabelStream(stores, session.id, self)
        for batch in batches:
            yield stream.step(batch, votes)

    def depends(self, plan: Plan) -> dict[str, Any]:
        """Whatever teachers and mechanism depend on."""
        mechanism = self.mechanism
        ends = {"cutoff": mechanism.cutoff, "queries": mechanism.queries}
        settings: dict[str, Any] = {
            "privacy": plan.privacy.model_dump(exclude={"lifetime"}, exclude_defaults=True),
            "teachers": plan.teachers.model_dump(include={"count", "estimator", "params"}),
            "labeling": {"mechanism": mechanism.name, "batch": plan.labeling.batch, **ends},
            "public": list(self.public),
        }
        if plan.epsilon_beside_labels:
            settings["choice"] = plan.epsilon_beside_labels
        if relabel := Kind.of(self.settings()).relabel:
            settings["relabel"] = relabel.model_dump(mode="json")
        if plan.data.public_share is not None:
            settings["public_share"] = plan.data.public_share
        return settings


def training(plan: Plan, shards: Sequence[Ref]) -> tuple[str, ...]:
    """Inputs of the teachers: their training settings, and the digests of the shards."""
    learner = plan.teachers.model_dump(include={"count", "estimator", "params"})
    return canonical_json(learner), *(shard.digest for shard in shards)


def replay_votes(stores: Stores, session: Session, ask: VotesAsk, batches: Sequence[PublicBatch]) -> list[Ref]:
    """The released file of each batch of a session's stream, as it was released: no vote is read, nothing is drawn.

    Raises WrongInput if rows of the session are not answered yet, NotVerified if a file is missing or not what was
    released.
    """
    with open_door(stores, session):
        return [*map(LabelStream(stores, session.id, ask).replay, batches)]


class LabelStream:
    """The batches of one session, each a step at the door, taken in order."""

    def __init__(self, stores: Stores, session: str, ask: VotesAsk) -> None:
        self.stores, self.session, self.ask = stores, session, ask
        left = self._state.status != "open"  # what was begun is unasked then
        batches = stores.ledger.batches(session)
        self._known = {batch.question_digest: batch for batch in batches if batch.outcome or not left}
        self._met = set[str]()  # digests in the vault of the batches so far
        self._ahead = {*self._known}  # batches on record that are not reached yet
        self._unasked = (0, 0)  # batches and rows that came after the session had ended

    def step(self, batch: PublicBatch, votes: CountVotes) -> Step[Answers] | Ref:
        """The step of one batch; if the session has ended, the file that says so."""
        state = self._state
        rows = self._asked(batch, state)
        if rows is None:
            return self._leave_unasked(batch.rows, state)
        counts = read_votes(self.stores.vault.read(votes(batch)))
        return Step(
            question=rows,
            exact=[np.ascontiguousarray(counts, dtype="<u4").tobytes()],
            draw=partial(self._drawn, counts),
            publish=self._publish,
            known=self._known.get,
            rows=len(counts),
            path=labels_path,
            unasked=partial(self._leave_unasked, len(counts)),
        )

    def replay(self, batch: PublicBatch) -> Ref:
        """Replay a batch without votes, or note that it was not asked. Raises WrongInput if it has no answer yet."""
        state = self._state
        rows = self._asked(batch, state)
        if rows is None:
            return self._leave_unasked(batch.rows, state)
        known = self._known.get(digest_in(self.stores, self.session, "question", rows))
        if known is not None and known.outcome is not None:
            return replayed(self.stores, known.outcome)
        raise WrongInput(f"session {self.session} was given rows that have no label yet: extend or run it first")

    @property
    def _state(self) -> Session:
        return self.stores.ledger.session(self.session)

    def _asked(self, batch: PublicBatch, state: Session) -> bytes | None:
        """A digest of the rows of a batch; None if it is not on record and the session has ended."""
        if state.ended and not self._ahead and batch.ref.digest not in self._met:
            return None  # without reading it
        rows = hashlib.sha256(self.stores.vault.read(batch.ref)).digest()
        question = digest_in(self.stores, self.session, "question", rows)
        self._met.add(batch.ref.digest)
        self._ahead.discard(question)
        return rows if question in self._known or not state.ended else None

    def _drawn(self, votes: Ints, before: Session, source: Randomness, step: Batch) -> Answers:
        """The answers of a batch, drawn once from the state before it and the same at every later call."""
        mechanism, room = self.ask.mechanism, None if before.queries is None else before.queries - before.asked

        def fresh() -> Answers:
            return mechanism.release(votes[:room], source, step.first, before.refused)

        def arrays() -> list[Ints]:
            answers = fresh()
            return [answers.labels] if answers.counts is None else [answers.labels, answers.counts]

        return fresh() if mechanism.keyed else Answers(*source.kept(f"answers-{step.index:05d}", arrays))

    def _publish(self, step: Batch, answers: Answers) -> BatchOutcome:
        refused = int(np.count_nonzero(answers.labels == REFUSED))
        released = self._write(step.index, step.first, answers, step.rows)
        return step.released_as(released, answered=len(answers.labels) - refused, refused=refused)

    def _leave_unasked(self, count: int, state: Session) -> Ref:
        batches, rows = self._unasked
        self._unasked = (batches + 1, rows + count)
        return self._write(state.batches + batches, state.next_row + rows, Answers(np.zeros(0, dtype=np.int64)), count)

    def _write(self, index: int, first: int, answers: Answers, rows: int) -> Ref:
        asked = range(first, first + rows)
        table = labels_table(asked, answers.labels, answers.counts, self.ask.classes, self._guarantee)
        return self.stores.released.write_labels(self.session, index, table)

    @cached_property
    def _guarantee(self) -> dict[str, str]:
        """The guarantee of the labels, for the metadata of every released table."""
        return guarantee_of_labels(self._state, self.stores.ledger.domain_of(self._state))


def read_votes(data: bytes) -> Ints:
    """Poll's counts from an Arrow IPC file, (rows, classes)."""
    table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    return np.column_stack([column.to_numpy() for column in table.columns])
