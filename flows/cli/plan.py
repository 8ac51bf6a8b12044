"""The command `plan`: its input, and its report on mechanisms, on what was simulated, and on chosen students."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.table import Table

from concord.artifacts.errors import WrongInput
from concord.artifacts.guarantee import NO_LATER_ROWS
from concord.artifacts.plan import Plan, load_plan
from concord.artifacts.sections import TALLIES
from concord.flows.console import out
from concord.tasks.advice.choose import PublicFacts, class_shares, recommended
from concord.tasks.advice.compare import Option, plan_mechanism, plan_mechanisms
from concord.tasks.advice.cover import Account, as_decided, check_cover
from concord.tasks.advice.expect import (
    Premises,
    expect_candidates,
    expect_choice,
    premises_of,
    read_agreement,
)
from concord.tasks.advice.rehearse import span
from concord.tasks.advice.rehearse_sketch import expect_sketch
from concord.tasks.advice.rehearse_tallies import expect_tallies
from concord.tasks.advice.rehearse_votes import expect_votes, simulated_votes
from concord.tasks.advice.tallies import check_columns
from concord.tasks.data.grid import reading_encoding
from concord.tasks.data.sources import with_public_snapshots
from concord.tasks.mechanisms.sketch import Sketch
from concord.tasks.student.synthetic import ROWS

FIGURES = ("epsilon", "delta", "teachers", "queries", "classes")


def report(path: Path | None, agreement: str | None, home: Path, **given: float | None) -> dict[str, Any]:
    """What to expect of a plan, with the figures `given` in place of its own.

    home   the home whose ledger, if there is one, has the domain's remaining budget
    Raises WrongInput if a figure is missing or not valid, BudgetRefused if the domain does not cover the plan.
    """
    if path is None:
        return {**_of_votes(None, None, agreement, **given), "candidates": None, "lifetime": None}
    plan = load_plan(path)
    budget = {name: given[name] for name in ("epsilon", "delta") if given[name] is not None}
    labeling = {} if given.get("rows") is None else {"rows": given["rows"]}
    changes = {"privacy": plan.privacy.model_copy(update=budget), "labeling": plan.labeling.model_copy(update=labeling)}
    plan = with_public_snapshots(plan.model_copy(update=changes), home)
    account, asks = Account.of(plan, home), plan.ways != ("hypothesis",)
    public = PublicFacts.of(plan, account.domain.filter.order) if asks and plan.data.public is not None else None
    plan = as_decided(plan, public)
    covered = check_cover(plan, public, account)
    if not asks:
        _require_alone(given, ("epsilon", "rows"), "whose student is chosen without teachers")
        choice = expect_choice(plan, plan.privacy.epsilon)
        found = {"epsilon": choice.epsilon, "delta": 0.0, "choice": asdict(choice), "mechanisms": []}
    elif plan.data.declared is not None:
        _require_alone(given, ("epsilon", "delta", "rows"), "for tallies, which have no teachers")
        found = _of_sketch(plan)
    elif plan.tallied and public is not None:
        _require_alone(given, ("epsilon", "delta", "rows"), "for tallies, which have no teachers")
        found = _of_tallies(plan, public)
    else:
        found = _of_votes(plan, public, agreement, **given)
    candidates = expect_candidates(plan)
    return {**found, "candidates": candidates and asdict(candidates), "lifetime": covered and asdict(covered)}


def _of_votes(
    plan: Plan | None, public: PublicFacts | None, agreement: str | None, **given: float | None
) -> dict[str, Any]:
    """What to expect of every mechanism of votes, and of a student that learns by the planned one, or else the best."""
    asked = _asked(plan, public, agreement, **given)
    if plan is not None and public is not None and asked.agreement is None:
        teachers = plan.teachers.model_copy(update={"count": asked.teachers})
        asked = replace(asked, agreement=simulated_votes(teachers, plan, public, asked.stream.rows))
    stream = asked.stream
    options = plan_mechanisms(stream, None if asked.mechanism else asked.cutoff)
    planned = plan_mechanism(asked.mechanism, stream, asked.cutoff) if asked.mechanism else None
    runs, ahead = planned or options[0], None
    if plan is not None and public is not None:
        ahead = expect_votes(plan, public, stream, runs)
    return {
        **{name: getattr(asked, name) for name in FIGURES},
        "agreement": float(stream.shares[:, 0].mean()),
        "guessed": agreement is not None,
        "mechanism_at": {"epsilon": stream.epsilon, "delta": stream.delta},
        "relabel": asked.subset,
        "choice": None if plan is None or not asked.choice else asdict(expect_choice(plan, asked.choice)),
        "mechanisms": [asdict(option) for option in options],
        "planned": planned and asdict(planned),
        "votes": ahead and asdict(ahead),
        **recommended(options, plan, public, planned),
    }


def show_plan(found: dict[str, Any]) -> None:
    """Print the mechanisms as a table, best first, and the advised one; what was simulated; and any choice."""
    if found["mechanisms"] and not {"sketch", "tallies"} & found.keys():
        _show_mechanisms(found)
    if found.get("votes"):
        _show_rehearsed(found["votes"])
    if found["choice"]:
        _show_choice(found["choice"])
    at = f"ε = {found['epsilon']:g}, δ = {found['delta']:g}"
    if "sketch" in found:
        sketch = found["sketch"]
        title = f"{at}, {len(sketch['columns'])} declared columns, no public rows"
        _show_sums(title, ("step", "counts of", "tables or columns"), sketch["steps"], sketch["rho"])
        for name in sketch["left_out"]:
            out.print(f"column {name!r} is left out: data.schema declares no categories", markup=False, soft_wrap=True)
        _show_rehearsed(sketch)
    if "tallies" in found:
        tallies = found["tallies"]
        title = f"{at}, {tallies['codes']:,} codes of {tallies['columns']} columns"
        _show_sums(title, ("round", "sums of", "columns"), tallies["rounds"], tallies["rho"])
        _show_rehearsed(tallies)
        if tallies["releases"]:
            show_releases(tallies["releases"])
    if found.get("later_rows"):
        out.print(f"Later rows: {found['later_rows']}.", markup=False, soft_wrap=True)
    if found["candidates"]:
        _show_candidates(found["candidates"])
    if found["lifetime"]:
        out.print(f"As planned, {found['lifetime']['reason']}.", markup=False, soft_wrap=True)


def _asked(plan: Plan | None, public: PublicFacts | None, agreement: str | None, **given: float | None) -> Premises:
    """The figures to plan for: those given, otherwise the plan's. Raises WrongInput."""
    rows = int(given["queries"] or (public.rows if public else 0)) or None
    result = premises_of(plan, rows) if plan else {}
    result |= {name: given[name] for name in FIGURES if given[name] is not None}
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


