"""The flow of `concord refresh`: what arrived since the last release is added to the running sums, and a student learns
from their totals.

    take (files) ─ arrive (new units) ─ tally ─ counted, on record ─┃ release ─ infer ─ study ─ certify

A release is due whenever the plan's clock, or the operator, says so, whatever arrived: nothing about rows decides
whether there is one. A killed refresh is finished by the next, with the files that it took, if they were
counted. When a season has ended, the next opens by itself, for units that arrive from then on: nobody who was asked is
asked again, so the domain is charged what its largest season costs, once.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from concord.artifacts.errors import BudgetRefused, WrongInput
from concord.artifacts.schemas import PublicRows
from concord.artifacts.sessions import Session
from concord.flows import tally
from concord.flows.admit import admit, open_together
from concord.flows.cache import digested, key_of, only
from concord.flows.home import plan_and_home
from concord.flows.operation import PlanOrFile, operation
from concord.flows.outcome import Summary
from concord.flows.public_stages import encode, stage_rows
from concord.flows.run import PrivateFiles, RunContext, running
from concord.flows.season import Periods, check_periods, next_time, published_mark
from concord.flows.stage import Disclosure
from concord.flows.steps import Learned, fit, publish
from concord.tasks.asks.stream import Beginning, SeasonAsk, beginning_of, periods_counted
from concord.tasks.door.admit import opening_of, planned_domain, sessions_for
from concord.tasks.mechanisms.stream import Stream
from concord.tasks.student.questions import history
from concord.tasks.student.study import Student


@dataclass(frozen=True)
class StreamOfPlan:
    """The stream that a plan goes on with, or begins.

    public   the rows that its codes were learned from, or will be
    now      the public rows of now, which may be others
    ask      what a season of it asks, of no stream yet
    superseded  the sessions of earlier streams, if a new stream is asked for
    """

    public: PublicRows
    now: PublicRows
    ask: SeasonAsk
    superseded: Sequence[str] = ()


def stream_of(run: RunContext) -> StreamOfPlan:
    """The plan's stream, by the codes it began with; if there is none yet, or another is asked for with other public
    rows, one that begins with these."""
    table, ledger, vault, domain = run.table("public"), run.stores.ledger, run.stores.vault, run.plan.privacy.domain
    seasons, streams = ledger.sessions(domain), list[tuple[tuple[str, ...], PublicRows, SeasonAsk]]()
    for name in dict.fromkeys(season.stream for season in reversed(seasons) if season.stream):  # the newest first
        beginning = beginning_of(vault, domain, name)
        if beginning is None or beginning.read != _reading(run):
            continue
        public = PublicRows(encoding=beginning.encoding, batches=beginning.source.batches)
        ask = season_ask(run, public)
        if sessions_for(run.stores, run.plan, ask, beginning.encoding):
            streams.append((beginning.source.digests, public, ask))
    candidates = streams[:1] if run.new_session else streams
    of_these_rows = [stream for stream in candidates if stream[0] == table.digests]
    if going_on := of_these_rows or ([] if run.new_session else streams):
        _, public, ask = going_on[0]
        (rows,) = stage_rows(run, [table], public.encoding, run.plan.labeling.batch, "data.public")
        return StreamOfPlan(public, PublicRows(encoding=public.encoding, batches=rows.batches), ask)
    public = encode(run, run.plan, table)
    superseded = [season.id for season in seasons] if streams else ()
    return StreamOfPlan(public, public, season_ask(run, public), superseded)


def season_ask(run: RunContext, public: PublicRows) -> SeasonAsk:
    """The season's questions, about codes that are learned from the rows it began with; of no stream yet."""
    ask = tally.ask_now(run, public)
    if not isinstance(ask.mechanism, Stream):
        raise AssertionError("a plan with [stream] is planned as one")
    return SeasonAsk(ask.mechanism, ask.codes, ask.public, coded=ask.coded)


