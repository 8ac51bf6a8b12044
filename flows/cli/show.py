"""Console output: a run's outcome, the budget, and an erasure with what it cannot undo."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from rich.table import Table

from concord.artifacts.errors import in_one_line
from concord.flows.console import NARROW, out, say

if TYPE_CHECKING:
    from concord.flows.outcome import Summary

WHERE = {"public_test": "on public test rows", "private_test": "by the private test: noisy counts"}
MOST_SHOWN = 7
"""The most classes for which the console shows a table."""


def show(summary: "Summary", home: Path, *, quiet: bool = False) -> None:
    """Print the outcome of a run, and where to look next; if `quiet`, only the path of its certificate."""
    from concord.flows.outcome import facts

    if quiet:
        say(summary.certificate)
        return
    for label, text in (facts(summary) | {"audit view": f"concord ui --home {quote(str(home))}"}).items():
        say(f"{label:<11}  {text}")
    for test in ("public_test", "private_test"):
        show_classes(summary.student.get(test), WHERE[test])
    for warning in summary.warnings:
        say(f"      {warning}", mark="warning", style="yellow")
    if not summary.student["champion"]:
        say(f"champion     no: {'it has a warning' if summary.warnings else 'it does not beat the champion'}")


def show_classes(test: dict[str, Any] | None, where: str) -> None:
    """Print recall, precision and confusion by class, if there is a test with few enough classes."""
    if test is None or len(test.get("recall", ())) not in range(1, MOST_SHOWN + 1):
        return
    from concord.flows.outcome import share_in_words

    table = Table(title=where, title_justify="left", **NARROW)
    names = [in_one_line(name) for name in test["recall"]]
    for heading in ("class", "recall", "precision", *(f"predicted {name}" for name in names)):
        table.add_column(heading, overflow="fold")
    for at, (shown, name) in enumerate(zip(names, test["recall"], strict=True)):
        shares = (share_in_words(test, kind, name) for kind in ("recall", "precision"))
        table.add_row(shown, *shares, *(f"{count:,}" for count in test["matrix"][at]))
    out.print(table)


def show_budget(figures: dict[str, Any]) -> None:
    """Print the budget, one table per domain."""
    if not figures["domains"]:
        out.print("no domain has been named yet")
    for domain in figures["domains"]:
        cap, spent = domain["cap"], domain["spent"]
        title = f"{domain['name']}: spent ε = {spent['epsilon']:.3g} of {cap['epsilon']:g}, δ cap {cap['delta']:g}"
        once = f"including ε = {domain['conversion']:.3g} to convert Rényi divergence to ε, paid once"
        captions = [once] if domain["conversion"] else []
        if domain.get("parts"):
            charged = (f"{part} part ε = {pair['epsilon']:.3g}" for part, pair in domain["parts"]["spent"].items())
            captions.append(f"the domain is charged its larger part: {', '.join(charged)}")
        for item in domain["sessions"]:
            if item["finished_by"]:
                captions.append(f"{item['id']} is charged but not published; to finish it: `{item['finished_by']}`")
        if any(item.get("stream") for item in domain["sessions"]):
            captions.append("seasons of a stream query different units: only the most expensive one is charged")
        table = Table(title=title, caption="\n".join(captions) or None, **NARROW)
        table.add_column("session", no_wrap=True)  # it is copied into other commands
        parted = ("part",) if domain.get("parts") else ()
        for heading in ("mechanism", "ε", "answered", "status", *parted):
            table.add_column(heading, overflow="fold")
        for item in domain["sessions"]:
            of_all = "" if item["asks"] in ("rounds", "releases") else f"{item['answered']:,} of "
            answered = f"{of_all}{item['asked']:,} {item['asks']}"
            last = (item["status"], *((item["part"] or "every",) if parted else ()))
            table.add_row(item["id"], item["mechanism"], f"{item['claim']['epsilon']:g}", answered, *last)
        out.print(table)


def show_erasure(details: dict[str, Any]) -> None:
    """Print what was erased, what cannot be recalled, and what the owner of the table must still do."""
    result = "the vault keeps nothing of its table" if details["erased_now"] else "nothing of its table was left"
    others = "other " if details["goes_on"] else ""
    say(f"domain {details['domain']}: {result}; its {others}sessions are closed, charged whole and forgotten")
    for session in details["goes_on"]:
        say(
            f"session {session} goes on: `concord refresh` counts its season again without the unit, from the same "
            "files; change or remove them after that"
        )
    for text in details["published"]:
        models = ", ".join(text["models"]) or "no model"
        say(f"already published: session {text['session']}, {text['labels']} answers, {models}")
    if details["left_out"]:
        say("from now on the unit is left out wherever the domain's table names it")
    say(
        "next: remove what was erased from the table itself, name its new state in [data] version, and run with "
        "--new-session, which costs again"
    )
