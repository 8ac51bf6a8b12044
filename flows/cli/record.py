"""The commands for budgets and caps, ending sessions, erasing data, using a published student, and an auditor's: verify
files and ledger, and open MLflow."""

import warnings
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

import typer

from concord.artifacts.errors import EnvironmentFailed, NotVerified, WrongInput
from concord.flows.cli.app import (
    HOME,
    Call,
    HomeOption,
    PublishedArgument,
    ReasonOption,
    StudentArgument,
    app,
    subcommand,
)
from concord.flows.console import err, out, say


@subcommand("budget")
def budget_command(call: Call) -> None:
    """Show each domain's lifetime budget, spent and remaining, and its sessions."""
    from concord.flows.cli.show import show_budget
    from concord.flows.home import reopen
    from concord.flows.results import budget_of

    call.end(budget_of(reopen(call.home, reading=True)), show_budget)


@app.command("domain")
def domain_command(
    name: Annotated[str, typer.Argument(help="The domain.")],
    epsilon: Annotated[float, typer.Option(help="Its new cap on ε.")],
    delta: Annotated[float, typer.Option(help="Its new cap on δ.")],
    reason: ReasonOption,
    home: HomeOption = HOME,
) -> None:
    """Change a domain's lifetime cap, and record why. Its Rényi order never changes."""
    from concord.artifacts.ledger.home_contents import checked_ledger
    from concord.flows.home import reopen

    if not (0 < epsilon < float("inf") and 0 < delta < 1):
        raise WrongInput(f"the cap must have ε > 0 and 0 < δ < 1, got ε = {epsilon!r}, δ = {delta!r}")
    changed = checked_ledger(reopen(home)).recap(name, epsilon, delta, reason)
    rule = changed.filter
    say(f"domain {name}: cap is now ε = {rule.epsilon:g}, δ = {rule.delta:g}")


@subcommand("restore")
def restore_command(
    call: Call, reason: Annotated[str, typer.Option(help="What happened to the home; kept on the record.")]
) -> None:
    """Continue after the home was restored from a backup.

    Each open session ends and is charged whole, and nothing returns. Concord does not know what was released after the
    backup was made: if you kept a later published folder, `concord verify --kept FOLDER` shows it.
    """
    from concord.artifacts.ledger.home_contents import checked_ledger
    from concord.flows.cli.show import show_budget
    from concord.flows.home import reopen
    from concord.flows.results import budget_of

    home = reopen(call.home)
    checked_ledger(home).restore(reason)
    call.end(budget_of(home), show_budget)


@subcommand("close")
def close_command(
    call: Call,
    session: Annotated[str, typer.Argument(help="The session to end.")],
    whole: Annotated[bool, typer.Option(help="Charge the whole reservation, whatever was used of it.")] = False,
) -> None:
    """End an open session; by the ledger's rule, unspent budget returns to its domain.

    Budget may return only if your reason to end the session is public or released. Otherwise give --whole.
    """
    from concord.artifacts.stores import Stores
    from concord.flows.home import reopen
    from concord.flows.results import session_of
    from concord.tasks.door.erase import close as end

    stores = Stores.of(reopen(call.home))
    end(stores, session, give_back=not whole)
    ended = session_of(stores.ledger, session)
    shared = stores.ledger.domain_of(stores.ledger.session(session)).filter.conversion
    once = f" (including {shared:.3g} that all sessions of its domain share)" if shared else ""
    charged = f"charged ε = {ended['settled']['epsilon']:.3g}{once}"
    call.end(ended, f"session {session} is {ended['status']}, {charged}")


@subcommand("forget")
def forget_command(
    call: Call,
    session: Annotated[str, typer.Argument(help="A session that has ended.")],
) -> None:
    """Destroy an ended session's key, and teachers and votes no longer in use.

    Verification still works. Running the plan again needs a further session.
    """
    from concord.artifacts.stores import Stores
    from concord.flows.home import reopen
    from concord.tasks.door.erase import forget as destroy

    forgotten = destroy(Stores.of(reopen(call.home)), session)
    result = "its key, teachers and votes are destroyed" if forgotten else "it was forgotten before"
    call.end({"session": session, "forgotten_now": forgotten}, f"session {session}: {result}")


@subcommand("erase")
def erase_command(
    call: Call,
    domain: Annotated[str, typer.Option(help="The domain the unit belongs to.")],
    unit: Annotated[str | None, typer.Option(help="The unit, as the table names it; default: every unit.")] = None,
) -> None:
    """Remove a unit's rows from the vault, with the teachers and votes computed from them.

    The domain's sessions end. What was spent stays spent, and what was published stays published. The owner of the
    table must remove the unit there.
    """
    from concord.flows.home import reopen

    home = reopen(call.home)
    from concord.flows.cli.show import show_erasure
    from concord.flows.results import erased

    call.end(erased(home, domain, unit), show_erasure)


@subcommand("export")
def export_command(
    call: Call,
    session: PublishedArgument,
    to: Annotated[Path, typer.Option(help="The folder to write, empty or not there yet.")],
) -> None:
    """Write a published student in every form that suits it, for use without Concord.

    The published files are verified first. No vault is needed, and nothing is spent.
    """
    from concord.flows.home import published_by
    from concord.tasks.publish.export import export

    written = export(published_by(session, call.home), to)
    forms = (f"{to}: {form}: {', '.join(files)}" for form, files in written.items())
    call.end({"folder": str(to), "files": sorted(chain(*written.values())), "forms": written}, *forms)


