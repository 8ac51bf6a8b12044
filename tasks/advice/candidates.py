"""Candidates: the cost of a private choice among students, and the number of units to set aside for a good one.

Computed from public figures alone: neither table is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from concord.artifacts.domains import Filter
from concord.artifacts.plan import Plan
from concord.tasks.advice.expect import BETA, selection_rows
from concord.tasks.mechanisms.exponential import StudentChoice

GAPS = (0.05, 0.02, 0.01, 0.003)
"""Differences between the error rates of the other candidates and of the best one."""


@dataclass(frozen=True, kw_only=True)
class UnitsNeeded:
    """Units to set aside so that a choice is good with probability 1 − BETA, if candidates are `gap` apart.

    drawn   units for which the best is chosen, over the randomness of the choice alone: all others are wrong about
            `gap` more of these same units
    proved  units for which the chosen one errs at most `gap` more on all rows than the best, whichever units are set
            aside: a bound for any candidates, far above what similar ones need
    """

    gap: float
    drawn: int
    proved: int


@dataclass(frozen=True, kw_only=True)
class ChoiceAhead:
    """What to expect of a choice among candidates.

    nats    charge to the test part of the units, at the domain's Rényi order
    share   share of the units that is set aside
    aside   their number, if there are as many as the plan states; None if it states none
    reason  the gap that the choice can distinguish, in words
    """

    epsilon: float
    candidates: int
    nats: float
    order: float
    share: float
    aside: float | None
    units: tuple[UnitsNeeded, ...]
    reason: str


def expect_candidates(plan: Plan) -> ChoiceAhead | None:
    """What to expect of a plan's choice among candidates; None if it names none."""
    student, lifetime = plan.student, plan.privacy.lifetime
    if student.candidates is None or student.epsilon is None or plan.test is None:
        return None
    count, choice = len(student.candidates), StudentChoice(epsilon=student.epsilon, secret=plan.privacy.secret)
    cap, rate, rows = Filter.freeze(lifetime.epsilon, lifetime.delta), choice.choice.rate, plan.labeling.rows
    units = [
        UnitsNeeded(
            gap=gap,
            drawn=choice.units_apart(gap, count, BETA),
            proved=selection_rows(candidates=count, alpha=gap, beta=BETA, rate=rate),
        )
        for gap in GAPS
    ]
    aside = None if rows is None else rows * plan.test.share
    return ChoiceAhead(
        epsilon=student.epsilon,
        candidates=count,
        nats=float(cap.charge(choice.cost).renyi),
        order=cap.order,
        share=plan.test.share,
        aside=aside,
        units=tuple(units),
        reason=_tells(aside, units),
    )


def _tells(aside: float | None, units: Sequence[UnitsNeeded]) -> str:
    if aside is None:
        return "How many units that is follows from how many there are, which the plan does not state."
    distinguished = [f"candidates {item.gap:.1%} apart" for item in units if item.drawn <= aside]
    tells = distinguished[-1] if distinguished else f"no candidates that are less than {GAPS[0]:.1%} apart"
    return f"About {aside:,.0f} of the units stated are set aside: the draw tells {tells}."
