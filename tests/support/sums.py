"""Small sessions of sums for tests of the door, over the codes of a few made-up rows: rounds of tallies, the steps of a
sketch, and the releases of a season of a stream.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pytest

from tests import world
from tests.support.at_door import opened
from tests.support.made import made

NAME = "d-1"


@dataclass
class SumsSession:
    """The session in a home, opened for `ask`."""

    door: world.Stores

    ask: ClassVar[Any]

    @classmethod
    def in_home(cls, home: Path) -> Self:
        """The session in a home, opened now if it is not open yet."""
        door = world.Stores.of(home)
        opened(door, cls.ask)
        return cls(door)

    @property
    def session(self) -> world.Session:
        return self.door.ledger.session(NAME)


# Rounds of tallies ----------------------------------------------------------------------------------------------------

SPANS = ((0, 3), (3, 5))
TALLIES = world.calibrated_sums(
    world.Tallies,
    epsilon=1.0,
    delta=1e-5,
    classes=2,
    rounds=world.planned_rounds(classes=2, fields=2, codes=5, rounds=3, repair=False),
)
RNG = np.random.default_rng(1)
ROWS = np.column_stack([RNG.integers(0, 3, 200), RNG.integers(3, 5, 200)]).astype(np.int32)
LABELS = (RNG.random(200) < 0.3).astype(np.int64)


def decoded(sums: world.Ints, number: int = 0) -> world.Decoded:
    """A model that depends on the noisy sums, in the form of a decoded one."""
    weights, one = np.sign(sums[:5]).reshape(-1, 1) * (number + 1) / world.STEPS_A_NAT, np.ones(1)
    shapes = {"intercept": 0 * one, "prior": one / 4, "importance": np.ones(2), "spread": np.ones((3, 1)), "kappa": one}
    return world.Decoded(weights=weights, units=200.0, moved=0.0, **shapes)


def follow(number: int, sums: world.Ints) -> dict[str, Any]:
    """A model that depends on the noisy sums, and the next round's question, which subtracts it."""
    if number < len(TALLIES.rounds) and TALLIES.rounds[number].what == "codes":
        return {"decoded": None, "next": None}
    model = decoded(sums, number)
    following = {"fields": [0, 1], "model": world.next_model(model).record()}
    return {"decoded": model.record(), "next": following if number + 1 < len(TALLIES.rounds) else None}


def question(number: int, following: dict[str, Any] | None) -> world.RoundQuestion:
    """The question of round `number`."""
    model = None if following is None else world.IntegerModel.from_record(following["model"])
    return TALLIES.question(number, (0, 1), SPANS, model)


@dataclass(frozen=True)
class Following:
    """A planner of rounds that notes each of them in `followed`."""

    mechanism: world.Tallies
    followed: list[int]

    def follow(self, released: Sequence[Any], question: world.RoundQuestion, sums: world.Ints) -> dict[str, Any]:  # noqa: ARG002
        self.followed.append(len(released))
        return follow(len(released), sums)


@dataclass
class Rounds(SumsSession):
    """A session of tallies, and the rounds followed in this process."""

    followed: list[int] = field(default_factory=list)

    ask = world.TalliesAsk(TALLIES, "digest of codes", ())

    def release(self, number: int, following: dict[str, Any] | None, rows: int = len(ROWS)) -> world.Ref:
        """Round `number` over the first `rows` rows, in two blocks."""
        asked = question(number, following)
        return world.release(self.door, self.session, [self.step(number, asked, self.blocks(number, asked, rows))])[0]

    def step(
        self, number: int, asked: world.RoundQuestion, blocks: Sequence[world.Ref], drawing: world.Tallies = TALLIES
    ) -> world.SessionStep:
        """Round `number`, whatever the files of earlier ones say."""
        return world.round_step(Following(drawing, self.followed), [{}] * number, asked, blocks)

    def all(self, rows: int = len(ROWS), until: int = len(TALLIES.rounds)) -> list[dict[str, Any]]:
        """The rounds in turn, as they were published."""
        published: list[dict[str, Any]] = []
        for number in range(until):
            following = published[-1]["next"] if published else None
            published.append(json.loads(self.door.released.read(self.release(number, following, rows))))
        return published

    def blocks(self, number: int, asked: world.RoundQuestion, rows: int = len(ROWS)) -> list[world.Ref]:
        """Exact sums of the first `rows` rows, in two blocks."""
        return [self._block(number, part, asked, rows) for part in (0, 1)]

    def _block(self, number: int, part: int, asked: world.RoundQuestion, rows: int) -> world.Ref:
        own = slice(part, rows, 2)
        path, sums = f"sums/d/{number}-{part}.npy", world.tally(asked, ROWS[own], LABELS[own])
        return world.keep_sums(self.door.vault, path, asked, sums, made(2, span=(part, part + 1)))


def refuses(rounds: Rounds, step: world.SessionStep, why: str) -> None:
    """Nothing of the session is begun, drawn or followed."""
    with pytest.raises(world.NotVerified, match=why):
        world.release(rounds.door, rounds.session, [step])
    assert rounds.session.batches == 0
    assert rounds.followed == []


