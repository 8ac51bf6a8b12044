"""The witness: a file outside the home that records how far the ledger came, and what was charged by then.

A sighting is one line, added after the ledger's commit and before anything is drawn on it. A ledger that ends before
the last entry its witness saw, or holds another entry there, was restored from a backup:

    no sighting yet               go on; after the first sighting the ledger records that it is witnessed
    all entries seen are there    go on
    the witness is gone           stop; `restore` records that, and goes on with a new witness or without one
    an entry seen is not there    stop; `restore` charges what was seen, and what was spent here besides

Either way `restore` ends every open session at its whole charge: an older copy might draw on it again.

Assumes      the file is kept where no copy of the home is put back over it, and is not edited
Guarantees   before a draw, the entries it rests on and the charges of their domains are in the file, synced. One
             process writes at a time, and an unfinished line of a killed process is ignored. A ledger whose record says
             that it is witnessed is written only if it holds every entry that its witness saw
Not covered  a witness put back together with the home, and what was spent after that copy; a new witness in place of a
             lost one, which every certificate says from then on. Checked by tests/artifacts/ledger/test_witness.py
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from concord.artifacts.errors import EnvironmentFailed, NotVerified, WrongInput
from concord.artifacts.home.atomic import sync_folder, take_lock
from concord.artifacts.ledger.database import LedgerRows
from concord.artifacts.ledger.events import DomainBalance, Entry, Restoration, Watch, shortfall
from concord.artifacts.ledger.state import LedgerState
from concord.artifacts.settings import WITNESS, Settings

TAIL_BYTES = 1 << 12


class Sighting(BaseModel):
    """One line of the witness: the digests of the ledger's entries since the last sighting, up to entry `seq`.

    standings   every domain and its charge
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    seq: int
    heads: tuple[str, ...] = Field(min_length=1)
    standings: tuple[DomainBalance, ...]

    @property
    def head(self) -> str:
        """The digest of entry `seq`."""
        return self.heads[-1]


