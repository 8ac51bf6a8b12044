"""Online: answer single rows of a session as they come, with its teachers kept in memory.

    rows ── known to the ledger? ── replay what was released
             └─ rows durable ── votes durable ── the door: begin ─ draw ─ labels durable ─ commit

Rows that are asked together, or that wait while others are answered, form one batch of the session's stream, with one
file of each kind, released at the door together: `run` and `extend` find it in the checkpoint, and labels, student and
certificate cover it from then on. Asking for the same row again replays its answer, which costs nothing.

Assumes      rows are public, like those of the public table
Guarantees   a row is paid for before its answer is drawn, and drawn for once, by any process and however often it is
             asked; the draw does not depend on the other rows of its batch, except for their order
Ends         with the session: new rows then raise BudgetRefused
Not covered  how long an answer takes, which depends on the teachers. Checked by tests/flows/test_online.py and
             tests/flows/test_online_together.py
"""

import hashlib
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from itertools import chain, islice
from typing import Any

import numpy as np
import polars as pl

from concord.artifacts.errors import BudgetRefused, NotVerified, WrongInput
from concord.artifacts.schemas import WORDS, Encoding, PublicBatch, Ref
from concord.artifacts.sessions import Batch, Session
from concord.artifacts.stores import Stores
from concord.tasks.asking.teachers import add_votes, ensembles, read_only, write_votes
from concord.tasks.asks.labelled import checkpoint_to_extend
from concord.tasks.asks.votes import LabelStream, VotesAsk
from concord.tasks.data.cells import cast_rows
from concord.tasks.data.encode import frame_bytes, frame_of, read_frame
from concord.tasks.data.guard import private_stage, silenced
from concord.tasks.data.matrix import encode
from concord.tasks.door.admit import on_record
from concord.tasks.door.checkpoint import (
    ONLINE,
    check_key,
    check_open,
    check_staged,
    online_path,
    online_rows,
    online_votes,
    read_checkpoint,
    recounted,
    stream,
)
from concord.tasks.door.door import digest_in, open_door, release
from concord.tasks.door.locks import RUN, alone

Row = Mapping[str, Any] | pl.DataFrame
MOST_ROWS = 4096
"""Most rows of a batch."""
NOT_ASKED = "not asked"
CELL_TYPES = (int, float, str, bool, type(None))
"""Types of values with which rows can be cast together."""
RowAnswer = str | None | BudgetRefused
"""A label; None if the row is refused; BudgetRefused if the session has ended."""


