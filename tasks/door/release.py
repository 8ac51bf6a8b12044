"""The door: everything before it is private, everything after it is published.

    for each batch of public rows:  ledger.begin ─ draw ─ labels durable ─ ledger.commit

A batch that was committed is replayed from its released file. One that was only begun is answered again with the same
randomness: keyed draws follow from the session key and the row's index, and answers made with noise are stored in the
vault before anyone sees them.

Assumes      the ledger's record of the session is complete; the session's reservation was admitted
Guarantees   a row of a session is drawn for once, however often this runs, and only after it was paid for
Ends         with the session: at the cutoff, or at the last row paid for; rows after that are not asked
Not covered  a home restored from an older copy that no witness knows. Checked by tests/tasks/door/test_release.py
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.home.released import Released, labels_path
from concord.artifacts.home.vault import Vault, derive, keyed_digest
from concord.artifacts.home.whole import locked
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Batch, BatchOutcome, Session
from concord.tasks.data.encode import PublicBatch
from concord.tasks.data.guard import private_stage
from concord.tasks.door.checkpoint import Randomness, check_key, session_key
from concord.tasks.mechanisms.distance import REFUSED, Answers, Ints
from concord.tasks.mechanisms.mechanism import Mechanism

RUN = "run.lock"
"""The lock of a whole command on a session; the door has its own."""
CountVotes = Callable[[PublicBatch], Ref]
"""Returns the file of `poll`'s counts for a batch, (rows, classes); called only if they are needed."""


@dataclass(frozen=True)
class Stores:
    """The parts of a home folder that the door uses: the vault, the ledger, and the released files."""

    vault: Vault
    ledger: Ledger
    released: Released

    @classmethod
    def of(cls, home: Path) -> Self:
        """The stores of a home folder."""
        return cls(Vault(home / "vault"), Ledger.of(home), Released(home))


@private_stage
def release(
    door: Stores,
    session: Session,
    mechanism: Mechanism,
    classes: Sequence[str],
    batches: Sequence[PublicBatch],
    votes: CountVotes,
) -> list[Ref]:
    """Answer the batches in order, or replay them; returns the released file of each.

    votes   called in order, for no batch after the session's end; meanwhile another process can close the session
    Raises NotVerified if rows, votes or key are not those on record.
    """
    with open_door(door, session):
        passage = Passage(door, session.id, mechanism, classes)
    return [passage.pass_through(batch, votes) for batch in batches]


@private_stage
def release_once(
    door: Stores,
    session: Session,
    *,
    about: bytes,
    counted: bytes,
    draw: Callable[[], Ints],
    publish: Callable[[Ints], Ref],
) -> Ref:
    """The released file of a session's only answer, such as a chosen hypothesis: released now, or replayed.

    about     the question, as public bytes; `counted` are the private numbers that `draw` answers from
    publish   writes the answer that was drawn, with bytes that depend on it alone; returns the released file
    Raises NotVerified if question, numbers or key are not those on record.
    """
    with open_door(door, session):
        key = derive(session_key(door.vault, session.id), "digests")
        batch = Batch(
            index=0,
            first=0,
            rows=1,
            rows_digest=keyed_digest(key, "rows", about),
            votes_digest=keyed_digest(key, "votes", counted),
        )
        begun = door.ledger.begin_batch(session.id, batch)
        if begun.outcome is not None:
            return _replay(door, begun.outcome)
        released = publish(Randomness(door.vault, session.id).once("answer", draw))
        door.ledger.commit_batch(session.id, 0, asked=1, answered=1, refused=0, released=released)
        return released


def publish_answer(door: Stores, session: Session, name: str, **result: Any) -> Ref:
    """Write the answer of a session, `result` as JSON, to the released file of that name."""
    claim = {"session": session.id, "epsilon": session.epsilon, "delta": session.delta}
    text = json.dumps({**claim, **result}, indent=2, sort_keys=True)
    return door.released.write(f"{session.id}/{name}", text.encode())


def replay(
    door: Stores, session: Session, mechanism: Mechanism, classes: Sequence[str], batches: Sequence[PublicBatch]
) -> list[Ref]:
    """The released file of each batch of a session's stream, as `release` gave it: no vote is read, nothing is drawn.

    Raises WrongInput if rows of the session are not answered yet, NotVerified if a file is missing or not what was
    released.
    """
    with open_door(door, session):
        return [*map(Passage(door, session.id, mechanism, classes).pass_again, batches)]