class Witness:
    """The witness at one path. Its file is made at the first sighting, readable by its owner alone (0600)."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def of(cls, home: Path) -> Self | None:
        """The witness CONCORD_WITNESS names, if it names one. Raises WrongInput if it lies in the home folder."""
        named = Settings.now().witness
        if named is None:
            return None
        path = named.absolute()
        if path.resolve().is_relative_to(home.resolve()):
            raise WrongInput(f"{WITNESS} must name a file outside the home folder {home}, got {path}")
        return cls(path)

    def last(self) -> Sighting | None:
        """The last sighting, if there was one. Raises NotVerified if the file is not a witness."""
        with self._in_one_sentence("read"):
            if not self.path.exists():
                return None
            with self.path.open("rb") as file:
                return self._read(_last_line(file)[1])

    def heads(self) -> list[str]:
        """The digest of every entry as it was last seen, from the first. Raises as `last` does."""
        with self._in_one_sentence("read"):
            lines = self.path.read_bytes().split(b"\n")[:-1] if self.path.exists() else []
        heads: list[str] = []
        for sighting in filter(None, (self._read(line) for line in lines)):
            heads[sighting.seq - len(sighting.heads) :] = sighting.heads  # a restored ledger counts on from earlier
        return heads

    def see(self, since: Callable[[Sighting | None], Sighting | None]) -> None:
        """Write the next sighting, computed by `since` from the last; None writes nothing."""
        flags = os.O_CREAT | os.O_RDWR
        with self._in_one_sentence("written"), os.fdopen(os.open(self.path, flags, 0o600), "r+b") as file:
            take_lock(file.fileno())
            if not os.fstat(file.fileno()).st_size:
                sync_folder(self.path.parent)
            end, line = _last_line(file)
            seen = since(self._read(line))
            if seen is None:
                return
            file.truncate(end)
            file.seek(end)
            file.write(seen.model_dump_json().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _read(self, line: bytes) -> Sighting | None:
        try:
            return Sighting.model_validate_json(line) if line else None
        except ValidationError:
            raise NotVerified(f"the witness {self.path} holds a line that is no sighting of a ledger") from None

    @contextmanager
    def _in_one_sentence(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as failed:
            raise EnvironmentFailed(f"the witness {self.path} cannot be {what}: {failed.strerror}") from None


def _last_line(file: BinaryIO) -> tuple[int, bytes]:
    """The end of the last whole line, in bytes from the start, and its text; (0, b"") if there is none."""
    size, length = file.seek(0, os.SEEK_END), TAIL_BYTES
    while True:
        start = max(0, size - length)
        file.seek(start)
        tail = file.read(size - start)
        end = tail.rfind(b"\n")
        begin = tail.rfind(b"\n", 0, max(0, end)) + 1
        if end < 0 and start == 0:
            return 0, b""
        if end >= 0 and (begin > 0 or start == 0):
            return start + end + 1, tail[begin:end]
        length *= 2


class Watching:
    """A ledger's witness, if it has one, and the checks of one against the other."""

    def __init__(self, witness: Witness | None) -> None:
        self.witness = witness

    def last(self) -> Sighting | None:
        """The last sighting, if there was one."""
        return None if self.witness is None else self.witness.last()

    def check(self, seen: Sighting | None, state: LedgerState, rows: LedgerRows) -> None:
        """Raise NotVerified if the ledger lacks what was `seen` before it was read, or its witness is gone."""
        if seen is None and state.witnessed:
            seen = self.last()  # the record of a witness follows its first sighting
            if seen is None:
                lost, how = "CONCORD_WITNESS names none", "without one"
                if self.witness is not None:
                    lost, how = f"{self.witness.path} has seen nothing", "with a new one there"
                raise NotVerified(
                    f"the ledger says that a witness sees it, and {lost}: restore it, or name its place; if it is "
                    f"lost, `concord restore --reason WHY` goes on {how}, ending every open session at its whole charge"
                )
        if seen is not None and not _stands(seen, state, rows):
            raise NotVerified(
                f"the ledger has {state.length} entries and its witness saw entry {seen.seq}, which is not among "
                "them: the ledger was restored from a backup, or the witness belongs to another ledger; `concord "
                "restore` goes on from it, and charges what may have been spent since"
            )

    def show(self, state: LedgerState, rows: LedgerRows) -> None:
        """Show the witness the entries it has not seen yet."""

        def since(last: Sighting | None) -> Sighting | None:
            known = 0 if last is None else last.seq if last.head not in state.restored else self._met(rows)
            heads = rows.digests(known + 1, state.length)
            return Sighting(seq=state.length, heads=heads, standings=state.standings()) if heads else None

        if self.witness is not None:
            self.witness.see(since)

    def restore(self, state: LedgerState, rows: LedgerRows, reason: str) -> list[Entry]:
        """The entries with which the ledger can go on. Raises WrongInput if it needs none; NotVerified if what was
        spent cannot be known.
        """
        seen = self.last()
        if seen is None:
            if not state.witnessed:
                raise WrongInput("nothing is to be restored: CONCORD_WITNESS must name the witness that saw the ledger")
            if self.witness is not None:
                self.witness.see(lambda _: None)  # fails before anything is charged if it cannot be written
            return [Entry(domain="", event=Watch(witnessed=self.witness is not None, reason=reason))]
        if _stands(seen, state, rows):
            raise WrongInput("nothing is to be restored: the ledger holds all that its witness saw")
        met, then = self._met(rows), LedgerState()
        if state.length and not met:
            raise NotVerified(
                "the witness saw another ledger, none of whose entries is in this one: CONCORD_WITNESS must name the "
                "witness of this ledger"
            )
        for record in rows.since(1)[:met]:  # as far as ledger and witness agree
            then.read(record)
        _check_adds_up(state, then, seen.standings)
        standings = []
        for standing in seen.standings:
            name = standing.domain.name
            charge = standing.charge + shortfall(state.lost(name), then.lost(name))
            new = (session.charge for session in state.sessions_of(name) if session.id not in then.sessions)
            standings.append(replace(standing, charge=sum(new, charge)))
        return [Entry(domain="", event=Restoration(witnessed=seen.head, standings=tuple(standings), reason=reason))]

    def _met(self, rows: LedgerRows) -> int:
        """The number of the last entry on which ledger and witness agree; 0 if there is none."""
        seen = [] if self.witness is None else self.witness.heads()
        alike = zip(seen, rows.digests(1, len(seen)), strict=False)
        return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], alike))


def _stands(seen: Sighting, state: LedgerState, rows: LedgerRows) -> bool:
    """Whether the ledger holds the entry seen, or has recorded a restoration that replaces it."""
    return seen.head in state.restored or rows.digests(seen.seq, seen.seq) == (seen.head,)


def _check_adds_up(state: LedgerState, then: LedgerState, standings: tuple[DomainBalance, ...]) -> None:
    """Raise NotVerified if the charges here and in the witnessed ledger since `then` cannot simply be added: no charge
    covers a row answered twice under one secret draw."""
    for before in then.sessions.values():
        now = state.session(before.id)
        if (now.batches, now.asked) != (before.batches, before.asked):
            raise NotVerified(
                f"session {now.id} was drawn on in this ledger, and may have been where its witness saw it: what both "
                "together spent cannot be told; begin a new home and a new domain"
            )
    for domain in (standing.domain for standing in standings):
        if not state.domains.get(domain.name, domain).differs_only_in_cap(domain):
            raise NotVerified(f"domain {domain.name!r} of this ledger is not the one that its witness saw")