def _show_sums(title: str, asked: tuple[str, str, str], steps: list[dict[str, Any]], rho: float) -> None:
    """Print what each step of noisy sums asks for, its share of the budget and its noise, and the charge of all."""
    table = _table(title, *asked, "share of the budget", "noise of a sum, in units")
    for number, item in enumerate(steps, start=1):
        table.add_row(str(number), item["what"], str(item["columns"]), f"{item['share']:.0%}", f"{item['noise']:,.1f}")
    out.print(table)
    out.print(f"Opening the session charges the domain the whole ρ = {rho:.4g}.")


HEADINGS = (  # what the headings mean
    "margin needed: lead of the largest class, in votes, at which a row gets its label with probability 99%. teachers "
    "needed: for a row of average agreement. cutoff: refusals until the session ends. informative: equivalent number "
    "of labels without noise; the simulation shows what a student learns."
)


def _show_mechanisms(found: dict[str, Any]) -> None:
    at = found["mechanism_at"]
    title = f"ε = {at['epsilon']:.4g}, δ = {at['delta']:.4g}, {found['teachers']:,} teachers, {found['queries']:,} rows"
    headings = ("cutoff", "margin needed", "teachers needed", "rows answered", "labels changed", "informative")
    table = _table(title, "mechanism", *headings)
    for item in found["mechanisms"]:
        counts = (_count(item[name]) for name in ("cutoff", "margin_needed", "teachers_needed", "expected_answered"))
        rest = (f"{item['label_error']:.1%}", _count(item["informative"]))
        table.add_row(item["name"], *counts, *rest, style=None if item["feasible"] else "dim")
    out.print(table)
    out.print(HEADINGS, style="dim", soft_wrap=True)
    of_choice = found["choice"]["epsilon"] if found["choice"] else 0
    if found["choice"]:
        out.print(f"The choice of the student takes {of_choice:g} of ε = {found['epsilon']:g}.")
    if found["relabel"]:
        out.print(
            f"Relabelling and the mechanism above together cost ε = {found['epsilon'] - of_choice:g}, δ = "
            f"{found['delta']:g}. Teachers learn from a secret subset alone: {found['relabel']['share']:.1%} of the "
            "private rows on average."
        )
    guess = "as simulated by a typical signal" if found["votes"] and not found["guessed"] else "a public guess"
    out.print(
        f"Expected if the largest class has {found['agreement']:.1%} of the votes on average, {guess}.", soft_wrap=True
    )
    best, own = found["recommended"], found["planned"]
    if own is not None:
        named = own["name"] if own["cutoff"] is None else f"{own['name']}, cutoff {own['cutoff']:,}"
        out.print(f"As planned, {named}: {own['reason']}.", markup=False)
    advice = f"Recommended: {best['name']}, {best['reason']}." if best else f"This cannot work: {found['reason']}."
    out.print(advice, soft_wrap=True)
    for item in found["mechanisms"]:
        if best is None or item["name"] != best["name"]:
            out.print(f"{item['name']}: {item['reason']}.", markup=False, soft_wrap=True)


