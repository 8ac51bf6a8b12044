"""The pre-check: before anything is spent, the operator sees what share of the private rows a plan does not recognise.

It appears on the console only, which is the operator's: never in Prefect, MLflow, a certificate or a file. The program
goes on whatever the shares are: only the operator, at a terminal, may stop it (tests/privacy/README.md, "The
pre-check"). Checked by tests/flows/test_precheck_tables.py.
"""

from collections.abc import Iterator

from concord.artifacts.errors import ConcordError, NotKept, WrongInput
from concord.artifacts.schemas import Bounds, Encoding
from concord.artifacts.sessions import Session
from concord.flows.console import confirmed, err
from concord.flows.run import PrivateFiles, RunContext
from concord.tasks.data.remarks import Unmatched, unmatched

WORTH_ASKING = {"label": 0.005, "unit": 0.005, "feature": 0.5}
"""Shares at or above which the operator is asked whether to go on."""
LEAST_SAID = 0.005
"""The share of unrecognised cells from which a feature is listed; at most `MOST_SAID` features are."""
MOST_SAID = 5


def precheck_tables(run: RunContext, private: PrivateFiles, encoding: Encoding, session: Session | None) -> None:
    """Print what share of the private rows has no known class, unit or word; at a terminal, ask whether to go on.

    Prints nothing if an open session is continued. Raises WrongInput if the operator stops: nothing was spent.
    """
    if session is not None:
        return
    if run.stages.in_replay:
        raise NotKept("a session would be opened, about which the operator is asked")
    try:
        found = unmatched(private.table.of(run.plan, "private"), encoding)
    except ConcordError:  # the stage that reads the table afterwards reports the error
        return
    for line in (*shares_in_words(found, encoding.bounds), *left_out(encoding)):
        err.print(f"{'check':>8} {line}", soft_wrap=True, markup=False)
    if is_worth_asking(found) and not confirmed("go on, and spend"):
        raise WrongInput(
            "stopped as you asked, before anything was spent: data.classes or bounds, data.unit and data.features must "
            "say what the private table holds; to change the plan because of these shares leaks what ε does not count"
        )


def is_worth_asking(found: Unmatched) -> bool:
    """Whether the unrecognised share is so large that the plan may be wrong."""
    most = {"label": found.label, "unit": found.unit, "feature": max(found.features.values(), default=0.0)}
    return any(share >= WORTH_ASKING[name] for name, share in most.items())


def shares_in_words(found: Unmatched, bounds: Bounds | None = None) -> Iterator[str]:
    """The shares, rounded; for the operator alone."""
    if bounds is not None:
        within = f"a number from {bounds[0]:g} to {bounds[1]:g}, as data.bounds says"
        if found.label:
            none = f"{rounded(found.label)} of the private rows have no label that is {within}"
            yield f"{none}: beyond them it counts as the nearer one, and else as their middle"
        else:
            yield f"the label of every private row is {within}"
    elif found.label:
        yield f"{rounded(found.label)} of the private rows have a label that data.classes lacks: it counts as the first"
    else:
        yield "the label of every private row is one of data.classes"
    if found.unit:
        yield f"{rounded(found.unit)} of the private rows have no id in the column of data.unit: they are left out"
    lost = sorted(found.features.items(), key=lambda item: -item[1])
    for name, share in [(name, share) for name, share in lost if share >= LEAST_SAID][:MOST_SAID]:
        yield f"{rounded(share)} of the private rows have an unknown value in {name!r}: it counts as missing"


def left_out(encoding: Encoding) -> Iterator[str]:
    """The features that nothing is learned from, as public rows alone decide."""
    for column in encoding.columns:
        if column.kind == "null":
            why = "its public cells are empty, or dates in words: write them as 2026-12-31, or store them as dates"
            yield f"{column.name!r} is left out: {why}"


def rounded(share: float) -> str:
    """A share that is not 0, to the nearest hundredth."""
    return "under 1%" if share < LEAST_SAID else f"about {share:.0%}"
