"""A small session of tallies for tests of the door: two rounds over the codes of a few made-up rows."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tests.support import openings
from tests.world import (
    STEPS_A_NAT,
    Decoded,
    Domain,
    IntegerModel,
    Ints,
    Opening,
    Ref,
    RoundQuestion,
    Session,
    Stores,
    Tallies,
    TalliesAsk,
    WrongInput,
    commitment,
    keep_sums,
    next_model,
    planned_rounds,
    release,
    round_step,
    tally,
)

SPANS = ((0, 3), (3, 5))
TALLIES = Tallies.calibrate(
    epsilon=1.0,
    delta=1e-5,
    classes=2,
    rounds=planned_rounds(classes=2, fields=2, codes=5, rounds=3, repair=False),
)
RNG = np.random.default_rng(1)
ROWS = np.column_stack([RNG.integers(0, 3, 200), RNG.integers(3, 5, 200)]).astype(np.int32)
LABELS = (RNG.random(200) < 0.3).astype(np.int64)
DOMAIN = Domain.frozen("d", unit="one row", neighbours="add or remove one unit", epsilon=4.0, delta=4e-5)
NAME = "d-1"


def decoded(sums: Ints, number: int = 0) -> Decoded:
    """A model that depends on the noisy sums, in the form of a decoded one."""
    weights, one = np.sign(sums[:5]).reshape(-1, 1) * (number + 1) / STEPS_A_NAT, np.ones(1)
    shapes = {"intercept": 0 * one, "prior": one / 4, "importance": np.ones(2), "spread": np.ones((3, 1)), "kappa": one}
    return Decoded(weights=weights, units=200.0, moved=0.0, **shapes)


def follow(number: int, sums: Ints) -> dict[str, Any]:
    """A model that depends on the noisy sums, and the next round's question, which subtracts it."""
    if number < len(TALLIES.rounds) and TALLIES.rounds[number].what == "codes":
        return {"decoded": None, "next": None}
    model = decoded(sums, number)
    following = {"fields": [0, 1], "model": next_model(model).record()}
    return {"decoded": model.record(), "next": following if number + 1 < len(TALLIES.rounds) else None}


def question(number: int, following: dict[str, Any] | None) -> RoundQuestion:
    """The question of round `number`."""
    model = None if following is None else IntegerModel.from_record(following["model"])
    return TALLIES.question(number, (0, 1), SPANS, model)


@dataclass
class Rounds:
    """The session in a home, and the questions followed in this process."""

    door: Stores
    followed: list[int] = field(default_factory=list)

    @classmethod
    def in_home(cls, home: Path) -> "Rounds":
        """The session in a home, opened now if it is not open yet."""
        door = Stores.of(home)
        try:
            door.ledger.session(NAME)
        except WrongInput:
            cap = DOMAIN.filter
            cap_of = {"epsilon": cap.epsilon, "delta": cap.delta}
            door.ledger.name_domain("d", unit=DOMAIN.unit, neighbours=DOMAIN.neighbours, **cap_of)
            door.vault.make_secret(f"sessions/{NAME}")
            door.ledger.open_session(opening(commitment(door.vault, NAME)))
        return cls(door)

    @property
    def session(self) -> Session:
        return self.door.ledger.session(NAME)

    def release(self, number: int, following: dict[str, Any] | None, rows: int = len(ROWS)) -> Ref:
        """Round `number` over the first `rows` rows, in two blocks."""
        asked = question(number, following)
        blocks = self.blocks(number, asked, rows)

        def followed(sums: Ints) -> dict[str, Any]:
            self.followed.append(number)
            return follow(number, sums)

        step = round_step(TALLIES, number, asked, blocks, followed)
        return release(self.door, self.session, [step])[0]

    def all(self, rows: int = len(ROWS), until: int = len(TALLIES.rounds)) -> list[dict[str, Any]]:
        """The rounds in turn, as they were published."""
        published: list[dict[str, Any]] = []
        for number in range(until):
            following = published[-1]["next"] if published else None
            published.append(json.loads(self.door.released.read(self.release(number, following, rows))))
        return published

    def blocks(self, number: int, asked: RoundQuestion, rows: int = len(ROWS)) -> list[Ref]:
        """Exact sums of the first `rows` rows, in two blocks."""
        return [self._block(number, part, asked, rows) for part in (0, 1)]

    def _block(self, number: int, part: int, asked: RoundQuestion, rows: int) -> Ref:
        own = slice(part, rows, 2)
        path, sums = f"sums/d/{number}-{part}.npy", tally(asked, ROWS[own], LABELS[own])
        return keep_sums(self.door.vault, path, asked, sums, f"units/d/{part}")


def opening(committed: str) -> Opening:
    """The session's opening, for the ledger."""
    asked = TalliesAsk(TALLIES, "digest of codes", ())
    terms = {"domain": "d", "commitment": committed, "ensemble": "sums", "data_version": "1", "teachers": 0}
    budget = {"epsilon": TALLIES.epsilon, "delta": TALLIES.delta}
    return openings.opening(NAME, **terms, **budget, **openings.charged_by(asked))
