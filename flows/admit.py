"""Sessions of a run: found or covered before anything private is read, and begun once it was counted."""

from collections.abc import Sequence
from itertools import dropwhile
from typing import Any

from concord.artifacts.domains import Domain
from concord.artifacts.guarantee import NO_LATER_ROWS, later_rows_in_words
from concord.artifacts.schemas import PublicRows
from concord.artifacts.sessions import Opening, Session
from concord.flows.console import err
from concord.flows.run import Admitted, Asking, Balance, Counted, PrivateFiles, PublicStream, RunContext
from concord.tasks.door.admit import (
    check_ensemble,
    claim,
    find_session,
    opening_of,
    reserve_session,
)
from concord.tasks.door.ask import Ask
from concord.tasks.door.checkpoint import Checkpoint, read_checkpoint, write_checkpoint


def admit(run: RunContext, domain: Domain, asks: Sequence[Ask[Any]], public: PublicRows) -> list[Admitted[Any]]:
    """The sessions in which a plan asks these together: the open ones, or new ones, if the domain covers all of those.

    public   the encoding, and the plan's own public rows
    Raises BudgetRefused if a missing session may not be opened; spends nothing.
    """
    say_of_cap(run, domain)
    openings = [opening_of(run.plan, ask, public.encoding, run.stores.vault) for ask in asks]
    found = [_found(run, domain, *each, public) for each in zip(asks, openings, strict=True)]
    lacking = [opening for opening, each in zip(openings, found, strict=True) if each.session is None]
    first = found[0].session
    further = may_open_further(run, first, found[-1].ask)
    if lacking and first is not None and not further:
        lacking = openings  # those that --new-session would open
    if lacking:
        run.stores.ledger.check_opening(Opening.of_all(lacking), domain, further=further)
    return found


def _found(run: RunContext, domain: Domain, ask: Asking, opening: Opening, public: PublicRows) -> Admitted[Asking]:
    """The session in which that is asked, if it exists, once no other command is opening or using it.

    Its stream is the plan's own rows, then those it was extended with.
    """
    run.wait_for(opening.identity)
    session = find_session(run.stores, opening, new_session=run.new_session)
    sources = [run.own(public.batches)]
    if session is not None:
        session = run.lock_session(session.id)
        checkpoint = read_checkpoint(run.stores.vault, session.id)
        sources.extend(checkpoint.sources[1:] if checkpoint else ())
    stream = PublicStream.of(run, session, public.encoding, sources)
    return Admitted(Balance.of(run, domain), ask, stream, session)


def may_open_further(run: RunContext, first: Session | None, ask: Ask[Any]) -> bool:
    """Whether one more session may be opened in the domain. One that a plan asks for beside `first` is no further one,
    until such a session was opened after that."""
    if run.new_session or first is None:
        return run.new_session
    since = dropwhile(lambda session: session.id != first.id, run.stores.ledger.sessions(first.domain))
    return all(session.mechanism["name"] != ask.settings()["name"] for session in since)


def say_of_cap(run: RunContext, domain: Domain) -> None:
    """Print that the domain's cap is not the plan's, if `concord domain` has changed it."""
    lifetime = run.plan.privacy.lifetime
    if words := domain.instead_of(lifetime.epsilon, lifetime.delta):
        err.print(f"{'cap':>8} {words}", soft_wrap=True, markup=False)


def announce_room(found: Admitted[Any]) -> None:
    """If a session would be opened, print how it can be extended, before anything private is read."""
    if found.session is None:
        ask, words = found.ask, NO_LATER_ROWS
        if ask.teachers:
            words = later_rows_in_words(queries=ask.queries, cutoff=ask.cutoff, asked=found.stream.rows, refused=0)
        err.print(f"{'later':>8} rows {words}", soft_wrap=True, markup=False)


def check_unchanged(run: RunContext, session: Session | None, private_digests: Sequence[str]) -> None:
    """Raise NotVerified if the open session was opened with other private data."""
    if session is not None:
        check_ensemble(run.stores.vault, session, private_digests)


def begin(
    run: RunContext, admitted: Admitted[Any], private: PrivateFiles, counted: Counted, *, further: bool | None = None
) -> Session:
    """The session, opened at its whole cost unless it is open, with its checkpoint written.

    further   whether one more session may be opened in the domain; default: the run's `new_session`
    Raises BudgetRefused.
    """
    plan, stores, stream, session = run.plan, run.stores, admitted.stream, admitted.session
    claim(stores, plan, private.files)
    if session is None:
        allowed, digests = run.new_session if further is None else further, counted.private_digests
        opened = reserve_session(stores, plan, admitted.ask, stream.encoding, digests, new_session=allowed)
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
    write_checkpoint(stores.vault, session.id, checkpoint)
    return session