def _show_choice(choice: dict[str, Any]) -> None:
    kind = choice["hypotheses"]
    out.print(
        f"The student is chosen for ε = {choice['epsilon']:g}, δ = 0: one of {choice['candidates']:,} {kind}, one for "
        f"each labelling of the {choice['public_rows']:,} public rows. With probability {1 - choice['beta']:.0%}, the "
        f"error of the best of them exceeds that of the best of all {kind} by at most {choice['cover_error']:.1%}, "
        "because public rows are few. The student's error exceeds that of the best of them by at most:"
    )
    table = _table("private units needed", "excess error", "units")
    for excess, units in choice["private_units"].items():
        table.add_row(f"{excess:.1%}", _count(units))
    out.print(table)


def _show_rehearsed(found: dict[str, Any]) -> None:
    """Print what was simulated: accuracy by signal, share, recall and AUC by class, and all of it in words."""
    table = _table("simulated with synthetic labels", "signal", "accuracy", "without privacy", "majority baseline")
    for signal in dict.fromkeys(each["signal"] for each in found["rehearsed"]):
        draws = [each for each in found["rehearsed"] if each["signal"] == signal]
        table.add_row(signal, *(span(each[name] for each in draws) for name in ("right", "possible", "largest")))
    out.print(table)
    show_classes(found["classes"])
    out.print(f"{found['reason'][:1].upper()}{found['reason'][1:]}.", markup=False, soft_wrap=True)


def show_classes(found: list[dict[str, Any]]) -> None:
    """Print share, recall and AUC of each class, from the least to the greatest that was simulated."""
    table = _table("simulated, by class", "class", "share of rows", "recall", "AUC")
    for item in found:
        measured = (span(item[name] or ()) for name in ("recall", "auc"))
        table.add_row(escape(item["name"]), span(item["share"], digits=1), *measured)
    if found:
        out.print(table)


def show_releases(found: list[dict[str, Any]]) -> None:
    """Print the expected accuracy after releases of a season, each of which publishes a student."""
    title = "simulated with a typical signal, if units arrive evenly"
    table = _table(title, "release", "units so far", "noise", "accuracy", "without privacy")
    for item in found:
        rehearsed = (item["rehearsed"][name] for name in ("right", "possible"))
        shares = ("–" if share is None else f"{share:.1%}" for share in rehearsed)
        table.add_row(str(item["release"]), _count(item["units"]), f"{item['noise']:.2f}", *shares)
    out.print(table)
    out.print("noise: relative to a single release at the end with the same budget.", style="dim", soft_wrap=True)


def _show_candidates(choice: dict[str, Any]) -> None:
    measure = "nats" if choice["order"] else "of μ²"
    out.print(
        f"The student is chosen among {choice['candidates']} candidates for ε = {choice['epsilon']:g}, δ = 0, by "
        f"errors on the share {choice['share']:.3g} of the units that [test] sets aside. The test part is charged "
        f"{choice['nats']:.3g} {measure} for the choice; the test of the chosen student gets the rest of the charge of "
        "learning."
    )
    table = _table("units set aside needed", "difference in error", "for noise alone", "for noise and sampling")
    for item in choice["units"]:
        table.add_row(f"{item['gap']:.1%}", _count(item["drawn"]), _count(item["proved"]))
    out.print(table)
    out.print(choice["reason"])


def _table(title: str, first: str, *headings: str) -> Table:
    table = Table(title=title)
    table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
