"""Choose: resolve mechanism = "auto" to votes or tallies, by their worth to the student.

The plan states what may be compared: votes if it has [teachers], at its cutoff and rows if it names them; and tallies
if it has labeling.rows, with its rounds, bins and repair. The reason names each alternative that is left out. The
result is a plan that names the chosen mechanism; it is that plan which runs, is charged and is recorded.

Assumes      the public facts in `PublicFacts` belong to the plan
Guarantees   no private row is read. The choice is a function of public figures, and its worth does not fall as ε grows
Not covered  how well guesses describe the private rows (worth.py). Checked by tests/tasks/advice/test_recommend.py
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from concord.artifacts.certificate import Expected
from concord.artifacts.domains import freeze
from concord.artifacts.errors import WrongInput
from concord.artifacts.guarantee import NO_LATER_ROWS, later_rows_in_words
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding
from concord.artifacts.sections import MECHANISMS, TALLIES
from concord.tasks.advice.compare import Option, Stream, best_mechanism, recommend
from concord.tasks.advice.expect import RATIOS, AtEpsilon, Premises, at_other_epsilons, premises_of
from concord.tasks.advice.tallies import bins_of, check_columns, planned_codes, tallies_option
from concord.tasks.advice.worth import enough, fields_of
from concord.tasks.data.cells import cast_rows
from concord.tasks.data.codes import Codes
from concord.tasks.data.encode import labelled_rows, learn_encoding
from concord.tasks.data.tables import open_public


@dataclass(frozen=True, kw_only=True)
class PublicFacts:
    """Facts of the public table: its number of rows, its encoding, its codes for a plan; and the Rényi order of the
    domain that is charged."""

    rows: int
    encoding: Encoding
    codes: Callable[[Plan], Codes]
    order: float

    @classmethod
    def of(cls, plan: Plan, order: float | None = None) -> "PublicFacts":
        """The facts of the plan's own table. Raises WrongInput if it does not fit the plan, or the test table."""
        encoding, table = learn_encoding(plan), open_public(plan.path("public"), form=plan.data.format)
        frames = [cast_rows(frame, encoding) for frame in table.frames(encoding.features)]
        if plan.data.test is not None:
            labelled_rows(plan.path("test"), encoding)
        lifetime = plan.privacy.lifetime
        return cls(
            rows=sum(frame.height for frame in frames),
            encoding=encoding,
            codes=_once_by_bins(lambda asked: planned_codes(asked, encoding, frames)),
            order=order or freeze(lifetime.filter, lifetime.epsilon, lifetime.delta).order,
        )

    def stream(self, plan: Plan) -> Stream:
        """The stream that a voting mechanism would answer. Raises WrongInput if no budget is left for it."""
        premises = premises_of(plan, plan.labeling.queries or self.rows)
        return Premises(**{**premises, "order": self.order, "fields": fields_of(self.encoding)}).stream


def _once_by_bins(learn: Callable[[Plan], Codes]) -> Callable[[Plan], Codes]:
    """The codes of a plan, learned once for each number of bins, which is all they depend on here."""
    learned: dict[int, Codes] = {}

    def codes(plan: Plan) -> Codes:
        bins = bins_of(plan)
        if bins not in learned:
            learned[bins] = learn(plan)
        return learned[bins]

    return codes


def decided(plan: Plan, public: PublicFacts) -> tuple[Plan, str]:
    """The plan with mechanism = "auto" replaced by the chosen one, and the reason. Raises WrongInput if none works."""
    tallies, worth, mechanism = weigh_tallies(plan, public), 0.0, None
    if no_votes(plan) is None:
        stream = public.stream(plan)
        worth, mechanism = best_mechanism(stream, plan.labeling.cutoff)
    if not tallies.feasible and worth < enough(len(plan.data.classes), fields_of(public.encoding)):
        raise WrongInput(f"labeling.mechanism = 'auto' finds nothing that can work: {would_work(plan, public)}")
    if tallies.feasible and tallies.worth > worth:
        otherwise = no_votes(plan) or f"votes would teach as much as {worth:,.0f}"
        return plan.naming(TALLIES), f"{tallies.reason}; {otherwise}"
    assert mechanism is not None
    less = f"tallies would teach as much as {tallies.worth:,.0f}"
    otherwise = less if tallies.feasible else f"no tallies: {tallies.reason}"
    votes = f"{mechanism.name} of {plan.teachers.count:,} teachers is as good as {worth:,.0f} labels"
    return plan.naming(mechanism.name, mechanism.cutoff), f"{votes}; {otherwise}"


def no_votes(plan: Plan) -> str | None:
    """The reason why teachers cannot vote, or None."""
    if not plan.teachers.count:
        return "[teachers] does not say who would vote"
    if any(student.learner == "linear" for student in plan.student.each):
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


def tallies_at_other_epsilons(plan: Plan, public: PublicFacts) -> list[AtEpsilon]:
    """What to expect of tallies at RATIOS of the plan's ε, with a lifetime budget that covers each."""
    epsilons, lifetime = [plan.privacy.epsilon * ratio for ratio in RATIOS], plan.privacy.lifetime
    ample = _with(plan, "privacy", lifetime=lifetime.model_copy(update={"epsilon": max(lifetime.epsilon, *epsilons)}))
    return [
        AtEpsilon(epsilon=each, share=1.0, option=weigh_tallies(_with(ample, "privacy", epsilon=each), public))
        for each in epsilons
    ]


