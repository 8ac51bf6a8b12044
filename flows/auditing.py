"""The command `audit`: calibrate a mechanism by its name, attack it, and show what that proved."""

from typing import Any

from rich.console import Console
from rich.table import Table

from artifacts.audited import AuditReport
from tasks.audit import audit
from tasks.mechanisms.catalogue import calibrate
from tasks.mechanisms.fitting import LEAST_ORDER

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def audit_calibrated(
    name: str, settings: dict[str, Any], *, epsilon: float, delta: float, trials: int, confidence: float
) -> AuditReport:
    """Audit the mechanism `name` calibrated to (epsilon, delta). Raises WrongInput where the settings cannot be met.

    settings    cutoff, queries, classes and teachers
    """
    mechanism = calibrate(name, epsilon=epsilon, delta=delta, order=LEAST_ORDER, **settings)  # no domain charges it
    votes = {"classes": settings["classes"], "teachers": settings["teachers"]}
    with err.status(f"{trials:,} sessions of {name} on each of two neighbours …"):
        return audit(mechanism, epsilon=epsilon, delta=delta, trials=trials, confidence=confidence, **votes)


def show_audit(report: AuditReport) -> None:
    """What was attacked, how, and what that proved."""
    table = Table.grid(padding=(0, 2))
    table.add_row("mechanism", report.mechanism)
    table.add_row("claim", f"ε = {report.epsilon_claimed:g}, δ = {report.delta:g}")
    proved = f"ε ≥ {report.epsilon_lower_bound:.3f} with confidence {report.confidence:g}, {report.trials:,} trials"
    table.add_row("proved", proved if report.epsilon_lower_bound else f"nothing, in {report.trials:,} trials")
    table.add_row("attack", report.attack)
    table.add_row("event", report.event)
    table.add_row("verdict", "[green]the claim stands[/green]" if report.holds else "[red]the claim is broken[/red]")
    out.print(table)
