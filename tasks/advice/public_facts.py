"""Public facts: what a plan's public tables say, by which it is planned and rehearsed.

Assumes      the tables are public
Guarantees   no private row is read; tables are read again for each fact, since they may be larger than memory
Not covered  tables that change between two readings. Checked by tests/tasks/advice/test_rehearse.py and
             test_joined_plans.py
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self

import numpy as np
import polars as pl

from concord.artifacts.domains import Filter
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding
from concord.tasks.advice.planned import PlannedVotes, planned_sizes
from concord.tasks.data.cells import cast_rows
from concord.tasks.data.codes import Codes, learn_codes
from concord.tasks.data.encode import labelled_rows, learn_encoding, systematic_sample
from concord.tasks.data.joined import unclustered
from concord.tasks.data.tables import open_public

REHEARSED = 4_000
"""Most public rows on which a plan is rehearsed."""


@dataclass(frozen=True, kw_only=True)
class PublicFacts:
    """Facts of the public tables.

    rows      number of public rows
    codes     their codes for a plan
    order     Rényi order of the domain that is charged
    ratio     R of the rows (tasks.data.joined), by the sample that codes are learned from
    sample    some of the rows, cast; empty if nothing is to be rehearsed
    shares    of the classes, by `class_shares`
    """

    rows: int
    encoding: Encoding
    codes: Callable[[Plan], Codes]
    order: float
    ratio: Callable[[], float | None]
    sample: pl.DataFrame = field(default_factory=pl.DataFrame)
    shares: tuple[float, ...] | None = None

    @classmethod
    def of(cls, plan: Plan, order: float | None = None) -> Self:
        """The facts of the plan's own table. Raises WrongInput if it does not fit the plan, or the test table."""
        encoding, table = learn_encoding(plan), open_public(plan.path("public"), form=plan.data.format)
        lifetime = plan.privacy.lifetime

        def frames() -> Iterator[pl.DataFrame]:  # read again each time: a table may be larger than memory
            return (cast_rows(frame, encoding) for frame in table.frames(encoding.asked))

        @cache
        def learned(**sizes: Any) -> Codes:
            return learn_codes(frames(), encoding.columns, **sizes)

        return cls(
            rows=sum(frame.height for frame in table.frames(encoding.asked)),
            encoding=encoding,
            codes=lambda plan: learned(**planned_sizes(plan, encoding)),
            order=order or Filter.freeze(lifetime.epsilon, lifetime.delta).order,
            ratio=cache(lambda: unclustered(systematic_sample(frames()), encoding.columns)),
            sample=systematic_sample(frames(), REHEARSED),
            shares=class_shares(plan, encoding),
        )

    def votes(self, plan: Plan) -> PlannedVotes:
        """The votes of a plan on these rows. Raises WrongInput if they cannot be asked for within its budget."""
        return PlannedVotes.of(plan, self.rows, self.order)


def class_shares(plan: Plan, encoding: Encoding) -> tuple[float, ...] | None:
    """Shares of the classes, as declared or else in the public test table; None if neither is given. Raises WrongInput
    if the table does not fit the plan."""
    if plan.data.shares is not None:
        return tuple(plan.data.shares[name] for name in encoding.classes)
    if plan.data.test is None or not encoding.classes:
        return None
    counts = np.bincount(labelled_rows(plan.path("test"), encoding)[1], minlength=len(encoding.classes)) + 0.5
    return tuple((counts / counts.sum()).tolist())
