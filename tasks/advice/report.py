"""The report on a plan, from public figures alone: what each mechanism would do, and what a student would learn.

Checked by tests/flows/cli/test_plan_command.py
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from concord.artifacts.errors import WrongInput
from concord.artifacts.guarantee import NO_LATER_ROWS
from concord.artifacts.plan import Plan, load_plan
from concord.artifacts.sections import TALLIES
from concord.tasks.advice.choose import PublicFacts, class_shares, recommended
from concord.tasks.advice.compare import Option, plan_mechanism, plan_mechanisms
from concord.tasks.advice.cover import Account, as_decided, check_cover
from concord.tasks.advice.expect import (
    Premises,
    expect_choice,
    premises_of,
    read_agreement,
)
from concord.tasks.advice.rehearse_sketch import expect_sketch
from concord.tasks.advice.rehearse_tallies import expect_tallies
from concord.tasks.advice.rehearse_votes import expect_votes, simulated_votes
from concord.tasks.advice.tallies import check_columns
from concord.tasks.data.grid import reading_encoding
from concord.tasks.data.sources import with_public_snapshots
from concord.tasks.mechanisms.sketch import Sketch
from concord.tasks.student.synthetic import ROWS

FIGURES = ("epsilon", "delta", "teachers", "queries", "classes")


def plan_report(path: Path | None, agreement: str | None, home: Path, **given: float | None) -> dict[str, Any]:
    """What to expect of a plan, with the figures `given` in place of its own.

    home   the home whose ledger, if there is one, has the domain's remaining budget
    Raises WrongInput if a figure is missing or not valid, BudgetRefused if the domain does not cover the plan.
    """
    if path is None:
        return {**_of_votes(None, None, agreement, **given), "lifetime": None}
    plan = load_plan(path)
    budget = {name: given[name] for name in ("epsilon", "delta") if given.get(name) is not None}
    labeling = {} if given.get("rows") is None else {"rows": given["rows"]}
    changes = {"privacy": plan.privacy.model_copy(update=budget), "labeling": plan.labeling.model_copy(update=labeling)}
    plan = with_public_snapshots(plan.model_copy(update=changes), home)
    account, asks = Account.of(plan, home), plan.ways != ("hypothesis",)
    public = PublicFacts.of(plan, account.domain.filter.order) if asks and plan.data.public is not None else None
    plan = as_decided(plan, public)
    covered = check_cover(plan, public, account)
    match plan.ways:
        case ("hypothesis",):
            _require_alone(given, ("epsilon", "rows"), "whose student is chosen without teachers")
            choice = expect_choice(plan, plan.privacy.epsilon)
            found = {"epsilon": choice.epsilon, "delta": 0.0, "choice": asdict(choice), "mechanisms": []}
        case ("sketch",):
            _require_alone(given, ("epsilon", "delta", "rows"), "for tallies, which have no teachers")
            found = _of_sketch(plan)
        case ("tallies",) if public is not None:
            _require_alone(given, ("epsilon", "delta", "rows"), "for tallies, which have no teachers")
            found = _of_tallies(plan, public)
        case _:
            found = _of_votes(plan, public, agreement, **given)
    return {**found, "lifetime": covered and asdict(covered)}


def _of_votes(
    plan: Plan | None, public: PublicFacts | None, agreement: str | None, **given: float | None
) -> dict[str, Any]:
    """What to expect of every mechanism of votes, and of a student that learns by the planned one, or else the best."""
    asked = _asked(plan, public, agreement, **given)
    if plan is not None and public is not None and asked.agreement is None:
        teachers = plan.teachers.model_copy(update={"count": asked.teachers})
        asked = replace(asked, agreement=simulated_votes(teachers, plan, public, asked.request.rows))
    request = asked.request
    options = plan_mechanisms(request, None if asked.mechanism else asked.cutoff)
    planned = plan_mechanism(asked.mechanism, request, asked.cutoff) if asked.mechanism else None
    runs, ahead = planned or options[0], None
    if plan is not None and public is not None:
        ahead = expect_votes(plan, public, request, runs)
    return {
        **{name: getattr(asked, name) for name in FIGURES},
        "agreement": float(request.shares[:, 0].mean()),
        "guessed": agreement is not None,
        "mechanism_at": {"epsilon": request.epsilon, "delta": request.delta},
        "relabel": asked.subset,
        "choice": None if plan is None or not asked.choice else asdict(expect_choice(plan, asked.choice)),
        "mechanisms": [asdict(option) for option in options],
        "planned": planned and asdict(planned),
        "votes": ahead and asdict(ahead),
        **recommended(options, plan, public, planned),
    }


def _asked(plan: Plan | None, public: PublicFacts | None, agreement: str | None, **given: float | None) -> Premises:
    """The figures to plan for: those given, otherwise the plan's. Raises WrongInput."""
    rows = int(given.get("queries") or (public.rows if public else 0)) or None
    result = premises_of(plan, rows) if plan else {}
    result |= {name: given[name] for name in FIGURES if given.get(name) is not None}
    for name in FIGURES:
        if name not in result:
            raise WrongInput(f"--{name} must be given, or a plan file with it")
    if agreement is not None:
        result["agreement"] = read_agreement(agreement, result["classes"], plan.data.format if plan else None)
    return Premises(**result)


def _require_alone(given: Mapping[str, float | None], names: Sequence[str], plans: str) -> None:
    """Raise WrongInput if a figure was given that plans of that kind do not use."""
    for name, value in given.items():
        if value is not None and name not in names:
            raise WrongInput(f"--{name} is not used for a plan {plans}")


def _of_tallies(plan: Plan, public: PublicFacts) -> dict[str, Any]:
    """The cost of tallies, and what to expect of them."""
    check_columns(plan, public.encoding)
    found = expect_tallies(plan, public)
    option = Option(name=TALLIES, feasible=found.feasible, expected_answered=public.rows, reason=found.reason)
    return {
        "epsilon": found.epsilon,
        "delta": found.delta,
        "choice": None,
        "mechanisms": [asdict(option)],
        "recommended": {"name": TALLIES, "cutoff": None, "reason": found.reason} if found.feasible else None,
        "tallies": asdict(found),
        "later_rows": NO_LATER_ROWS,
    }


def _of_sketch(plan: Plan) -> dict[str, Any]:
    """The cost of a sketch, the noise of each step, and what to expect of it."""
    found = expect_sketch(plan, class_shares(plan, reading_encoding(plan)))
    option = Option(name=Sketch.name, feasible=found.feasible, expected_answered=ROWS, reason=found.reason)
    return {
        "epsilon": plan.privacy.epsilon,
        "delta": plan.privacy.delta,
        "choice": None,
        "mechanisms": [asdict(option)],
        "recommended": {"name": Sketch.name, "cutoff": None, "reason": found.reason} if found.feasible else None,
        "sketch": asdict(found),
        "later_rows": NO_LATER_ROWS,
    }