def release_due(run: RunContext, going_on: StreamOfPlan) -> Summary:
    """Release what is due, and publish what follows from it. Raises BudgetRefused, WrongInput or NotVerified."""
    ask, encoding, vault, ledger = going_on.ask, going_on.public.encoding, run.stores.vault, run.stores.ledger
    tally.rehearse(run, encoding)  # refuses here, before anything private is read
    domain = planned_domain(run.stores, run.plan)
    opening, now = opening_of(run.stores, run.plan, ask, encoding), datetime.now(UTC)
    run.wait_for(f"{opening.identity}-refresh")  # no other opens a season of this stream meanwhile
    of_plan = sessions_for(run.stores, run.plan, ask, encoding)
    seasons = [session for session in of_plan if session.id not in going_on.superseded]
    answered = bool(seasons) and _answered(run, seasons[-1], now)
    stream, further = _stream_due(run, seasons, answered=answered)
    ended = [season for season in seasons if season.stream == stream and season.ended]
    run = replace(run, new_session=further)
    (admitted,) = admit(run, domain, [replace(ask, seasons_of=stream)], going_on.now)
    source = run.own(going_on.public.batches)
    beginning = Beginning(read=_reading(run), encoding=encoding, codes=ask.coded, source=source)
    periods = Periods(run, ask, ended, beginning, now)
    session = admitted.session
    if session is not None and answered:
        PrivateFiles.of(run, admitted.stream.sources)  # refuses private rows that are named public
        passed = Disclosure(session, [], 0, ledger.now())
    else:
        (opened,), _ = open_together(run, [admitted], [periods.count_exact])
        passed = run.stages.pass_door(opened.session, opened.exact.steps)
        session = passed.session
    passed = replace(passed, released=ledger.released_by(session.id))
    learned = tally.labelled(run, admitted, passed, ask.coded)
    periods.tidy(session, [*periods_counted(vault, session)])
    student = _with_history(learned, fit(learned))
    summary = publish(learned, student)
    with vault.create(published_mark(session.id)) as sink:
        sink.write(str(learned.session.asked).encode())
    return summary


def _answered(run: RunContext, session: Session, now: datetime) -> bool:
    """Whether nothing is due but to publish the last release."""
    vault = run.stores.vault
    counted, marked = list(periods_counted(vault, session)), vault.take(published_mark(session.id))
    check_periods(session, counted)
    if not session.asked or len(counted) != session.asked or not vault.has_secret(f"sessions/{session.id}"):
        return False  # none, or one is begun, or the season is lost
    until, unpublished = counted[-1].period.until, marked is None or int(marked[1]) < session.asked
    clock = None if run.plan.stream is None else run.plan.stream.clock  # it may have been left out since
    if unpublished or clock is None or until == "":
        return unpublished
    after_next = next_time(clock, next_time(clock, now))  # before `until` alone if a clock has changed since it was set
    return now < datetime.fromisoformat(until) <= after_next


def _stream_due(run: RunContext, seasons: Sequence[Session], *, answered: bool) -> tuple[str, bool]:
    """The stream whose season is due, and whether one more session is opened. Raises BudgetRefused if that would ask
    everybody again, because it is no longer known who was asked.

    seasons   all those with this plan's settings, in order
    """
    vault = run.stores.vault
    new = f"{run.plan.privacy.domain}-{secrets.token_hex(4)}-stream"
    if not seasons:
        return new, run.new_session
    last = seasons[-1]
    if answered or not last.ended:
        return last.stream, False
    whole = run.stores.ledger.goes_on(last.stream) and vault.has_secret(f"streams/{last.stream}")
    same = [season for season in seasons if season.stream == last.stream]
    if whole and all(len(list(periods_counted(vault, season))) >= season.batches for season in same):
        return last.stream, True
    if not run.new_session:
        raise BudgetRefused(
            f"the season of session {last.id} has ended ({last.status}) after {last.asked} releases, and this home "
            "does not know any more whom it asked: a further one asks everybody again and costs again, so it must "
            "be asked for with --new-session"
        )
    return new, True


def _with_history(learned: Learned, student: Student) -> Student:
    """The student, with the accuracies of the models of earlier releases, if accuracy is measured."""
    run, odds, (*releases, _) = learned.run, getattr(student.test, "prior_odds", None), learned.passed.released
    if run.test is None or odds is None or learned.codes is None:  # a student that is fitted to labels has none
        return student
    models = (release["decoded"] for release in tally.rounds_in(run, releases))
    accuracies = history(models, learned.codes, run.test.path, learned.encoding)
    return student.model_copy(update={"history": accuracies})


def _reading(run: RunContext) -> str:
    """A digest of the plan's fields by which its encoding is learned: streams are known by it."""
    fields = only(run.plan, *(key for key in encode.reads if key != "data.declared"))  # which no stream has
    return key_of(run.home, "reading", "1", {"plan": digested(fields)})


@operation("refresh", asks=False)
def refresh(plan: PlanOrFile, home: Path | None = None, new_session: bool = False) -> Summary:
    """Publish a classifier learned from all private rows that arrived so far, as one more release of the season.

    plan, home    as for `learn`
    new_session   open a further session if the stream cannot go on, which asks everybody again and costs again
    """
    plan, home = plan_and_home(plan, home)
    if plan.stream is None:
        raise WrongInput("stream must be given in the plan to be refreshed; without it, `concord run` learns once")
    with running(plan, home, new_session=new_session) as run:
        return release_due(run, stream_of(run))
