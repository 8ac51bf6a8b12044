"""The commands `init` and `plan` at a terminal: questions about a first plan, and the reports on it."""

from collections.abc import Callable, Mapping
from shlex import quote
from typing import Any, get_args

import typer
from rich.markup import escape
from rich.table import Table

from concord.artifacts.errors import WrongInput, in_one_line
from concord.artifacts.schemas import Kind
from concord.flows.console import err, out
from concord.tasks.advice.draft import WHY
from concord.tasks.advice.rehearse import span

KINDS: tuple[str, ...] = get_args(Kind)
UNPROTECTED = (
    "public rows are not protected: if they describe people who need protection, leave out --public, and declare "
    "ranges and categories instead"
)


class AtTerminal:
    """The terminal of a command, as `tasks.advice.init` asks it."""

    def note(self, sentence: str) -> None:
        """Print a sentence."""
        err.print(sentence, soft_wrap=True, markup=False)

    def ask(self, question: str, usual: Any, parse: Callable[[Any], Any]) -> Any:
        """The parsed answer to a question. A wrong one is refused and asked for again."""
        shown = in_one_line(",".join(usual)) if isinstance(usual, tuple) else usual
        while True:
            answer = typer.prompt(question, default=shown, err=True, show_default=bool(shown))
            try:
                return parse(usual if answer == shown else answer)
            except WrongInput as wrong:
                self.note(str(wrong))

    def confirm(self, question: str) -> bool:
        """Whether the answer is yes."""
        return typer.confirm(question, err=True)


def show_written(written: Mapping[str, Any]) -> None:
    """Print what was written and the next step."""
    if written["plan"] is None:
        out.print(
            f"wrote {written['schema']}: {len(written['columns'])} columns, whose ranges and categories are still empty"
        )
        out.print(WHY, markup=False, soft_wrap=True)
        out.print(
            "next: fill in the schema, then run the same command again with --classes, --unit, --domain and --rows",
            soft_wrap=True,
        )
        return
    made = (
        f"wrote {written['plan']}: {written['mechanism']}, {written['teachers'] or 'no'} teachers; {written['reason']}"
    )
    out.print(made, soft_wrap=True)
    out.print(f"later rows: {written['later_rows']}", markup=False, soft_wrap=True)
    if written["schema"] is None:
        out.print(UNPROTECTED, markup=False, soft_wrap=True)
    if written["format"]:
        out.print(f"CSV files: {written['format']}; otherwise use --format", markup=False)
    if words := [name for name, taken_for in written["columns"].items() if taken_for == "categorical"]:
        out.print(f"parsed as categories: {', '.join(map(repr, words))}", markup=False, soft_wrap=True)
    for name, taken_for in written["columns"].items():
        if taken_for not in KINDS:
            out.print(f"column {name!r}: {taken_for}", markup=False, soft_wrap=True)
    show_simulated_classes(written["classes"])
    if written["releases"]:
        show_releases(written["releases"])
    command = "run" if written["releases"] is None else "refresh"
    plan = quote(written["plan"])
    out.print(f"next: review the plan, then concord plan {plan} and concord {command} {plan}", markup=False)


def show_plan(report: dict[str, Any]) -> None:
    """Print what the plan asks for, what was simulated, and what it costs."""
    at = f"ε = {report['epsilon']:g}, δ = {report['delta']:g}"
    if "sketch" in report:
        sketch = report["sketch"]
        title = f"{at}, {len(sketch['columns'])} declared columns, no public rows"
        _show_sums(title, ("step", "counts of", "tables or columns"), sketch["steps"], sketch["rho"])
        _show_views(sketch["views"])
        for name in sketch["left_out"]:
            out.print(f"column {name!r} is left out: data.schema declares no categories", markup=False, soft_wrap=True)
        _show_rehearsed(sketch)
    elif "tallies" in report:
        tallies = report["tallies"]
        title = f"{at}, {tallies['codes']:,} codes of {tallies['columns']} columns"
        _show_sums(title, ("round", "sums of", "columns"), tallies["rounds"], tallies["rho"])
        _show_views(tallies["views"])
        _show_rehearsed(tallies)
        if tallies["releases"]:
            show_releases(tallies["releases"])
    else:
        _show_votes(at, report)
    if report["later_rows"]:
        out.print(f"Later rows: {report['later_rows']}.", markup=False, soft_wrap=True)
    if report["lifetime"]:
        out.print(f"As planned, {report['lifetime']['reason']}.", markup=False, soft_wrap=True)