@subcommand("predict")
def predict_command(
    call: Call,
    student: StudentArgument,
    rows: Annotated[Path, typer.Argument(help="A table of rows: Parquet, Arrow IPC or CSV, as in a plan.")],
    out_file: Annotated[Path, typer.Option("--out", help="A new file, .parquet or .csv.")],
    point: Annotated[str, typer.Option(help="default, or prior-odds: higher recall of a rare class.")] = "default",
    threshold: Annotated[
        str | None, typer.Option(metavar="CLASS=P", help="Predict this class if its probability is P or more.")
    ] = None,
    key: Annotated[str | None, typer.Option("--id", help="A column of the table to write beside the class.")] = None,
) -> None:
    """Predict class and probabilities for every row of a table, with a published student.

    The published files are verified first. No vault is needed, and nothing is spent. In CSV, a class that a spreadsheet
    would read as a formula gets an apostrophe in front.
    """
    from concord.flows.home import published_by
    from concord.tasks.publish.predict import at_point, predict_table, student_of

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        model = at_point(student_of(published_by(student, call.home)), point, threshold)
        count = predict_table(model, str(rows), out_file, key=key)
    texts = list(dict.fromkeys(str(warning.message) for warning in caught))
    shown = (*(f"warning: {text}" for text in texts), f"{out_file}: {count} rows")
    call.end({"rows": count, "file": str(out_file), "warnings": texts}, *shown)


MARKS = {
    (True, False, True): ("ok  ", "green"),
    (True, True, True): ("warn", "yellow"),
    (False, False, True): ("FAIL", "red"),
    (False, False, False): ("skip", "red"),
}
"""The mark before a check and its style, by whether it holds, whether it warns and whether it could be made."""


@subcommand("verify")
def verify_command(
    call: Call,
    subject: Annotated[
        str | None, typer.Argument(help="A session, an MLflow run, or a published folder; default: everything.")
    ] = None,
    test: Annotated[str | None, typer.Option(help="The public test table, if it was moved.")] = None,
    key: Annotated[
        str | None,
        typer.Option(help="The public key that must have signed, or its fingerprint: a file, or hex digits."),
    ] = None,
    kept: Annotated[
        Path | None,
        typer.Option(help="A published folder that you kept, which the ledger or a later folder must not contradict."),
    ] = None,
) -> None:
    """Check the ledger, released files, model, MLflow's figures and the guarantee itself.

    A published folder, or its certificate, can be checked without a home folder. The exit status is 4 if a check fails,
    and 1 if one could not be made and none failed.
    """
    from concord.flows.results import checks_of

    checks = [check.model_dump() for check in checks_of(subject, call.home, test, key, kept)]
    warnings, failing = [check for check in checks if check["warning"]], [check for check in checks if not check["ok"]]
    kind = NotVerified if any(check["made"] for check in failing) else EnvironmentFailed
    shown = {"ok": not failing, "warnings": warnings, "checks": checks}
    call.end(shown, show_checks, status=kind.exit_status if failing else 0)


def show_checks(details: dict[str, Any]) -> None:
    """Print each check, after a mark of how it ended."""
    for check in details["checks"]:
        mark, style = MARKS[check["ok"], check["warning"], check["made"]]
        say(f" {check['name']}: {check['detail']}", mark=mark, style=style)


@subcommand("key")
def key_command(call: Call) -> None:
    """Print the public key that verifies the home's signatures, for readers to keep."""
    from concord.artifacts.home.atomic import is_home
    from concord.artifacts.home.signing import SigningKey
    from concord.flows.home import prepare

    if not is_home(call.home):
        say(f"created a new home folder with its own key: {call.home.absolute()}", to=err)
    key = SigningKey.of(prepare(call.home)).public
    details = {"key": key.raw.hex(), "fingerprint": key.fingerprint, "pem": key.pem.decode()}
    shown = "{pem}key          {key}\nfingerprint  {fingerprint}".format(**details)
    call.end(details, lambda _: out.print(shown, soft_wrap=True))


@app.command("ui")
def ui_command(
    domain: Annotated[str | None, typer.Argument(help="Default: the domain published last.")] = None,
    home: HomeOption = HOME,
    port: Annotated[int, typer.Option(help="Port on loopback.", min=0, max=65535)] = 5000,
) -> None:
    """Open the audit view: MLflow's list of a domain's runs, on this machine only.

    The command prints the link; with a tracking server of your own, that server's link. MLflow's gateway and
    assistant, which would send text elsewhere, are switched off: the page of prompts is empty, and the assistant's
    button does nothing.
    """
    from concord.artifacts.settings import Settings
    from concord.flows.home import reopen
    from concord.flows.page import Page

    home = reopen(home)
    tracked = Settings.now().store_of(home)
    from concord.artifacts.mlflow.read import Records

    runs = Records.of(home).page(domain)
    if tracked.startswith("http"):
        say(f"audit view: {tracked.rstrip('/')}/{runs} (the MLflow server that MLFLOW_TRACKING_URI names)")
        return
    page = Page(home, port, runs)
    say(f"audit view: {page.address} (this address is for you alone; end with Ctrl-C)")
    page.process.wait()
    raise EnvironmentFailed(page.ended)
