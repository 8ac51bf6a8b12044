"""The report on a plan, from public figures alone: what it costs, whether its domain's lifetime budget covers that, and
what a student would learn.

Whether it is covered is the ledger's own rule (`artifacts.domains`), with the plan's lifetime budget, or with the real
domain if the home has it: its fixed order and its charges so far. The session is calibrated as at the door.

Assumes      a home's ledger is the one that the plan will be run with
Guarantees   no private row is read and nothing is written: a missing home is not created
Not covered  sessions of the same version and charge are taken to be the plan's own, which a run continues at no further
             charge; a run itself compares identities. Checked by tests/tasks/advice/test_cover.py and
             tests/flows/cli/test_plan_command.py
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from concord.artifacts.domains import Domain
from concord.artifacts.errors import BudgetRefused, NotCovered, WrongInput
from concord.artifacts.guarantee import NO_LATER_ROWS, cap_in_words, lifetime_in_words
from concord.artifacts.ledger.home_contents import checked_ledger
from concord.artifacts.ledger.ledger import Ledger
from concord.artifacts.parts import LEARNING, NOTHING
from concord.artifacts.plan import Plan, load_plan
from concord.artifacts.privacy import Charge, Cost
from concord.artifacts.sections import TALLIES
from concord.artifacts.sessions import Session
from concord.tasks.advice.planned import PlannedVotes, check_columns, decided, planned_sketch, planned_tallies
from concord.tasks.advice.public_facts import PublicFacts
from concord.tasks.data.grid import grid_of
from concord.tasks.data.sources import with_public_snapshots
from concord.tasks.mechanisms.exponential import Universal
from concord.tasks.mechanisms.sketch import Sketch
from concord.tasks.student.synthetic import ROWS

if TYPE_CHECKING:
    from concord.tasks.advice.rehearse import Ahead


def plan_report(path: Path, home: Path) -> dict[str, Any]:
    """What to expect of a plan, and of its own mechanism.

    home   the home whose ledger, if there is one, has the domain's remaining budget
    Raises WrongInput if the plan is not valid, BudgetRefused if the domain does not cover it.
    """
    plan = with_public_snapshots(load_plan(path), home)
    account, asks = Account.of(plan, home), plan.ways != ("hypothesis",)
    public = PublicFacts.of(plan, account.domain.filter.order) if asks and plan.data.public is not None else None
    plan = as_decided(plan, public)
    plan.labeling.check_end()
    covered = check_cover(plan, public, account)
    from concord.tasks.advice.rehearse_sketch import expect_sketch  # heavy: what a run needs of this file does without
    from concord.tasks.advice.rehearse_tallies import expect_tallies

    match plan.ways:
        case ("sketch",):
            sketch = expect_sketch(plan)
            expected = {"sketch": asdict(sketch), **_of_sums(Sketch.name, ROWS, sketch)}
        case ("tallies",) if public is not None:
            check_columns(plan, public.encoding)
            tallies = expect_tallies(plan, public)
            expected = {"tallies": asdict(tallies), **_of_sums(TALLIES, public.rows, tallies)}
        case _ if public is not None:
            expected = _of_votes(plan, public)
        case _:
            name = plan.labeling.mechanism if asks else Universal.name
            expected = {"mechanisms": [{"name": name, **UNKNOWN, "reason": NOT_SIMULATED}], "later_rows": None}
    budget = {"epsilon": plan.privacy.epsilon, "delta": plan.privacy.delta if asks else 0.0}
    return {**budget, **expected, "lifetime": covered and asdict(covered)}


NOT_SIMULATED = "it cannot be simulated from public rows alone"


UNKNOWN: dict[str, Any] = {"feasible": True, "cutoff": None, "expected_answered": None, "label_error": None}
"""What to expect of a mechanism of which nothing is known, not even how many labels noise changes."""


def _of_sums(name: str, rows: int, ahead: "Ahead") -> dict[str, Any]:
    """What to expect of noisy sums, by which all rows are labelled."""
    expected = {**UNKNOWN, "feasible": ahead.feasible, "expected_answered": rows}
    return {"mechanisms": [{"name": name, **expected, "reason": ahead.reason}], "later_rows": NO_LATER_ROWS}


def _of_votes(plan: Plan, public: PublicFacts) -> dict[str, Any]:
    """What to expect of the mechanism of votes, and of a student that learns by it."""
    from concord.tasks.advice.rehearse_votes import expect_votes, expected_answers

    planned = public.votes(plan)
    expected, ahead = expected_answers(plan, public, planned), expect_votes(plan, public, planned)
    mechanism, reasons = planned.mechanism, list[str]()
    if expected is not None:
        rows = f"answers about {expected.answered:,.0f} of {planned.queries:,} rows"
        reasons = [f"{rows}, noise changing {expected.changed:.1%} of the labels"]
    if ahead is not None:
        reasons.append(ahead.reason)
    described = {
        "name": mechanism.name,
        "feasible": ahead is None or ahead.feasible,
        "cutoff": mechanism.cutoff,
        "expected_answered": None if expected is None else expected.answered,
        "label_error": None if expected is None else expected.changed,
        "reason": "; ".join(reasons) or NOT_SIMULATED,
    }
    return {
        "teachers": planned.teachers,
        "queries": planned.queries,
        "mechanism_at": {"epsilon": planned.epsilon, "delta": planned.delta},
        "relabel": None if planned.subset is None else {"share": planned.subset},
        "mechanisms": [described],
        "votes": ahead and asdict(ahead),
        "later_rows": expected and planned.later_rows(expected.answered),
    }


EPSILONS = tuple(round(digits * 10.0**power, 9) for power in range(-5, 1) for digits in range(100, 1000))
"""Values of three digits, from 0.001 up, among which the largest ε that fits is searched."""


@dataclass(frozen=True, kw_only=True)
class Account:
    """A domain, the present charge of the units that are learned from, and the sessions that can be continued.

    named   whether the ledger has the domain yet
    """

    domain: Domain
    charged: Charge = NOTHING
    sessions: tuple[Session, ...] = ()
    named: bool = False

    @classmethod
    def of(cls, plan: Plan, home: Path) -> Self:
        """The plan's domain from the home's ledger, or as the plan would create it.

        Raises WrongInput if the two caps differ, unless `concord domain` has changed the ledger's; NotVerified if the
        ledger does not verify.
        """
        name, lifetime = plan.privacy.domain, plan.privacy.lifetime
        ledger = checked_ledger(home) if Ledger.is_there(home) else None
        recorded = None if ledger is None else ledger.domain(name)
        if ledger is None or recorded is None:
            terms = {"unit": "", "neighbours": ""}
            return cls(domain=Domain.frozen(name, **terms, epsilon=lifetime.epsilon, delta=lifetime.delta))
        terms = {"unit": recorded.unit, "neighbours": recorded.neighbours}
        ledger.plan_domain(name, **terms, epsilon=lifetime.epsilon, delta=lifetime.delta)
        gone = {remark.about for remark in ledger.remarks(name) if remark.kind == "forgotten"}
        sessions = tuple(session for session in ledger.sessions(name) if session.id not in gone)
        return cls(domain=recorded, charged=ledger.totals(name)[LEARNING], sessions=sessions, named=True)

    def charge(self, plan: Plan, costs: Iterable[Cost]) -> tuple[Charge, bool]:
        """The total charge of these costs of the plan, and whether sessions for all of them exist already.

        Raises BudgetRefused if one has no finite charge by the domain's filter.
        """
        try:
            charges = [self.domain.filter.charge(cost) for cost in costs]
        except ValueError as infinite:
            raise BudgetRefused(f"domain {self.domain.name!r} cannot cover this session: {infinite}") from None
        there = [session.reserved for session in self.sessions if session.data_version == plan.data.version]
        return sum(charges, NOTHING), all(charge in there for charge in charges)

    def admits(self, charge: Charge) -> bool:
        """Whether a further charge stays within the cap."""
        return self.domain.filter.admits(self.charged + charge)


@dataclass(frozen=True, kw_only=True)
class Covered:
    """The part of its domain's lifetime budget that a plan's session takes.

    share   share of the whole budget
    used    share of the whole budget used by earlier sessions
    more    number of further sessions like it that fit
    own     whether it exists already: a run continues it and is charged nothing more
    reason  all of this in words
    """

    share: float
    used: float
    more: int
    own: bool
    reason: str


def check_cover(plan: Plan, public: PublicFacts | None, account: Account) -> Covered | None:
    """The part of its domain's budget that the plan's session takes; None if the plan does not state its end, or cannot
    be met.

    Raises BudgetRefused if the domain does not cover it; the message names the largest ε that fits.
    """
    try:
        plan = as_decided(plan, public)
        costs = costs_of(plan, public, account)
    except WrongInput:
        return None
    if costs is None:
        return None
    charge, there = account.charge(plan, costs)
    rule = account.domain.filter
    if not there and not account.admits(charge):
        privacy, fits = plan.privacy, _fitting(largest_epsilon(plan, public, account))
        of = f" (ε = {rule.epsilon:g}, δ = {rule.delta:g})"
        spent = f", {rule.share(account.charged):.0%} used," if account.named else ""
        raised = "`concord domain` raises the cap" if account.named else "a larger privacy.lifetime covers more"
        raise BudgetRefused(
            f"the lifetime budget of domain {privacy.domain!r}{of}{spent} does not cover a session of ε = "
            f"{privacy.epsilon:g}, δ = {privacy.delta:g}: {fits}; {raised}"
        )
    after = account.charged if there else account.charged + charge
    share, used, more = rule.share(charge), rule.share(account.charged), rule.more(after, charge)
    words = lifetime_in_words(share, rule.share(after), more)
    lifetime, takes = plan.privacy.lifetime, f"the session takes {words}{GOES_ON if there else ''}"
    capped = cap_in_words(account.domain, lifetime.epsilon, lifetime.delta)
    reason = "; ".join(filter(None, (takes, capped)))
    return Covered(share=share, used=used, more=more, own=there, reason=reason)


GOES_ON = "; such a session is there, and a run that goes on with it is charged nothing"


def costs_of(plan: Plan, public: PublicFacts | None, account: Account) -> list[Cost] | None:
    """Cost of each session of the plan at its end, calibrated as at the door; None if its end is not stated.

    Raises WrongInput if the plan's settings cannot be met.
    """
    costs = []
    for way in plan.ways:
        cost: Cost | None = None
        match way:
            case "hypothesis":
                cost = Universal(epsilon=plan.epsilon_of_choice, secret=plan.privacy.secret).cost
            case "sketch":
                cost = planned_sketch(plan, grid_of(plan.data.sketched)).cost
            case "tallies" if public is not None:
                cost = planned_tallies(plan, public.codes(plan), public.rows).cost
            case "votes" if plan.relabel is not None:
                cost = Cost.approximate(plan.epsilon_of_labels, plan.privacy.delta)  # whatever answers, the whole
            case "votes" if not plan.undecided:
                rows = public.rows if public else plan.labeling.queries
                if rows is not None:
                    cost = PlannedVotes.of(plan, rows, account.domain.filter.order).mechanism.cost
        if cost is None:
            return None
        costs.append(cost)
    return costs


def largest_epsilon(plan: Plan, public: PublicFacts | None, account: Account) -> float | None:
    """The largest ε of three digits, below the plan's, that the domain covers; None if none does."""

    def too_much(epsilon: float) -> bool | None:
        cheaper = plan.model_copy(update={"privacy": plan.privacy.model_copy(update={"epsilon": epsilon})})
        try:
            costs = costs_of(cheaper, public, account) or []
        except WrongInput:
            return None  # too little to calibrate for
        return not account.admits(account.charge(cheaper, costs)[0])

    below = [epsilon for epsilon in EPSILONS if (plan.student.epsilon or 0.0) < epsilon < plan.privacy.epsilon]
    first = bisect_left(below, True, key=lambda epsilon: bool(too_much(epsilon)))
    return below[first - 1] if first and too_much(below[first - 1]) is False else None


@contextmanager
def naming_the_largest(plan: Plan, home: Path) -> Iterator[None]:
    """Context that adds the largest ε that would be covered to the error for a session that is not covered."""
    try:
        yield
    except NotCovered as refused:
        try:
            account = Account.of(plan, home)
            public = None if plan.data.public is None else PublicFacts.of(plan, account.domain.filter.order)
            plan = as_decided(plan, public)
            stated = costs_of(plan, public, account)
            words = f"; {_fitting(largest_epsilon(plan, public, account))}" if stated else ""
        except WrongInput:
            raise refused from None
        raise NotCovered(f"{refused}{words}") from None


def as_decided(plan: Plan, public: PublicFacts | None) -> Plan:
    """The plan as a run takes it, as far as that is known."""
    return plan if public is None else decided(plan, public.encoding)[0]


def _fitting(largest: float | None) -> str:
    return NONE_FITS if largest is None else f"a session of up to ε = {largest:g} still fits"


NONE_FITS = "no smaller ε fits either, for sessions may be charged half of its δ, and the rest is for conversion"
