"""The commands of several homes that show no row: `lead`, `contribute` and `homes`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from concord.flows.cli.app import HOME, HomeOption, JsonOption, app, print_json, served
from concord.flows.console import NARROW, out, say

PlanArgument = Annotated[Path, typer.Argument(help="The plan of all homes, which has [homes] and no private table.")]
ExchangeOption = Annotated[str, typer.Option(help="The folder, or address in an object store, that all can reach.")]


@app.command("lead")
def lead_command(
    plan: PlanArgument,
    exchange: ExchangeOption,
    without: Annotated[list[str] | None, typer.Option(help="A home left out: from now on, or of this release.")] = None,
    home: HomeOption = HOME,
    as_json: JsonOption = False,
) -> None:
    """Coordinate several homes: ask the next question, or publish after the last answer.

    It does not wait: it names the homes that have not answered. Call it again, or from cron. It reads nothing private
    and draws nothing.
    """
    from concord.artifacts.plan import load_homes_plan

    loaded = load_homes_plan(plan)
    with served(home) as found:
        from concord.flows import api

        done = api.lead(loaded, exchange, without=without or (), home=found)
    if as_json:
        print_json(done)
    elif done["published"]:
        from concord.flows.cli.show import show
        from concord.flows.outcome import Summary

        show(Summary.model_validate(done), found, quiet=False)
    else:
        _say_refused(done["refused"])
        say(f"round {done['round']}      waits for {', '.join(done['missing'])}")


@app.command("contribute")
def contribute_command(
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
    home: HomeOption = HOME,
    as_json: JsonOption = False,
) -> None:
    """Answer the newest question of a lead, with noisy sums of this home's rows.

    Each question is answered once and charged to this home's own ledger. The first call shows what the plan costs and
    asks for agreement; from cron, give --yes. A repeated call spends nothing.
    """
    from concord.artifacts.plan import load_homes_plan

    loaded = load_homes_plan(plan)
    with served(home, ask=not yes) as found:
        from concord.flows import api

        done = api.contribute(loaded, exchange, private, name, agreed=yes, new_session=again, home=found)
    if as_json:
        print_json(done)
        return
    _say_refused(done["refused"])
    if done["answered"] is None:
        say(f"{name}: {done['missing']}")
    else:
        from concord.flows.outcome import spent_in_words

        number, rounds = done["answered"] + 1, done["rounds"]
        say(f"answered     {number} of {rounds}{'' if done['answered_now'] else ', before'}: {done['file']}")
        say(f"budget       {spent_in_words(done['lifetime'])}")
        say(f"certificate  {done['certificate']}")


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
    say(f"plan {found['plan'][:12]}, led by {found['lead']}")
    _say_refused(found["refused"])
    table = Table("round", "answered", "missing", "refused", **NARROW)
    for each in found["rounds"]:
        refused = "; ".join(f"{name}: {why}" for name, why in each["refused"].items())
        table.add_row(str(each["round"]), ", ".join(each["answered"]), ", ".join(each["missing"]), refused)
    out.print(table if found["rounds"] else "nothing is asked yet")


def _say_refused(refused: dict[str, str]) -> None:
    for name, why in refused.items():
        say(f"refused      {name}: {why}")
