"""A small session of a sketch for tests of the door: all its steps over a few made-up rows, followed by its planner."""

import json
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.at_door import opened
from tests.world import (
    DeclaredCategories,
    DeclaredRange,
    Sketch,
    SketchAsk,
    SketchPlanner,
    Stores,
    TableSchema,
    grid_of,
    keep_sums,
    recoded,
    release,
    round_step,
    sketch_rounds,
    tally,
)

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
RNG = np.random.default_rng(1)
ROWS = np.column_stack([RNG.integers(field.start, field.start + field.size, 200) for field in GRID.fields]).astype(
    np.int32
)
LABELS = (ROWS[:, 0] > 2).astype(np.int64)


@dataclass
class Sketched:
    """The session in a home."""

    door: Stores

    @classmethod
    def in_home(cls, home: Path) -> "Sketched":
        """The session in a home, opened now if it is not open yet."""
        door = Stores.of(home)
        opened(door, SketchAsk(SKETCH, GRID.digest, (SCHEMA.digest,)))
        return cls(door)

    def all(self, rows: int = len(ROWS)) -> list[dict[str, Any]]:
        """The steps in turn over the first `rows` rows, as they were published."""
        published: list[dict[str, Any]] = []
        for number in range(len(SKETCH.rounds)):
            question = PLANNER.question(published)
            own = recoded(ROWS[:rows], GRID, PLANNER.codes_after(published))
            exact, path = tally(question, own, LABELS[:rows]), f"sums/d/{number}.npy"
            sums = keep_sums(self.door.vault, path, question, exact, path)
            follow = partial(PLANNER.follow, published, question)
            session = self.door.ledger.session("d-1")
            step = round_step(SKETCH, number, question, [sums], follow)
            (released,) = release(self.door, session, [step])
            published.append(json.loads(self.door.released.read(released)))
        return published
