"""Verify figures by group: they must follow from one another, and be the student's on the rows of each group.

Independent of `tasks.student.groups`: figures are counted row by row.

Assumes      as in tasks.verify.measured
Guarantees   found and named: groups that leave out rows of the table or are of other words; a figure that is not the
             student's, or is given of too few rows
Not covered  a row of a group, since another machine may break a tie otherwise; and how sure the student is, within SURE
             Checked by tests/tasks/student/test_groups.py
"""

import math
from collections.abc import Iterable, Mapping, Sequence

import polars as pl

from concord.artifacts.errors import NotVerified
from concord.artifacts.measures import LEAST_OF_GROUP, AnyPublicTest, GroupMeasured, NumberTest

SURE = 1 / 100
"""By how much the mean of how sure the student is may differ."""


def follow(test: AnyPublicTest) -> None:
    """Raise NotVerified if the groups of a column are not all rows, or give another figure together."""
    by_column: dict[str, list[GroupMeasured]] = {}
    for each in test.groups:
        by_column.setdefault(each.column, []).append(each)
    for column, groups in by_column.items():
        _same(f"the rows of all groups by {column!r}", sum(each.rows for each in groups), test.rows)
        if any(each.rows < LEAST_OF_GROUP for each in groups):
            continue
        if isinstance(test, NumberTest):
            together, whole = math.fsum(each.rows * (each.rmse or 0.0) ** 2 for each in groups), test.rmse**2
        else:
            together, whole = math.fsum(each.rows * (each.accuracy or 0.0) for each in groups), test.accuracy
        if not math.isclose(together / test.rows, whole, rel_tol=1e-6, abs_tol=1e-9):
            raise NotVerified(f"the figures of the groups by {column!r} do not make those of all rows")


def check(
    test: AnyPublicTest,
    words: Mapping[str, pl.Series],
    right: Sequence[object],
    said: Sequence[object],
    sure: Sequence[float],
) -> None:
    """Raise NotVerified if the figures of a group are not the student's.

    words   of each column that makes groups, one a row
    right   what is right for each row, and `said` what the student says; both class names or numbers
    sure    its probability of that, if it has any
    """
    for column, cells in words.items():
        named = [each.group for each in test.groups if each.column == column]
        _same(f"the groups by {column!r}", sorted(map(str, named)), sorted(map(str, cells.unique().to_list())))
    for each in test.groups:
        rows = [at for at, word in enumerate(words[each.column].to_list()) if word == each.group]
        name = f"{each.column} = {each.group!r}"
        _same(f"the rows of {name}", len(rows), each.rows)
        if len(rows) < LEAST_OF_GROUP:
            _same(
                f"the figures of {name}, of too few rows",
                (each.accuracy, each.recalls, each.sure, each.rmse),
                (None, (), None, None),
            )
        elif isinstance(test, NumberTest):
            errors = ((float(str(right[at])) - float(str(said[at]))) ** 2 for at in rows)
            _near(f"the RMSE of {name}", math.sqrt(math.fsum(errors) / len(rows)), each.rmse, test.mean_rmse / 1000)
        else:
            hits = [right[at] == said[at] for at in rows]
            _near(f"the accuracy of {name}", sum(hits) / len(rows), each.accuracy, 1.5 / len(rows))
            for item, recall in zip(test.classes, each.recalls, strict=True):
                of = [hit for at, hit in zip(rows, hits, strict=True) if right[at] == item.name]
                _recalled(f"the recall of {item.name!r} of {name}", of, recall)
            if each.sure is not None:
                _near(
                    f"how sure the student is of {name}",
                    math.fsum(sure[at] for at in rows) / len(rows),
                    each.sure,
                    SURE,
                )


def _recalled(what: str, hits: Iterable[bool], recorded: float | None) -> None:
    found = [*hits]
    if len(found) < LEAST_OF_GROUP:
        _same(f"{what}, of too few rows", recorded, None)
    else:
        _near(what, sum(found) / len(found), recorded, 1.5 / len(found))


def _same(what: str, found: object, recorded: object) -> None:
    if found != recorded:
        raise NotVerified(f"{what} is {found}, but it was certified as {recorded}")


def _near(what: str, found: float, recorded: float | None, apart: float) -> None:
    if recorded is None or not abs(found - recorded) <= apart:
        raise NotVerified(f"{what} is {found:.6g}, but it was certified as {recorded}")
