"""The commands of an auditor."""

from typing import Annotated

import typer

from artifacts.errors import EnvironmentFailed
from flows.console import HOME, HomeOption, JsonOption, app, out, print_json

MARKS = {
    (True, False): "[green]ok  [/green]",
    (True, True): "[yellow]warn[/yellow]",
    (False, False): "[red]FAIL[/red]",
}
"""What stands before a check, by whether it holds and whether it warns."""


@app.command()
def verify(
    subject: Annotated[str | None, typer.Argument(help="An MLflow run or a session; default: everything.")] = None,
    home: HomeOption = HOME,
    as_json: JsonOption = False,
) -> None:
    """Check the ledger's chain, every released file, the model, MLflow's figures and the guarantee itself."""
    from flows.environment import reopen

    home = reopen(home, reading=True)
    from tasks.verify import verify as checks_of

    checks = checks_of(home, subject)
    passed = all(check.ok for check in checks)
    if as_json:
        told = [check.model_dump() for check in checks]
        print_json({"ok": passed, "warnings": [one for one in told if one["warning"]], "checks": told})
    else:
        for check in checks:
            mark = MARKS[(check.ok, check.warning)]
            out.print(f"{mark} {check.name}: {check.detail}", soft_wrap=True)
    if not passed:
        raise typer.Exit(4)


@app.command()
def audit(
    mechanism: Annotated[str, typer.Argument(help="stable, sparse_vector, noisy_votes, …")],
    epsilon: Annotated[float, typer.Option(help="The ε it is calibrated to and claims.")],
    delta: Annotated[float, typer.Option(help="The δ it is calibrated to and claims.")],
    cutoff: Annotated[int, typer.Option(help="Refusals until it halts, where it pays by refusal.")] = 1,
    queries: Annotated[int, typer.Option(help="Rows it answers, where it pays by row.")] = 10,
    classes: Annotated[int, typer.Option(help="Classes.")] = 2,
    teachers: Annotated[int, typer.Option(help="Votes a row, where it matters.")] = 250,
    trials: Annotated[int, typer.Option(help="Sessions run on each of two neighbours.")] = 100_000,
    confidence: Annotated[float, typer.Option(help="That the lower bound is right.")] = 0.99,
    home: HomeOption = HOME,
    as_json: JsonOption = False,
) -> None:
    """Attack a mechanism as it runs, and say which ε that proves it spends at least; MLflow keeps the report.

    Leaves with exit status 4 where that is more than it claims.
    """
    from flows.auditing import audit_calibrated, show_audit
    from flows.environment import prepare

    home = prepare(home)
    from artifacts.tracking import Tracking

    settings = {"cutoff": cutoff, "queries": queries, "classes": classes, "teachers": teachers}
    report = audit_calibrated(mechanism, settings, epsilon=epsilon, delta=delta, trials=trials, confidence=confidence)
    run_id = Tracking.of(home).keep_audit(report)
    print_json({**report.model_dump(), "run_id": run_id}) if as_json else show_audit(report)
    if not report.holds:
        raise typer.Exit(4)


@app.command()
def ui(home: HomeOption = HOME, port: Annotated[int, typer.Option(help="On loopback.")] = 5000) -> None:
    """Open the audit view: the MLflow UI, on this machine only; or say where the server is that tracks."""
    import os

    from flows.environment import reopen
    from flows.server import Page

    home = reopen(home)
    tracked = os.environ["MLFLOW_TRACKING_URI"]
    if tracked.startswith("http"):
        out.print(f"audit view: {tracked}, the MLflow server that MLFLOW_TRACKING_URI names")
        return
    page = Page(home, port)
    out.print(f"audit view: {page.address} (for you alone; end with Ctrl-C)", soft_wrap=True)
    page.wait()
    raise EnvironmentFailed(page.ended)
