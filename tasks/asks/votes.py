"""Votes: batch after batch of public rows is answered from the votes of teachers on it, or replayed.

Assumes      as in tasks.door.door; the votes of a batch are those of `tasks.units.teachers.poll`
Guarantees   a row of a session is drawn for once, however often this runs, and only after it was paid for
Ends         with the session: at the cutoff, or at the last row paid for; rows after that are not asked
Not covered  as in tasks.door.door. Checked by tests/tasks/asks/test_votes.py and tests/promises/test_drawn_once.py
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from concord.artifacts.errors import WrongInput
from concord.artifacts.guarantee import guarantee_of_labels
from concord.artifacts.home.released import LABELS_FILE, labels_table, table_bytes
from concord.artifacts.home.vault import Staged
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import PublicBatch, PublicRows, Ref, canonical_json
from concord.artifacts.sessions import LABELS, Session
from concord.artifacts.stores import Stores
from concord.tasks.asks.hypothesis_space import candidates, relabelling
from concord.tasks.door.ask import Ask
from concord.tasks.door.door import Drawn, Step, batch_of
from concord.tasks.door.exact import Exact
from concord.tasks.mechanisms.calibration import VoteTerms, calibrate
from concord.tasks.mechanisms.mechanism import Mechanism
from concord.tasks.mechanisms.relabelled import Relabelled

CountVotes = Callable[[PublicBatch], Ref]
"""Returns the file of `poll`'s counts for a batch, (rows, classes); called only if they are needed."""


@dataclass(frozen=True)
class VotesAsk(Ask[Mechanism]):
    """Labels of public rows, from votes of the plan's teachers.

    public   digests of the plan's own public rows
    """

    plan: Plan
    public: tuple[str, ...]

    purpose: ClassVar[str] = LABELS

    @classmethod
    def of(
        cls, plan: Plan, public: PublicRows, order: float, rows: Staged, session: Session | None = None
    ) -> "VotesAsk":
        """What a plan asks about its staged public rows, at a cost that is finite at the domain's `order`.

        session   the session that goes on, if one does: a mechanism left to advice is the one it was opened with, since
                  another version may advise otherwise
        Raises WrongInput.
        """
        if session is not None and plan.undecided:
            plan = plan.naming(session.facts.name, session.cutoff)
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

        space, digests = candidates(plan, encoding, batches, rows), tuple(batch.ref.digest for batch in batches)
        if space is None:
            return cls(made(plan.epsilon_of_labels, plan.privacy.delta), plan, digests)
        settings = relabelling(plan, space, encoding)
        return cls(Relabelled(inner=made(*settings.inner), relabelling=settings), plan, digests)

    @property
    def teachers(self) -> int:
        """Number of teachers."""
        return self.plan.teachers.count

    @property
    def classes(self) -> Sequence[str]:
        """The classes that teachers vote for."""
        return self.plan.data.classes

    def steps(
        self, stores: Stores, session: Session, batches: Sequence[PublicBatch], votes: CountVotes | None
    ) -> Iterator[Step]:
        """The batches in order.

        votes   called in order, for no batch after the session's end; None to replay what was released. Meanwhile
                another process can close the session
        Raises WrongInput if a batch is to be replayed that is not answered yet.
        """
        about = self.classes, guarantee_of_labels(session, stores.ledger.domain_of(session))
        ahead, met = {batch.question_digest for batch in stores.ledger.batches(session.id)}, set[str]()
        for batch in batches:
            state, rows, batch_there, exact = stores.ledger.session(session.id), b"", None, None
            if ahead or batch.ref.digest in met or not state.ended:  # else it is not asked, and not read
                rows = hashlib.sha256(stores.staged.read(batch.ref)).digest()
                batch_there = batch_of(stores, session.id, rows)
                met.add(batch.ref.digest)
                ahead.discard(batch_there.question_digest if batch_there else "")
            if votes is None and not state.ended and (batch_there is None or batch_there.outcome is None):
                raise WrongInput(f"session {session.id} was given rows that have no label yet: extend or run it first")
            if votes is not None and not (batch_there is None and state.ended):
                exact = Exact("votes", ((votes(batch),),))
            yield Step(
                question=rows,
                exact=exact,
                publish=labels_file,
                about=about,
                draw="answers-{:05d}",
                path=LABELS_FILE,
                rows=batch.rows,
                may_be_unasked=True,
            )

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
        if isinstance(mechanism, Relabelled):
            settings["relabel"] = mechanism.relabelling.model_dump(mode="json")
        if plan.data.public_share is not None:
            settings["public_share"] = plan.data.public_share
        return settings


def training(plan: Plan, shards: Sequence[Ref]) -> tuple[str, ...]:
    """Inputs of the teachers: their training settings, and the digests of the shards."""
    learner = plan.teachers.model_dump(include={"count", "estimator", "params"})
    return canonical_json(learner), *(shard.digest for shard in shards)


def labels_file(drawn: Drawn) -> bytes:
    """The labels of a batch as a file, with the guarantee in its metadata; of one that was not asked, none."""
    classes, guarantee = drawn.about
    labels = drawn.arrays[0] if drawn.arrays else np.zeros(0, dtype=np.int64)
    counts = drawn.arrays[1] if len(drawn.arrays) > 1 else None
    rows = range(drawn.batch.first, drawn.batch.first + drawn.batch.rows)
    table = labels_table(rows, labels, counts, classes, guarantee)
    return table_bytes(table.columns, table.schema)