class Waiting:
    """Rows that a thread asks for, and a future of their answers."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self.rows, self.answers = rows, Future[list[RowAnswer]]()


class Online:
    """One open session that answers rows. Threads may share it: rows that arrive during an answer form one batch.

    Raises WrongInput if there is no session of that name or it has no teachers; NotVerified if its files in the vault
    are missing or changed, BudgetRefused if they are gone for good.
    """

    def __init__(self, stores: Stores, session: str) -> None:
        self.stores, self.id = stores, session
        self._recipe = checkpoint_to_extend(stores.vault, self.state, online=False)
        if not self._recipe.teachers:
            raise WrongInput(f"session {session} has no teachers to ask: its student answers any row")
        order = stores.ledger.domain_of(self.state).filter.order
        ask = VotesAsk.of(self._recipe.plan, self._recipe.public, order, stores.vault, self.state)
        ask = on_record(stores, self.state, ask)
        self._ensembles = list(ensembles(self._recipe.teachers, stores.vault))
        self._waiting, self._turn = deque[Waiting](), threading.Lock()
        self._known = KnownRows(stores, session)
        self._labels = LabelStream(stores, session, ask)

    @property
    def state(self) -> Session:
        """The session as the ledger has it now: rows asked, answered and refused so far, and whether it is open."""
        return self.stores.ledger.session(self.id)

    def answer(self, row: Row) -> str | None:
        """The released label of a public row; None if it is refused.

        row   raw values by column, or a table of one row; columns that are not features are ignored
        Raises WrongInput if the row does not fit, BudgetRefused if it is new and the session has ended.
        """
        if isinstance(row, pl.DataFrame) and row.height != 1:
            raise WrongInput(f"one row is answered at a time, got {row.height}")
        return self.answers(row if isinstance(row, pl.DataFrame) else [row])[0]

    def answers(self, rows: pl.DataFrame | Iterable[Mapping[str, Any]]) -> list[str | None]:
        """The released labels of public rows, asked together: as `answer` for each, in far less time.

        Raises WrongInput if a row does not fit, and then none is asked; BudgetRefused if the session ended before all
        were asked: earlier ones are replayed if they are asked again.
        """
        fitting = as_staged(rows, self._recipe.encoding)
        mine = [Waiting(part) for part in fitting.iter_slices(MOST_ROWS)]
        self._waiting.extend(mine)
        with self._turn:
            while not all(waiting.answers.done() for waiting in mine):
                self._answer_next()
        answers = [answer for waiting in mine for answer in waiting.answers.result()]
        for answer in answers:
            if isinstance(answer, BudgetRefused):
                raise answer
        return [answer for answer in answers if not isinstance(answer, BudgetRefused)]

    def _answer_next(self) -> None:
        """Answer waiting rows as one batch."""
        these = [self._waiting.popleft()]
        while self._waiting and sum(waiting.rows.height for waiting in these) < MOST_ROWS:
            these.append(self._waiting.popleft())
        try:
            answers = iter(self._answer(pl.concat([waiting.rows for waiting in these])))
        except BaseException as failed:
            for waiting in these:
                waiting.answers.set_exception(failed)
            if isinstance(failed, Exception):
                return  # the waiting threads get the error
            raise
        for waiting in these:
            waiting.answers.set_result(list(islice(answers, waiting.rows.height)))

    @private_stage
    def _answer(self, rows: pl.DataFrame) -> list[RowAnswer]:
        with alone(self.stores.vault, self.id, RUN):
            self._finish()
            self._known.update()
            new = self._new(rows)
            refused = self._ask(new, self.state) if new.height else None
            return self._released(self._known.places(rows), refused)

    def _new(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The rows that are still new once stored files with some of them, which were never begun, have been asked."""
        new = self._known.new(rows)
        while new.height and not self.state.ended and (left := self._known.left(new)):
            self._release(left, self.state)
            self._known.update()
            new = self._known.new(new)
        return new

    def _released(self, places: list[tuple[Batch, int] | None], refused: BudgetRefused | None) -> list[RowAnswer]:
        """The answer at each of these places; BudgetRefused for rows that are new or were not asked."""
        ended = refused or BudgetRefused(f"session {self.id} has ended: it asks no further rows")
        answers: dict[int, list[RowAnswer]] = {}
        for batch in {batch.index: batch for batch, _ in filter(None, places)}.values():
            released = [self.stores.released.labels([batch.outcome.released])] if batch.outcome else []
            words = [row for table in released for row in table.select(["label", "outcome"]).to_pylist()]
            answers[batch.index] = [ended if row["outcome"] == NOT_ASKED else row["label"] for row in words]
        return [
            answers[place[0].index][place[1]] if place and place[0].outcome is not None else ended for place in places
        ]

    def _ask(self, rows: pl.DataFrame, state: Session) -> BudgetRefused | None:
        """Ask new rows: they are stored before their answers are drawn. Returns the error if the session has ended."""
        try:
            check_open(state)
        except BudgetRefused as ended:
            return ended
        content = frame_bytes(rows)
        path = online_path(self.id, state.batches, self.stores.vault.digest("online", content), rows.height)
        with self.stores.vault.create(path) as sink:
            sink.write(content)
        batch = PublicBatch(ref=sink.ref, first=0, rows=rows.height)
        self._known.add(batch, content)
        self._release(batch, state)
        self._known.update()
        return None

    def _finish(self) -> None:
        """Release a batch that was begun by a process that is gone; the caller holds the session's lock.

        Raises NotVerified if that batch was not asked online, or if the session's key is not its own.
        """
        state = self.state
        check_key(self.stores.vault, state)
        if state.status != "open" or state.pending is None:
            return
        mostly = online_rows(self.stores.vault, self.id, state.pending.index)
        for rows, content in chain(mostly, online_rows(self.stores.vault, self.id)):
            if self._known.digest(content) == state.pending.question_digest:
                self._release(rows, state)
                return
        raise NotVerified(f"session {self.id} has rows begun and not released: `concord run PLAN` finishes them")

    def _release(self, rows: PublicBatch, state: Session) -> None:
        """Release answers to rows at the door."""
        vault = self.stores.vault
        path = online_votes(vault, self._recipe.teachers, rows)
        with recounted():
            votes = vault.find(path)
        votes = votes or self._polled(rows, path)
        with open_door(self.stores, state):
            self._labels.catch_up()  # others may have asked as well
        release(self.stores, state, [self._labels.step(rows, lambda _: votes)])

    def _polled(self, rows: PublicBatch, path: str) -> Ref:
        encoding = self._recipe.encoding
        counts = np.zeros((rows.rows, len(encoding.classes)), dtype=np.uint32)
        with silenced():
            X = read_only(encode(read_frame(rows.ref, self.stores.vault), encoding))
            for ensemble in self._ensembles:
                add_votes(counts, ensemble, X)
        return write_votes(counts, self.stores.vault, path)


