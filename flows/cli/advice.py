"""The commands `init` and `plan` at a terminal: questions about a first plan, and the reports on it."""

from collections.abc import Callable, Mapping
from typing import Any, get_args

import typer
from rich.markup import escape
from rich.table import Table

from concord.artifacts.errors import WrongInput, in_one_line
from concord.artifacts.schemas import Kind
from concord.flows.console import err, out
from concord.tasks.advice.draft_schema import WHY
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
        out.print(f"CSV files: {found['format']}, as found in a public one", markup=False)
    if words := [name for name, taken_for in found["columns"].items() if taken_for == "categorical"]:
        out.print(f"parsed as categories: {', '.join(map(repr, words))}", markup=False, soft_wrap=True)
    for name, taken_for in found["columns"].items():
        if taken_for not in KINDS:
            out.print(f"column {name!r}: {taken_for}", markup=False, soft_wrap=True)
    show_classes(found["classes"])
    if found["releases"]:
        show_releases(found["releases"])
    command = "run" if found["releases"] is None else "refresh"
    out.print(f"next: review the plan, then concord plan {found['plan']} and concord {command} {found['plan']}")


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
    if found["lifetime"]:
        out.print(f"As planned, {found['lifetime']['reason']}.", markup=False, soft_wrap=True)


def _show_sums(title: str, asked: tuple[str, str, str], steps: list[dict[str, Any]], rho: float) -> None:
    """Print what each step of noisy sums asks for, its share of the budget and its noise, and the charge of all."""
    table = _table(title, *asked, "share of the budget", "noise of a sum, in units")
    for number, item in enumerate(steps, start=1):
        table.add_row(str(number), item["what"], str(item["columns"]), f"{item['share']:.0%}", f"{item['noise']:,.1f}")
    out.print(table)
    out.print(f"Opening the session charges the domain the whole ρ = {rho:.4g}.")


HEADINGS = (  # what the headings mean
    "margin needed: lead of the largest class, in votes, at which a row gets its label with probability 99%. "
    "cutoff: refusals until the session ends. informative: equivalent number "
    "of labels without noise; the simulation shows what a student learns."
)


def _show_mechanisms(found: dict[str, Any]) -> None:
    at = found["mechanism_at"]
    title = f"ε = {at['epsilon']:.4g}, δ = {at['delta']:.4g}, {found['teachers']:,} teachers, {found['queries']:,} rows"
    headings = ("cutoff", "margin needed", "rows answered", "labels changed", "informative")
    table = _table(title, "mechanism", *headings)
    for item in found["mechanisms"]:
        counts = (_count(item[name]) for name in ("cutoff", "margin_needed", "expected_answered"))
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


def _table(title: str, first: str, *headings: str) -> Table:
    table = Table(title=title)
    table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right")
    return table


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"
