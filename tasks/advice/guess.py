"""Guess: the agreement of teachers, stated by the plan or typical; public, and never measured on private teachers.

Not covered  whether the guess is right. Checked by tests/flows/cli/test_plan_command.py
"""

from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from concord.artifacts.errors import WrongInput
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import TextFormat
from concord.tasks.data.formats import format_of
from concord.tasks.data.tables import open_public

Guess = float | NDArray[np.float64]

TYPICAL_AGREEMENT = 0.9
"""Mean share of the winning class if no guess is given, close to that of linear teachers on tables and digits."""


def expected_agreement(plan: Plan) -> Guess:
    """The plan's guess: its figure, its table, or the typical value. Raises WrongInput if the table is not valid."""
    guess = plan.labeling.agreement
    if isinstance(guess, str):
        return read_agreement(str(Path(plan.folder, guess)), len(plan.data.classes), plan.data.format)
    return TYPICAL_AGREEMENT if guess is None else guess


def read_agreement(guess: str, classes: int, form: TextFormat | None = None) -> Guess:
    """The guess as a number, or the votes in the table it names. Raises WrongInput if it is neither.

    A table (Parquet, Arrow IPC or CSV) has one row per public query, and either one column, the share of the winning
    class, or one per class, votes or shares in any order: (rows,) or (rows, classes).

    form   format of a CSV file; detected if not given
    """
    try:
        return float(guess)
    except ValueError:
        return _votes(guess, classes, form)


def _votes(path: str, classes: int, form: TextFormat | None) -> Guess:
    table = open_public(path, "agreement", form or format_of(path, field="agreement"))
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
