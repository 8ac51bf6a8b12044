"""Suggest: tallies or votes, and the number of teachers, for a first plan, by public figures alone.

Tallies, unless they cannot be asked. Of votes the plan names the number of teachers whose student is best in a
simulation, among a few sizes of shards, and the mechanism with most informative labels of their votes.

Not covered  the limits of a model class. Checked by tests/flows/cli/test_init.py
"""

from dataclasses import dataclass
from pathlib import Path

from concord.artifacts.errors import WrongInput
from concord.artifacts.guarantee import NO_LATER_ROWS
from concord.artifacts.learners import TeachersPlan
from concord.artifacts.plan import Plan
from concord.tasks.advice.choose import PublicFacts, class_shares, later_rows, no_tallies
from concord.tasks.advice.compare import LabelRequest, best_mechanism, plan_mechanism
from concord.tasks.advice.cover import Account, check_cover
from concord.tasks.advice.draft import EnsembleAdvice, InitSettings, draft
from concord.tasks.advice.rehearse import ClassAhead
from concord.tasks.advice.rehearse_sketch import expect_sketch
from concord.tasks.advice.rehearse_tallies import ReleaseAhead, expect_tallies
from concord.tasks.advice.rehearse_votes import expect_votes, simulated_votes
from concord.tasks.asking.teachers import PROPOSED
from concord.tasks.data.grid import reading_encoding

ROWS_A_TEACHER = (200, 100, 50, 25)
"""Numbers of rows per shard that are tried: fewer rows give more teachers, who are weaker and tolerate more noise."""
MOST_TEACHERS = 2000
SKETCHED = (
    "a part of the budget buys tables of the private rows; synthetic rows that resemble these take the place of public "
    "ones"
)


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


def suggest(settings: InitSettings, folder: Path, home: Path, *, tallies: bool | None = None) -> Suggested:
    """A plan, by public figures alone.

    home      home whose ledger, if there is one, has the domain's remaining budget
    tallies   True for tallies, False for votes; None for tallies unless they cannot be asked
    Raises WrongInput if nothing fits the session's budget, BudgetRefused if the lifetime budget does not cover it.
    """
    text, plan = draft(settings, None, folder)
    account = Account.of(plan, home)
    for needs_tallies, why in (
        (settings.public is None, "needs --public: synthetic rows are labelled by tallies alone"),
        (settings.bounds, "does not apply with --bounds: the label is a number, which needs tallies"),
        (settings.season, "does not apply with --season: a stream releases running sums, which need tallies"),
    ):
        if needs_tallies and tallies is False:
            raise WrongInput(f"--no-tallies {why}")
    if settings.public is None:
        check_cover(plan, None, account)
        ahead = expect_sketch(plan, class_shares(plan, reading_encoding(plan)))
        return Suggested(text=text, ensemble=None, reason=f"{SKETCHED}; {ahead.reason}", classes=ahead.classes)
    public = PublicFacts.of(plan, account.domain.filter.order)
    against = no_tallies(plan, public.encoding)
    if tallies is False or (against is not None and tallies is None and plan.data.bounds is None and not plan.stream):
        suggested, plan = _by_votes(settings, folder, plan, public, against)
    elif against is not None:
        raise WrongInput(f"tallies cannot be asked: {against}")
    else:
        of = expect_tallies(plan, public)
        suggested = Suggested(text=text, ensemble=None, reason=of.reason, classes=of.classes, releases=of.releases)
    check_cover(plan, public, account)
    return suggested


def _by_votes(
    settings: InitSettings, folder: Path, direct: Plan, public: PublicFacts, against: str | None
) -> tuple[Suggested, Plan]:
    """The plan of votes whose student is best with labels of a typical signal.

    direct    the plan for tallies
    against   why there are no tallies
    Raises WrongInput if none has enough labels.
    """
    found, why = list[tuple[float, str, Plan, EnsembleAdvice]](), "no mechanism fits the budget"
    for size in ROWS_A_TEACHER:
        teachers = min(MOST_TEACHERS, max(1, settings.rows // size))
        step: int = 10 ** max(0, len(str(teachers)) - 2)  # two leading digits
        ensemble = _ensemble(settings, teachers // step * step, direct, public)
        if ensemble is None or not ensemble.best.feasible:
            why = ensemble.best.reason if ensemble else why
            continue
        text, plan = draft(settings, ensemble, folder)
        ahead = expect_votes(plan, public, public.request(plan), ensemble.best, [("typical", 0)])
        found.append((ahead.rehearsed[0].right if ahead else 0.0, text, plan, ensemble))
    if not found:
        instead = "leave out --no-tallies to ask the rows themselves" if against is None else against
        rows = f"{settings.rows:,} rows"
        raise WrongInput(f"votes cannot teach a student within the budget, from {rows}: {why}; {instead}")
    _, text, plan, ensemble = max(found, key=lambda each: each[0])
    best = ensemble.best
    ahead = expect_votes(plan, public, public.request(plan), best)
    reason = f"{best.reason}; no tallies: {against}" if against else best.reason
    suggested = Suggested(
        text=text,
        ensemble=ensemble,
        reason=f"{ahead.reason}; {reason}" if ahead else reason,
        later_rows=later_rows(plan, public.rows, best),
        classes=ahead.classes if ahead else (),
    )
    return suggested, plan


def _ensemble(settings: InitSettings, teachers: int, direct: Plan, public: PublicFacts) -> EnsembleAdvice | None:
    """So many teachers, and the mechanism with most informative labels of their simulated votes; None if none fits."""
    shard, room = settings.rows / teachers, max(10, public.rows // 10)  # a tenth of the present rows may come later
    request = LabelRequest(
        epsilon=direct.privacy.epsilon,
        delta=direct.privacy.delta,
        teachers=teachers,
        queries=public.rows,
        classes=len(settings.classes),
        agreement=simulated_votes(TeachersPlan(count=teachers, **PROPOSED.model_dump()), direct, public, shard),
        order=public.order,
        room=room,
        units=settings.rows,
    )
    _, mechanism = best_mechanism(request)
    if mechanism is None:
        return None
    best = plan_mechanism(mechanism.name, request, mechanism.cutoff)
    return EnsembleAdvice(teachers=teachers, best=best, queries=public.rows + room)
