"""The door: everything before it is private, everything after it is published. It knows no kind of release.

    for each step:  ledger.begin ─ draw ─ ledger.draw ─ published file durable ─ ledger.commit

A step is a public question of a session and the exact private answer to it: votes on a batch, sums of a round, counts.
Each ask in tasks.asks makes its own; `release` is the one loop over them.
One that was committed is replayed from its released file. One that was only begun is drawn for again with the same
randomness: keyed draws follow from the session key and the row's index; noise is in the vault, and on record by a keyed
digest, before anyone sees what is made of it.

Assumes      the ledger's record of the session is complete; the session's reservation was admitted
Guarantees   a step is drawn for once, however often this runs, and only after it was paid for; so it is if an older
             copy of the vault is put back, or a second one is in use. A question or an exact answer other than those
             on record stop it
Ends         with the session
Not covered  a ledger restored from an older copy. Checked by tests/promises/test_door.py,
             tests/promises/test_drawn_once.py and tests/promises/test_crash.py, over every kind of release
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.released import round_path
from concord.artifacts.home.vault import derive, keyed_digest
from concord.artifacts.schemas import Ref, canonical_json
from concord.artifacts.sessions import Batch, BatchOutcome, Session
from concord.artifacts.stores import Stores
from concord.tasks.door.checkpoint import Randomness, check_key, session_key
from concord.tasks.door.locks import alone
from concord.tasks.units.guard import private_stage

Drawn = TypeVar("Drawn")


@contextmanager
def open_door(stores: Stores, session: Session) -> Iterator[None]:
    """Hold the door's lock. Raises NotVerified if the session's key is not the one it was opened with."""
    with alone(stores.vault, session.id):
        check_key(stores.vault, session)
        yield


def digest_in(stores: Stores, session: str, what: str, *content: str | bytes) -> str:
    """The keyed digest by which the ledger of a session knows a "question", or an "exact" answer."""
    return keyed_digest(derive(session_key(stores.vault, session), "digests"), what, *content)


@dataclass(frozen=True)
class Step(Generic[Drawn]):
    """One step of a session: a public question, the exact private answer to it, and what is made of that.

    question, exact  contents of which the ledger has keyed digests, under these `names`
    draw             draws from the exact answer, given the session before the step, the session's randomness, and the
                     step as it was begun
    publish          writes what was drawn for the step, with bytes that depend on it and public things alone
    number           its place, if the session's steps are numbered; else it follows those that were begun, and

    known            returns the step on record with that digest of the question, if it was begun
    rows, path       rows that it asks; path of the released file of a session's step
    unasked          writes the file that says that the session has ended without it; None if that is refused
    """

    question: str | bytes
    exact: Sequence[str | bytes]
    draw: Callable[[Session, Randomness, Batch], Drawn]
    publish: Callable[[Batch, Drawn], BatchOutcome]
    number: int | None = None
    names: tuple[str, str] = ("question", "exact")

    known: Callable[[str], Batch | None] = lambda _: None
    rows: int = 1
    path: Callable[[str, int], str] = round_path
    unasked: Callable[[Session], Ref] | None = None


@private_stage
def release(stores: Stores, session: Session, steps: Iterable[Step[Any] | Ref]) -> list[Ref]:
    """Pass the steps of a session through the door one after another, or replay them; returns the released files.

    steps   each is made when the one before is released, from which it may follow, and outside the session's lock. A
            file stands for a step that is not asked
    Raises NotVerified if the session's key is not the one it was opened with, and as `pass_step`.
    """
    check_key(stores.vault, session)
    released = list[Ref]()
    for step in steps:
        if isinstance(step, Ref):
            released.append(step)
            continue
        with open_door(stores, session):
            before = stores.ledger.session(session.id)
            question = digest_in(stores, session.id, step.names[0], step.question)
            known = step.known(question)
            if known is None and before.ended and step.unasked:  # as if it was closed meanwhile
                released.append(step.unasked(before))
                continue
            index, first = _place(stores, before, step, known)
            exact = digest_in(stores, session.id, step.names[1], *step.exact)
            batch = Batch(index=index, first=first, rows=step.rows, question_digest=question, exact_digest=exact)
            draw, publish = partial(step.draw, before), partial(step.publish, batch)
            released.append(pass_step(stores, session.id, batch, draw, publish))
    return released


def _place(stores: Stores, before: Session, step: Step[Any], known: Batch | None) -> tuple[int, int]:
    """The index and the first row of a step.

    Raises NotVerified if the next step was released already: its draws were used for another question.
    """
    if step.number is not None:
        return step.number, step.number
    if known is not None:
        return known.index, known.first
    if stores.released.find(path := step.path(before.id, before.batches)) is not None:
        raise NotVerified(
            f"{path} was released, and the ledger does not know of it: the ledger was restored from a backup; restore "
            f"the newer copy, or end the session by `concord close {before.id} --whole`"
        )
    return before.batches, before.next_row


def pass_step(
    stores: Stores,
    session: str,
    step: Batch,
    draw: Callable[[Randomness, Batch], Drawn],
    publish: Callable[[Drawn], BatchOutcome],
) -> Ref:
    """Pass one step through the open door, or replay it; returns its released file.

    draw      draws from the exact answer, by the session's randomness
    publish   writes what was drawn, with bytes that depend on it and public things alone
    Raises NotVerified if question or exact answer are not those on record, BudgetRefused if the session has ended.
    """
    begun = stores.ledger.begin_batch(session, step)
    if begun.outcome is not None:
        return replayed(stores, begun.outcome)
    outcome = publish(draw(Randomness(stores.vault, stores.ledger, session), begun))
    stores.ledger.commit_batch(session, outcome)
    return outcome.released


def replayed(stores: Stores, outcome: BatchOutcome) -> Ref:
    """The released file of a committed step. Raises NotVerified if it is not what was released."""
    stores.released.read(outcome.released)
    return outcome.released


def publish_round(
    stores: Stores, session: Session, step: Batch, content: Callable[[], Mapping[str, Any]]
) -> BatchOutcome:
    """Write the file of a round, made once by `content` and kept in the vault: floating point may differ elsewhere."""
    claim = {"session": session.id, "epsilon": session.epsilon, "delta": session.delta}
    made = stores.vault.keep(
        f"sessions/{session.id}/round-{step.index:05d}.json", lambda: canonical_json({**claim, **content()}).encode()
    )
    return step.released_as(stores.released.write(round_path(session.id, step.index), stores.vault.read(made)))


def publish_answer(stores: Stores, session: Session, name: str, result: Mapping[str, Any]) -> Ref:
    """Write the answer of a session, `result` as JSON with its guarantee, to the released file of that name."""
    claim = {"session": session.id, "epsilon": session.epsilon, "delta": session.delta}
    text = json.dumps({**claim, **result}, indent=2, sort_keys=True)
    return stores.released.write(f"{session.id}/{name}", text.encode())
