"""Known rows: the rows that a session was asked online, and the batch with the answer to each.

Rows are in a file of the vault before their batch is begun, and the file never changes: merging moves its content and
keeps its path. So each file is read once, even if another process wrote it, and a recorded batch is identified by the
digest of its rows.

Assumes      the caller holds the session's lock; rows that were added to it in files were asked in their order
Guarantees   a row that was asked is found, whichever process asked it. NotVerified is raised if a batch on record fits
             neither the rows read here nor one of those files: its rows are gone, and one of them would seem new and be
             drawn for twice
Ends         never: rows are only added
Not covered  a row of the public tables, which was asked in a batch of many: asked online, it is asked anew.
             Checked by tests/flows/test_online_known.py
"""

import hashlib
from functools import cached_property

import polars as pl

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.vault import derive, keyed_digest
from concord.artifacts.schemas import PublicBatch
from concord.artifacts.sessions import Batch
from concord.artifacts.stores import Stores
from concord.tasks.data.encode import frame_bytes, frame_of
from concord.tasks.door.asked import online_rows
from concord.tasks.door.checkpoint import (
    ONLINE,
    check_staged,
    read_checkpoint,
    session_key,
    stream,
)


class KnownRows:
    """Rows that a session was asked online, each with the batch of its answer and its place in that batch."""

    def __init__(self, stores: Stores, session: str) -> None:
        self._door, self._session, self._seen = stores, session, 0
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
        batches = self._door.ledger.batches(self._session, self._seen)
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
        return keyed_digest(self._key, "question", hashlib.sha256(rows).digest())

    @cached_property
    def _key(self) -> bytes:
        return derive(session_key(self._door.vault, self._session), "digests")

    def _read(self) -> None:
        for rows, content in online_rows(self._door.vault, self._session, known=self._files):
            self.add(rows, content)

    def _place(self, digest: str) -> None:
        for at, name in enumerate(self._unasked.pop(digest)[1]):
            self._places.setdefault(name, (digest, at))

    def _check_given(self, batches: list[Batch]) -> None:
        """Raise NotVerified unless those, which no rows asked online were read for, are the first that came in files.

        Files are asked in their order. So if some of the batches were asked online, the last of them is not the one
        that stands at its place among the files'.
        """
        vault, recipe = self._door.vault, read_checkpoint(self._door.vault, self._session, online=False)
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
