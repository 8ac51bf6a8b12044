"""The report on a plan, from public figures alone: what it costs, and what a student would learn.

Checked by tests/flows/cli/test_plan_command.py
"""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from concord.artifacts.guarantee import NO_LATER_ROWS
from concord.artifacts.home.vault import Vault
from concord.artifacts.plan import Plan, load_plan
from concord.artifacts.sections import TALLIES
from concord.tasks.advice.choose import PublicFacts
from concord.tasks.advice.cover import Account, as_decided, check_cover
from concord.tasks.advice.rehearse_sketch import SketchAhead, expect_sketch
from concord.tasks.advice.rehearse_tallies import TalliesAhead, expect_tallies
from concord.tasks.advice.rehearse_votes import expect_votes, expected_answers
from concord.tasks.advice.tallies import check_columns
from concord.tasks.data.sources import not_local, with_snapshots
from concord.tasks.mechanisms.exponential import Universal
from concord.tasks.mechanisms.sketch import Sketch
from concord.tasks.student.synthetic import ROWS


def plan_report(path: Path, home: Path) -> dict[str, Any]:
    """What to expect of a plan, and of its own mechanism.

    home   the home whose ledger, if there is one, has the domain's remaining budget
    Raises WrongInput if the plan is not valid, BudgetRefused if the domain does not cover it.
    """
    plan = load_plan(path)
    if fields := not_local(plan).keys() & {"public", "test"}:
        plan = with_snapshots(plan, Vault(home / "vault"), *fields)
    account, asks = Account.of(plan, home), plan.ways != ("hypothesis",)
    public = PublicFacts.of(plan, account.domain.filter.order) if asks and plan.data.public is not None else None
    plan = as_decided(plan, public)
    plan.labeling.check_end()
    covered = check_cover(plan, public, account)
    match plan.ways:
        case ("sketch",):
            sketch = expect_sketch(plan)
            found = {"sketch": asdict(sketch), **_of_sums(Sketch.name, ROWS, sketch)}
        case ("tallies",) if public is not None:
            check_columns(plan, public.encoding)
            tallies = expect_tallies(plan, public)
            found = {"tallies": asdict(tallies), **_of_sums(TALLIES, public.rows, tallies)}
        case _ if public is not None:
            found = _of_votes(plan, public)
        case _:
            name = plan.labeling.mechanism if asks else Universal.name
            found = {"mechanisms": [_mechanism(name, NOT_SIMULATED)], "later_rows": None}
    budget = {"epsilon": plan.privacy.epsilon, "delta": plan.privacy.delta if asks else 0.0}
    return {**budget, **found, "lifetime": covered and asdict(covered)}


NOT_SIMULATED = "it cannot be simulated from public rows alone"


def _mechanism(
    name: str,
    reason: str,
    *,
    feasible: bool = True,
    cutoff: int | None = None,
    answered: float | None = None,
    changed: float | None = None,
) -> dict[str, Any]:
    """What to expect of a mechanism; None for what is not known.

    answered, changed   rows answered, and the share of their labels that noise changes
    """
    expected = {"expected_answered": answered, "label_error": changed}
    return {"name": name, "feasible": feasible, "cutoff": cutoff, **expected, "reason": reason}


def _of_sums(name: str, rows: int, ahead: TalliesAhead | SketchAhead) -> dict[str, Any]:
    """What to expect of noisy sums, by which all rows are labelled."""
    mechanism = _mechanism(name, ahead.reason, feasible=ahead.feasible, answered=rows)
    return {"mechanisms": [mechanism], "later_rows": NO_LATER_ROWS}


def _of_votes(plan: Plan, public: PublicFacts) -> dict[str, Any]:
    """What to expect of the mechanism of votes, and of a student that learns by it."""
    planned = public.votes(plan)
    expected, ahead = expected_answers(plan, public, planned), expect_votes(plan, public, planned)
    mechanism, reasons = planned.mechanism, list[str]()
    if expected is not None:
        rows = f"answers about {expected.answered:,.0f} of {planned.queries:,} rows"
        reasons = [f"{rows}, noise changing {expected.changed:.1%} of the labels"]
    if ahead is not None:
        reasons.append(ahead.reason)
    own = _mechanism(
        mechanism.name,
        "; ".join(reasons) or NOT_SIMULATED,
        feasible=ahead is None or ahead.feasible,
        cutoff=mechanism.cutoff,
        answered=None if expected is None else expected.answered,
        changed=None if expected is None else expected.changed,
    )
    return {
        "teachers": planned.teachers,
        "queries": planned.queries,
        "mechanism_at": {"epsilon": planned.epsilon, "delta": planned.delta},
        "relabel": planned.subset,
        "mechanisms": [own],
        "votes": ahead and asdict(ahead),
        "later_rows": expected and planned.later_rows(expected.answered),
    }
