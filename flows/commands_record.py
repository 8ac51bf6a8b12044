"""The commands of the record: budgets and caps, sessions that end, data that goes."""

from typing import Annotated

import typer

from artifacts.errors import WrongInput
from flows.console import HOME, HomeOption, JsonOption, app, out, print_json


@app.command()
def budget(home: HomeOption = HOME, as_json: JsonOption = False) -> None:
    """What every domain may spend, has spent and has left; and its sessions."""
    from flows.environment import reopen
    from flows.summary import budget_of, show_budget

    figures = budget_of(reopen(home, reading=True))
    print_json(figures) if as_json else show_budget(figures)


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
    from flows.environment import reopen

    if not (0 < epsilon < float("inf") and 0 < delta < 1):
        raise WrongInput(f"the cap must have ε > 0 and 0 < δ < 1, got ε = {epsilon!r}, δ = {delta!r}")
    changed = Ledger.of(reopen(home)).recap(name, epsilon, delta, reason)
    out.print(f"domain {name}: cap is now ε = {changed.filter.epsilon:g}, δ = {changed.filter.delta:g}")


@app.command()
def link(
    name: Annotated[str, typer.Argument(help="A domain.")],
    other: Annotated[str, typer.Argument(help="Another one, named yet or not, which may hold the same people.")],
    reason: Annotated[str, typer.Option(help="Why; kept on the record.")],
    home: HomeOption = HOME,
) -> None:
    """Say on the record that people may be in both domains: where both protect the same, the sum of both caps holds."""
    from artifacts.ledger import Ledger
    from flows.environment import reopen

    Ledger.of(reopen(home)).remark(name, "linked", other, reason)
    promised = "people in both are promised the sum of both caps, if unit and neighbours are the same in both"
    out.print(f"domains {name} and {other} are linked: {promised}", soft_wrap=True)


@app.command()
def restore(
    reason: Annotated[str, typer.Option(help="What happened to the home, or to its witness; kept on the record.")],
    home: HomeOption = HOME,
    as_json: JsonOption = False,
) -> None:
    """Go on from an older copy of the home, charging what its witness saw since; or without a witness that is lost.

    CONCORD_WITNESS names the witness; where that is lost, a new one, or none. Each session that was open ends and is
    charged whole; nothing ever returns of it.
    """
    from artifacts.ledger import Ledger
    from flows.environment import reopen
    from flows.summary import budget_of, show_budget

    home = reopen(home, as_it_is=True)  # an upgrade writes, which a ledger that is behind refuses
    Ledger.of(home).restore(reason)
    home = reopen(home)
    figures = budget_of(home)
    print_json(figures) if as_json else show_budget(figures)


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
    from flows.environment import reopen
    from flows.summary import session_of
    from tasks.ending import close as end
    from tasks.release import Door

    door = Door.of(reopen(home))
    end(door, session, give_back=not whole)
    ended = session_of(door.ledger, session)
    if as_json:
        print_json(ended)
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
    from flows.environment import reopen
    from tasks.ending import forget as destroy
    from tasks.release import Door

    forgotten = destroy(Door.of(reopen(home)), session)
    said = "its key, teachers and votes are destroyed" if forgotten else "it was forgotten before"
    print_json({"session": session, "forgotten_now": forgotten}) if as_json else out.print(f"session {session}: {said}")


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
    from flows.environment import reopen

    home = reopen(home)
    from flows.erasure import erased, show_erasure

    told = erased(home, domain, unit)
    print_json(told) if as_json else show_erasure(told)
