"""The command `plan`: what it is asked, and what it says of mechanisms, of another ε, and of a chosen student."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table

from concord.artifacts.errors import WrongInput
from concord.artifacts.plan import Plan, load_plan
from concord.flows.console import out
from concord.tasks.advice.compare import Option, plan_mechanism, plan_mechanisms, read_agreement, recommend
from concord.tasks.advice.expect import (
    EXCESSES,
    AtEpsilon,
    Premises,
    at_other_epsilons,
    dearer,
    expect_choice,
    played,
    premises_of,
)
from concord.tasks.mechanisms.odds import profile
from concord.tasks.publish.plan_figure import write_choice_figure, write_plan_figure
from concord.tasks.student.infer import expect_tallies

FIGURES = ("epsilon", "delta", "teachers", "queries", "classes")


def report(path: Path | None, agreement: str | None, figure: Path | None, **given: float | None) -> dict[str, Any]:
    """What to expect of a plan, or of the figures `given`, which go before it; its figure is written if wanted.

    Raises WrongInput if a figure is missing or makes no sense.
    """
    plan = load_plan(path) if path else None
    if plan is not None and plan.tallied:
        return _of_tallies(plan, figure, **given)
    if plan is not None and not plan.votes:
        return _of_choice(plan, figure, **given)
    asked = _asked(plan, agreement, **given)
    stream = asked.stream
    options = plan_mechanisms(stream, None if asked.mechanism else asked.cutoff)
    planned = plan_mechanism(asked.mechanism, stream, asked.cutoff) if asked.mechanism else None
    other = at_other_epsilons(asked, (planned or options[0]).name)
    if figure is not None:
        write_plan_figure(figure, options, other, asked)
    return {
        **{name: getattr(asked, name) for name in FIGURES},
        "agreement": float(profile(asked.agreement, asked.classes)[:, 0].mean()),
        "mechanism_at": {"epsilon": stream.epsilon, "delta": stream.delta},
        "relabel": asked.subset,
        "accountant": asked.accountant,
        "played": played(asked),
        "dearer": dearer(asked),
        "choice": None if plan is None or not asked.choice else asdict(expect_choice(plan, asked.choice)),
        "mechanisms": [asdict(option) for option in options],
        "planned": planned and asdict(planned),
        "what_if": [_flat(item) for item in other],
        **_recommended(options),
    }


def show_plan(found: dict[str, Any]) -> None:
    """The mechanisms as a table, best first, and the one to take; what another ε would change; and what is chosen."""
    if found["mechanisms"]:
        _show_mechanisms(found)
    if found["choice"]:
        _show_choice(found["choice"])
    if "tallies" in found:
        _show_tallies(found["tallies"])


def _asked(plan: Plan | None, agreement: str | None, **given: float | None) -> Premises:
    """The figures to plan for: those given, and for the rest those of the plan. Raises WrongInput."""
    result = premises_of(plan, given["queries"]) if plan else {}
    result |= {name: value for name, value in given.items() if value is not None}
    for name in FIGURES:
        if name not in result:
            raise WrongInput(f"--{name} must be given, or a plan file that says it")
    if agreement is not None:
        result["agreement"] = read_agreement(agreement, result["classes"])
    return Premises(**result)


def _of_choice(plan: Plan, figure: Path | None, **given: float | None) -> dict[str, Any]:
    """What to expect of a plan in which nobody votes."""
    for name, value in given.items():
        if value is not None and name != "epsilon":
            raise WrongInput(f"--{name} has no meaning for a plan whose student is chosen without a vote")
    choice = expect_choice(plan, given["epsilon"] or plan.privacy.epsilon)
    if figure is not None:
        write_choice_figure(figure, choice)
    return {"epsilon": choice.epsilon, "delta": 0.0, "choice": asdict(choice), "mechanisms": []}


def _of_tallies(plan: Plan, figure: Path | None, **given: float | None) -> dict[str, Any]:
    """What tallies cost and what to expect of them."""
    for name, value in given.items():
        if value is not None and name not in ("epsilon", "delta"):
            raise WrongInput(f"--{name} has no meaning for a plan that asks for tallies, in which nobody votes")
    if figure is not None:
        raise WrongInput("--figure draws mechanisms that vote, and a choice: there is none of tallies yet")
    asked = {name: value for name, value in given.items() if value is not None}
    found = expect_tallies(plan.model_copy(update={"privacy": plan.privacy.model_copy(update=asked)}))
    budget = {"epsilon": found.epsilon, "delta": found.delta}
    return {**budget, "choice": None, "mechanisms": [], "tallies": asdict(found)}


def _flat(at_epsilon: AtEpsilon) -> dict[str, Any]:
    return {"epsilon": at_epsilon.epsilon, "share": at_epsilon.share, **asdict(at_epsilon.option)}


def _recommended(options: list[Option]) -> dict[str, Any]:
    try:
        best = recommend(options)
    except WrongInput as none:
        return {"recommended": None, "reason": str(none)}
    return {"recommended": {"name": best.name, "cutoff": best.cutoff, "reason": best.reason}, "reason": best.reason}


# What the console shows -----------------------------------------------------------------------------------------------


def _show_mechanisms(found: dict[str, Any]) -> None:
    at = found["mechanism_at"]
    title = f"ε = {at['epsilon']:.4g}, δ = {at['delta']:.4g}, {found['teachers']:,} teachers, {found['queries']:,} rows"
    headings = ("cutoff", "margin needed", "teachers needed", "rows answered", "labels changed", "worth")
    table = _table(title, "mechanism", *headings)
    for item in found["mechanisms"]:
        counts = (_count(item["margin_needed"]), _count(item["teachers_needed"]))
        cutoff, *rest = _expected(item)
        table.add_row(item["name"], cutoff, *counts, *rest, style=None if item["feasible"] else "dim")
    out.print(table)
    for part in _shared_out(found):
        out.print(part)
    out.print(f"Expected where winners have {found['agreement']:.1%} of the votes in the mean, a public guess.")
    best, own = found["recommended"], found["planned"]
    if own is not None:
        named = own["name"] if own["cutoff"] is None else f"{own['name']}, cutoff {own['cutoff']:,}"
        out.print(f"As planned, {named}: {own['reason']}.", markup=False)
    out.print(found["reason"] if best is None else f"Take [bold]{best['name']}[/bold]: {best['reason']}.")
    _show_what_if(found["what_if"], relabelled=found["relabel"] is not None)


def _shared_out(found: dict[str, Any]) -> list[str]:
    """How the plan's ε is shared out before the mechanism has the rest of it."""
    parts = []
    if found["choice"]:
        parts.append(f"Of ε = {found['epsilon']:g}, {found['choice']['epsilon']:g} is for the choice of the student.")
    if found["relabel"]:
        whole = f"ε = {found['epsilon'] - (found['choice'] or {'epsilon': 0})['epsilon']:g}, δ = {found['delta']:g}"
        parts.append(
            f"Rows are relabelled. For {whole} in all, labels are chosen and the mechanism runs, as above, on a secret "
            f"subset: teachers learn from it alone, {found['relabel']['share']:.1%} of the private rows in the mean."
        )
    if found["played"] is False:
        parts.append(
            "accountant = 'game' brings nothing here: the table that the Rényi curve of stable voting proves answers "
            "as much. It is the one that runs, and the domain is charged for it as with accountant = 'renyi'."
        )
    elif found["dearer"]:
        parts.append(
            "The ε of stable voting is that of the best adaptive attack. Its table is steeper for it, and the domain "
            f"is charged {found['dearer']:.2f} times as much as with accountant = 'renyi'."
        )
    return parts


