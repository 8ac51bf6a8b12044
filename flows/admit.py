"""Sessions of a run: found or covered before anything private is read, and begun once it was counted.

Before anything is spent, the operator sees what share of the private rows a plan does not recognise (the pre-check). It
appears on the console only, which is the operator's: never in Prefect, MLflow, a certificate or a file. The program
goes on whatever the shares are: only the operator, at a terminal, may stop it, or a plan that says so in advance
(tests/privacy/README.md, "The pre-check"). Checked by tests/flows/test_precheck_tables.py.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile
from typing import Any, Generic

from concord.artifacts.domains import Domain
from concord.artifacts.errors import ConcordError, WrongInput
from concord.artifacts.guarantee import NO_LATER_ROWS, cap_in_words, later_rows_in_words
from concord.artifacts.schemas import Bounds, Encoding, PublicRows
from concord.artifacts.sessions import Opening, Session
from concord.flows.console import err, may_ask
from concord.flows.run import Admitted, Asking, ExactNumbers, PrivateFiles, PublicStream, RunContext, charges
from concord.tasks.asks.kinds import check_known
from concord.tasks.data.precheck import Unmatched, check_types, unmatched
from concord.tasks.data.tables import Table
from concord.tasks.door.admit import (
    claim,
    find_session,
    opening_of,
    reserve_session,
)
from concord.tasks.door.ask import Ask
from concord.tasks.door.checkpoint import Checkpoint, read_checkpoint, write_checkpoint

WORTH_ASKING = {"label": 0.005, "unit": 0.005, "feature": 0.5}
"""Shares at or above which the operator is asked whether to go on."""
LEAST_LISTED = 0.005
"""Least share of unrecognised cells at which a feature is listed; at most `MOST_LISTED` are listed."""
MOST_LISTED = 5
GOES_ON = "and spends; data.most_unknown in the plan can stop it"
GOES_ON_WITH_UNITS = "and counts these units, which are not asked again"


def admit(run: RunContext, domain: Domain, asks: Sequence[Ask[Any]], public: PublicRows) -> list[Admitted[Any]]:
    """The sessions in which a plan asks these together: the open ones, or new ones, if the domain covers all of those.

    public   the encoding, and the plan's own public rows
    Raises BudgetRefused if a missing session may not be opened, NotVerified if this version does not know the kind of
    one of the domain's: a certificate states them all. Spends nothing.
    """
    lifetime = run.plan.privacy.lifetime
    if words := cap_in_words(domain, lifetime.epsilon, lifetime.delta):  # `concord domain` has changed the cap
        err.print(f"{'cap':>8} {words}", soft_wrap=True, markup=False)
    for session in run.stores.ledger.sessions(domain.name):
        check_known(session)
    openings = [opening_of(run.stores, run.plan, ask, public.encoding) for ask in asks]
    admitted = [_find(run, domain, ask, opening, public) for ask, opening in zip(asks, openings, strict=True)]
    lacking = [opening for opening, session in zip(openings, admitted, strict=True) if session.session is None]
    first = admitted[0].session
    further = may_open_further(run, first, admitted[-1].ask)
    if lacking and first is not None and not further:
        lacking = openings  # those that --new-session would open
    if lacking:
        run.stores.ledger.check_opening(Opening.of_all(lacking), domain, further=further)
    return admitted


def _find(run: RunContext, domain: Domain, ask: Asking, opening: Opening, public: PublicRows) -> Admitted[Asking]:
    """The session in which that is asked, if it exists, once no other command is opening or using it.

    Its stream is the plan's own rows, then those it was extended with.
    """
    run.wait_for(opening.identity)
    session, ask = find_session(run.stores, run.plan, ask, public.encoding, new_session=run.new_session)
    sources = [run.own(public.batches)]
    if session is not None and run.new_session:
        err.print(
            f"{'going on':>8} session {session.id} is charged and not published: it is finished first, and a further "
            "one is opened if the command is given again",
            soft_wrap=True,
        )
    if session is not None:
        session = run.lock_session(session.id)
        checkpoint = read_checkpoint(run.stores, session.id)
        sources.extend(checkpoint.sources[1:] if checkpoint else ())
    stream = PublicStream.of(run, session, public.encoding, sources)
    return Admitted(domain, charges(run, domain), ask, stream, session)


def may_open_further(run: RunContext, first: Session | None, ask: Ask[Any]) -> bool:
    """Whether one more session may be opened in the domain. One that a plan asks for beside `first` is no further one,
    until such a session was opened after that."""
    if run.new_session or first is None:
        return run.new_session
    since = dropwhile(lambda session: session.id != first.id, run.stores.ledger.sessions(first.domain))
    return all(session.facts.name != ask.mechanism.name for session in since)


def announce_room(admitted: Admitted[Any]) -> None:
    """If a session would be opened, print how it can be extended, before anything private is read."""
    if admitted.session is None:
        ask, words = admitted.ask, NO_LATER_ROWS
        if ask.teachers:
            words = later_rows_in_words(
                queries=ask.mechanism.queries, cutoff=ask.mechanism.cutoff, asked=admitted.stream.rows, refused=0
            )
        err.print(f"{'later':>8} rows: {words}", soft_wrap=True, markup=False)


def begin(
    run: RunContext,
    admitted: Admitted[Any],
    private: PrivateFiles,
    counted: ExactNumbers,
    *,
    further: bool,
) -> Session:
    """The session, opened at its whole cost unless it is open, with its checkpoint written.

    further   whether one more session may be opened in the domain
    Raises BudgetRefused.
    """
    plan, stores, stream, session = run.plan, run.stores, admitted.stream, admitted.session
    claim(stores, plan, private.files)
    if session is None:
        private_digests, encoding = counted.private_digests, stream.encoding
        opened = reserve_session(stores, plan, admitted.ask, encoding, private_digests, new_session=further)
        session = run.lock_session(opened.id)
    checkpoint = Checkpoint(
        plan=run.kept,
        encoding=stream.encoding,
        teachers=tuple(counted.kept),
        sources=stream.sources,
        files=private.files,
        private=private.table.digests,
        relabelled=counted.relabelled,
    )
    write_checkpoint(stores, session.id, checkpoint)
    return session


@dataclass(frozen=True)
class Opened(Generic[Asking]):
    """An open session, and the exact numbers that it answers from."""

    admitted: Admitted[Asking]
    session: Session
    exact: ExactNumbers


def open_together(
    run: RunContext,
    admitted: Sequence[Admitted[Any]],
    counts: Sequence[Callable[[Admitted[Any], PrivateFiles], ExactNumbers]],
) -> tuple[list[Opened[Any]], PrivateFiles]:
    """The sessions in which a plan asks these: counted and begun, all of them or none.

    counts   of each, what counts its exact numbers
    Raises as `PrivateFiles.of`, `precheck_tables` and `begin`.
    """
    stream = admitted[0].stream
    private = PrivateFiles.of(run, stream.sources)  # from here on, private files are read
    if admitted[0].session is None and run.plan.stream is None:  # a stream's rows are checked as a period takes them
        precheck_tables(run, private.table, stream.encoding)
    exact = [count(session, private) for count, session in zip(counts, admitted, strict=True)]
    opened = list[Opened[Any]]()
    for session, numbers in zip(admitted, exact, strict=True):
        further = may_open_further(run, opened[0].session if opened else None, session.ask)
        opened.append(Opened(session, begin(run, session, private, numbers, further=further), numbers))
    return opened, private


def precheck_tables(run: RunContext, table: Table, encoding: Encoding, session: Session | None = None) -> None:
    """Print what share of the private rows has no known class, unit or word; at a terminal, ask whether to go on.

    session   the open one that counts them as well, if there is one: a season
    Raises WrongInput, before anything is spent, if the operator stops the run; without a terminal, and if none is open,
    if the share of unknown cells of any column exceeds the plan's `data.most_unknown`.
    """
    check_types(table, encoding)
    try:
        unknown = unmatched(table, encoding)
    except ConcordError:  # the stage that reads the table afterwards reports the error
        return
    for line in (*shares_in_words(unknown, encoding.bounds), *left_out(encoding)):
        err.print(f"{'check':>8} {line}", soft_wrap=True, markup=False)
    most = run.plan.data.most_unknown
    shares = {"data.label": unknown.label, "data.unit": unknown.unit, **unknown.features}
    if session is None and not may_ask() and most is not None and max(shares.values()) > most:
        raise WrongInput(
            "stopped before anything was spent: the share of private cells that the plan does not know is above "
            f"data.most_unknown = {most:g} in some column; correct data.label, data.classes, bounds or the schema from "
            "documentation, or leave that key out to go on"
        )
    if not is_worth_asking(unknown):
        return
    goes_on, go_on = GOES_ON, "go on and spend the budget"
    if session is not None:
        goes_on, go_on = GOES_ON_WITH_UNITS, "go on and count these units, which are not asked again"
    if not may_ask():
        words = f"without a terminal nothing is asked: the run goes on, {goes_on}"
        err.print(f"{'check':>8} {words}", soft_wrap=True, markup=False)
    elif err.input(f"{go_on}? [y/N] ", markup=False).strip().lower() not in ("y", "yes"):
        raise WrongInput(
            "stopped; nothing was charged. Correct the plan from documentation, not from these shares: they are "
            "private, and a plan changed because of them leaks more than ε covers"
        )


def is_worth_asking(shares: Unmatched) -> bool:
    """Whether the unrecognised share is so large that the plan may be wrong."""
    most = {"label": shares.label, "unit": shares.unit, "feature": max(shares.features.values(), default=0.0)}
    return any(share >= WORTH_ASKING[name] for name, share in most.items())


def shares_in_words(shares: Unmatched, bounds: Bounds | None) -> Iterator[str]:
    """The shares, rounded; for the operator alone."""
    if bounds is not None:
        within = f"a number from {bounds[0]:g} to {bounds[1]:g}, as data.bounds says"
        if shares.label:
            none = f"{rounded(shares.label)} of the private rows have no label that is {within}"
            yield f"{none}: outside the bounds it is clipped to the nearer bound; a missing one counts as the midpoint"
        else:
            yield f"the label of every private row is {within}"
    elif shares.label:
        unknown = f"{rounded(shares.label)} of the private rows have a label that data.classes lacks"
        yield f"{unknown}: it counts as the first class"
    else:
        yield "the label of every private row is one of data.classes"
    if shares.unit:
        yield f"{rounded(shares.unit)} of the private rows have no id in the column of data.unit: they are left out"
    lost = sorted(shares.features.items(), key=lambda item: -item[1])
    for name, share in [(name, share) for name, share in lost if share >= LEAST_LISTED][:MOST_LISTED]:
        yield f"{rounded(share)} of the private rows have an unknown value in {name!r}: it counts as missing"


def left_out(encoding: Encoding) -> Iterator[str]:
    """The features that nothing is learned from, as public rows alone decide."""
    for column in encoding.columns:
        if column.kind == "null":
            why = "its public cells are empty, or dates as text: write them as 2026-12-31, or store them as dates"
            yield f"{column.name!r} is left out: {why}"


def rounded(share: float) -> str:
    """A share that is not 0, to the nearest hundredth."""
    return "under 1%" if share < LEAST_LISTED else f"about {share:.0%}"