# Steps of a sketch ----------------------------------------------------------------------------------------------------

SCHEMA = world.TableSchema(
    columns=(
        world.DeclaredRange(kind="numeric", name="visits", low=0, high=5, whole=True),
        world.DeclaredCategories(kind="categorical", name="shade", words=("dark", "light", "grey", "white")),
        world.DeclaredCategories(kind="categorical", name="place", words=("here",)),  # of one value: it is left out
    ),
    undeclared=(),
)
GRID = world.grid_of(SCHEMA)
SKETCH = world.calibrated_sums(
    world.Sketch,
    epsilon=2.0,
    delta=1e-5,
    classes=2,
    rounds=world.sketch_rounds(classes=2, narrow=[field.size for field in GRID.fields]),
)
PLANNER = world.SketchPlanner(SKETCH, SCHEMA)
CELLS = np.column_stack([RNG.integers(part.start, part.start + part.size, 200) for part in GRID.fields]).astype(
    np.int32
)
CLASSES = (CELLS[:, 0] > 2).astype(np.int64)


@dataclass
class Sketched(SumsSession):
    """A session of a sketch, followed by its planner."""

    ask = world.SketchAsk(SKETCH, GRID.digest, (SCHEMA.digest,))

    def all(self, rows: int = len(CELLS)) -> list[dict[str, Any]]:
        """The steps in turn over the first `rows` rows, as they were published."""
        published: list[dict[str, Any]] = []
        for number in range(len(SKETCH.rounds)):
            question = PLANNER.question(published)
            own = world.recoded(CELLS[:rows], GRID, PLANNER.codes_after(published))
            exact, path = world.tally(question, own, CLASSES[:rows]), f"sums/d/{number}.npy"
            sums = world.keep_sums(self.door.vault, path, question, exact, made())
            step = world.round_step(PLANNER, published, question, [sums])
            (released,) = world.release(self.door, self.session, [step])
            published.append(json.loads(self.door.released.read(released)))
        return published


# A season of a stream -------------------------------------------------------------------------------------------------

STREAM = world.calibrated_sums(
    world.Stream,
    epsilon=1.0,
    delta=1e-5,
    classes=2,
    rounds=world.planned_rounds(classes=2, fields=2, codes=5, rounds=1),
    season=3,
)
QUESTIONS = [STREAM.question(at, (0, 1), SPANS) for at in range(2)]
PERIODS = [slice(0, 80), slice(80, 80), slice(80, 200)]
"""The rows of each period; in the second, nothing arrives."""


class Totals:
    """Reads the last of the running totals."""

    def follow(self, release: Mapping[str, Any]) -> dict[str, Any]:
        return {"decoded": decoded(np.array(release["totals"][-1])).record()}


@dataclass(frozen=True)
class Asking(world.SeasonAsk):
    """A season that asks these questions, whatever its codes."""

    these: Sequence[world.RoundQuestion] = ()

    @property
    def questions(self) -> list[world.RoundQuestion]:
        return [*self.these]


@dataclass
class Season(SumsSession):
    """A session of a season."""

    ask = world.SeasonAsk(STREAM, "digest of codes", (), "d-stream")

    def counted(self, periods: int, *, other: bool = False) -> list[world.PeriodCounts]:
        """The first periods, counted; with `other`, the first has a row less."""
        rows = [
            slice(part.start + (other and at == 0), part.stop)
            for at, part in enumerate([*PERIODS, slice(200, 200)][:periods])
        ]
        return [
            world.PeriodCounts(period=world.Period(files={f"place {at}": "content"}), sums=tuple(self._sums(at, part)))
            for at, part in enumerate(rows)
        ]

    def release(
        self,
        number: int,
        counted: list[world.PeriodCounts] | None = None,
        questions: list[world.RoundQuestion] = QUESTIONS,
        again: Sequence[Sequence[world.Ref]] = (),
    ) -> dict[str, Any]:
        """A release, as it was published."""
        periods = self.counted(number + 1) if counted is None else counted
        asked = Asking(STREAM, "digest of codes", (), "d-stream", questions)
        before = [json.loads(self.door.released.read(ref)) for ref in self.door.ledger.released_by(NAME)[:number]]
        steps = asked.steps(self.door, self.session, periods, again, before, Totals())
        (ref,) = world.release(self.door, self.session, steps)
        released: dict[str, Any] = json.loads(self.door.released.read(ref))
        return released

    def all(self, *, other: bool = False) -> list[dict[str, Any]]:
        """All releases in turn."""
        return [self.release(number, self.counted(number + 1, other=other)) for number in range(len(PERIODS))]

    def _sums(self, number: int, part: slice) -> list[world.Ref]:
        refs = []
        for at, question in enumerate(QUESTIONS):
            path = f"sums/d/{NAME}/{number}-{at}-{part.start}.npy"
            sums = world.tally(question, ROWS[part], LABELS[part])
            refs.append(world.keep_sums(self.door.vault, path, question, sums, made(stream="d-stream", period=number)))
        return refs