@contextmanager
def open_door(door: Stores, session: Session) -> Iterator[None]:
    """Hold the door's lock. Raises NotVerified if the session's key is not the one it was opened with."""
    with alone(door.vault, session.id):
        check_key(door.vault, session)
        yield


def _replay(door: Stores, outcome: BatchOutcome) -> Ref:
    door.released.read(outcome.released)
    return outcome.released


class Passage:
    """One pass of a session's batches, in order, through the door."""

    def __init__(self, door: Stores, session: str, mechanism: Mechanism, classes: Sequence[str]) -> None:
        self.door, self.session, self.mechanism, self.classes = door, session, mechanism, classes
        self._known, self._committed = dict[str, Batch](), 0
        self._met = set[str]()  # digests in the vault of the batches so far
        self._ahead = set[str]()  # batches on record that this pass has not reached
        self._unasked = (0, 0)  # batches and rows that came after the session had ended
        self.catch_up()

    def catch_up(self) -> None:
        """Read the batches that were begun since, by any process."""
        batches = self.door.ledger.batches(self.session, self._committed)
        left = self.door.ledger.session(self.session).status != "open"  # what was begun is unasked then
        new = {batch.rows_digest: batch for batch in batches if batch.outcome or not left}
        self._ahead |= new.keys() - self._known.keys()
        self._known |= new
        self._committed += sum(batch.outcome is not None for batch in batches)  # one that is pending is the last

    def pass_through(self, batch: PublicBatch, votes: CountVotes) -> Ref:
        """Release one batch, or replay its released file."""
        state = self.door.ledger.session(self.session)
        rows_digest = self._on_record(batch, state)
        if rows_digest is None:
            return self._leave_unasked(state, batch.rows)
        counts = read_votes(self.door.vault.read(votes(batch)))
        with alone(self.door.vault, self.session):
            return self._pass(rows_digest, counts, self.door.ledger.session(self.session))

    def _pass(self, rows_digest: str, counts: Ints, state: Session) -> Ref:
        old = self._known.get(rows_digest)
        if old is None and state.ended:  # it was closed while the votes were counted
            return self._leave_unasked(state, len(counts))
        if old is None:
            self._check_unreleased(state)
        asked = Batch(
            index=state.batches if old is None else old.index,
            first=state.next_row if old is None else old.first,
            rows=len(counts),
            rows_digest=rows_digest,
            votes_digest=keyed_digest(self._key, "votes", np.ascontiguousarray(counts, dtype="<u4").tobytes()),
        )
        begun = self.door.ledger.begin_batch(self.session, asked)
        return _replay(self.door, begun.outcome) if begun.outcome else self._answer(begun, counts, state)

    def pass_again(self, batch: PublicBatch) -> Ref:
        """Replay a batch without votes, or note that it was not asked. Raises WrongInput if it has no answer yet."""
        state = self.door.ledger.session(self.session)
        rows_digest = self._on_record(batch, state)
        old = self._known.get(rows_digest or "")
        if rows_digest is None:
            return self._leave_unasked(state, batch.rows)
        if old is not None and old.outcome is not None:
            return _replay(self.door, old.outcome)
        raise WrongInput(f"session {self.session} was given rows that have no label yet: extend or run it first")

    def _on_record(self, batch: PublicBatch, state: Session) -> str | None:
        """The digest under which the ledger records a batch; None if it is not recorded and the session has ended."""
        if state.ended and not self._ahead and batch.ref.digest not in self._met:
            return None  # without reading it
        rows_digest = self._digest(self.door.vault.read(batch.ref))
        self._met.add(batch.ref.digest)
        self._ahead.discard(rows_digest)
        return rows_digest if rows_digest in self._known or not state.ended else None

    def _check_unreleased(self, state: Session) -> None:
        """Raise NotVerified if the session's next batch was released already: its draws were used for other rows."""
        path = labels_path(state.id, state.batches)
        if self.door.released.find(path) is not None:
            raise NotVerified(
                f"{path} was released, and the ledger does not know of it: an older copy of the ledger was put back; "
                f"put the newer one in its place, or end the session by `concord close {state.id} --whole`"
            )

    @property
    def _key(self) -> bytes:
        return derive(session_key(self.door.vault, self.session), "digests")

    def _digest(self, rows: bytes) -> str:
        return keyed_digest(self._key, "rows", hashlib.sha256(rows).digest())

    def _answer(self, batch: Batch, votes: Ints, state: Session) -> Ref:
        answers = self._drawn(batch, votes, state)
        released = self._write(batch.index, batch.first, answers, len(votes))
        refused = int(np.count_nonzero(answers.labels == REFUSED))
        asked = len(answers.labels)
        counts = {"asked": asked, "answered": asked - refused, "refused": refused}
        self.door.ledger.commit_batch(self.session, batch.index, **counts, released=released)
        return released

    def _drawn(self, batch: Batch, votes: Ints, state: Session) -> Answers:
        """The answers of a batch, drawn once from the state before it and the same at every later call."""
        room = None if state.queries is None else state.queries - state.asked
        source = Randomness(self.door.vault, self.session)

        def fresh() -> Answers:
            return self.mechanism.release(votes[:room], source, batch.first, state.refused)

        def arrays() -> list[Ints]:
            answers = fresh()
            return [answers.labels] if answers.counts is None else [answers.labels, answers.counts]

        if self.mechanism.keyed:
            return fresh()
        return Answers(*source.kept(f"answers-{batch.index:05d}", arrays))

    def _leave_unasked(self, state: Session, count: int) -> Ref:
        batches, rows = self._unasked
        self._unasked = (batches + 1, rows + count)
        return self._write(state.batches + batches, state.next_row + rows, Answers(np.zeros(0, dtype=np.int64)), count)

    def _write(self, index: int, first: int, answers: Answers, rows: int) -> Ref:
        return self.door.released.write_labels(
            self.session,
            index,
            first,
            answers.labels,
            answers.counts,
            rows=rows,
            classes=self.classes,
            guarantee=self._guarantee,
        )

    @cached_property
    def _guarantee(self) -> dict[str, str]:
        """The guarantee of the labels, for the metadata of every released table."""
        session = self.door.ledger.session(self.session)
        domain = self.door.ledger.domain(session.domain)
        return {
            "session": session.id,
            "epsilon": repr(session.epsilon),
            "delta": repr(session.delta),
            "unit": domain.unit if domain else "",
            "neighbours": domain.neighbours if domain else "",
            "mechanism": str(session.mechanism["name"]),
        }


