"""The command line, and the commands that plan, run and extend.

Heavy packages are imported inside the commands, so that --help is instant.
"""

import re
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from typer.main import get_command

from concord.artifacts.errors import ConcordError, EnvironmentFailed, WrongInput
from concord.flows.cli import record
from concord.flows.cli.app import (
    HOME,
    Call,
    QuietCall,
    YesOption,
    app,
    speak_plainly,
    subcommand,
)
from concord.flows.console import out, say
from concord.flows.ending import may_charge, sentence

__all__ = ["app", "command", "record"]
"""`record` adds its commands to `app` as it is imported."""

INTERRUPTED = 130
"""The exit status after Ctrl-C, by the shell's rule: 128 plus the signal's number."""


def command() -> None:
    """The command line: a ConcordError, or a full disk, becomes one sentence on stderr and an exit status."""
    speak_plainly()
    may_charge.clear()
    try:
        get_command(app).main()  # called as `app()`, Typer would print tracebacks its own way
    except ConcordError as error:
        sys.stderr.write(f"concord: {error}\n")
        sys.exit(error.exit_status)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            sys.stderr.write(f"concord: {sentence(signal.SIGINT)}\n")
        raise
    except OSError as failed:
        sys.stderr.write(f"concord: {EnvironmentFailed(f'the machine refused: {failed}')}\n")
        sys.exit(EnvironmentFailed.exit_status)


@subcommand("run")
def run_command(
    call: QuietCall,
    plan: Annotated[Path, typer.Argument(help="The plan, a TOML file.")],
    start_from: Annotated[str | None, typer.Option("--from", help="Rerun this stage and all later ones.")] = None,
    new_session: Annotated[
        bool,
        typer.Option(
            help="Open a further session, which costs again. If a killed run left one unpublished, finish that instead."
        ),
    ] = False,
    yes: YesOption = False,
) -> None:
    """Learn and publish a model: the main job.

    A second run of the same plan answers from cache and spends nothing.
    """
    with call.starting():
        from concord.artifacts.plan import load_plan
        from concord.flows.home import Memo, prepare
        from concord.flows.outcome import stage_named

        stage = stage_named(start_from)
        loaded, home = load_plan(plan), prepare(call.home)
        repeated = None if new_session or stage else Memo(loaded, home).read()
    if repeated is not None:
        call.report(repeated, home)
        return
    with call.engine(home, loaded, ask=not yes):
        from concord.flows.learn import learn

        call.report(learn(loaded, home, new_session, stage), home)


@subcommand("refresh")
def refresh_command(
    call: QuietCall,
    plan: Annotated[Path, typer.Argument(help="The plan, which has a [stream].")],
    new_session: Annotated[bool, typer.Option(help="Begin another stream if it cannot go on; it costs again.")] = False,
    yes: YesOption = False,
) -> None:
    """Learn from the private rows that arrived since the last release of a stream.

    Each call is one release of the stream's season. A season is charged at its first release, and the next season
    begins by itself, at no further charge. With a clock in the plan, a second call before the next scheduled time
    releases and spends nothing. A killed call is finished by the next.
    """
    with call.with_plan(plan, yes=yes) as (loaded, home):
        from concord.flows.refresh import refresh

        call.report(refresh(loaded, home, new_session), home)


@subcommand("extend")
def extend_command(
    call: QuietCall,
    session: Annotated[str, typer.Argument(help="The session, as run and budget name it.")],
    public: Annotated[Path, typer.Option(help="More public rows: a file, a folder or a glob.")],
) -> None:
    """Answer more public rows in an open session, and retrain its student.

    Files that were answered before are skipped, so you can name the same folder each time. If the session ends before
    the last row, the answers so far are published, and the exit status is 3.
    """
    from concord.flows.home import reopen

    home = reopen(call.home)
    with call.engine(home):
        from concord.flows.learn import extend
        from concord.flows.outcome import RowsNotPaid, check_all_asked

        try:
            summary = extend(session, public, home)
        except RowsNotPaid as refused:
            summary = refused.summary
        call.report(summary, home)
    check_all_asked(summary)
    if not (call.as_json or call.quiet or summary.asked_now):
        out.print(f"nothing new: {public} has no further row that the session can answer; nothing was spent")


@subcommand("demo")
def demo_command(call: QuietCall) -> None:
    """Run the main job on simulated hospital stays, without download or server."""
    from concord.flows.home import prepare
    from concord.tasks.advice.demo import WITH_PUBLIC, write_demo

    plan = write_demo(prepare(call.home) / "demo")
    run_command(call, plan)
    if not (call.as_json or call.quiet):
        elsewhere = "" if call.home == HOME else f" --home {quote(str(call.home))}"
        other = quote(str(plan.with_name(WITH_PUBLIC)))
        say(f"next         with public rows: concord run {other} --new-session{elsewhere}")


