"""Choose: resolve mechanism = "auto" to votes or tallies, by their worth to the student.

The plan states what may be compared: votes if it has [teachers], at its cutoff and rows if it names them; and tallies
if it has labeling.rows. The reason names each alternative that is left out. The
result is a plan that names the chosen mechanism; it is that plan which runs, is charged and is recorded.

Assumes      the public facts in `PublicFacts` belong to the plan
Guarantees   no private row is read. The choice is a function of public figures, and its worth does not fall as ε grows
Not covered  how well guesses describe the private rows (worth.py). Checked by tests/tasks/advice/test_recommend.py
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from concord.artifacts.domains import Filter
from concord.artifacts.errors import WrongInput
from concord.artifacts.guarantee import NO_LATER_ROWS, later_rows_in_words
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding
from concord.artifacts.sections import MECHANISMS, TALLIES
from concord.tasks.advice.compare import Option, Stream, best_mechanism, recommend
from concord.tasks.advice.expect import Premises, premises_of
from concord.tasks.advice.tallies import check_columns, planned_sizes, tallies_option
from concord.tasks.advice.worth import enough, fields_of
from concord.tasks.data.cells import cast_rows, systematic_sample
from concord.tasks.data.codes import Codes, learn_codes
from concord.tasks.data.encode import labelled_rows, learn_encoding
from concord.tasks.data.tables import open_public

REHEARSED = 4_000
"""Most public rows on which tallies are rehearsed."""


@dataclass(frozen=True, kw_only=True)
class PublicFacts:
    """Facts of the public tables.

    rows      number of public rows
    codes     their codes for a plan
    order     Rényi order of the domain that is charged
    sample    some of the rows, cast; empty if nothing is to be rehearsed
    shares    of the classes in the public test table; None if there is none
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
        frames = [cast_rows(frame, encoding) for frame in table.frames(encoding.features)]
        shares = None
        if plan.data.test is not None and encoding.classes:
            counts = np.bincount(labelled_rows(plan.path("test"), encoding)[1], minlength=len(encoding.classes))
            shares = tuple(((counts + 0.5) / (counts + 0.5).sum()).tolist())
        lifetime = plan.privacy.lifetime
        return cls(
            rows=sum(frame.height for frame in frames),
            encoding=encoding,
            codes=_once_by_sizes(encoding, frames),
            order=order or Filter.freeze(lifetime.epsilon, lifetime.delta).order,
            sample=systematic_sample(iter(frames), REHEARSED),
            shares=shares,
        )

    def stream(self, plan: Plan) -> Stream:
        """The stream that a voting mechanism would answer. Raises WrongInput if no budget is left for it."""
        return Premises(
            **{**premises_of(plan, self.rows), "order": self.order, "fields": fields_of(self.encoding)}
        ).stream


def _once_by_sizes(encoding: Encoding, frames: Sequence[pl.DataFrame]) -> Callable[[Plan], Codes]:
    """The codes of a plan, learned once for each choice of bins and cells, which is all they depend on here."""
    learned: dict[tuple[object, ...], Codes] = {}

    def codes(plan: Plan) -> Codes:
        sizes = planned_sizes(plan, encoding)
        key = tuple(sizes.values())
        if key not in learned:
            learned[key] = learn_codes(frames, encoding.columns, **sizes)
        return learned[key]

    return codes


def decided(plan: Plan, public: PublicFacts) -> tuple[Plan, str]:
    """The plan with mechanism = "auto" replaced by the chosen one, and the reason. Raises WrongInput if none can run.

    Tallies are taken unless votes are worth more and teach a student by themselves.
    """
    tallies, worth, mechanism = weigh_tallies(plan, public), 0.0, None
    if no_votes(plan) is None:
        stream = public.stream(plan)
        worth, mechanism = best_mechanism(stream, plan.labeling.cutoff)
    least = enough(len(plan.data.classes), fields_of(public.encoding))
    if tallies.feasible and (worth < least or tallies.worth > worth):
        otherwise = no_votes(plan) or f"votes would teach as much as {worth:,.0f}"
        return plan.naming(TALLIES), f"{tallies.reason}; {otherwise}"
    if mechanism is None or worth < least:
        few = f"votes would teach as much as {worth:,.0f} labels, and a student needs about {least:,}"
        why = f"no tallies: {tallies.reason}; {no_votes(plan) or few}"
        raise WrongInput(f"labeling.mechanism = 'auto' finds nothing that can work: {why}")
    less = f"tallies would teach as much as {tallies.worth:,.0f}"
    otherwise = less if tallies.feasible else f"no tallies: {tallies.reason}"
    votes = f"{mechanism.name} of {plan.teachers.count:,} teachers is as good as {worth:,.0f} labels"
    return plan.naming(mechanism.name, mechanism.cutoff), f"{votes}; {otherwise}"


def no_votes(plan: Plan) -> str | None:
    """The reason why teachers cannot vote, or None."""
    if not plan.teachers.count:
        return "[teachers] does not say who would vote"
    if plan.student.reads_codes:
        return "student.learner = 'linear' is decoded from tallies alone"
    return None


def no_tallies(plan: Plan, encoding: Encoding) -> str | None:
    """The reason why rows cannot be asked for tallies, or None."""
    if plan.relabel is not None:
        return "[relabel] is for teachers, who learn from the rows"
    if plan.student.learner == "universal":
        return "student.learner = 'universal' is chosen beside votes or alone"
    if plan.labeling.rows is None:
        return "labeling.rows does not say how many private units there are, roughly"
    try:
        check_columns(plan.naming(TALLIES), encoding)
    except WrongInput as wrong:
        return str(wrong)
    return None


def weigh_tallies(plan: Plan, public: PublicFacts) -> Option:
    """What to expect of tallies with the plan's settings."""
    reason = no_tallies(plan, public.encoding)
    if reason is not None:
        return Option(name=TALLIES, feasible=False, reason=reason)
    asked = plan.naming(TALLIES)
    return tallies_option(asked, public.codes(asked), public.rows)


def recommended(
    options: Sequence[Option], plan: Plan | None, public: PublicFacts | None, own: Option | None = None
) -> dict[str, Any]:
    """The recommended option and the reason, or why there is none; and whether the session of the plan's `own` option,
    or else of the recommended one, can be extended."""
    try:
        best = recommend(options)
    except WrongInput as none:
        return {"recommended": None, "reason": str(none), "later_rows": None}
    named = {"name": best.name, "cutoff": best.cutoff, "reason": best.reason}
    later = None if plan is None or public is None else later_rows(plan, public.rows, own or best)
    return {"recommended": named, "reason": best.reason, "later_rows": later}


def later_rows(plan: Plan, rows: int, option: Option) -> str:
    """Whether the plan's session can be extended after its own `rows`, as expected of that option, in words."""
    if option.name == TALLIES:
        return NO_LATER_ROWS
    by_rows = "queries" in MECHANISMS[option.name]
    paid = plan.labeling.queries or rows
    asked = min(rows, paid) if by_rows else rows
    return later_rows_in_words(
        queries=paid if by_rows else None,
        cutoff=option.cutoff,
        asked=asked,
        refused=asked - option.expected_answered,
    )
