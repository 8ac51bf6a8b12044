"""The command line. Heavy packages are imported inside the commands, so that --help is instant."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from artifacts.errors import ConcordError, WrongInput
from flows.examples import WithExamples

app = typer.Typer(
    cls=WithExamples,
    help="Publish a classifier learned from sensitive labelled data, with a guarantee an auditor can check.",
    epilog="Example: concord run deployments/plans/demo.toml, then concord verify and concord ui.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
HomeOption = Annotated[Path, typer.Option("--home", envvar="CONCORD_HOME", help="Where everything is kept.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Print the certificate's path and nothing else.")]
HOME = Path(".concord")
out = Console(highlight=False)


@app.command()
def run(
    plan: Annotated[Path, typer.Argument(help="The plan, a TOML file.")],
    start_from: Annotated[str | None, typer.Option("--from", help="Run this stage and those after it again.")] = None,
    new_session: Annotated[bool, typer.Option(help="Open a further session; it costs again.")] = False,
    home: HomeOption = HOME,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Learn and publish a classifier: the main job.

    Run it twice and the second time answers from cache and spends nothing.
    """
    from artifacts.plan import load_plan
    from flows.environment import prepare

    loaded, home = load_plan(plan), prepare(home)
    from flows.progress import hushed
    from flows.start import start
    from flows.summary import show

    with hushed(quiet):
        summary = start(loaded, home, new_session=new_session, start_from=start_from)
    _print(summary.model_dump(mode="json")) if as_json else show(summary, home, quiet=quiet)


