"""The door: everything before it is private, everything after it is published. It knows no kind of release.

    for each step:  ledger.begin ─ draw ─ ledger.draw ─ published file durable ─ ledger.commit

A step is a public question of a session, and a handle of the exact private answer to it: votes on a batch, sums of a
round, counts. The mechanism on record draws. A step holds values alone: what is published is made by a function of a
module's top level, which gets what was drawn and public things. Each ask in tasks.asks makes its own steps; `release`
is the one loop over them. One that was committed is replayed from its released file. One that was only begun is drawn
for again with the same randomness: keyed draws follow from the session key and the row's index; noise is in the vault,
and on record by a keyed digest, before anyone sees what is made of it.

Assumes      the ledger's record of the session is complete; the session's reservation was admitted
Guarantees   a step is drawn for once, however often this runs, and only after it was paid for; so it is if an older
             copy of the vault is put back, or a second one is in use. A question or an exact answer other than those
             on record stop it
Ends         with the session
Not covered  a ledger restored from an older copy. Checked by tests/promises/test_door.py,
             tests/promises/test_drawn_once.py and tests/promises/test_crash.py, over every kind of release
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from pathlib import PurePath
from typing import Any

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.vault import derive, keyed_digest
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Batch, BatchOutcome, Session
from concord.artifacts.stores import Stores
from concord.tasks.door.exact import NOTHING_DRAWN, Exact, OpenedNumbers, opened
from concord.tasks.door.locks import alone
from concord.tasks.door.randomness import Randomness, check_key, session_key
from concord.tasks.mechanisms.catalogue import recorded
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.units.guard import private_stage


@dataclass(frozen=True)
class Drawn:
    """What a publication is made of: the session before the step, the step as it was begun, and what was drawn; and
    `about`, the public things that the step came with. Of a step that is not asked, nothing is drawn."""

    session: Session
    batch: Batch
    arrays: Sequence[Ints]
    about: Any

    @property
    def claim(self) -> dict[str, Any]:
        """The session and its guarantee, as published files state them."""
        return {"session": self.session.id, "epsilon": self.session.epsilon, "delta": self.session.delta}


@dataclass(frozen=True)
class Step:
    """One step of a session: a public question, the exact private answer to it, and what is made of that.

    question   text or bytes of which the ledger has a keyed digest
    exact      a handle of the answer; None if nothing was counted, because the step is on record or the session ended
    publish    a function of a module's top level: the bytes of the released file
    about      the public things that `publish` needs

    draw, path     name of what is drawn, and path of the file below the session's folder, both by the step's index
    rows           rows that it asks
    number         its place, if the session's steps are numbered; else it is the one on record with its question, or
                   follows those that were begun
    may_be_unasked whether a file says so if the session has ended without it; else it is refused
    once           whether the file is made once and kept in the vault, since floating point may differ elsewhere
    """

    question: str | bytes
    exact: Exact | None
    publish: Callable[[Drawn], bytes]
    about: Any

    draw: str
    path: str
    rows: int = 1
    number: int | None = None
    may_be_unasked: bool = False
    once: bool = False

    def file(self, session: str, index: int) -> str:
        """The path of the released file."""
        return f"{session}/{self.path.format(index)}"

    @property
    def asked(self) -> Any:
        """The question: JSON of numbered steps, else as it is."""
        return json.loads(self.question) if self.number is not None else self.question


@contextmanager
def open_door(stores: Stores, session: Session) -> Iterator[None]:
    """Hold the door's lock. Raises NotVerified if the session's key is not the one it was opened with."""
    with alone(stores.vault, session.id):
        check_key(stores.vault, session)
        yield


def digest_in(stores: Stores, session: str, what: str, *content: str | bytes) -> str:
    """The keyed digest by which the ledger of a session knows a "question", or an "exact" answer."""
    return keyed_digest(derive(session_key(stores.vault, session), "digests"), what, *content)


def batch_of(stores: Stores, session: str, question: str | bytes) -> Batch | None:
    """The batch of a question in its session; None if it is not begun."""
    digest = digest_in(stores, session, "question", question)
    return next((batch for batch in stores.ledger.batches(session) if batch.question_digest == digest), None)


@private_stage
def release(stores: Stores, session: Session, steps: Iterable[Step]) -> list[Ref]:
    """Pass the steps of a session through the door one after another, or replay them; returns the released files.

    steps   each is made when the one before is released, from which it may follow, and outside the session's lock
    Raises NotVerified if the session's key is not the one it was opened with, and as `pass_step`.
    """
    check_key(stores.vault, session)
    released, unasked = list[Ref](), list[int]()
    for step in steps:
        with open_door(stores, session):
            before = stores.ledger.session(session.id)
            on_record = None if step.number is not None else batch_of(stores, session.id, step.question)
            if on_record is not None and on_record.outcome is None and before.status != "open" and step.may_be_unasked:
                on_record = None
            if on_record is None and before.ended and step.may_be_unasked:  # as if it was closed meanwhile
                index, first = before.batches + len(unasked), before.next_row + sum(unasked)
                batch = Batch(index=index, first=first, rows=step.rows, question_digest="", exact_digest="")
                released.append(_write(stores, step, Drawn(before, batch, (), step.about)))
                unasked.append(step.rows)
            elif step.exact is None and on_record is not None and on_record.outcome is not None:
                released.append(replayed(stores, on_record.outcome))
            else:
                batch, numbers = _opened(stores, before, step, on_record)
                released.append(pass_step(stores, before, step, batch, numbers))
    return released


def _opened(stores: Stores, before: Session, step: Step, on_record: Batch | None) -> tuple[Batch, OpenedNumbers]:
    """The batch of a step and its exact numbers, once they agree with its question and the record. Raises NotVerified
    if they do not."""
    if step.exact is None:
        raise NotVerified(f"session {before.id} has a step without exact numbers: {NOTHING_DRAWN}")
    index, first = _place(stores, before, step, on_record)
    question = digest_in(stores, before.id, "question", step.question)
    drawn_for = [digest_in(stores, before.id, "exact", record) for record in step.exact.earlier]
    earlier = stores.ledger.batches(before.id)[: len(drawn_for)]
    if [batch.exact_digest for batch in earlier] != drawn_for:
        raise NotVerified(f"the periods of session {before.id} are not those that its releases were drawn for")
    if any(batch.question_digest != question for batch in earlier):
        raise NotVerified(f"the questions of a season stay those of its first release: {NOTHING_DRAWN}")
    numbers = opened(step.exact, stores.vault)
    seasons = takewhile(lambda other: other.id != before.id, stores.ledger.sessions(before.domain))
    periods = sum(season.batches for season in seasons if before.stream and season.stream == before.stream)
    mechanism: Any = recorded(before.mechanism)
    numbers.check_made(mechanism, before, stores.ledger.domain_of(before).unit, periods)
    exact = digest_in(stores, before.id, "exact", *numbers.content)
    batch = Batch(index=index, first=first, rows=step.rows, question_digest=question, exact_digest=exact)
    numbers.check(mechanism, step.asked, before, batch)
    return batch, numbers


def _place(stores: Stores, before: Session, step: Step, on_record: Batch | None) -> tuple[int, int]:
    """The index and the first row of a step.

    Raises NotVerified if the next step was released already: its draws were used for another question.
    """
    if step.number is not None:
        return step.number, step.number
    if on_record is not None:
        return on_record.index, on_record.first
    if stores.released.find(path := step.file(before.id, before.batches)) is not None:
        raise NotVerified(
            f"{path} was released, and the ledger does not know of it: the ledger was restored from a backup; restore "
            f"the newer copy, or end the session by `concord close {before.id} --whole`"
        )
    return before.batches, before.next_row


def pass_step(stores: Stores, before: Session, step: Step, batch: Batch, numbers: OpenedNumbers) -> Ref:
    """Pass one step through the open door, or replay it; returns its released file.

    Raises NotVerified if question or exact answer are not those on record, BudgetRefused if the session has ended.
    """
    batch_begun = stores.ledger.begin_batch(before.id, batch)
    if batch_begun.outcome is not None:
        return replayed(stores, batch_begun.outcome)
    source = Randomness(stores.vault, stores.ledger, before.id)
    mechanism: Any = recorded(before.mechanism)
    draw = partial(numbers.draw, mechanism, source, before, batch_begun)
    keyed = numbers.keyed and mechanism.keyed  # such draws are the same at every call
    arrays = draw() if keyed else source.kept(step.draw.format(batch_begun.index), draw)
    released = _write(stores, step, Drawn(before, batch_begun, arrays, step.about))
    stores.ledger.commit_batch(before.id, numbers.outcome(batch_begun, released, arrays))
    return released


def _write(stores: Stores, step: Step, drawn: Drawn) -> Ref:
    """Write the released file of a step: with bytes that depend on what was drawn and on public things alone."""
    path = step.file(drawn.session.id, drawn.batch.index)
    if not step.once:
        return stores.released.write(path, step.publish(drawn))
    vault, once = stores.vault, f"sessions/{drawn.session.id}/{PurePath(path).name}"
    return stores.released.write(path, vault.read(vault.kept(once) or vault.keep(once, step.publish(drawn))))


def replayed(stores: Stores, outcome: BatchOutcome) -> Ref:
    """The released file of a committed step. Raises NotVerified if it is not what was released."""
    stores.released.read(outcome.released)
    return outcome.released


def publish_json(drawn: Drawn) -> bytes:
    """What `about.result` makes of the drawn arrays as JSON, with the guarantee."""
    return json.dumps({**drawn.claim, **drawn.about.result(drawn)}, indent=2, sort_keys=True).encode()
