"""What the console shows: a run's outcome, and the budget."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from artifacts.ledger import Ledger
from artifacts.sessions import Domain, Session
from flows.outcome import Summary, spent_in_words
from tasks.certify import domain_of

NARROW: dict[str, Any] = {"box": None, "pad_edge": False, "padding": (0, 2, 0, 0)}
OUTCOMES = ("asked", "answered", "refused")
out = Console(highlight=False)


def show(summary: Summary, home: Path, *, quiet: bool = False) -> None:
    """The outcome of a run, and where to look next; or quietly the path of its certificate alone."""
    if quiet:
        out.print(summary.certificate, soft_wrap=True)
        return
    guarantee, student = summary.guarantee, summary.student
    lines = {
        "session": summary.session,
        "guarantee": f"ε = {guarantee['epsilon']:g}, δ = {guarantee['delta']:g} for {guarantee['unit']}",
        "mechanism": f"{summary.mechanism['name']}, {summary.teachers or 'no'} teachers",
        "rows": f"{summary.asked} asked, {summary.answered} answered, {summary.refused} refused",
        "student": "published; the plan names no public test rows",
        "spent now": spent_in_words(summary.spent_now, summary.conversion),
        "certificate": summary.certificate,
        "report": summary.report,
        "audit view": f"concord ui --home {home}",
    }
    if not summary.teachers:
        lines["rows"] = "none asked: the student was chosen by its errors on the private rows"
    if student["accuracy"] is not None:
        lines["student"] = f"{student['accuracy']:.1%} right on the public test rows"
    for name, value in lines.items():
        out.print(f"{name:<11}  {value}", soft_wrap=True)


def budget_of(home: Path) -> dict[str, Any]:
    """Every domain of the ledger with its cap, what is spent and remains, and its sessions."""
    ledger = Ledger.of(home)
    return {"domains": [_domain(ledger, one) for one in ledger.domains()]}


def _domain(ledger: Ledger, domain: Domain) -> dict[str, Any]:
    total = ledger.total(domain.name)
    cap, spent = domain.filter, domain.filter.spent(total)
    return {
        "name": domain.name,
        "unit": domain.unit,
        "neighbours": domain.neighbours,
        "cap": {"epsilon": cap.epsilon, "delta": cap.delta},
        "spent": _pair(spent),
        "conversion": cap.conversion if any(spent) else 0.0,
        "remaining": _pair((max(0.0, cap.epsilon - spent[0]), max(0.0, cap.delta - spent[1]))),
        "renyi": {"order": cap.order, "budget": str(cap.budget), "charged": str(total.renyi)},
        "lost": _pair(cap.spent(ledger.lost(domain.name))),  # charged by `concord restore` for sessions now unknown
        "sessions": [_session(domain, session) for session in ledger.sessions(domain.name)],
    }


def session_of(ledger: Ledger, name: str) -> dict[str, Any]:
    """One session as the budget lists it. Raises WrongInput where there is none."""
    session = ledger.session(name)
    return _session(domain_of(session, ledger), session)


def _session(domain: Domain, session: Session) -> dict[str, Any]:
    settled = None if session.settled is None else _pair(domain.filter.spent(session.settled))
    return {
        "id": session.id,
        "mechanism": session.mechanism["name"],
        "claim": {"epsilon": session.epsilon, "delta": session.delta},
        "reserved": _pair(domain.filter.spent(session.reserved)),
        "settled": settled,
        "asked": session.asked,
        "answered": session.answered,
        "refused": session.refused,
        "status": session.status,
    }


def show_budget(figures: dict[str, Any]) -> None:
    """The budget as a table a domain."""
    if not figures["domains"]:
        out.print("no domain has been named yet")
    for domain in figures["domains"]:
        cap, spent = domain["cap"], domain["spent"]
        title = f"{domain['name']}: ε = {spent['epsilon']:.3g} of {cap['epsilon']:g} spent, δ cap {cap['delta']:g}"
        once = f"of it ε = {domain['conversion']:.3g} once, to convert the Rényi charges of all its sessions into ε"
        table = Table(title=title, caption=once if domain["conversion"] else None, **NARROW)
        table.add_column("session", no_wrap=True)  # it is copied into other commands
        for heading in ("mechanism", "claim ε", "asked", "answered", "refused", "status"):
            table.add_column(heading, overflow="fold")
        for one in domain["sessions"]:
            rows = (f"{one[outcome]:,}" for outcome in OUTCOMES)
            table.add_row(one["id"], one["mechanism"], f"{one['claim']['epsilon']:g}", *rows, one["status"])
        out.print(table)


def _pair(amounts: tuple[float, float]) -> dict[str, float]:
    return {"epsilon": amounts[0], "delta": amounts[1]}