def read_votes(data: bytes) -> Ints:
    """Poll's counts from an Arrow IPC file, (rows, classes)."""
    table = pa.ipc.open_file(pa.BufferReader(data)).read_all()
    return np.column_stack([column.to_numpy() for column in table.columns])


@contextmanager
def alone(vault: Vault, session: str, lock: str = "lock") -> Iterator[None]:
    """Hold a lock of the session; the kernel frees it when the process ends for any reason."""
    with locked(vault.root / "sessions" / session / lock):
        yield


@contextmanager
def alone_if_free(vault: Vault, session: str, lock: str) -> Iterator[bool]:
    """Hold a lock of the session if no other process does; yields whether it is held."""
    with locked(vault.root / "sessions" / session / lock, wait=False) as free:
        yield free


@contextmanager
def opening(vault: Vault, identity: str, waiting: Callable[[], None]) -> Iterator[None]:
    """Let only one command at a time open a session of an identity and pass its door; the others continue that session.

    waiting   called before this waits for another command
    """
    path = vault.root / "locks" / f".{identity}"  # no domain has such a name
    with locked(path, wait=False) as free:
        if free:
            yield
            return
    waiting()
    with locked(path):
        yield


@contextmanager
def a_run_in(vault: Vault, domain: str) -> Iterator[None]:
    """Shared lock of a run in the domain: other runs may go on, but nothing of the domain is erased meanwhile."""
    with locked(vault.root / "locks" / domain, shared=True):
        yield


@contextmanager
def no_run_in(vault: Vault, domain: str) -> Iterator[None]:
    """Exclusive lock of the domain: wait until no run of it goes on, and let new ones wait."""
    with locked(vault.root / "locks" / domain):
        yield
