"""The command `plan`: what it is asked, the table of mechanisms, and the one to take."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from artifacts.errors import WrongInput
from artifacts.plan import load_plan
from artifacts.privacy import Filter
from tasks.agreement import expected_agreement, public_rows, read_agreement
from tasks.mechanisms.planning import TYPICAL_AGREEMENT, Option, plan_mechanisms, recommend
from tasks.mechanisms.profile import profile
from tasks.plan_figure import write_plan_figure

FIGURES = ("epsilon", "delta", "teachers", "queries", "classes")
out = Console(highlight=False)


def ask(path: Path | None, agreement: str | None, **given: float | None) -> dict[str, Any]:
    """The figures to plan for: those given, and for the rest those of the plan file. Raises WrongInput."""
    asked = _of_plan(path, given["queries"]) if path else {}
    asked |= {name: value for name, value in given.items() if value is not None}
    for name in FIGURES:
        if name not in asked:
            raise WrongInput(f"--{name} must be given, or a plan file that says it")
    if agreement is not None:
        asked["agreement"] = read_agreement(agreement, asked["classes"])
    return {"agreement": TYPICAL_AGREEMENT, **asked}


def report(asked: dict[str, Any], figure: Path | None) -> dict[str, Any]:
    """Every mechanism, best first, and the one to take, None where there is none; its figure is written if wanted."""
    options = plan_mechanisms(**asked)
    if figure is not None:
        write_plan_figure(figure, options, asked)
    figures = {name: asked[name] for name in FIGURES}
    figures["agreement"] = float(profile(asked["agreement"], asked["classes"])[:, 0].mean())
    return {**figures, "mechanisms": [asdict(option) for option in options], **_recommended(options)}


def show_plan(found: dict[str, Any]) -> None:
    """The mechanisms as a table, best first, and the one to take."""
    title = (
        f"ε = {found['epsilon']:g}, δ = {found['delta']:g}, {found['teachers']:,} teachers, {found['queries']:,} rows"
    )
    table = Table(title=title)
    table.add_column("mechanism", no_wrap=True)
    table.add_column("cutoff", justify="right")
    for heading in ("margin needed", "teachers needed", "rows answered", "labels changed", "worth"):
        table.add_column(heading, justify="right")
    for one in found["mechanisms"]:
        style = None if one["feasible"] else "dim"
        counts = (one["margin_needed"], one["teachers_needed"], one["expected_answered"])
        cells = (_count(one["cutoff"]), *map(_count, counts), f"{one['label_error']:.1%}", _count(one["worth"]))
        table.add_row(one["name"], *cells, style=style)
    out.print(table)
    out.print(f"Expected where winners have {found['agreement']:.1%} of the votes in the mean, a public guess.")
    best = found["recommended"]
    out.print(found["reason"] if best is None else f"Take [bold]{best['name']}[/bold]: {best['reason']}.")


def _of_plan(path: Path, queries: float | None) -> dict[str, Any]:
    plan = load_plan(path)
    return {
        "epsilon": plan.privacy.epsilon,
        "delta": plan.privacy.delta,
        "teachers": plan.teachers.count,
        "queries": queries or plan.labeling.queries or public_rows(plan),
        "classes": len(plan.data.classes),
        "agreement": expected_agreement(plan),
        "order": Filter.freeze(plan.privacy.lifetime.epsilon, plan.privacy.lifetime.delta).order,
    }


def _recommended(options: list[Option]) -> dict[str, Any]:
    try:
        best = recommend(options)
    except WrongInput as none:
        return {"recommended": None, "reason": str(none)}
    return {"recommended": {"name": best.name, "cutoff": best.cutoff, "reason": best.reason}, "reason": best.reason}


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
