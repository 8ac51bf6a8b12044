"""Suggest: votes or tallies, and the number of teachers, for a first plan, by public figures alone.

Both are compared as for mechanism = "auto", and the plan names the result: the number of teachers with most worth among
a few sizes of shards, or the tallies of the same plan.

Not covered  the limits of a model class. Checked by tests/flows/cli/test_init.py
"""

import tomllib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from concord.artifacts.errors import WrongInput
from concord.artifacts.guarantee import NO_LATER_ROWS
from concord.artifacts.plan import Plan, parse_plan
from concord.tasks.advice.choose import PublicFacts, later_rows, weigh_tallies
from concord.tasks.advice.compare import Option, Stream, best_mechanism, plan_mechanism
from concord.tasks.advice.cover import Account, check_cover
from concord.tasks.advice.draft import EnsembleAdvice, Wishes, draft, usual_room
from concord.tasks.advice.rehearse import ClassAhead
from concord.tasks.advice.rehearse_tallies import ReleaseAhead, expect_tallies
from concord.tasks.advice.rehearse_votes import expect_votes
from concord.tasks.advice.worth import fields_of

ROWS_A_TEACHER = (200, 100, 50, 25)
"""Numbers of rows per shard that are tried: fewer rows give more teachers, who are weaker and tolerate more noise."""
MOST_TEACHERS = 2000


@dataclass(frozen=True, kw_only=True)
class Suggested:
    """The plan as text, its ensemble (None for tallies), the reason for it, whether its session can be extended, what
    to expect of each class, and what releases of a stream teach."""

    text: str
    ensemble: EnsembleAdvice | None
    reason: str
    later_rows: str = NO_LATER_ROWS
    classes: tuple[ClassAhead, ...] = ()
    releases: tuple[ReleaseAhead, ...] = ()


def suggest(wishes: Wishes, folder: Path, home: Path, *, tallies: bool | None = None) -> Suggested:
    """The plan of most expected worth, by public figures alone.

    home      home whose ledger, if there is one, has the domain's remaining budget
    tallies   True for tallies, False for votes; None for the one of more worth
    Raises WrongInput if nothing fits the session's budget, BudgetRefused if the lifetime budget does not cover it.
    """
    direct = draft(wishes, None, folder)
    plan = _parsed(direct, folder)
    account = Account.of(plan, home)
    public = PublicFacts.of(plan, account.domain.filter.order)
    suggested = _suggested(wishes, folder, direct, public, tallies)
    plan = _parsed(suggested.text, folder)
    check_cover(plan, public, account)
    return suggested


def _parsed(text: str, folder: Path) -> Plan:
    return parse_plan({**tomllib.loads(text), "folder": str(folder)})


def _suggested(wishes: Wishes, folder: Path, direct: str, public: PublicFacts, tallies: bool | None) -> Suggested:
    """The suggestion of tallies, by the plan `direct`, or of votes."""
    plan = _parsed(direct, folder)
    asked = weigh_tallies(plan, public)
    for option, given, why in (
        ("--bounds", wishes.bounds, "the label is a number, which nobody votes on"),
        ("--season", wishes.season, "running sums are released, and nobody votes"),
    ):
        if given is not None and tallies is False:
            raise WrongInput(f"--no-tallies has no meaning with {option}: {why}")
    if (wishes.bounds, wishes.season) != (None, None):
        return _by_tallies(direct, plan, public, asked)
    voting = _ensemble(wishes, public)
    worth = voting.best.worth if voting.best.feasible else 0.0
    if tallies or (tallies is None and asked.feasible and asked.worth > worth):
        otherwise = f"votes would teach as much as {worth:,.0f}" if worth else "votes would not do"
        found = _by_tallies(direct, plan, public, asked)
        return replace(found, reason=f"{found.reason}; {otherwise}") if asked.feasible else found
    if not worth:
        raise WrongInput(
            f"votes cannot teach a student within the budget, from {wishes.rows:,} rows: {voting.best.reason}; "
            f"{'leave out --no-tallies to ask the rows themselves' if asked.feasible else asked.reason}"
        )
    less = f"tallies would teach as much as {asked.worth:,.0f}" if asked.feasible else f"no tallies: {asked.reason}"
    reason = f"{voting.best.reason}; {less}"
    voting = replace(voting, best=replace(voting.best, reason=reason))
    text = draft(wishes, voting, folder)
    plan = _parsed(text, folder)
    stream, later = public.stream(plan), later_rows(plan, public.rows, voting.best)
    ahead = expect_votes(plan, public, stream, voting.best.name, voting.best.cutoff)
    classes = ahead.classes if ahead else ()
    reason = f"{ahead.reason}; {reason}" if ahead else reason
    return Suggested(text=text, ensemble=voting, reason=reason, later_rows=later, classes=classes)


def _by_tallies(direct: str, plan: Plan, public: PublicFacts, asked: Option) -> Suggested:
    """The plan `direct`, and what to expect of its tallies if they fit the budget."""
    if not asked.feasible:
        return Suggested(text=direct, ensemble=None, reason=asked.reason)
    ahead = expect_tallies(plan, public)
    return Suggested(text=direct, ensemble=None, reason=ahead.reason, classes=ahead.classes, releases=ahead.releases)


def _ensemble(wishes: Wishes, public: PublicFacts) -> EnsembleAdvice:
    """The number of teachers and the mechanism of most expected worth."""
    found = []
    figures: dict[str, Any] = {
        **{"epsilon": wishes.epsilon, "delta": wishes.delta, "classes": len(wishes.classes), "units": wishes.rows},
        **{
            "queries": public.rows,
            "room": usual_room(public.rows),
            "order": public.order,
            "fields": fields_of(public.encoding),
        },
    }
    for size in ROWS_A_TEACHER:
        teachers = _round(min(MOST_TEACHERS, max(1, wishes.rows // size)))
        stream = Stream.expected(teachers=teachers, **figures)
        worth, mechanism = best_mechanism(stream)
        if mechanism is not None:
            found.append((worth, plan_mechanism(mechanism.name, stream, mechanism.cutoff), teachers))
    nothing = 0.0, Option(name="none", feasible=False, reason="no mechanism fits the budget"), 0
    _, best, teachers = max(found, key=lambda each: each[0], default=nothing)
    return EnsembleAdvice(teachers=teachers, best=best, queries=public.rows + usual_room(public.rows))


def _round(count: int) -> int:
    """A number rounded down to two leading digits."""
    step: int = 10 ** max(0, len(str(count)) - 2)
    return count // step * step
