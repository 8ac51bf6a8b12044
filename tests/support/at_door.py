"""A home folder with a session of three batches of staged public rows and their votes, ready to pass the door."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from tests import world
from tests.support import openings
from tests.support.made import made
from tests.support.people import changed, tables_of_plan

CLASSES = ("no", "yes")
PLAN = changed(tables_of_plan(Path()), privacy__domain="d", privacy__epsilon=2.0, teachers__count=600)
TEACHERS = 600
ROWS = 40
STABLE = world.calibrated_stable(epsilon=2.0, delta=1e-5, cutoff=30)
NOISY = world.calibrated_votes(world.NoisyVotes, epsilon=2.0, delta=1e-5, queries=3 * ROWS, classes=2)
VECTOR = world.calibrated_sparse_vector(epsilon=2.0, delta=1e-5, cutoff=4 * ROWS)
MECHANISMS: tuple[world.Mechanism, ...] = (STABLE, NOISY, VECTOR)


@dataclass
class Case:
    """A session, its mechanism, and the batches and votes put to it."""

    door: world.Stores
    mechanism: world.Mechanism
    session: world.Session
    batches: list[world.PublicBatch] = field(default_factory=list)
    votes: list[world.Ref] = field(default_factory=list)

    def run(self) -> pa.Table:
        """Pass the door. Returns the released labels."""
        refs = files_of(self.door, self.session, labels_by(self.mechanism), self.batches, self.votes_on)
        return self.door.released.labels(refs)

    def votes_on(self, batch: world.PublicBatch) -> world.Ref:
        return self.votes[self.batches.index(batch)]

    def recount(self, at: int, counts: world.Ints) -> None:
        self.votes[at] = write_votes(self.door, f"changed-{at}", counts)


def write_votes(door: world.Stores, name: str, counts: world.Ints, **other: Any) -> world.Ref:
    """Votes (rows, 2) of TEACHERS; `other` is what else their provenance says than that of the session."""
    votes = pl.DataFrame(counts, world.votes_schema(2).names, orient="row").cast(pl.UInt32)
    return made(TEACHERS, form="votes", **other).rows(votes, door.vault, f"votes/d/{name}.arrow")


def counts_of(batch: int) -> world.Ints:
    """Votes that mostly agree, with a few close calls."""
    ones = np.random.default_rng(batch).choice([5, 280, 330, 590], size=ROWS, p=[0.45, 0.05, 0.05, 0.45])
    return np.column_stack([TEACHERS - ones, ones])


def make_case(home: Path, mechanism: world.Mechanism, **changes: Any) -> Case:
    """The case in that home, with its session opened now or before, as `opened`."""
    home.mkdir(exist_ok=True)
    door = world.Stores.of(home)
    case = Case(door, mechanism, opened(door, mechanism, **changes))
    for at in range(3):
        rows = world.write_frame(pl.DataFrame({"x": np.arange(ROWS) + at}), door.vault, f"public/{at}.arrow")
        case.batches.append(world.PublicBatch(ref=rows, first=at * ROWS, rows=ROWS))
        case.votes.append(write_votes(door, f"{at}", counts_of(at)))
    return case


def refused(case: Case, why: str) -> None:
    """Nothing of the session is begun, drawn or published."""
    with pytest.raises(world.NotVerified, match=why):
        case.run()
    assert case.door.ledger.batches("d-1") == ()
    assert not (case.door.released.root / "d-1").exists()


def labels_by(mechanism: world.Mechanism) -> world.VotesAsk:
    """What is asked if teachers vote and that mechanism answers."""
    return world.VotesAsk(mechanism, PLAN, ())


def files_of(door: world.Stores, session: world.Session, ask: Any, *exact: Any) -> list[world.Ref]:
    """The files of a session, whose ask makes its steps of these exact numbers."""
    return world.release(door, session, ask.steps(door, session, *exact))


def opened(door: world.Stores, asked: world.Ask[Any] | world.Mechanism, **changes: Any) -> world.Session:
    """The session d-1 of the domain d, opened now or before; `changes` are terms that its ask would not have."""
    door.ledger.name_domain("d", unit="one row", neighbours="add or remove one unit", epsilon=20.0, delta=1e-3)
    if any(session.id == "d-1" for session in door.ledger.sessions("d")):
        return door.ledger.session("d-1")
    door.vault.make_secret("sessions/d-1")
    key = world.commitment(door.vault, "d-1")
    return door.ledger.open_session(replace(opening_of(asked), commitment=key, **changes))


def opening_of(asked: world.Ask[Any] | world.Mechanism) -> world.Opening:
    """The opening of that session, without its key; a mechanism is asked for labels."""
    ask = asked if isinstance(asked, world.Ask) else labels_by(asked)
    terms = {"domain": "d", "purpose": ask.purpose, "teachers": ask.teachers, "stream": ask.stream, "data_version": "1"}
    epsilon = getattr(ask.mechanism, "epsilon", 2.0)
    budget = {"commitment": "", "identity": "identity", "ensemble": "ensemble", "epsilon": epsilon, "delta": 1e-5}
    return openings.opening("d-1", **terms, **budget, **openings.charged_by(ask))
