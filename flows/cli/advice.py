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


def show_written(found: Mapping[str, Any]) -> None:
    """Print what was written and the next step."""
    if found["plan"] is None:
        out.print(
            f"wrote {found['schema']}: {len(found['columns'])} columns, whose ranges and categories are still empty"
        )
        out.print(WHY, markup=False, soft_wrap=True)
        out.print(
            "next: fill in the schema, then run the same command again with --classes, --unit, --domain and --rows",
            soft_wrap=True,
        )
        return
    made = f"wrote {found['plan']}: {found['mechanism']}, {found['teachers'] or 'no'} teachers; {found['reason']}"
    out.print(made, soft_wrap=True)
    out.print(f"later rows: {found['later_rows']}", markup=False, soft_wrap=True)
    if found["schema"] is None:
        out.print(UNPROTECTED, markup=False, soft_wrap=True)
    if found["format"]:
        out.print(f"CSV files: {found['format']}; otherwise use --format", markup=False)
    if words := [name for name, taken_for in found["columns"].items() if taken_for == "categorical"]:
        out.print(f"parsed as categories: {', '.join(map(repr, words))}", markup=False, soft_wrap=True)
    for name, taken_for in found["columns"].items():
        if taken_for not in KINDS:
            out.print(f"column {name!r}: {taken_for}", markup=False, soft_wrap=True)
    show_classes(found["classes"])
    if found["releases"]:
        show_releases(found["releases"])
    command = "run" if found["releases"] is None else "refresh"
    plan = quote(found["plan"])
    out.print(f"next: review the plan, then concord plan {plan} and concord {command} {plan}", markup=False)


def show_plan(found: dict[str, Any]) -> None:
    """Print what the plan asks for, what was simulated, and what it costs."""
    at = f"ε = {found['epsilon']:g}, δ = {found['delta']:g}"
    if "sketch" in found:
        sketch = found["sketch"]
        title = f"{at}, {len(sketch['columns'])} declared columns, no public rows"
        _show_sums(title, ("step", "counts of", "tables or columns"), sketch["steps"], sketch["rho"])
        for name in sketch["left_out"]:
            out.print(f"column {name!r} is left out: data.schema declares no categories", markup=False, soft_wrap=True)
        _show_rehearsed(sketch)
    elif "tallies" in found:
        tallies = found["tallies"]
        title = f"{at}, {tallies['codes']:,} codes of {tallies['columns']} columns"
        _show_sums(title, ("round", "sums of", "columns"), tallies["rounds"], tallies["rho"])
        _show_rehearsed(tallies)
        if tallies["releases"]:
            show_releases(tallies["releases"])
    else:
        _show_votes(at, found)
    if found["later_rows"]:
        out.print(f"Later rows: {found['later_rows']}.", markup=False, soft_wrap=True)
    if found["lifetime"]:
        out.print(f"As planned, {found['lifetime']['reason']}.", markup=False, soft_wrap=True)


def _show_votes(at: str, found: dict[str, Any]) -> None:
    """Print what the plan's mechanism is expected to do, and what was simulated."""
    (own,) = found["mechanisms"]
    named = own["name"] if own["cutoff"] is None else f"{own['name']}, cutoff {own['cutoff']:,}"
    if found.get("votes"):
        _show_rehearsed(found["votes"])
    if relabelled := found.get("relabel"):
        left = "ε = {epsilon:.4g}, δ = {delta:.4g}".format(**found["mechanism_at"])
        out.print(
            f"Relabelling and {own['name']} (at {left}) together spend the budget of labels. Teachers learn from a "
            f"secret subset alone: {relabelled['share']:.1%} of the private rows on average.",
            soft_wrap=True,
        )
    out.print(f"{at}: {named}: {own['reason']}.", markup=False, soft_wrap=True)


def _show_sums(title: str, asked: tuple[str, str, str], steps: list[dict[str, Any]], rho: float) -> None:
    """Print what each step of noisy sums asks for, its share of the budget and its noise, and the charge of all."""
    table = _table(title, *asked, "share of the budget", "noise of a sum, in units")
    for number, item in enumerate(steps, start=1):
        table.add_row(str(number), item["what"], str(item["columns"]), f"{item['share']:.0%}", f"{item['noise']:,.1f}")
    out.print(table)
    out.print(f"Opening the session charges the domain the whole ρ = {rho:.4g}.")


def _show_rehearsed(found: dict[str, Any]) -> None:
    """Print what was simulated: accuracy by signal, share, recall and AUC by class, and all of it in words."""
    table = _table("simulated with synthetic labels", "signal", "accuracy", "without privacy", "majority baseline")
    for signal in dict.fromkeys(each["signal"] for each in found["rehearsed"]):
        draws = [each for each in found["rehearsed"] if each["signal"] == signal]
        table.add_row(signal, *(span(each[name] for each in draws) for name in ("right", "possible", "largest")))
    if found["rehearsed"]:
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


def _table(title: str, first: str, *headings: str) -> Table:
    table = Table(title=title)
    table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
