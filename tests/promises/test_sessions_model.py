"""Sessions in a real home, in any order of opening, extending, dying, settling and forgetting: what left the door never
changes, is never drawn twice, and was charged.

To show that the tests can fail, they also run on homes with a planted fault, which they must find.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.support.at_door import TEACHERS, files_of, labels_by, write
from tests.support.openings import at_most
from tests.support.planted import FAULTS as PLANTED
from tests.support.published import opening
from tests.world import (
    BudgetRefused,
    Charge,
    ConcordError,
    Draws,
    Ints,
    Ledger,
    Mechanism,
    NoisyVotes,
    NotVerified,
    PublicBatch,
    Randomness,
    Ref,
    Released,
    StableVoting,
    Stores,
    commitment,
    door_erase,
    keyed_draws,
    ledger_faults,
    votes_schema,
)

ROWS = 40
STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-6, cutoff=20)
NOISY = NoisyVotes.calibrate(epsilon=1.0, delta=1e-6, queries=2 * ROWS, classes=2)
CAP = {"epsilon": 4.0, "delta": 1e-4}
WHERE = [(Ledger, "begin_batch"), (Released, "write"), (Ledger, "commit_batch"), (Ledger, "settle")]


HERE = object()
"""In place of Hypothesis' data: the first session there is."""


class Killed(BaseException):
    """Stands for the end of the process at a chosen moment."""


def votes_of(seed: int) -> Ints:
    """Votes on ROWS rows: clear ones, and some that STABLE refuses about half the time."""
    ones = np.random.default_rng(seed).choice([5, 590, 220, 380], size=ROWS, p=[0.35, 0.35, 0.15, 0.15])
    return np.column_stack([TEACHERS - ones, ones])


@contextmanager
def dying(owner: type, name: str, *, before: bool) -> Iterator[None]:
    """Raise Killed before or after the call of a function."""
    true: Callable[..., Any] = getattr(owner, name)

    def last(*arguments: Any, **named: Any) -> Any:
        if not before:
            true(*arguments, **named)
        raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, last)
        with suppress(Killed):
            yield


@dataclass
class Stream:
    """The rows put to a session so far."""

    mechanism: Mechanism
    batches: list[PublicBatch] = field(default_factory=list)
    votes: list[Ref] = field(default_factory=list)
    forgotten: bool = False

    def votes_on(self, batch: PublicBatch) -> Ref:
        return self.votes[self.batches.index(batch)]


