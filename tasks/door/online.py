"""Online: a session answers one row at a time, with its teachers kept in memory.

    row ── known to the ledger? ── replay what was released
            └─ row durable ── votes durable ── the door: begin ─ draw ─ label durable ─ commit

A row answered so is a batch of one in the session's stream: `run` and `extend` find it in the recipe, and labels,
student and certificate cover it from then on. Asking for the same row again replays its answer, which costs nothing.

Assumes      rows are public, like those of the public table
Guarantees   a row is paid for before it is drawn, and drawn for once, whoever asks and however often
Ends         with the session: a row that is new then is refused with BudgetRefused
Not covered  how long an answer takes, which depends on the teachers. Checked by tests/flows/test_online.py
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl

from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.home.vault import derive, keyed_digest
from concord.artifacts.schemas import WORDS, Encoding, Ref
from concord.artifacts.sessions import BatchOutcome, Session
from concord.tasks.asking.teachers import add_votes, ensembles, read_only, write_votes
from concord.tasks.data.cells import cast_rows
from concord.tasks.data.encode import PublicBatch, encode, frame_bytes, read_frame
from concord.tasks.data.guard import private_stage, silenced
from concord.tasks.door.admit import as_opened, calibrated, check_going_on
from concord.tasks.door.checkpoint import (
    check_open,
    checkpoint_to_extend,
    online_path,
    online_rows,
    online_votes,
    session_key,
)
from concord.tasks.door.release import RUN, Stores, alone, release

Row = Mapping[str, Any] | pl.DataFrame


class Online:
    """One open session, for questions of one row.

    Raises WrongInput if there is none of that name or nobody votes in it; NotVerified if what it needs is not in
    the vault as it was, BudgetRefused if that is gone for good.
    """

    def __init__(self, door: Stores, session: str) -> None:
        self.door, self.id = door, session
        self._recipe = checkpoint_to_extend(door.vault, self.state)
        if not self._recipe.teachers:
            raise WrongInput(f"session {session} has no teachers to ask: its student answers any row")
        own, order = self._recipe.sources[0].batches, door.ledger.domain_of(self.state).filter.order
        plan = as_opened(self._recipe.plan, self.state)
        self._mechanism = calibrated(plan, self._recipe.encoding, own, order, door.vault)
        check_going_on(door.vault, self.state, self._mechanism)
        self._ensembles = list(ensembles(self._recipe.teachers, door.vault))

    @property
    def state(self) -> Session:
        """The session as the ledger has it now: rows asked, answered and refused so far, and whether it is open."""
        return self.door.ledger.session(self.id)

    def answer(self, row: Row) -> str | None:
        """The released label of a public row; None if it is refused.

        row   raw values by column, or a table of one row; columns that are no features are passed over
        Raises WrongInput if the row does not fit, BudgetRefused if it is new and the session has ended.
        """
        released = self._answer(frame_bytes(one_row(row, self._recipe.encoding)))
        label: str | None = self.door.released.labels([released])["label"][0].as_py()
        return label

    @private_stage
    def _answer(self, row: bytes) -> Ref:
        with alone(self.door.vault, self.id, RUN):
            self._finish()
            known = self._outcome(row)
            return self._ask(row) if known is None else known.released

    def _finish(self) -> None:
        """Release what was begun by a process that is gone. Raises NotVerified if that was no row asked online."""
        state = self.state
        if state.status != "open" or state.pending is None:
            return
        for row in online_rows(self.door.vault, self.id, state.pending.index):
            if self._digest(self.door.vault.read(row.ref)) == state.pending.rows_digest:
                self._release(row)
                return
        raise NotVerified(f"session {self.id} has rows begun and not released: `concord run PLAN` finishes them")

    def _outcome(self, row: bytes) -> BatchOutcome | None:
        digest = self._digest(row)
        known = (batch for batch in self.door.ledger.batches(self.id) if batch.rows_digest == digest)
        return next((batch.outcome for batch in known), None)

    def _digest(self, row: bytes) -> str:
        """The digest by which the door knows a batch."""
        key = derive(session_key(self.door.vault, self.id), "digests")
        return keyed_digest(key, "rows", hashlib.sha256(row).digest())

    def _ask(self, row: bytes) -> Ref:
        """Put a new row to the session: it is in the recipe when it is drawn for, whatever happens then."""
        state = self.state
        check_open(state)
        path = online_path(self.id, state.batches, self.door.vault.digest("online", row))
        with self.door.vault.create(path) as sink:
            sink.write(row)
        return self._release(PublicBatch(ref=sink.ref, first=0, rows=1))

    def _release(self, row: PublicBatch) -> Ref:
        vault, plan = self.door.vault, self._recipe.plan
        path = online_votes(vault, self._recipe.teachers, row)
        votes = vault.find(path) or self._polled(row, path)
        (released,) = release(self.door, self.state, self._mechanism, plan.data.classes, [row], lambda _: votes)
        return released

    def _polled(self, row: PublicBatch, path: str) -> Ref:
        encoding = self._recipe.encoding
        counts = np.zeros((1, len(encoding.classes)), dtype=np.uint32)
        with silenced():
            X = read_only(encode(read_frame(row.ref, self.door.vault), encoding))
            for ensemble in self._ensembles:
                add_votes(counts, ensemble, X)
        return write_votes(counts, self.door.vault, path)


def one_row(row: Row, encoding: Encoding) -> pl.DataFrame:
    """A row as it is staged, cast to the encoding's types. Raises WrongInput if a feature is missing or misfits."""
    frame = row if isinstance(row, pl.DataFrame) else _table(row)
    if frame.height != 1:
        raise WrongInput(f"one row is answered at a time, got {frame.height}")
    absent = [name for name in encoding.features if name not in frame.columns]
    if absent:
        raise WrongInput(f"the row must hold the column {absent[0]!r}, as the public table does")
    raw = frame.select(encoding.features)
    cast = cast_rows(raw, encoding)
    for column in encoding.columns:
        if column.kind in ("null", *WORDS) or cast[column.name].null_count() == 0:
            continue  # a word the public table does not hold counts as missing
        given = raw[column.name].fill_nan(None) if raw[column.name].dtype.is_float() else raw[column.name]
        if given.null_count() == 0:
            raise WrongInput(f"the row must hold column {column.name!r} as {column.kind}, got {given[0]!r}")
    return cast


def _table(row: Mapping[str, Any]) -> pl.DataFrame:
    try:
        return pl.DataFrame({name: pl.Series([value]) for name, value in row.items()})
    except (TypeError, ValueError, pl.exceptions.PolarsError):
        raise WrongInput("the row must hold plain values: numbers, text, dates, truth values, lists or None") from None