def _show_votes(at: str, report: dict[str, Any]) -> None:
    """Print what the plan's mechanism is expected to do, and what was simulated."""
    (planned,) = report["mechanisms"]
    named = planned["name"] if planned["cutoff"] is None else f"{planned['name']}, cutoff {planned['cutoff']:,}"
    if report.get("votes"):
        _show_rehearsed(report["votes"])
    if relabelled := report.get("relabel"):
        left = "ε = {epsilon:.4g}, δ = {delta:.4g}".format(**report["mechanism_at"])
        out.print(
            f"Relabelling and {planned['name']} (at {left}) together spend the budget of labels. Teachers learn from "
            f"a secret subset alone: {relabelled['share']:.1%} of the private rows on average.",
            soft_wrap=True,
        )
    out.print(f"{at}: {named}: {planned['reason']}.", markup=False, soft_wrap=True)


def _show_sums(title: str, headings: tuple[str, str, str], steps: list[dict[str, Any]], rho: float) -> None:
    """Print what each step of noisy sums asks for, its share of the budget and its noise, and the charge of all."""
    table = _table(title, *headings, "share of the budget", "noise of a sum, in units")
    for number, item in enumerate(steps, start=1):
        columns = "all numbers" if item["together"] else str(item["columns"])
        table.add_row(str(number), item["what"], columns, f"{item['share']:.0%}", f"{item['noise']:,.1f}")
    out.print(table)
    out.print(f"Opening the session charges the domain the whole ρ = {rho:.4g}.")


def _show_views(views: str | None) -> None:
    """Print which views of a row are counted, and why."""
    if views:
        out.print(f"Rows are counted by {views}.", markup=False, soft_wrap=True)


def _show_rehearsed(simulated: dict[str, Any]) -> None:
    """Print what was simulated: accuracy by signal, share, recall and AUC by class, and all of it in words."""
    table = _table("simulated with synthetic labels", "signal", "accuracy", "without privacy", "majority baseline")
    for signal in dict.fromkeys(draw["signal"] for draw in simulated["rehearsed"]):
        draws = [draw for draw in simulated["rehearsed"] if draw["signal"] == signal]
        table.add_row(signal, *(span(draw[name] for draw in draws) for name in ("right", "possible", "largest")))
    if simulated["rehearsed"]:
        out.print(table)
    show_simulated_classes(simulated["classes"])
    out.print(f"{simulated['reason'][:1].upper()}{simulated['reason'][1:]}.", markup=False, soft_wrap=True)


def show_simulated_classes(classes: list[dict[str, Any]]) -> None:
    """Print share, recall and AUC of each class, from the least to the greatest that was simulated."""
    table = _table("simulated, by class", "class", "share of rows", "recall", "AUC")
    for item in classes:
        measured = (span(item[name] or ()) for name in ("recall", "auc"))
        table.add_row(escape(item["name"]), span(item["share"], digits=1), *measured)
    if classes:
        out.print(table)


def show_releases(releases: list[dict[str, Any]]) -> None:
    """Print the expected accuracy after releases of a season, each of which publishes a student."""
    title = "simulated with a typical signal, if units arrive evenly"
    table = _table(title, "release", "units so far", "noise", "accuracy", "without privacy")
    for item in releases:
        rehearsed = (item["rehearsed"][name] for name in ("right", "possible"))
        shares = ("–" if share is None else f"{share:.1%}" for share in rehearsed)
        table.add_row(str(item["release"]), _count(item["units"]), f"{item['noise']:.2f}", *shares)
    out.print(table)
    out.print("noise: relative to a single release at the end with the same budget.", style="dim", soft_wrap=True)


def _table(title: str, first: str, *headings: str) -> Table:
    table = Table(title=title)
    table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
