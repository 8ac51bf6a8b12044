"""Explain: the effect of each column on the predictions of a published student.

A student that tallies of single columns are decoded to is additive: a scorecard says how many points each cell of a
row adds, and ten points double the odds. Of any student, columns can be shuffled on public rows: the more answers that
spoils, the more they matter (permutation importance, Breiman 2001).

Assumes      the student was verified; rows are public
Guarantees   post-processing: nothing is spent
Not covered  why: a column may stand for another that goes with it. Checked by tests/tasks/publish/test_explain.py
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

import numpy as np
import polars as pl
from sklearn.inspection import permutation_importance
from sklearn.pipeline import Pipeline

from concord.tasks.data.cells import cast_numbers
from concord.tasks.data.files import format_of
from concord.tasks.data.tables import open_public
from concord.tasks.student.scorecard import is_linear
from concord.tasks.student.scorecard import scorecard as points_of

DOUBLE = 10
"""Points that double the odds."""
MOST_ROWS = 5_000
"""Most rows on which columns are shuffled, the first of the table."""
REPEATS = 5
"""How often each column is shuffled."""


@dataclass(frozen=True)
class CellPoints:
    """A cell of a column, in words, and the points that it adds for each of the card's classes."""

    cell: str
    points: tuple[int, ...]


@dataclass(frozen=True)
class Scorecard:
    """An additive student: `base` points for each of `classes`, and those of every cell of each column, the column that
    moves most first. With two classes the card scores the second; for a number it scores its place between its
    bounds."""

    classes: tuple[str, ...]
    base: tuple[int, ...]
    columns: dict[str, tuple[CellPoints, ...]]

    def record(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def scorecard(student: Pipeline) -> Scorecard | None:
    """The card of a student that was decoded from tallies of single columns; None for any other."""
    if not is_linear(student) or "pairs" in student.named_steps:
        return None
    card, names = points_of(student), [str(name) for name in getattr(student[-1], "classes", ("number",))]
    columns = {column["name"]: tuple(_cells(column)) for column in card["columns"]}
    order = sorted(columns, key=lambda name: -_spread(columns[name]))
    classes = tuple(names[-1:] if len(names) <= 2 else names)
    return Scorecard(classes, _points(card["intercept"]), {name: columns[name] for name in order})


def _points(logits: Any) -> tuple[int, ...]:
    return tuple(round(DOUBLE * float(each) / math.log(2)) for each in logits)


def _spread(cells: Sequence[CellPoints]) -> int:
    classes = range(len(cells[0].points))
    return max(max(c.points[at] for c in cells) - min(c.points[at] for c in cells) for at in classes)


def _cells(column: dict[str, Any]) -> Iterator[CellPoints]:
    """The cells of one column, those without a value last; neighbouring ranges of equal points are one."""
    if "words" in column:
        yield from (CellPoints(word, _points(points)) for word, points in column["words"].items())
        yield CellPoints("other category", _points(column["other words"]["points"]))
    for points, group in groupby(column.get("intervals", ()), key=lambda each: _points(each["points"])):
        within = [*group]
        yield CellPoints(_range(within[0]["from"], within[-1]["to"], column["kind"]), points)
    yield CellPoints("no value", _points(column["missing"]))


def _range(low: float | str | None, high: float | str | None, kind: str) -> str:
    """The numbers from `low` on that are below `high`, in words; dates are text."""
    if low is None and high is None:
        return "any"
    if kind == "boolean":
        return "no" if low is None else "yes"
    least, end = (each[:10] if isinstance(each, str) else f"{each or 0:.6g}" for each in (low, high))
    if low is None or high is None:
        return f"below {end}" if low is None else f"{least} or more"
    return f"{least} to below {end}"


@dataclass(frozen=True)
class Importance:
    """Permutation importance of each column, in `measure`, the largest first; with standard deviations of repeats."""

    measure: str
    rows: int
    columns: dict[str, tuple[float, float]]


def importance(student: Any, path: str, target: str | None) -> Importance:
    """The importance of every column on the public rows at `path`.

    target   the label column; if the table has none, predictions are compared with those before shuffling
    Raises WrongInput if the table lacks a column of the student.
    """
    table = open_public(path, "--rows", format_of(path, field="--rows"))
    label = target if target in table.names else None
    columns = [*student.feature_names_in_, *([] if label is None else [label])]
    rows = pl.concat(table.frames(columns, label=label)).head(MOST_ROWS)
    frame, numbers = rows.select([*student.feature_names_in_]).to_pandas(), not hasattr(student, "classes_")

    def score(model: Any, shuffled: Any, right: Any) -> float:
        said = model.predict(shuffled)
        return -math.sqrt(float(np.mean((said - right) ** 2))) if numbers else float(np.mean(said == right))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a shuffled column is as unread as it was
        right = student.predict(frame)
        if label is not None:
            right = cast_numbers(rows[label]) if numbers else rows[label].cast(pl.String).to_numpy()
        found = permutation_importance(student, frame, right, scoring=score, n_repeats=REPEATS, random_state=0)
    order = np.argsort(-found.importances_mean, kind="stable")
    pairs = zip(found.importances_mean.tolist(), found.importances_std.tolist(), strict=True)
    spoilt = dict(zip(frame.columns, pairs, strict=True))
    of_numbers, of_classes = "root mean squared change", "share of predictions that change"
    if label is not None:
        of_numbers, of_classes = "root mean squared error", "accuracy"
    what = of_numbers if numbers else of_classes
    return Importance(what, len(frame), {frame.columns[at]: spoilt[frame.columns[at]] for at in order})
