"""The flow of `concord count`: how many private units are in each group of public rows, certified."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from prefect import flow
from rich.markup import escape
from rich.table import Table

from concord.artifacts.errors import in_one_line
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, Ref
from concord.flows.ask import write_up
from concord.flows.cache import Files, Place
from concord.flows.console import NARROW, out
from concord.flows.once import answer_once
from concord.flows.outcome import spent_in_words
from concord.flows.run import PrivateFiles, running
from concord.flows.stage import stage
from concord.flows.stages import UNITS, encode
from concord.tasks.asks.counts import CountsAsk, Groups, count_groups
from concord.tasks.data.encode import read_frame
from concord.tasks.data.units import Erased

MOST_GROUPS_SHOWN = 20
"""The most groups that the console shows; the released file has all of them."""


@stage("count", reads=UNITS)
def count_units(
    place: Place, plan: Plan, table: Files, encoding: Encoding, groups: Groups, erased: Sequence[str]
) -> Ref:
    """Count the private units of each group, except erased ones."""
    vault, domain = place.vault, plan.privacy.domain
    left_out, placed = Erased.of(vault, domain, erased), table.of(plan, "private")
    folder, secret = f"counts/{domain}/{place.key[:16]}", place.secret(domain, "split")
    return count_groups(placed, encoding, groups, vault, folder, secret, left_out)


@flow(name="count", flow_run_name="count {plan.privacy.domain}")
def count(plan: Plan, home: Path, by: Sequence[str], epsilon: float, again: bool = False) -> dict[str, Any]:
    """Release noisy counts of the plan's private units by the words of some columns, at a cost of (epsilon, 0).

    again   count once more, which costs again
    """
    with running(plan, home, new_session=again) as run:
        public = encode(run, run.plan, run.files("public"))
        frames = (read_frame(batch.ref, run.stores.vault) for batch in public.batches)
        ask = CountsAsk.of(run.plan, Groups.of(by, public.encoding, frames), epsilon)

        def exact(private: PrivateFiles) -> list[Ref]:
            return [count_units(run, run.plan, private.table, public.encoding, ask.groups, run.erased)]

        admitted, passed = answer_once(run, ask, public, exact)
        return {**write_up(run, admitted, passed), "within": ask.mechanism.within(0.95)}


def show_counts(details: dict[str, Any]) -> None:
    """Print the counts, largest first, with their cost."""
    answer, guarantee = details["answer"], details["guarantee"]
    rows = sorted(zip(answer["groups"], answer["counts"], strict=True), key=lambda row: -row[1])
    table = Table("group", "about", **NARROW)
    for words, about in rows[:MOST_GROUPS_SHOWN]:
        table.add_row(escape(in_one_line(", ".join(words))), f"{about:,}")
    table.add_row("any other", f"{answer['others']:,}")
    out.print(table)
    lines = {
        "groups": f"{len(rows):,}, each within {details['within']:,} of its exact count with probability 0.95",
        "guarantee": f"ε = {guarantee['epsilon']:g}, δ = 0 for {guarantee['unit']}, in session {details['session']}",
        "spent now": spent_in_words(details["lifetime"]),
        "counts": details["file"],
        "certificate": details["certificate"],
    }
    for name, value in lines.items():
        out.print(f"{name:<11}  {value}", soft_wrap=True, markup=False)
