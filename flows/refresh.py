"""The flow of `concord refresh`: what arrived since the last release is added to the running sums, and a student learns
from their totals.

    take (files) ─ arrive (new units) ─ tally ─ counted, on record ─┃ release ─ infer ─ study ─ certify

A release is due whenever the plan's clock, or the operator, says so, whatever arrived: nothing about rows decides
whether there is one, or whether there is a period. A killed refresh is finished by the next, with the files that it
took, if they were counted; each new unit is counted once. When a season has ended, the next opens by itself, for units
that arrive from then on: nobody who was asked is asked again, so the domain is charged what its largest season costs,
once.
"""

import asyncio
import secrets
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePath
from typing import Any

from concord.artifacts.errors import BudgetRefused, NotVerified, WrongInput
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import PublicRows, Ref
from concord.artifacts.sessions import Session
from concord.artifacts.stores import PrivatePlace
from concord.flows import tally
from concord.flows.admit import admit, open_together, precheck_tables
from concord.flows.cache import PrivateInput, digested, key_of, only
from concord.flows.console import err
from concord.flows.home import plan_and_home
from concord.flows.operation import PlanOrFile, operation
from concord.flows.outcome import Summary
from concord.flows.private_stages import UNITS
from concord.flows.public_stages import encode, sample, stage_rows
from concord.flows.run import Admitted, ExactNumbers, PrivateFiles, RunContext, running
from concord.flows.stage import Disclosure, mapped, stage
from concord.flows.steps import Learned, fit, publish
from concord.tasks.asks.stream import (
    Beginning,
    PeriodCounts,
    SeasonAsk,
    beginning_of,
    counted_again,
    keep_again,
    keep_beginning,
    keep_counted,
    periods_counted,
)
from concord.tasks.data.codes import Codes
from concord.tasks.data.files import PRIVATE
from concord.tasks.door.admit import claim, opening_of, planned_domain, sessions_for
from concord.tasks.door.door import Step
from concord.tasks.door.keys import ready_stream
from concord.tasks.mechanisms.contributions import RoundQuestion
from concord.tasks.mechanisms.stream import Stream
from concord.tasks.student.public_rows import read_sample
from concord.tasks.student.questions import SeasonReader, history
from concord.tasks.student.study import Student
from concord.tasks.units.arrivals import Arriving, Period, check_unchanged, contents_by_place, table_of, take
from concord.tasks.units.blocks import BLOCKS, Coding, gather
from concord.tasks.units.parts import columns_asked
from concord.tasks.units.sums import count
from concord.tasks.units.units import names_held


@stage("gather", version=2, reads=UNITS)
def arrive(
    place: PrivatePlace,
    plan: Plan,
    private: PrivateInput,
    codes: Codes,
    stream: str,
    before: Sequence[Ref],
    period: int,
) -> list[Ref]:
    """Write the rows of a period's new units, of whom there may be none, as codes and classes: BLOCKS files; and the
    names of all units so far.

    before  files of the names of all units up to the period before
    period  its number in its stream
    """
    rows, folder = private.at(place, plan), f"{plan.privacy.domain}/{stream}/{place.key[:16]}"
    arriving = Arriving(private.table, stream, period, before, f"arrived/{folder}")
    blocks = gather(Coding(rows, codes, arriving), f"units/{folder}")
    return [*blocks, *arriving.names]


@mapped("tally", version=2)
def tally_period(
    place: PrivatePlace,
    at: int,
    questions: Sequence[Mapping[str, Any]],
    blocks: Sequence[Ref],
    domain: str,
    session: str,
) -> Ref:
    """The sum over a period's new units that answers the question at that place. It stays as long as the season, while
    the blocks go once the period is released."""
    question, path = RoundQuestion.from_record(dict(questions[at])), f"sums/{domain}/{session}/{place.key}.npy"
    return count(blocks, question, place.vault, path)


