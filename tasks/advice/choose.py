"""Choose: resolve mechanism = "auto": tallies, unless they cannot be asked.

Where they cannot, teachers vote: by `stable` if the plan says at which cutoff its session ends, otherwise by
`noisy_votes`, which need neither a cutoff nor a guess of how much teachers agree. The result is a plan that names the
mechanism; that plan runs, is charged and is recorded.

Assumes      the public facts in `PublicFacts` belong to the plan
Guarantees   no private row is read. The choice follows from the plan and the types of public columns, by no arithmetic:
             it is the same on every machine
Not covered  whether another way would teach more. Checked by tests/tasks/advice/test_recommend.py
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import polars as pl

from concord.artifacts.domains import Filter
from concord.artifacts.errors import WrongInput
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding
from concord.artifacts.sections import TALLIES
from concord.tasks.advice.tallies import check_columns, planned_sizes
from concord.tasks.advice.votes import PlannedVotes
from concord.tasks.data.cells import cast_rows, systematic_sample
from concord.tasks.data.codes import Codes, learn_codes
from concord.tasks.data.encode import labelled_rows, learn_encoding
from concord.tasks.data.tables import open_public

REHEARSED = 4_000
"""Most public rows on which a plan is rehearsed."""


@dataclass(frozen=True, kw_only=True)
class PublicFacts:
    """Facts of the public tables.

    rows      number of public rows
    codes     their codes for a plan
    order     Rényi order of the domain that is charged
    sample    some of the rows, cast; empty if nothing is to be rehearsed
    shares    of the classes, by `class_shares`
    """

    rows: int
    encoding: Encoding
    codes: Callable[[Plan], Codes]
    order: float
    sample: pl.DataFrame = field(default_factory=pl.DataFrame)
    shares: tuple[float, ...] | None = None

    @classmethod
    def of(cls, plan: Plan, order: float | None = None) -> "PublicFacts":
        """The facts of the plan's own table. Raises WrongInput if it does not fit the plan, or the test table."""
        encoding, table = learn_encoding(plan), open_public(plan.path("public"), form=plan.data.format)
        lifetime = plan.privacy.lifetime

        def frames() -> Iterator[pl.DataFrame]:  # read again each time: a table may be larger than memory
            return (cast_rows(frame, encoding) for frame in table.frames(encoding.features))

        @cache
        def learned(**sizes: Any) -> Codes:
            return learn_codes(frames(), encoding.columns, **sizes)

        return cls(
            rows=sum(frame.height for frame in table.frames(encoding.features)),
            encoding=encoding,
            codes=lambda plan: learned(**planned_sizes(plan, encoding)),
            order=order or Filter.freeze(lifetime.epsilon, lifetime.delta).order,
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


def decided(plan: Plan, encoding: Encoding) -> tuple[Plan, str]:
    """The plan that names what mechanism = "auto" stands for, and the reason; a plan that names another mechanism as it
    is, without a reason. Raises WrongInput if none can run."""
    if not plan.undecided:
        return plan, ""
    against = no_tallies(plan, encoding)
    if against is None:
        return plan.naming(TALLIES), "noisy sums over the private rows label all public rows"
    silent = None
    if not plan.teachers.count:
        silent = "[teachers] does not say who would vote"
    elif plan.student.learner == "linear":
        silent = "student.learner = 'linear' is decoded from tallies alone"
    if silent is not None:
        raise WrongInput(f"labeling.mechanism = 'auto' finds nothing that can work: no tallies: {against}; {silent}")
    votes = "noisy_votes" if plan.labeling.cutoff is None else "stable"
    return plan.naming(votes, plan.labeling.cutoff), f"teachers vote; no tallies: {against}"


def no_tallies(plan: Plan, encoding: Encoding) -> str | None:
    """The reason why rows cannot be asked for tallies, or None."""
    if plan.relabel is not None:
        return "[relabel] is for teachers, who learn from the rows"
    if "hypothesis" in plan.ways:
        return "student.learner = 'universal' is chosen beside votes or alone"
    if plan.labeling.rows is None:
        return "labeling.rows does not say how many private units there are, roughly"
    try:
        check_columns(plan.naming(TALLIES), encoding)
    except WrongInput as wrong:
        return str(wrong)
    return None
