"""The door: everything before it is private, everything after it is published. It knows no kind of release.

    one step:  ledger.begin ─ draw ─ ledger.draw ─ published file durable ─ ledger.commit

A step is a public question of a session and the exact private answer to it: votes on a batch, sums of a round, counts.
One that was committed is replayed from its released file. One that was only begun is drawn for again with the same
randomness: keyed draws follow from the session key and the row's index; noise is in the vault, and on record by a keyed
digest, before anyone sees what is made of it.

Assumes      the ledger's record of the session is complete; the session's reservation was admitted
Guarantees   a step is drawn for once, however often this runs, and only after it was paid for; so it is if an older
             copy of the vault is put back, or a second one is in use. A question or an exact answer other than those
             on record stop it
Ends         with the session
Not covered  a ledger restored from an older copy that no witness knows. Checked by tests/promises/test_door.py,
             tests/promises/test_drawn_once.py and tests/promises/test_crash.py, over every kind of release
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.vault import derive, keyed_digest
from concord.artifacts.schemas import Ref, canonical_json
from concord.artifacts.sessions import Batch, BatchOutcome, Session
from concord.tasks.data.guard import private_stage
from concord.tasks.door.ask import SingleAsk
from concord.tasks.door.checkpoint import Randomness, check_key, session_key
from concord.tasks.door.locks import alone
from concord.tasks.door.stores import Stores
from concord.tasks.mechanisms.distance import Ints

Drawn = TypeVar("Drawn")


@contextmanager
def open_door(door: Stores, session: Session) -> Iterator[None]:
    """Hold the door's lock. Raises NotVerified if the session's key is not the one it was opened with."""
    with alone(door.vault, session.id):
        check_key(door.vault, session)
        yield


def digest_in(door: Stores, session: str, what: str, *content: str | bytes) -> str:
    """The keyed digest by which the ledger of a session knows a "question", or an "exact" answer."""
    return keyed_digest(derive(session_key(door.vault, session), "digests"), what, *content)


@dataclass(frozen=True)
class StepOutcome:
    """The outcome of a step: its released file, and how many of its rows were answered or refused."""

    file: Ref
    answered: int = 1
    refused: int = 0


def pass_step(
    door: Stores,
    session: str,
    step: Batch,
    draw: Callable[[Randomness, Batch], Drawn],
    publish: Callable[[Drawn], StepOutcome],
) -> Ref:
    """Pass one step through the open door, or replay it; returns its released file.

    draw      draws from the exact answer, by randomness that keeps what is not keyed
    publish   writes what was drawn, with bytes that depend on it and public things alone
    Raises NotVerified if question or exact answer are not those on record, BudgetRefused if the session has ended.
    """
    begun = door.ledger.begin_batch(session, step)
    if begun.outcome is not None:
        return replayed(door, begun.outcome)
    made = publish(draw(Randomness(door.vault, door.ledger, session), begun))
    door.ledger.commit_batch(
        session,
        begun.index,
        asked=made.answered + made.refused,
        answered=made.answered,
        refused=made.refused,
        released=made.file,
    )
    return made.file


def replayed(door: Stores, outcome: BatchOutcome) -> Ref:
    """The released file of a committed step. Raises NotVerified if it is not what was released."""
    door.released.read(outcome.released)
    return outcome.released


def next_step(
    door: Stores,
    state: Session,
    known: Batch | None,
    *,
    rows: int,
    question: str,
    exact: str,
    path: Callable[[str, int], str],
) -> Batch:
    """The step that asks a question of a stream: the one on record, if it is `known`, or the session's next.

    question, exact   keyed digests of the question and of the exact answer
    path              of the released file of a session's step
    Raises NotVerified if the next step was released already: its draws were used for another question.
    """
    if known is None and door.released.find(path(state.id, state.batches)) is not None:
        raise NotVerified(
            f"{path(state.id, state.batches)} was released, and the ledger does not know of it: the ledger was "
            "restored from a backup; restore the newer copy, or end the session by `concord close "
            f"{state.id} --whole`"
        )
    index, first = (state.batches, state.next_row) if known is None else (known.index, known.first)
    return Batch(index=index, first=first, rows=rows, question_digest=question, exact_digest=exact)


@private_stage
def release_once(door: Stores, session: Session, ask: SingleAsk[Any], exact: Sequence[Ref]) -> Ref:
    """The released file of a session's only answer, JSON: released now, or replayed.

    exact   files of the private numbers that `ask` draws from
    Raises NotVerified if question, numbers or key are not those on record.
    """
    with open_door(door, session):
        counted = b"".join(map(door.vault.read, exact))
        step = Batch(
            index=0,
            first=0,
            rows=1,
            question_digest=digest_in(door, session.id, "question", canonical_json(ask.question)),
            exact_digest=digest_in(door, session.id, "exact", counted),
        )

        def draw(source: Randomness, _: Batch) -> Ints:
            return source.once("answer", lambda: ask.draw(counted, source))

        def publish(drawn: Ints) -> StepOutcome:
            return StepOutcome(publish_answer(door, session, ask.file, ask.result(drawn)))

        return pass_step(door, session.id, step, draw, publish)


def publish_answer(door: Stores, session: Session, name: str, result: Mapping[str, Any]) -> Ref:
    """Write the answer of a session, `result` as JSON with its guarantee, to the released file of that name."""
    claim = {"session": session.id, "epsilon": session.epsilon, "delta": session.delta}
    text = json.dumps({**claim, **result}, indent=2, sort_keys=True)
    return door.released.write(f"{session.id}/{name}", text.encode())
