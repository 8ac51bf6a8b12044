"""A small season for tests of the door: three releases over the codes of a few made-up rows, some in each period."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from tests.support.tallied import DOMAIN, LABELS, NAME, ROWS, SPANS, decoded
from tests.support.tallied import opening as of_rounds
from tests.world import (
    Period,
    PeriodCounts,
    Ref,
    RoundQuestion,
    SeasonAsk,
    Session,
    Stores,
    Stream,
    commitment,
    keep_sums,
    planned_rounds,
    release,
    tally,
)

STREAM = Stream.calibrate(
    epsilon=1.0, delta=1e-5, classes=2, rounds=planned_rounds(classes=2, fields=2, codes=5, rounds=1), season=3
)
QUESTIONS = [STREAM.question(at, (0, 1), SPANS) for at in range(2)]
PERIODS = [slice(0, 80), slice(80, 80), slice(80, 200)]
"""The rows of each period; in the second, nothing arrives."""


@dataclass(frozen=True)
class Asking(SeasonAsk):
    """A season that asks these questions, whatever its codes."""

    these: Sequence[RoundQuestion] = ()

    @property
    def questions(self) -> list[RoundQuestion]:
        return [*self.these]


@dataclass
class Season:
    """The session in a home, opened for `ask`."""

    door: Stores

    ask: ClassVar[SeasonAsk] = SeasonAsk(STREAM, "digest of codes", (), "d-stream")

    @classmethod
    def in_home(cls, home: Path) -> Self:
        """The session in a home, opened now if it is not open yet."""
        door = Stores.of(home)
        if not door.ledger.domain("d"):
            cap = {"epsilon": DOMAIN.filter.epsilon, "delta": DOMAIN.filter.delta}
            door.ledger.name_domain("d", unit=DOMAIN.unit, neighbours=DOMAIN.neighbours, **cap)
            door.vault.make_secret(f"sessions/{NAME}")
            asked, opening = cls.ask, of_rounds(commitment(door.vault, NAME))
            opening = replace(opening, purpose=asked.purpose, mechanism=asked.settings(), whole=asked.cost)
            opening = replace(opening, queries=asked.queries, stream=asked.stream)
            door.ledger.open_session(opening)
        return cls(door)

    @property
    def session(self) -> Session:
        return self.door.ledger.session(NAME)

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
        (ref,) = release(self.door, self.session, asked.steps(self.door, self.session, periods, again, self.follow))
        released: dict[str, Any] = json.loads(self.door.released.read(ref))
        return released

    @property
    def follow(self) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
        """What else a release's file says."""
        return lambda release: {"decoded": decoded(np.array(release["totals"][-1])).record()}

    def all(self, *, other: bool = False) -> list[dict[str, Any]]:
        """All releases in turn."""
        return [self.release(number, self.counted(number + 1, other=other)) for number in range(len(PERIODS))]

    def _sums(self, number: int, part: slice) -> list[Ref]:
        refs = []
        for at, question in enumerate(QUESTIONS):
            path, sums = f"sums/d/{NAME}/{number}-{at}-{part.start}.npy", tally(question, ROWS[part], LABELS[part])
            refs.append(keep_sums(self.door.vault, path, question, sums, path))
        return refs
