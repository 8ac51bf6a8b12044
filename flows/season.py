"""The periods of a season of a stream: what arrived since the last one is taken, and each new unit is counted once.

    take (files) ─ arrive (new units) ─ tally ─ on record, before anything of it passes the door

Nothing about rows decides whether there is a period. One that a killed command took is finished by the next, with the
same files, if it was counted.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import islice
from pathlib import PurePath
from typing import Any

from concord.artifacts.errors import NotVerified, WrongInput
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Session
from concord.artifacts.stores import PrivatePlace
from concord.flows.admit import precheck_tables
from concord.flows.cache import PrivateInput
from concord.flows.console import err
from concord.flows.private_stages import UNITS
from concord.flows.public_stages import sample
from concord.flows.run import Admitted, ExactNumbers, PrivateFiles, RunContext
from concord.flows.stage import mapped, stage
from concord.flows.tally import rounds_in
from concord.tasks.asks.stream import (
    Beginning,
    PeriodCounts,
    SeasonAsk,
    counted_again,
    keep_again,
    keep_beginning,
    keep_counted,
    periods_counted,
)
from concord.tasks.data.codes import Codes
from concord.tasks.data.files import PRIVATE
from concord.tasks.door.admit import claim
from concord.tasks.door.checkpoint import arrivals_key
from concord.tasks.door.door import Step
from concord.tasks.door.keys import ready_stream
from concord.tasks.mechanisms.contributions import RoundQuestion
from concord.tasks.student.public_rows import read_sample
from concord.tasks.student.questions import SeasonReader
from concord.tasks.units.arrivals import Arriving, Period, check_unchanged, contents_by_place, table_of, take
from concord.tasks.units.blocks import BLOCKS, Coding, gather
from concord.tasks.units.parts import columns_asked
from concord.tasks.units.sums import count
from concord.tasks.units.units import names_held


@stage("gather", reads=UNITS)
def arrive(
    place: PrivatePlace, plan: Plan, private: PrivateInput, codes: Codes, stream: str, before: Sequence[Ref]
) -> list[Ref]:
    """Write the rows of a period's new units as codes and classes: BLOCKS files; and the names of all units so far.

    before  files of the names of all units up to the period before
    """
    rows, folder = private.at(place, plan), f"{plan.privacy.domain}/{stream}/{place.key[:16]}"
    arriving = Arriving(private.table, arrivals_key(rows.vault, stream), before, f"arrived/{folder}")
    blocks = gather(Coding(rows, codes, arriving), f"units/{folder}")
    return [*blocks, *arriving.names]


@mapped("tally")
def tally_period(
    place: PrivatePlace,
    at: int,
    questions: Sequence[Mapping[str, Any]],
    blocks: Sequence[Ref],
    domain: str,
    session: str,
) -> Ref:
    """The sum over a period's new units, of whom there may be none, that answers the question at that place. It stays
    as long as the season, while the blocks go once the period is released."""
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
        reader = SeasonReader(codes, rows, rounds_in(run, last))
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
            made = self._count(session, due, _names_of([*self._past, *counted]))
            if contents_by_place(self.run.plan, stores.vault, due.files) != due.files:
                raise NotVerified(f"a file of {PRIVATE} changed while it was read: nothing was drawn, so refresh again")
            counted.append(keep_counted(stores.vault, session, session.asked, made))
        again = self.recount_without_erased(session, counted)
        released = rounds_in(self.run, stores.ledger.released_by(session.id)[: len(counted) - 1])
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
        sums, before = [], _names_of(self._past)
        for period in counted:
            made = self._count(session, period.period, before)
            sums, before = [*sums, made.sums], made.names
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

    def _count(self, session: Session, period: Period, before: Sequence[Ref]) -> PeriodCounts:
        run, vault = self.run, self.run.stores.vault
        arrived, names = list[Ref](), tuple(before)
        if period.files:
            private = PrivateInput(table_of(run.plan, vault, period), self.beginning.encoding, run.erased)
            arrived = arrive(run, run.plan, private, self.ask.coded, session.stream, names)
            names = tuple(arrived[BLOCKS:])
        questions = [question.record() for question in self.ask.questions]
        sums = tally_period(run, range(len(questions)), questions, arrived[:BLOCKS], session.domain, session.id)
        return PeriodCounts(period=period, sums=tuple(sums), names=names, erased=len(run.erased))


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