SHARE_DIGITS = 4
"""Digits to which an expected share is rounded."""


def expected_at(plan: Plan, encoding: Encoding, rows: int, codes: Codes | None) -> tuple[Expected, ...]:
    """Expected results of the mechanism that ran at RATIOS of the plan's ε, by public facts alone; empty if the plan
    does not state enough, and without an ε that gives no finite number: it must not fail, since all is spent by now.

    rows    number of public rows
    codes   codes of tallies; None for votes
    """
    try:
        if codes is not None:
            public = PublicFacts(rows=rows, encoding=encoding, codes=lambda _: codes, order=math.inf)
            other = tallies_at_other_epsilons(plan, public)
        elif plan.votes and not plan.undecided and plan.student.learner == "fitted":
            premises = Premises(**{**premises_of(plan, rows), "fields": fields_of(encoding)})
            other = at_other_epsilons(premises, plan.labeling.mechanism)
        else:
            return ()
    except WrongInput:  # a table of agreement that is not there any more
        return ()
    return tuple(
        Expected(epsilon=each.epsilon, labels=int(each.option.worth), lost=round(each.option.lost, SHARE_DIGITS))
        for each in other
        if each.option.lost is not None and math.isfinite(each.option.lost) and math.isfinite(each.option.worth)
    )


def recommended(
    options: Sequence[Option], plan: Plan | None, public: PublicFacts | None, own: Option | None = None
) -> dict[str, Any]:
    """The recommended option and the reason, or why there is none and what would make the plan work; and whether the
    session of the plan's `own` option, or else of the recommended one, can be extended."""
    try:
        best = recommend(options)
    except WrongInput as none:
        ways = "" if plan is None or public is None else f"; {would_work(plan, public)}"
        return {"recommended": None, "reason": f"{none}{ways}", "later_rows": None}
    named = {"name": best.name, "cutoff": best.cutoff, "reason": best.reason}
    later = None if plan is None or public is None else later_rows(plan, public.rows, own or best)
    return {"recommended": named, "reason": best.reason, "later_rows": later}


def later_rows(plan: Plan, rows: int, option: Option) -> str:
    """Whether the plan's session can be extended after its own `rows`, as expected of that option, in words."""
    if option.name == TALLIES:
        return NO_LATER_ROWS
    by_rows = "queries" in MECHANISMS[option.name]
    queries, refused = plan.labeling.most_asked(rows) if by_rows else None, rows - option.expected_answered
    return later_rows_in_words(queries=queries, cutoff=option.cutoff, asked=rows, refused=refused)


def would_work(plan: Plan, public: PublicFacts) -> str:
    """Changes that would let the plan label `enough` rows, in words."""
    ways, reason = list[str](), no_tallies(plan, public.encoding)
    if reason is None:
        ways.extend(_of_tallies(plan.naming(TALLIES), public))
    elif no_tallies(_with(plan, "labeling", rows=1), public.encoding) is None:
        ways.append(f"tallies may: {reason}")
    if no_votes(plan) is None:
        ways.extend(_of_votes(plan, public))
    return "; ".join(ways) or "no ε up to 16 would do, nor any number of rows"


def _of_tallies(plan: Plan, public: PublicFacts) -> Iterable[str]:
    codes, stated = public.codes(plan), plan.labeling.rows or 1

    def works(asked: Plan) -> bool:
        return tallies_option(asked, codes, public.rows).feasible

    rows = _least(stated, lambda most: works(_with(plan, "labeling", rows=int(most))), LARGEST_ROWS)
    if rows is not None:
        yield f"tallies would from about {rows:,.0f} private units on"
    epsilon = _least(plan.privacy.epsilon, lambda most: works(_with(plan, "privacy", epsilon=most)), LARGEST_EPSILON)
    if epsilon is not None:
        yield f"with the {stated:,} stated, tallies would from about ε = {epsilon:g} on"


def _of_votes(plan: Plan, public: PublicFacts) -> Iterable[str]:
    needed = enough(len(plan.data.classes), fields_of(public.encoding))

    def works(epsilon: float) -> bool:
        try:
            stream = public.stream(_with(plan, "privacy", epsilon=epsilon))
        except WrongInput:
            return False
        return best_mechanism(stream, plan.labeling.cutoff)[0] >= needed

    epsilon = _least(plan.privacy.epsilon, works, LARGEST_EPSILON, within=1.3)
    if epsilon is not None:
        yield f"votes of {plan.teachers.count:,} teachers would from about ε = {epsilon:g} on"


LARGEST_EPSILON, LARGEST_ROWS = 16.0, 1e9
"""Largest ε and number of rows that are suggested."""


def _least(start: float, works: Callable[[float], bool], most: float, within: float = 1.05) -> float | None:
    """The least number from `start` to `most` that works, up to a factor `within` and two digits; None if none does."""
    low, high = start, start
    while not works(high):
        low, high = high, 2 * high
        if high > most:
            return None
    while high > within * low:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if works(middle) else (middle, high)
    step = 10.0 ** (math.floor(math.log10(high)) - 1)
    return math.ceil(round(high / step, 6)) * step


def _with(plan: Plan, section: str, **changes: Any) -> Plan:
    return plan.model_copy(update={section: getattr(plan, section).model_copy(update=changes)})