@dataclass(frozen=True)
class InitOptions:
    """Settings of a plan that `init` writes; None for those that it asks for or takes by default."""

    private: Annotated[str | None, typer.Option(help="Private table; only column names are read.")] = None
    public: Annotated[str | None, typer.Option(help="Public table, whose columns become features.")] = None
    schema: Annotated[str | None, typer.Option(help="In place of --public; default: schema.json.")] = None
    dictionary_columns: Annotated[
        str | None,
        typer.Option(metavar="KEY=NAME", help="Columns of a --schema that is a table."),
    ] = None
    test: Annotated[str | None, typer.Option(help="Public labelled table, for evaluation.")] = None
    format: Annotated[str | None, typer.Option(metavar="KEY=SIGN", help="How CSV files are written: separator …")] = (
        None
    )
    label: Annotated[str | None, typer.Option(help="The label column.")] = None
    classes: Annotated[list[str] | None, typer.Option(metavar="A,B", help="The classes; they are published.")] = None
    shares: Annotated[str | None, typer.Option(metavar="A=SHARE", help="Their shares, if publicly known.")] = None
    bounds: Annotated[
        tuple[float, float] | None, typer.Option(metavar="LOW HIGH", help="Bounds of a label that is a number.")
    ] = None
    unit: Annotated[str | None, typer.Option(help="Column that identifies a person, or `row`.")] = None
    categories: Annotated[
        list[str] | None, typer.Option(metavar="A,B", help="Numeric columns that are categorical.")
    ] = None
    domain: Annotated[str | None, typer.Option(help="Name of this private data; published.")] = None
    rows: Annotated[str | None, typer.Option(help="About how many private rows, or units.")] = None
    season: Annotated[int | None, typer.Option(help="For a stream: releases in a season.")] = None
    epsilon: Annotated[float | None, typer.Option(help="The ε of this session; default: 1.")] = None
    delta: Annotated[float | None, typer.Option(help="Its δ; default: a power of ten below 1/rows.")] = None
    lifetime_epsilon: Annotated[float | None, typer.Option(help="Lifetime ε; default: on record, or 4·ε.")] = None
    lifetime_delta: Annotated[float | None, typer.Option(help="Lifetime δ; default: on record, or 4·δ.")] = None
    issuer: Annotated[str | None, typer.Option(help="The publisher, with a contact.")] = None
    use: Annotated[str | None, typer.Option(help="Intended use, and uses to avoid.")] = None
    date: Annotated[str | None, typer.Option(help="Date of publication: YYYY-MM-DD.")] = None


@subcommand("init")
def init_command(
    call: Call,
    settings: InitOptions,
    path: Annotated[Path, typer.Option("--out", help="A new file for the plan.")] = Path("plan.toml"),
    tallies: Annotated[bool | None, typer.Option(help="Noisy sums (default, if possible), or votes.")] = None,
) -> None:
    """Write a commented plan; at a terminal it asks for missing settings."""
    from concord.flows.cli.advice import AtTerminal, show_written
    from concord.tasks.advice.init import write_plan

    if len(settings.classes or ()) > 1 and (
        lists := [word for word in settings.classes or () if re.search(r",\S", word)]
    ):
        rule = "--classes must be one list with commas, or be repeated with one class each"
        raise WrongInput(f"{rule}: list all in one, or correct the plan if {lists[0]!r} is one class")
    categories = (name.strip() for several in settings.categories or () for name in several.split(","))
    given = asdict(settings) | {"categories": tuple(categories)}
    terminal = AtTerminal() if sys.stdin.isatty() else None
    call.end(write_plan(given, path, call.home, tallies=tallies, terminal=terminal), show_written)


@subcommand("plan")
def plan_command(
    call: Call,
    path: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan.")],
) -> None:
    """Simulate a plan on public rows, and state what it costs; nothing is spent."""
    from concord.flows.cli.advice import show_plan
    from concord.tasks.advice.report import plan_report

    call.end(plan_report(path, call.home), show_plan)


@subcommand("estimate")
def estimate_command(
    call: Call,
    plan: Annotated[Path, typer.Argument(help="The plan; its cutoff may be missing.")],
    epsilon: Annotated[float, typer.Option(help="The ε that the estimate costs.")],
    share: Annotated[float, typer.Option(help="Share of units set aside to evaluate teachers.")] = 0.3,
    beta: Annotated[float, typer.Option(help="Probability that the cutoff is too low, with many teachers.")] = 0.05,
    new_session: Annotated[bool, typer.Option(help="Open a further session, which costs again.")] = False,
    yes: YesOption = False,
) -> None:
    """Estimate the teachers' error from private rows and suggest a cutoff; costs budget.

    With the same settings, it repeats the first estimate and spends nothing.
    """
    with call.with_plan(plan, yes=yes) as (loaded, home):
        from concord.flows.ask import estimate

        result = estimate(loaded, epsilon, share, beta, home, new_session)
    call.end(result, show_estimate)


def show_estimate(details: dict[str, Any]) -> None:
    """Print the estimate, its cost, and how to use it."""
    from concord.flows.outcome import spent_in_words

    rows = {
        "teachers": f"{details['teachers']} err on {details['rate']:.1%} of rows set aside, by a noisy estimate",
        "guarantee": f"{details['guarantee']['in_words']}, in session {details['session']}",
        "budget": spent_in_words(details["lifetime"]),
        "next": f"set cutoff = {details['cutoff']} in [labeling], for a mechanism that ends by refusals: enough for "
        f"{details['queries']:,} public rows, except with probability {details['beta']:g}, if teachers are so many "
        "that noise refuses no row on which at most a third of them err (BTT18, Theorem 3.2), as `concord plan` shows",
        "estimate": details["estimate"],
    }
    if details["cutoff"] >= details["queries"]:
        rows["next"] = (
            "take a mechanism that pays by row: they err too often for a cutoff below the number of public rows"
        )
    for name, value in rows.items():
        out.print(f"{name:<11}  {value}", soft_wrap=True, markup=False)
