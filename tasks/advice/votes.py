"""Planned votes: the mechanism of a plan whose teachers vote, and what they are asked.

The ε of a plan is divided as at the door (`tasks.asks.votes`): the choice of a student takes its part, and relabelling
leaves an (ε, δ) for the mechanism on a secret subset.

Assumes      plan and number of public rows are public
Guarantees   nothing is charged and nothing drawn
Not covered  a mechanism left to `auto`, which `choose` resolves before.
             Checked by tests/tasks/advice/test_cover.py
"""

from dataclasses import dataclass
from typing import Self

from concord.artifacts.guarantee import later_rows_in_words
from concord.artifacts.plan import Plan
from concord.tasks.advice.tallies import learning_units
from concord.tasks.asking.relabel import Subset, subset_of
from concord.tasks.mechanisms.mechanism import Mechanism, calibrate
from concord.tasks.mechanisms.relabelled import inner_budget


@dataclass(frozen=True, kw_only=True)
class PlannedVotes:
    """Votes as a plan asks for them.

    mechanism       as the door would calibrate it, for (epsilon, delta); of relabelled rows, the one on their subset
    queries         number of public rows that are asked
    shard           private units of a teacher; None if the plan does not state their number
    subset          settings of the secret subset from which teachers learn; None if they learn from all rows
    """

    mechanism: Mechanism
    epsilon: float
    delta: float
    teachers: int
    queries: int
    shard: float | None
    subset: Subset | None

    @classmethod
    def of(cls, plan: Plan, rows: int, order: float) -> Self:
        """The votes of a plan on so many public rows, in a domain of that Rényi order. Raises WrongInput."""
        plan.labeling.check_end()
        epsilon, delta, units = plan.epsilon_of_labels, plan.privacy.delta, learning_units(plan)
        teachers, paid = plan.teachers.count, plan.labeling.queries or rows
        subset = None if plan.relabel is None else subset_of(plan.relabel, epsilon)
        if subset is not None:
            epsilon, delta = inner_budget(epsilon, delta, **subset)
            units = None if units is None else units * subset["share"]
        mechanism = calibrate(
            plan.labeling.mechanism,
            epsilon=epsilon,
            delta=delta,
            cutoff=plan.labeling.cutoff,
            queries=paid,
            classes=len(plan.data.classes),
            teachers=teachers,
            order=order,
        )
        return cls(
            mechanism=mechanism,
            epsilon=epsilon,
            delta=delta,
            teachers=teachers,
            queries=min(rows, paid),
            shard=None if units is None else units / teachers,
            subset=subset,
        )

    def later_rows(self, answered: float) -> str:
        """Whether the session can be extended after `answered` of its rows, in words."""
        mechanism = self.mechanism
        return later_rows_in_words(
            queries=mechanism.queries, cutoff=mechanism.cutoff, asked=self.queries, refused=self.queries - answered
        )