@app.command()
def extend(
    session: Annotated[str, typer.Argument(help="The session, as run and budget name it.")],
    public: Annotated[Path, typer.Option(help="More public rows: a file, a folder or a glob.")],
    home: HomeOption = HOME,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Answer more public rows in an open session, and teach its student again.

    Files it was given before are passed over: name one folder again and again, and only what is new is answered.
    """
    from flows.environment import prepare

    home = prepare(home)
    from flows.progress import hushed
    from flows.start import start_extension
    from flows.summary import show

    with hushed(quiet):
        summary = start_extension(session, public, home)
    _print(summary.model_dump(mode="json")) if as_json else show(summary, home, quiet=quiet)
    if not (as_json or quiet or summary.asked_now):
        out.print(f"nothing new: {public} holds no row that was left to answer, and nothing was spent")


@app.command()
def serve(
    session: Annotated[str, typer.Argument(help="The session, or a domain: its latest one.")],
    public: Annotated[Path, typer.Option(help="Where public rows arrive: a file, a folder or a glob.")],
    cron: Annotated[str, typer.Option(help="When: minute, hour, day, month, weekday.")] = "0 3 * * *",
    timezone: Annotated[str, typer.Option(help="The time zone of --cron.")] = "UTC",
    home: HomeOption = HOME,
) -> None:
    """Extend a session on a schedule, in this process, without a server; end it with Ctrl-C or SIGTERM."""
    from flows.environment import prepare

    home = prepare(home)
    from flows.serve import serve as keep_extending

    keep_extending(session, public, home, cron=cron, timezone=timezone)


@app.command()
def demo(home: HomeOption = HOME, as_json: JsonOption = False, quiet: QuietOption = False) -> None:
    """Run the main job on synthetic records made on the spot: no download, no server."""
    from flows.environment import prepare
    from tasks.demo import write_demo

    run(write_demo(prepare(home) / "demo"), None, False, home, as_json, quiet)


@app.command()
def init(
    private: Annotated[Path | None, typer.Option(help="The private table; only column names are read.")] = None,
    public: Annotated[Path | None, typer.Option(help="The public table, whose columns become the features.")] = None,
    test: Annotated[Path | None, typer.Option(help="A public labelled table, to try the student on.")] = None,
    label: Annotated[str | None, typer.Option(help="The label column.")] = None,
    classes: Annotated[list[str] | None, typer.Option(help="The classes: with commas, or the option repeated.")] = None,
    unit: Annotated[str | None, typer.Option(help="The column that says whose a row is; default: the row.")] = None,
    domain: Annotated[str | None, typer.Option(help="A name for this body of private data; it is published.")] = None,
    rows: Annotated[str | None, typer.Option(help="Private rows, roughly, as you would say it in public.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="The ε of this session; default: 1.")] = None,
    delta: Annotated[float | None, typer.Option(help="Its δ; default: a power of ten below 1/rows.")] = None,
    lifetime_epsilon: Annotated[float | None, typer.Option(help="The ε of all sessions; default: 4 times it.")] = None,
    lifetime_delta: Annotated[float | None, typer.Option(help="The δ of all sessions; default: 4 times it.")] = None,
    path: Annotated[Path, typer.Option("--out", help="Where to write the plan, never over a file.")] = Path(
        "plan.toml"
    ),
    as_json: JsonOption = False,
) -> None:
    """Write a commented plan to start from, by the columns of a public table; ask for what nobody can guess.

    At a terminal it asks. With --private, --public, --label, --classes (or --test), --domain and --rows it does not.
    """
    from flows.starting import begin, show_begun

    tables = {name: str(file) for name, file in (("private", private), ("public", public), ("test", test)) if file}
    amounts = {"epsilon": epsilon, "delta": delta, "lifetime_epsilon": lifetime_epsilon}
    given = {"label": label, "classes": tuple(classes or ()), "unit": unit, "domain": domain, "rows": rows}
    found = begin({**tables, **given, **amounts, "lifetime_delta": lifetime_delta}, path)
    _print(found) if as_json else show_begun(found)


@app.command()
def plan(
    path: Annotated[Path | None, typer.Argument(metavar="[PLAN]", help="A plan to take the figures from.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="The ε that may be spent.")] = None,
    delta: Annotated[float | None, typer.Option(help="The δ that may be spent.")] = None,
    teachers: Annotated[int | None, typer.Option(help="Teachers, each on a shard of its own.")] = None,
    queries: Annotated[int | None, typer.Option(help="Public rows to label.")] = None,
    classes: Annotated[int | None, typer.Option(help="Classes.")] = None,
    agreement: Annotated[
        str | None, typer.Option(help="A public guess: the mean share of the winning class, or a table of votes.")
    ] = None,
    figure: Annotated[Path | None, typer.Option(help="Where to draw it, as PNG, SVG or PDF.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Compare the mechanisms for a budget, from public figures alone; nothing is spent.

    Options given here go before what the plan says.
    """
    from flows.planning import ask, report, show_plan

    given = {"epsilon": epsilon, "delta": delta, "teachers": teachers, "queries": queries, "classes": classes}
    found = report(ask(path, agreement, **given), figure)
    _print(found) if as_json else show_plan(found)


@app.command()
def estimate(
    plan: Annotated[Path, typer.Argument(help="The plan; any cutoff in it will do.")],
    epsilon: Annotated[float, typer.Option(help="The ε the estimate costs.")],
    share: Annotated[float, typer.Option(help="Share of units set aside to try teachers on.")] = 0.3,
    beta: Annotated[float, typer.Option(help="How likely the cutoff may be too low.")] = 0.05,
    again: Annotated[bool, typer.Option(help="Another estimate of the same data; it costs again.")] = False,
    home: HomeOption = HOME,
    as_json: JsonOption = False,
) -> None:
    """Estimate from the private rows how much teachers err, at a price, and suggest a cutoff.

    Asked again with the same settings it says the same and spends nothing.
    """
    from artifacts.plan import load_plan
    from flows.environment import prepare

    loaded, home = load_plan(plan), prepare(home)
    from flows.estimating import show_estimate
    from flows.start import start_estimate

    told = start_estimate(loaded, home, epsilon=epsilon, share=share, beta=beta, again=again)
    _print(told) if as_json else show_estimate(told)


@app.command()
def budget(home: HomeOption = HOME, as_json: JsonOption = False) -> None:
    """What every domain may spend, has spent and has left; and its sessions."""
    from flows.environment import prepare
    from flows.summary import budget_of, show_budget

    figures = budget_of(prepare(home))
    _print(figures) if as_json else show_budget(figures)


@app.command()
def domain(
    name: Annotated[str, typer.Argument(help="The domain.")],
    epsilon: Annotated[float, typer.Option(help="Its new cap on ε.")],
    delta: Annotated[float, typer.Option(help="Its new cap on δ.")],
    reason: Annotated[str, typer.Option(help="Why; kept on the record.")],
    home: HomeOption = HOME,
) -> None:
    """Change a domain's lifetime cap, on the record."""
    from artifacts.ledger import Ledger
    from flows.environment import prepare

    if not (0 < epsilon < float("inf") and 0 < delta < 1):
        raise WrongInput(f"the cap must have ε > 0 and 0 < δ < 1, got ε = {epsilon!r}, δ = {delta!r}")
    changed = Ledger.of(prepare(home)).recap(name, epsilon, delta, reason)
    out.print(f"domain {name}: cap is now ε = {changed.filter.epsilon:g}, δ = {changed.filter.delta:g}")


@app.command()
def link(
    name: Annotated[str, typer.Argument(help="A domain.")],
    other: Annotated[str, typer.Argument(help="Another one, named yet or not, which may hold the same people.")],
    reason: Annotated[str, typer.Option(help="Why; kept on the record.")],
    home: HomeOption = HOME,
) -> None:
    """Say on the record that people may be in both domains: they are promised the sum of both caps, and no less."""
    from artifacts.ledger import Ledger
    from flows.environment import prepare

    Ledger.of(prepare(home)).remark(name, "linked", other, reason)
    out.print(
        f"domains {name} and {other} are linked: people in both are promised the sum of both caps", soft_wrap=True
    )


@app.command()
def restore(
    reason: Annotated[str, typer.Option(help="Why an older copy was put back; kept on the record.")],
    home: HomeOption = HOME,
    as_json: JsonOption = False,
) -> None:
    """Go on from an older copy of the home: charge what its witness saw since, and end every open session.

    CONCORD_WITNESS names the witness. Each session that was open is charged whole; nothing ever returns of it.
    """
    from artifacts.ledger import Ledger
    from flows.environment import prepare
    from flows.summary import budget_of, show_budget

    home = prepare(home)
    Ledger.of(home).restore(reason)
    figures = budget_of(home)
    _print(figures) if as_json else show_budget(figures)


@app.command()
def close(
    session: Annotated[str, typer.Argument(help="The session to end.")],
    whole: Annotated[bool, typer.Option(help="Charge the whole reservation, whatever was used of it.")] = False,
    home: HomeOption = HOME,
    as_json: JsonOption = False,
) -> None:
    """End an open session; what was reserved and not spent returns to its domain, by the ledger's rule.

    Only a reason that is public, or was released, may return anything: with any other, give --whole.
    """
    from flows.environment import prepare
    from flows.summary import session_of
    from tasks.ending import close as end
    from tasks.release import Door

    door = Door.of(prepare(home))
    end(door, session, give_back=not whole)
    ended = session_of(door.ledger, session)
    if as_json:
        _print(ended)
    else:
        out.print(f"session {session} is {ended['status']}, charged ε = {ended['settled']['epsilon']:.3g}")


@app.command()
def forget(
    session: Annotated[str, typer.Argument(help="A session that has ended.")],
    home: HomeOption = HOME,
    as_json: JsonOption = False,
) -> None:
    """Destroy the key of a session that has ended, and the teachers and votes that no open one uses.

    What verification needs is kept; the plan cannot be run again without a further session.
    """
    from flows.environment import prepare
    from tasks.ending import forget as destroy
    from tasks.release import Door

    forgotten = destroy(Door.of(prepare(home)), session)
    said = "its key, teachers and votes are destroyed" if forgotten else "it was forgotten before"
    _print({"session": session, "forgotten_now": forgotten}) if as_json else out.print(f"session {session}: {said}")


@app.command()
def erase(
    domain: Annotated[str, typer.Option(help="The domain the unit belongs to.")],
    unit: Annotated[str | None, typer.Option(help="The unit, as the table names it; default: every unit.")] = None,
    home: HomeOption = HOME,
    as_json: JsonOption = False,
) -> None:
    """Remove a unit's rows from the vault, with the teachers and votes that depend on them; its sessions end.

    What was spent stays spent, and what was published stays published. The table itself is its owner's to change.
    """
    from flows.environment import prepare

    home = prepare(home)
    from flows.erasure import erased, show_erasure

    told = erased(home, domain, unit)
    _print(told) if as_json else show_erasure(told)


@app.command()
def verify(
    subject: Annotated[str | None, typer.Argument(help="An MLflow run or a session; default: everything.")] = None,
    home: HomeOption = HOME,
    as_json: JsonOption = False,
) -> None:
    """Check the ledger's chain, every released file, the model, MLflow's figures and the guarantee itself."""
    from flows.environment import prepare

    home = prepare(home)
    from tasks.verify import verify as checks_of

    checks = checks_of(home, subject)
    passed = all(check.ok for check in checks)
    if as_json:
        _print({"ok": passed, "checks": [check.model_dump() for check in checks]})
    else:
        for check in checks:
            mark = "[green]ok  [/green]" if check.ok else "[red]FAIL[/red]"
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
    _print({**report.model_dump(), "run_id": run_id}) if as_json else show_audit(report)
    if not report.holds:
        raise typer.Exit(4)


@app.command()
def ui(home: HomeOption = HOME, port: Annotated[int, typer.Option(help="On loopback.")] = 5000) -> None:
    """Open the audit view: the MLflow UI, on this machine only."""
    import subprocess

    from flows.environment import prepare

    home = prepare(home)
    out.print(f"audit view: http://127.0.0.1:{port}/#/experiments (end with Ctrl-C)")
    store = ("--backend-store-uri", f"sqlite:///{home / 'mlflow.db'}", "--host", "127.0.0.1", "--port", str(port))
    raise typer.Exit(subprocess.call([sys.executable, "-m", "mlflow", "server", *store, "--workers", "1"]))


def _print(value: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False) + "\n")


def main() -> None:
    """The console script: a ConcordError becomes one sentence on stderr and its exit status."""
    try:
        app()
    except ConcordError as error:
        sys.stderr.write(f"concord: {error}\n")
        sys.exit(error.exit_status)