class KnownRows:
    """Rows that a session was asked online, each with the batch of its answer and its place in that batch.

    A file of rows never changes: merging moves its content and keeps its path. So each is read once, even if another
    process wrote it, and a recorded batch is identified by the digest of its rows.

    Assumes      the caller holds the session's lock; rows that were added to it in files were asked in their order
    Guarantees   a row that was asked is found, whichever process asked it. NotVerified is raised if a batch on record
                 fits neither the rows read here nor one of those files: its rows are gone, and one of them would seem
                 new and be drawn for twice
    Ends         never: rows are only added
    Not covered  a row of the public tables, which was asked in a batch of many: asked online, it is asked anew.
                 Checked by tests/flows/test_online_known.py
    """

    def __init__(self, stores: Stores, session: str) -> None:
        self._stores, self._session, self._seen = stores, session, 0
        self._batches, self._places = dict[str, Batch](), dict[bytes, tuple[str, int]]()
        self._files = dict[str, str]()  # those that were read, and the digest of each
        self._unasked = dict[str, tuple[PublicBatch, list[bytes]]]()  # rows that were read and are of no batch yet
        self._elsewhere = dict[str, Batch]()  # batches of rows that came in files, in their order

    def add(self, rows: PublicBatch, content: bytes) -> None:
        """Take in a file of rows that are in the vault, to be a batch on record."""
        digest = self.digest(content)
        self._files[rows.ref.path] = rows.ref.digest
        self._unasked[digest] = rows, _names(frame_of(content))
        self._elsewhere.pop(digest, None)  # the same rows came in a file
        if digest in self._batches:
            self._place(digest)

    def update(self) -> None:
        """Add batches begun since, by any process. Raises NotVerified if their rows are gone."""
        batches = self._stores.ledger.batches(self._session, self._seen)
        new = {batch.question_digest: batch for batch in batches if batch.question_digest not in self._batches}
        if not new.keys() <= self._unasked.keys():
            self._read()
        elsewhere = {digest: batch for digest, batch in new.items() if digest not in self._unasked}
        if elsewhere:
            self._check_given([*self._elsewhere.values(), *elsewhere.values()])
        self._elsewhere |= elsewhere
        self._batches |= {batch.question_digest: batch for batch in batches}
        self._seen += sum(batch.outcome is not None for batch in batches)  # one that is pending is the last
        for digest in new:  # in their order: of a row that is in two batches, the first answer stays
            if digest not in elsewhere:
                self._place(digest)

    def left(self, rows: pl.DataFrame) -> PublicBatch | None:
        """A file that holds some of these new rows and was never begun: the process that wrote it is gone.

        `run` asks for all of it, so its rows must not be put to the session in another batch as well.
        """
        self._read()
        asked = {*_names(rows)}
        return next((file for file, names in self._unasked.values() if not asked.isdisjoint(names)), None)

    def places(self, rows: pl.DataFrame) -> list[tuple[Batch, int] | None]:
        """The batch and the place in it of the answer to each row; None for a new row."""
        found = [self._places.get(name) for name in _names(rows)]
        if any(batch.rows == 1 for batch in self._elsewhere.values()):
            for at in [at for at, place in enumerate(found) if place is None]:
                digest = self.digest(frame_bytes(rows[at]))
                found[at] = (digest, 0) if digest in self._elsewhere else None
        return [None if place is None else (self._batches[place[0]], place[1]) for place in found]

    def new(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The new rows, each once."""
        pairs = enumerate(zip(_names(rows), self.places(rows), strict=True))
        firsts = {name: at for at, (name, place) in reversed(list(pairs)) if place is None}
        return rows[sorted(firsts.values())]

    def digest(self, rows: bytes) -> str:
        """The digest by which the door knows a batch."""
        return digest_in(self._stores, self._session, "question", hashlib.sha256(rows).digest())

    def _read(self) -> None:
        for rows, content in online_rows(self._stores.vault, self._session, known=self._files):
            self.add(rows, content)

    def _place(self, digest: str) -> None:
        for at, name in enumerate(self._unasked.pop(digest)[1]):
            self._places.setdefault(name, (digest, at))

    def _check_given(self, batches: list[Batch]) -> None:
        """Raise NotVerified unless those, which no rows asked online were read for, are the first that came in files.

        Files are asked in their order. So if some of the batches were asked online, the last of them is not the one
        that stands at its place among the files'.
        """
        vault, recipe = self._stores.vault, read_checkpoint(self._stores.vault, self._session, online=False)
        given = [source for source in recipe.sources if source.path != ONLINE] if recipe else []
        met = set(self._files.values())
        files = [batch for batch in stream(given) if batch.ref.digest not in met][: len(batches)]
        if len(files) == len(batches):
            if not vault.has(files[-1].ref):
                check_staged(vault, self._session, given)
            if self.digest(vault.read(files[-1].ref)) == batches[-1].question_digest:
                return
        raise NotVerified(
            f"rows that session {self._session} was asked are not in {vault.root}/sessions/{self._session}/online any "
            "more, and one of them could be answered twice: restore a copy of that folder, or end the session by "
            f"`concord close {self._session}`"
        )


def _names(rows: pl.DataFrame) -> list[bytes]:
    """Each row by its cells alone, which are numbers, words and truth values: the same for the same cells."""
    return [hashlib.blake2b(repr(row).encode(), digest_size=16).digest() for row in rows.iter_rows()]


def as_staged(rows: pl.DataFrame | Iterable[Mapping[str, Any]], encoding: Encoding) -> pl.DataFrame:
    """Rows as they are staged, cast to the encoding's types. Raises WrongInput if a feature is missing or does not fit.

    Mappings are cast only together with those of the same types, so that a row's result depends on that row alone.
    """
    if isinstance(rows, pl.DataFrame):
        return _fitting(rows, encoding)
    given, alike = list(rows), dict[Any, list[int]]()
    for at, row in enumerate(given):
        kinds = tuple((name, type(value)) for name, value in row.items())
        alike.setdefault(kinds if all(kind in CELL_TYPES for _, kind in kinds) else at, []).append(at)
    frames = [_fitting(_table([given[at] for at in places]), encoding) for places in alike.values()]
    if not frames:
        return cast_rows(pl.DataFrame(schema=dict.fromkeys(encoding.features, pl.Null)), encoding)
    return pl.concat(frames)[np.argsort(np.concatenate(list(alike.values())))]


def _fitting(raw: pl.DataFrame, encoding: Encoding) -> pl.DataFrame:
    absent = [name for name in encoding.features if name not in raw.columns]
    if absent:
        raise WrongInput(f"the row must hold the column {absent[0]!r}, as the public table does")
    cast = cast_rows(raw.select(encoding.features), encoding)
    for column in encoding.columns:
        if column.kind in ("null", *WORDS) or cast[column.name].null_count() == 0:
            continue  # a word the public table does not hold counts as missing
        given = raw[column.name].fill_nan(None) if raw[column.name].dtype.is_float() else raw[column.name]
        misfits = given.filter(given.is_not_null() & cast[column.name].is_null())
        if len(misfits):
            raise WrongInput(f"the row must hold column {column.name!r} as {column.kind}, got {misfits[0]!r}")
    return cast


def _table(rows: list[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows whose values are of the same types, column by column."""
    try:
        return pl.DataFrame({name: pl.Series([row[name] for row in rows]) for name in rows[0]})
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        raise WrongInput("the row must hold plain values: numbers, text, dates, truth values, lists or None") from None
