"""Small sessions of sums for tests of the door, over the codes of a few made-up rows: rounds of tallies, the steps of a
sketch, and the releases of a season of a stream.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from tests.support.at_door import opened
from tests.world import (
    STEPS_A_NAT,
    DeclaredCategories,
    DeclaredRange,
    Decoded,
    IntegerModel,
    Ints,
    Period,
    PeriodCounts,
    Ref,
    RoundQuestion,
    SeasonAsk,
    Session,
    SessionStep,
    Sketch,
    SketchAsk,
    SketchPlanner,
    Stores,
    Stream,
    TableSchema,
    Tallies,
    TalliesAsk,
    grid_of,
    keep_sums,
    next_model,
    planned_rounds,
    recoded,
    release,
    round_step,
    sketch_rounds,
    tally,
)

NAME = "d-1"


@dataclass
class SumsSession:
    """The session in a home, opened for `ask`."""

    door: Stores

    ask: ClassVar[Any]

    @classmethod
    def in_home(cls, home: Path) -> Self:
        """The session in a home, opened now if it is not open yet."""
        door = Stores.of(home)
        opened(door, cls.ask)
        return cls(door)

    @property
    def session(self) -> Session:
        return self.door.ledger.session(NAME)


# Rounds of tallies ----------------------------------------------------------------------------------------------------

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


@dataclass(frozen=True)
class Following:
    """A planner of rounds that notes each of them in `followed`."""

    mechanism: Tallies
    followed: list[int]

    def follow(self, released: Sequence[Any], question: RoundQuestion, sums: Ints) -> dict[str, Any]:  # noqa: ARG002
        self.followed.append(len(released))
        return follow(len(released), sums)


@dataclass
class Rounds(SumsSession):
    """A session of tallies, and the rounds followed in this process."""

    followed: list[int] = field(default_factory=list)

    ask = TalliesAsk(TALLIES, "digest of codes", ())

    def release(self, number: int, following: dict[str, Any] | None, rows: int = len(ROWS)) -> Ref:
        """Round `number` over the first `rows` rows, in two blocks."""
        asked = question(number, following)
        return release(self.door, self.session, [self.step(number, asked, self.blocks(number, asked, rows))])[0]

    def step(self, number: int, asked: RoundQuestion, blocks: Sequence[Ref], drawing: Tallies = TALLIES) -> SessionStep:
        """Round `number`, whatever the files of earlier ones say."""
        return round_step(Following(drawing, self.followed), [{}] * number, asked, blocks)

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
        return keep_sums(self.door.vault, path, asked, sums)


# Steps of a sketch ----------------------------------------------------------------------------------------------------

SCHEMA = TableSchema(
    columns=(
        DeclaredRange(kind="numeric", name="visits", low=0, high=5, whole=True),
        DeclaredCategories(kind="categorical", name="shade", words=("dark", "light", "grey", "white")),
        DeclaredCategories(kind="categorical", name="place", words=("here",)),  # of one value: it is left out
    ),
    undeclared=(),
)
GRID = grid_of(SCHEMA)
SKETCH = Sketch.calibrate(
    epsilon=2.0,
    delta=1e-5,
    classes=2,
    rounds=sketch_rounds(classes=2, narrow=[field.size for field in GRID.fields]),
)
PLANNER = SketchPlanner(SKETCH, SCHEMA)
CELLS = np.column_stack([RNG.integers(part.start, part.start + part.size, 200) for part in GRID.fields]).astype(
    np.int32
)
CLASSES = (CELLS[:, 0] > 2).astype(np.int64)


@dataclass
class Sketched(SumsSession):
    """A session of a sketch, followed by its planner."""

    ask = SketchAsk(SKETCH, GRID.digest, (SCHEMA.digest,))

    def all(self, rows: int = len(CELLS)) -> list[dict[str, Any]]:
        """The steps in turn over the first `rows` rows, as they were published."""
        published: list[dict[str, Any]] = []
        for number in range(len(SKETCH.rounds)):
            question = PLANNER.question(published)
            own = recoded(CELLS[:rows], GRID, PLANNER.codes_after(published))
            exact, path = tally(question, own, CLASSES[:rows]), f"sums/d/{number}.npy"
            sums = keep_sums(self.door.vault, path, question, exact)
            step = round_step(PLANNER, published, question, [sums])
            (released,) = release(self.door, self.session, [step])
            published.append(json.loads(self.door.released.read(released)))
        return published


# A season of a stream -------------------------------------------------------------------------------------------------

STREAM = Stream.calibrate(
    epsilon=1.0, delta=1e-5, classes=2, rounds=planned_rounds(classes=2, fields=2, codes=5, rounds=1), season=3
)
QUESTIONS = [STREAM.question(at, (0, 1), SPANS) for at in range(2)]
PERIODS = [slice(0, 80), slice(80, 80), slice(80, 200)]
"""The rows of each period; in the second, nothing arrives."""


class Totals:
    """Reads the last of the running totals."""

    def follow(self, release: Mapping[str, Any]) -> dict[str, Any]:
        return {"decoded": decoded(np.array(release["totals"][-1])).record()}


@dataclass(frozen=True)
class Asking(SeasonAsk):
    """A season that asks these questions, whatever its codes."""

    these: Sequence[RoundQuestion] = ()

    @property
    def questions(self) -> list[RoundQuestion]:
        return [*self.these]


@dataclass
class Season(SumsSession):
    """A session of a season."""

    ask = SeasonAsk(STREAM, "digest of codes", (), "d-stream")

    def counted(self, periods: int, *, other: bool = False) -> list[PeriodCounts]:
        """The first periods, counted; with `other`, the first has a row less."""
        rows = [slice(part.start + (other and at == 0), part.stop) for at, part in enumerate(PERIODS[:periods])]
        return [
            PeriodCounts(period=Period(files={f"place {at}": "content"}), sums=tuple(self._sums(at, part)))
            for at, part in enumerate(rows)
        ]

    def release(
        self,
        number: int,
        counted: list[PeriodCounts] | None = None,
        questions: list[RoundQuestion] = QUESTIONS,
        again: Sequence[Sequence[Ref]] = (),
    ) -> dict[str, Any]:
        """A release, as it was published."""
        periods = self.counted(number + 1) if counted is None else counted
        asked = Asking(STREAM, "digest of codes", (), "d-stream", questions)
        before = [json.loads(self.door.released.read(ref)) for ref in self.door.ledger.released_by(NAME)[:number]]
        steps = asked.steps(self.door, self.session, periods, again, before, Totals())
        (ref,) = release(self.door, self.session, steps)
        released: dict[str, Any] = json.loads(self.door.released.read(ref))
        return released

    def all(self, *, other: bool = False) -> list[dict[str, Any]]:
        """All releases in turn."""
        return [self.release(number, self.counted(number + 1, other=other)) for number in range(len(PERIODS))]

    def _sums(self, number: int, part: slice) -> list[Ref]:
        refs = []
        for at, question in enumerate(QUESTIONS):
            path, sums = f"sums/d/{NAME}/{number}-{at}-{part.start}.npy", tally(question, ROWS[part], LABELS[part])
            refs.append(keep_sums(self.door.vault, path, question, sums))
        return refs
