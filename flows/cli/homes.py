"""The commands of several homes that show no row: `lead`, `contribute` and `homes`."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from concord.flows.cli.app import Call, JsonOption, app, print_json, subcommand
from concord.flows.console import NARROW, out, say

PlanArgument = Annotated[Path, typer.Argument(help="The plan of all homes, which has [homes] and no private table.")]
ExchangeOption = Annotated[str, typer.Option(help="The folder, or address in an object store, that all can reach.")]


@subcommand("lead")
def lead_command(
    call: Call,
    plan: PlanArgument,
    exchange: ExchangeOption,
    without: Annotated[list[str] | None, typer.Option(help="A home left out: from now on, or of this release.")] = None,
) -> None:
    """Coordinate several homes: ask the next question, or publish after the last answer.

    It does not wait: it names the homes that have not answered. Call it again, or from cron. It reads nothing private
    and draws nothing.
    """
    from concord.artifacts.plan import load_homes_plan
    from concord.flows.environment import prepare

    loaded, home = load_homes_plan(plan), prepare(call.home)
    with call.serving(home):
        from concord.flows.lead import lead
        from concord.flows.serving import run_once

        done = run_once(lead, home)(loaded, home, exchange, without or [])
    if done["published"]:
        from concord.flows.cli.show import show
        from concord.flows.outcome import Summary

        call.end(done, lambda _: show(Summary.model_validate(done), home))
    else:
        call.end(done, *_refused(done), f"round {done['round']}      waits for {', '.join(done['missing'])}")


@subcommand("contribute")
def contribute_command(
    call: Call,
    plan: PlanArgument,
    exchange: ExchangeOption,
    private: Annotated[str, typer.Option(help="This home's private table.")],
    name: Annotated[str, typer.Option("--as", help="This home's name in the plan.")],
    again: Annotated[
        bool, typer.Option("--new-session", help="Take part in a further run of the plan; it costs again.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="You have read the plan and agree to what it costs.")
    ] = False,
) -> None:
    """Answer the newest question of a lead, with noisy sums of this home's rows.

    Each question is answered once and charged to this home's own ledger. The first call shows what the plan costs and
    asks for agreement; from cron, give --yes. A repeated call spends nothing.
    """
    from concord.artifacts.plan import load_homes_plan, of_home
    from concord.flows.environment import prepare

    loaded, home = of_home(load_homes_plan(plan), private), prepare(call.home)
    with call.serving(home, ask=not yes):
        from concord.flows.homes import contribute
        from concord.flows.serving import run_once

        done = run_once(contribute, home)(loaded, home, exchange, name, again, yes)
    if done["answered"] is None:
        call.end(done, *_refused(done), f"{name}: {done['missing']}")
    else:
        from concord.flows.outcome import spent_in_words

        number, rounds = done["answered"] + 1, done["rounds"]
        call.end(
            done,
            *_refused(done),
            f"answered     {number} of {rounds}{'' if done['answered_now'] else ', before'}: {done['file']}",
            f"budget       {spent_in_words(done['lifetime'])}",
            f"certificate  {done['certificate']}",
        )


@app.command("homes")
def homes_command(plan: PlanArgument, exchange: ExchangeOption, as_json: JsonOption = False) -> None:
    """Show which homes have answered which question, from the exchange's signed files.

    No home folder is needed.
    """
    from concord.artifacts.plan import load_homes_plan
    from concord.flows.lead import status

    found = status(load_homes_plan(plan), exchange)
    if as_json:
        print_json(found)
        return
    for sentence in (f"plan {found['plan'][:12]}, led by {found['lead']}", *_refused(found)):
        say(sentence)
    table = Table("round", "answered", "missing", "refused", **NARROW)
    for each in found["rounds"]:
        refused = "; ".join(f"{name}: {why}" for name, why in each["refused"].items())
        table.add_row(str(each["round"]), ", ".join(each["answered"]), ", ".join(each["missing"]), refused)
    out.print(table if found["rounds"] else "nothing is asked yet")


def _refused(found: dict[str, Any]) -> list[str]:
    return [f"refused      {name}: {why}" for name, why in found["refused"].items()]