class Sessions(RuleBasedStateMachine):
    """Changes a home as commands would; each command may be the last thing its process does."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.home = Path(self.folder.name)
        self.streams: dict[str, Stream] = {}
        self.seen: dict[Path, bytes] = {}
        self.come_back()
        self.door.ledger.name_domain("people", unit="one row", neighbours="add or remove one unit", **CAP)

    def teardown(self) -> None:
        self.folder.cleanup()

    @rule()
    def come_back(self) -> None:
        self.door = Stores.of(self.home)

    @rule(mechanism=st.sampled_from([STABLE, NOISY]))
    def open(self, mechanism: Mechanism) -> None:
        name = f"session-{len(self.streams)}"
        self.door.vault.make_secret(f"sessions/{name}")
        key = commitment(self.door.vault, name)
        asked = replace(opening(mechanism, name), commitment=key, teachers=TEACHERS)
        try:
            self.door.ledger.open_session(asked, further=True)
        except BudgetRefused:
            return
        self.streams[name] = Stream(mechanism)

    @precondition(lambda self: self.streams)
    @rule(data=st.data(), seed=st.integers(0, 2**16))
    def extend(self, data: Any, seed: int) -> None:
        name, stream = self.pick(data)
        at = len(stream.batches)
        columns = np.arange(ROWS).reshape(-1, 1) + seed * ROWS
        rows = write(self.door, f"public/{name}-{at}", pa.schema([("x", pa.int64())]), columns)
        stream.batches.append(PublicBatch(ref=rows, first=at * ROWS, rows=ROWS))
        stream.votes.append(write(self.door, f"votes/{name}-{at}", votes_schema(2), votes_of(seed)))
        self.walk(name)

    @precondition(lambda self: self.streams)
    @rule(data=st.data(), seed=st.integers(0, 2**16), where=st.sampled_from(WHERE), before=st.booleans())
    def extend_and_die(self, data: Any, seed: int, where: tuple[type, str], before: bool) -> None:
        with dying(*where, before=before):
            self.extend(data, seed)
        self.come_back()

    @precondition(lambda self: any(stream.votes for stream in self.streams.values()))
    @rule(data=st.data(), seed=st.integers(0, 2**16))
    def change_votes(self, data: Any, seed: int) -> None:
        name, stream = self.pick(data)
        ledger = self.door.ledger
        first = next(iter(ledger.batches(name)), None)
        if first is None or (first.outcome is None and ledger.session(name).status != "open"):
            return  # nothing is asked by these votes any more
        true, other = stream.votes[0], write(self.door, f"votes/{name}-other", votes_schema(2), votes_of(seed))
        if self.door.vault.read(other) != self.door.vault.read(true):
            stream.votes[0] = other
            with pytest.raises(NotVerified):
                self.walk(name, refusing=())
            stream.votes[0] = true

    @precondition(lambda self: self.streams)
    @rule(data=st.data(), give_back=st.booleans())
    def settle(self, data: Any, give_back: bool) -> None:
        name, _ = self.pick(data)
        door_erase.close(self.door, name, give_back=give_back)

    @precondition(lambda self: self.streams)
    @rule(data=st.data(), give_back=st.booleans(), before=st.booleans())
    def settle_and_die(self, data: Any, give_back: bool, before: bool) -> None:
        with dying(Ledger, "settle", before=before):
            self.settle(data, give_back)
        self.come_back()

    @precondition(lambda self: self.streams)
    @rule(data=st.data())
    def forget(self, data: Any) -> None:
        name, stream = self.pick(data)
        if self.door.ledger.session(name).status != "open":
            door_erase.forget(self.door, name)
            stream.forgotten = True

    def pick(self, data: Any) -> tuple[str, Stream]:
        name = sorted(self.streams)[0] if data is HERE else data.draw(st.sampled_from(sorted(self.streams)))
        return name, self.streams[name]

    def walk(self, name: str, refusing: tuple[type[ConcordError], ...] = (BudgetRefused, NotVerified)) -> None:
        """Pass a session's whole stream through the door, as `run` and `extend` do; an ended session may refuse."""
        stream, session = self.streams[name], self.door.ledger.session(name)
        try:
            files_of(self.door, session, labels_by(stream.mechanism), stream.batches, stream.votes_on)
        except refusing:
            assert stream.forgotten or session.status != "open"

    def labels(self, name: str) -> list[pa.Table]:
        files = sorted((self.home / "released" / name / "labels").glob("batch-*.arrow"))
        return [pa.ipc.open_file(file).read_all() for file in files]

    @invariant()
    def what_left_the_door_stays_as_it_left(self) -> None:
        now = {file: file.read_bytes() for file in (self.home / "released").rglob("*.arrow")}
        assert {file: now.get(file) for file in self.seen} == self.seen
        self.seen |= now

    @invariant()
    def it_was_charged(self) -> None:
        ledger = self.door.ledger
        total = Charge()
        for name in self.streams:
            session = ledger.session(name)
            refused = sum(table["outcome"].to_pylist().count("refused") for table in self.labels(name))
            assert refused >= session.refused
            happened = session.reserved if session.per_refusal is None else session.per_refusal.times(refused)
            assert at_most(happened, session.charge) or at_most(session.reserved, session.charge)
            total += session.charge
        assert total == ledger.total("people")
        assert ledger.domains()[0].filter.admits(total)
        assert list(ledger_faults(ledger.records())) == []

    @invariant()
    def what_was_forgotten_draws_no_more(self) -> None:
        for name, stream in self.streams.items():
            if stream.forgotten:
                assert not self.door.vault.has_secret(f"sessions/{name}")
                assert ("forgotten", name) in {
                    (remark.kind, remark.about) for remark in self.door.ledger.remarks("people")
                }


QUIET = settings(suppress_health_check=list(HealthCheck), stateful_step_count=12)


@pytest.mark.slow
def test_sessions_keep_their_promise() -> None:
    run_state_machine_as_test(Sessions, settings=settings(QUIET, max_examples=12))


KEYS = cycle((bytes(32), bytes(range(32))))


def drawn_by_turns(_: Randomness, first: int, rows: int) -> Draws:
    return keyed_draws(next(KEYS), first, rows)


FAULTS: dict[str, tuple[Any, str, Any]] = {
    "draws noise again": (Randomness, "kept", lambda _source, _name, make: list(make())),
    "draws with another key": (Randomness, "uniform", drawn_by_turns),
    **{name: PLANTED[name] for name in ("lets votes change", "returns everything")},
}
"""Homes with one planted fault each: the function it replaces, and the faulty one."""


SCRIPT: list[Callable[[Sessions], None]] = [
    lambda home: home.extend_and_die(HERE, seed=1, where=(Released, "write"), before=False),
    lambda home: home.extend(HERE, seed=2),
    lambda home: home.change_votes(HERE, seed=5),
    lambda home: home.extend_and_die(HERE, seed=3, where=(Ledger, "commit_batch"), before=True),
    lambda home: home.settle(HERE, give_back=True),
    lambda home: home.extend(HERE, seed=4),
    lambda home: home.forget(HERE),
    lambda home: home.extend(HERE, seed=6),
]
"""One walk that meets every fault."""


def follow(mechanism: Mechanism) -> None:
    """Run the script over one session in a new home, with checks after every step."""
    home = Sessions()
    with home.folder:
        home.open(mechanism)
        for step in SCRIPT:
            step(home)
            home.what_left_the_door_stays_as_it_left()
            home.it_was_charged()
            home.what_was_forgotten_draws_no_more()


@pytest.mark.parametrize("mechanism", [STABLE, NOISY], ids=lambda item: item.name)
def test_a_home_without_a_fault_follows_the_script(mechanism: Mechanism) -> None:
    follow(mechanism)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_breaks_it(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, twin = FAULTS[fault]
    monkeypatch.setattr(owner, name, twin)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        follow(NOISY if fault == "draws noise again" else STABLE)
