"""What planning is told: how many public rows there are, and a public guess of how much teachers agree.

Nothing private is opened here. A guess is a figure, or a table of votes that public teachers cast on public rows.
Checked by tests/flows/test_plan_command.py.
"""

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from artifacts.errors import WrongInput
from artifacts.plan import Plan
from tasks.mechanisms.search import TYPICAL_AGREEMENT
from tasks.tables import open_public

Guess = float | NDArray[np.float64]


def public_rows(plan: Plan) -> int:
    """Rows of the plan's public table. Raises WrongInput where it cannot be read or has none."""
    table = open_public(plan.path("public"))
    return sum(frame.height for frame in table.frames(table.names[:1]))


def expected_agreement(plan: Plan) -> Guess:
    """The plan's guess: its figure, its table, or what is typical. Raises WrongInput where the table is none."""
    guess = plan.labeling.agreement
    if isinstance(guess, str):
        return read_agreement(str(Path(plan.folder, guess)), len(plan.data.classes))
    return TYPICAL_AGREEMENT if guess is None else guess


def read_agreement(guess: str, classes: int) -> Guess:
    """The figure that `guess` is, or the votes of the table it names. Raises WrongInput where it is neither.

    A table (Parquet, Arrow IPC or CSV) has one row a public query, and either one column, the share of the winning
    class, or one a class, votes or shares in any order: (rows,) or (rows, classes).
    """
    try:
        return float(guess)
    except ValueError:
        return _votes(guess, classes)


def _votes(path: str, classes: int) -> Guess:
    table = open_public(path, "agreement")
    if len(table.names) not in (1, classes):
        rule = f"agreement must have one column, of winners' shares, or {classes}, of votes by class"
        raise WrongInput(f"{rule}; {path} has {len(table.names)}")
    rows = pl.concat([_numbers(frame, path) for frame in table.frames(table.names)]).to_numpy()
    return np.asarray(rows[:, 0] if rows.shape[1] == 1 else rows, np.float64)


def _numbers(frame: pl.DataFrame, path: str) -> pl.DataFrame:
    try:
        numbers = frame.select(pl.all().cast(pl.Float64))
    except pl.exceptions.InvalidOperationError:
        raise WrongInput(f"agreement must hold numbers alone; {path} does not") from None
    if sum(numbers.null_count().row(0)):
        raise WrongInput(f"agreement must have a number in every cell; {path} has empty ones")
    return numbers
