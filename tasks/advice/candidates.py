"""Candidates: what a private choice among students costs, and how many units set aside make it a good one.

By public figures alone: neither table is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from concord.artifacts.domains import freeze
from concord.artifacts.plan import Plan
from concord.tasks.advice.expect import BETA, selection_rows
from concord.tasks.mechanisms.student_choice import StudentChoice

GAPS = (0.05, 0.02, 0.01, 0.003)
"""By how much more of the rows others are wrong about than the best candidate."""


@dataclass(frozen=True, kw_only=True)
class UnitsNeeded:
    """Units set aside by which a choice is good with probability 1 − BETA, if candidates are `gap` apart.

    drawn   the best is chosen, by the luck of the draw alone: all others are wrong about `gap` more of those very units
    proved  the chosen one is wrong about at most `gap` more of all rows than the best, whoever was set aside: a bound
            for any candidates, far from what alike ones need
    """

    gap: float
    drawn: int
    proved: int


@dataclass(frozen=True, kw_only=True)
class ChoiceAhead:
    """What to expect of a choice among candidates.

    nats    charged to the test part of the units, at the domain's Rényi order; of a Gaussian filter μ², and no order
    share   of the units that is set aside
    aside   how many that is, if there are as many as the plan states; None if it states none
    reason  what the draw tells by so many
    """

    epsilon: float
    candidates: int
    nats: float
    order: float | None
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
    cap, rate, rows = freeze(lifetime.filter, lifetime.epsilon, lifetime.delta), choice.choice.rate, plan.labeling.rows
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
        nats=float(cap.charge(choice.cost).divergence),
        order=cap.order if cap.kind == "renyi" else None,
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
