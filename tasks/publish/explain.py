"""Explain: the effect of each column on the predictions of a published student.

A student that tallies of single columns are decoded to is additive: a scorecard says how many points each cell of a
row adds, and ten points double the odds.

Assumes      the student was verified
Guarantees   post-processing: nothing is spent
Not covered  why: a column may stand for another that goes with it. Checked by tests/tasks/publish/test_explain.py
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from sklearn.pipeline import Pipeline

from concord.tasks.student.scorecard import is_linear
from concord.tasks.student.scorecard import scorecard as points_of

DOUBLE = 10
"""Points that double the odds."""
DIGITS = 3
"""Of the ends of ranges."""


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

    @property
    def largest(self) -> int:
        """The most points, of either sign; 1 if there are none."""
        cells = (each for cells in self.columns.values() for each in cells)
        return max((abs(points) for cell in cells for points in cell.points), default=0) or 1


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


def _rounded(end: float) -> str:
    return f"{float(f'{end:.{DIGITS}g}'):.6g}"


def _range(low: float | str | None, high: float | str | None, kind: str) -> str:
    """The numbers from `low` on that are below `high`, in words; dates are text."""
    if low is None and high is None:
        return "any"
    if kind == "boolean":
        return "no" if low is None else "yes"
    least, end = (each[:10] if isinstance(each, str) else _rounded(each or 0.0) for each in (low, high))
    if low is None or high is None:
        return f"below {end}" if low is None else f"{least} or more"
    return f"{least} to below {end}"