@dataclass(frozen=True)
class Periods:
    """The periods of one season, for one run at the moment `now`.

    ask        what the season asks of each period, of no stream yet
    ended      the stream's earlier seasons
    beginning  how the stream begins; of one that has begun, its record stays
    """

    run: RunContext
    ask: SeasonAsk
    ended: Sequence[Session]
    beginning: Beginning
    now: datetime

    def count_exact(self, admitted: Admitted[SeasonAsk], private: PrivateFiles) -> ExactNumbers:
        """Take the period that is due, unless that was done; its new units are counted when the season is open."""
        run, vault, plan, session = self.run, self.run.stores.vault, self.run.plan, admitted.session
        counted = [] if session is None else list(periods_counted(vault, session))
        if session is not None:
            check_periods(session, counted)
        earlier = [period.period for period in (*self._past, *counted)]
        contents = contents_by_place(plan, vault, names_held(vault, private.files))
        check_unchanged(plan, contents, earlier)
        due = None
        if session is None or len(counted) == session.asked:
            due = self._take(contents, earlier, session)
        keep_beginning(vault, plan.privacy.domain, admitted.ask.stream, self.beginning)
        claim(run.stores, plan, private.files)
        ready_stream(run.stores, plan.privacy.domain, admitted.ask.stream, drawn_from=bool(earlier))
        codes, domain = self.ask.coded, plan.privacy.domain
        rows = read_sample(sample(run, domain, codes, admitted.stream.batches), run.stores.staged)
        last = [ref for season in self.ended for ref in run.stores.ledger.released_by(season.id)[-1:]]
        reader = SeasonReader(codes, rows, tally.rounds_in(run, last))
        return ExactNumbers((), (), steps=lambda _, session: self._steps(session, admitted.ask, due, reader))

    def _take(self, contents: Mapping[str, str], earlier: Sequence[Period], session: Session | None) -> Period:
        """The period that is due: the files at places that no earlier one took."""
        vault, plan, encoding = self.run.stores.vault, self.run.plan, self.beginning.encoding
        columns, clock = columns_asked(plan, encoding), plan.stream.clock if plan.stream else None
        until = "" if clock is None else next_time(clock, self.now).isoformat()
        period = take(plan, vault, contents, earlier, columns).model_copy(update={"until": until})
        if period.files:
            precheck_tables(self.run, table_of(plan, vault, period), encoding, session)
        else:
            err.print(f"{'refresh':>8} no file is new: a release all the same, since none may follow from rows")
        return period

    def _steps(self, session: Session, ask: SeasonAsk, due: Period | None, reader: SeasonReader) -> Iterator[Step]:
        """The release of the last period, which is counted first if it is due."""
        stores = self.run.stores
        counted = list(periods_counted(stores.vault, session))
        if due is not None:
            made = self._count(session, due, [*self._past, *counted])
            if contents_by_place(self.run.plan, stores.vault, due.files) != due.files:
                raise NotVerified(f"a file of {PRIVATE} changed while it was read: nothing was drawn, so refresh again")
            counted.append(keep_counted(stores.vault, session, session.asked, made))
        again = self.recount_without_erased(session, counted)
        released = tally.rounds_in(self.run, stores.ledger.released_by(session.id)[: len(counted) - 1])
        yield from ask.steps(stores, session, counted=counted, again=again, released=released, reader=reader)

    def recount_without_erased(self, session: Session, counted: Sequence[PeriodCounts]) -> list[tuple[Ref, ...]]:
        """The sums of these periods without units that were erased since; empty if the recorded sums are present and
        exclude those units, which after a restore of the vault they may not."""
        run, vault, erased = self.run, self.run.stores.vault, len(self.run.erased)
        recounted = counted_again(vault, session, erased)
        others = counted[len(recounted) :]
        sums = [*recounted, *(period.sums for period in others)]
        present = all(vault.has(ref) for of_period in sums for ref in of_period)
        if present and all(period.erased == erased for period in others):
            return sums if recounted else []
        if not run.erased:
            return []  # which stops
        err.print(f"{'erased':>8} the season is counted again without the units that were")
        again = list[PeriodCounts]()
        for period in counted:
            again.append(self._count(session, period.period, [*self._past, *again]))
        sums = [period.sums for period in again]
        keep_again(vault, session, erased, sums)
        return sums

    def tidy(self, session: Session, counted: Sequence[PeriodCounts]) -> None:
        """Remove from the vault what only the last of these periods needed, once it is released."""
        run, vault = self.run, self.run.stores.vault
        vault.destroy(f"units/{session.domain}/{session.stream}")  # its blocks of rows
        for season in self.ended:  # whose periods are not counted again
            if (vault.root / (sums := f"sums/{session.domain}/{season.id}")).exists():
                run.stages.forget(vault.paths(sums, "*.npy"))
                vault.destroy(sums)
        first = _names_of(self._past)  # the season's first, from which it may be counted again
        if needed := {str(PurePath(ref.path).parent) for ref in (*counted[-1].names, *first)}:
            for path in vault.paths(f"arrived/{session.domain}/{session.stream}", "*", needed):
                vault.destroy(path)

    @cached_property
    def _past(self) -> list[PeriodCounts]:
        """The periods of the stream's earlier seasons that were begun, in order."""
        vault = self.run.stores.vault
        return [period for season in self.ended for period in islice(periods_counted(vault, season), season.batches)]

    def _count(self, session: Session, period: Period, before: Sequence[PeriodCounts]) -> PeriodCounts:
        """The sums of a period after those."""
        run, erased = self.run, self.run.erased
        private = PrivateInput(table_of(run.plan, run.stores.vault, period), self.beginning.encoding, erased)
        arrived = arrive(run, run.plan, private, self.ask.coded, session.stream, _names_of(before), len(before))
        questions = [question.record() for question in self.ask.questions]
        sums = tally_period(run, range(len(questions)), questions, arrived[:BLOCKS], session.domain, session.id)
        return PeriodCounts(period=period, sums=tuple(sums), names=tuple(arrived[BLOCKS:]), erased=len(erased))


def check_periods(session: Session, counted: Sequence[PeriodCounts]) -> None:
    """Raise NotVerified if the vault lacks periods that a session released."""
    if len(counted) < session.batches and not session.ended:
        raise NotVerified(
            f"the vault lacks periods that session {session.id} released: it was restored from a backup; restore "
            f"the newer copy, or end the season by `concord close --whole {session.id}`"
        )


def _names_of(periods: Sequence[PeriodCounts]) -> tuple[Ref, ...]:
    """The files of all names up to the last of these periods."""
    return next(filter(None, (period.names for period in reversed(periods))), ())


def published_mark(session: str) -> str:
    """The file of the vault that says how many releases of a session were published whole."""
    return f"sessions/{session}/published"


def next_time(clock: str, after: datetime) -> datetime:
    """The first time in UTC after `after` that `stream.clock` matches. Raises WrongInput if it never does."""
    from prefect.server.schemas.schedules import CronSchedule

    rule = "stream.clock must be five fields that some day meets, such as '0 3 * * *'"
    wrong = WrongInput(f"{rule}, got {clock!r}")
    if len(clock.split()) > 5:  # seconds come first to some, and last to Prefect
        raise wrong
    try:
        with ThreadPoolExecutor(1) as thread:  # a notebook has a loop in its own thread
            due = CronSchedule(cron=clock, timezone="UTC").get_dates(2, start=after)
            dates = thread.submit(asyncio.run, due).result()
    except ValueError:
        raise wrong from None
    return next(date for date in dates if date > after)


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