def _show_what_if(rows: list[dict[str, Any]], *, relabelled: bool) -> None:
    headings = ["cutoff", "rows answered", "labels changed", "worth"]
    headings += ["of the private rows"] if relabelled else []
    table = _table(f"{rows[0]['name']}, were ε another", "ε", *headings)
    for row in rows:
        share = ["–" if row["share"] is None else f"{row['share']:.1%}"] if relabelled else []
        table.add_row(f"{row['epsilon']:g}", *_expected(row), *share, style=None if row["feasible"] else "dim")
    out.print(table)


def _show_choice(choice: dict[str, Any]) -> None:
    kind = choice["hypotheses"]
    out.print(
        f"The student is chosen for ε = {choice['epsilon']:g}, δ = 0, pure: one of {choice['candidates']:,} {kind}, "
        f"which label the {choice['public_rows']:,} public rows in all the ways there are. With odds of "
        f"{1 - choice['beta']:.0%}, the best of them is wrong about at most {choice['cover_error']:.1%} of rows more "
        f"than the best of all {kind}, for want of public rows; and the student about so many more than it:"
    )
    by_excess = choice["private_units"]
    table = _table("private units it takes", "rows more", *(f"ε = {epsilon:g}" for epsilon in by_excess[EXCESSES[0]]))
    for excess, units in by_excess.items():
        table.add_row(f"{excess:.1%}", *map(_count, units.values()))
    out.print(table)


def _show_tallies(found: dict[str, Any]) -> None:
    title = f"ε = {found['epsilon']:g}, δ = {found['delta']:g}, {found['codes']:,} codes of {found['columns']} columns"
    table = _table(title, "round", "asked about", "columns", "share of the budget", "noise of a sum, in units")
    for number, item in enumerate(found["rounds"], start=1):
        table.add_row(str(number), item["what"], str(item["columns"]), f"{item['share']:.0%}", f"{item['noise']:,.1f}")
    out.print(table)
    out.print(f"The domain is charged ρ = {found['rho']:.4g}, all of it when the session is opened.")
    out.print(found["reason"], soft_wrap=True)


def _table(title: str, first: str, *headings: str) -> Table:
    table = Table(title=title)
    table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def _expected(details: dict[str, Any]) -> tuple[str, str, str, str]:
    """The cells of an option: cutoff, rows answered, labels changed, worth."""
    rows, worth = _count(details["expected_answered"]), _count(details["worth"])
    return _count(details["cutoff"]), rows, f"{details['label_error']:.1%}", worth


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
