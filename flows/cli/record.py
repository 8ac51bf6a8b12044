"""The commands for budgets and caps, ending sessions, erasing data, and using a published student."""

import warnings
from itertools import chain
from pathlib import Path
from typing import Annotated

import typer

from concord.artifacts.errors import WrongInput
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
from concord.flows.console import say


@subcommand("budget")
def budget_command(call: Call) -> None:
    """Show each domain's lifetime budget, spent and remaining, and its sessions."""
    from concord.flows.cli.show import show_budget
    from concord.flows.environment import reopen
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
    from concord.artifacts.stores import checked_ledger
    from concord.flows.environment import reopen

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
    from concord.artifacts.stores import checked_ledger
    from concord.flows.cli.show import show_budget
    from concord.flows.environment import reopen
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
    from concord.flows.environment import reopen
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
    from concord.flows.environment import reopen
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
    from concord.flows.environment import reopen

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
    from concord.flows.environment import published_by
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
    from concord.flows.environment import published_by
    from concord.tasks.publish.predict import at_point, predict_table, student_of

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        asked = at_point(student_of(published_by(student, call.home)), point, threshold)
        count = predict_table(asked, str(rows), out_file, key=key)
    texts = list(dict.fromkeys(str(warning.message) for warning in caught))
    shown = (*(f"warning: {text}" for text in texts), f"{out_file}: {count} rows")
    call.end({"rows": count, "file": str(out_file), "warnings": texts}, *shown)
