"""The flow of `concord refresh`: what arrived since the last release is added to the running sums, and a student learns
from their totals.

    take (files) ─ arrive (new units) ─ tally ─ counted, on record ─┃ release ─ infer ─ study ─ certify
                   (those set aside) ─────────────────────────────────────────────── count ┃ test

A release is due whenever the plan's clock, or the operator, says so, whatever arrived: nothing about rows decides
whether there is one. A killed refresh is finished by the next, with the files that it took, if they were
counted. When a season has ended, the next opens by itself, for units that arrive from then on: nobody who was asked is
asked again, so the domain is charged what its largest season costs, once.
"""

import json
import secrets
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path, PurePath
from typing import ClassVar, Self

from prefect import flow

from concord.artifacts.domains import Domain
from concord.artifacts.errors import BudgetRefused, NotVerified, WrongInput
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, PublicRows, Ref
from concord.artifacts.sessions import Session
from concord.flows.admit import admit, begin, precheck_tables
from concord.flows.cache import Files, Place, key_of
from concord.flows.console import err
from concord.flows.outcome import Summary, shown
from concord.flows.run import Admitted, Counted, PrivateFiles, RunContext, running
from concord.flows.set_aside import pass_test_of_release
from concord.flows.stage import Disclosure, pass_door, stage
from concord.flows.stages import UNITS, encode, put
from concord.flows.steps import publish
from concord.flows.tally import BySums, infer, label_claim, sample, tally
from concord.flows.ticks import next_time
from concord.tasks.asking.tally import BLOCKS, Coding, columns_asked, gather, keep_total
from concord.tasks.asks.counted import set_arrived_aside
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
    release_period,
)
from concord.tasks.asks.tallies import TalliesAsk
from concord.tasks.data.arrivals import NAMES, Arriving, Period, check_unchanged, contents_by_place, table_of, take
from concord.tasks.data.codes import Codes
from concord.tasks.data.files import PRIVATE
from concord.tasks.data.units import Erased, names_held
from concord.tasks.door.admit import opening_of, planned_domain
from concord.tasks.door.checkpoint import arrivals_key
from concord.tasks.mechanisms.stream import Stream
from concord.tasks.student.infer import read_sample
from concord.tasks.student.seasons import follow_totals, history
from concord.tasks.student.study import Student


@stage("gather", reads=UNITS)
def arrive(
    place: Place,
    plan: Plan,
    table: Files,
    period: Period,
    encoding: Encoding,
    codes: Codes,
    erased: Sequence[str],
    stream: str,
    before: Sequence[Ref],
) -> list[Ref]:
    """Write the rows of a period's new units as codes and classes: BLOCKS files; and the names of all units so far.

    before   files of the names of all units of the stream up to the period before
    """
    vault, domain = place.vault, plan.privacy.domain
    left_out, placed = Erased.of(vault, domain, erased), table.of(plan, "private")
    folder, key = f"{domain}/{stream}/{place.key[:16]}", arrivals_key(vault, stream)
    arriving = Arriving(table_of(placed, vault, period), key, before, f"arrived/{folder}")
    parted = place.secret(domain, "split")
    coding = Coding(placed, encoding, codes, vault, key, left_out, given=arriving.table, parted=parted)
    blocks = gather(coding, f"units/{folder}", arriving)
    return [*blocks, *arriving.names]


@stage("gather", reads=UNITS)
def keep_aside(
    place: Place,
    plan: Plan,
    table: Files,
    period: Period,
    encoding: Encoding,
    erased: Sequence[str],
    stream: str,
    before: Sequence[Ref],
) -> list[Ref]:
    """Write the names of all units that are set aside so far: NAMES files; and a row of each that a period adds.

    before   files of the names of those up to the period before
    """
    vault, domain = place.vault, plan.privacy.domain
    left_out, placed = Erased.of(vault, domain, erased), table.of(plan, "private")
    folder, key = f"{domain}/{stream}/{place.key[:16]}", arrivals_key(vault, stream)
    arriving = Arriving(table_of(placed, vault, period), key, before, f"arrived/{folder}")
    secret = place.secret(domain, "split")
    rows = set_arrived_aside(placed, encoding, arriving, vault, f"aside/{folder}", secret, left_out)
    return [*arriving.names, *rows]


class ByStream(BySums):
    """Private rows are asked in the period in which they arrive; a student learns from the totals of all so far.

    `public` are the rows that the stream's codes were learned from, or will be; those of now may be others.
    """

    reopens: ClassVar[bool] = False

    @classmethod
    def of(cls, run: RunContext) -> tuple[Self, PublicRows]:
        """The way to go on with the plan's stream, by the codes it began with, and the public rows of now; if there is
        none yet, or another is asked for with other public rows, the way to begin one with these."""
        own, ledger, vault, domain = run.files("public"), run.stores.ledger, run.stores.vault, run.plan.privacy.domain
        known = {each.identity: each.stream for each in ledger.sessions(domain) if each.stream}
        ways = dict[tuple[str, ...], Self]()
        for stream in dict.fromkeys(known.values()):
            begun = beginning_of(vault, domain, stream)
            if begun is None or begun.read != _reading(run):
                continue
            going_on = cls(run, PublicRows(encoding=begun.encoding, batches=begun.source.batches), begun.codes)
            asked = going_on.ask(planned_domain(run.stores, run.plan))
            if opening_of(run.plan, asked, begun.encoding, vault).identity in known:
                ways[begun.source.digests] = going_on  # the newest of those that began with these rows
        newest = None if run.new_session else next(reversed(ways.values()), None)
        way = ways.get(own.digests, newest)
        if way is None:
            public = encode(run, run.plan, own)
            return cls(run, public), public
        (rows,) = put(run, [own], way.public.encoding, run.plan.labeling.batch, "data.public")
        return way, PublicRows(encoding=way.public.encoding, batches=rows.batches)

    def ask(self, domain: Domain, session: Session | None = None) -> SeasonAsk:
        """The season's questions, about codes that are learned from the rows it began with; of no stream yet."""
        asked = super().ask(domain, session)
        if not isinstance(asked.mechanism, Stream):
            raise AssertionError("a plan with [stream] is planned as one")
        self.mechanism, spans = asked.mechanism, [(each.start, each.start + each.size) for each in self._codes.fields]
        fields = self._codes.coarse
        self.questions = [
            self.mechanism.question(at, fields, [spans[field] for field in fields])
            for at in range(len(self.mechanism.rounds))
        ]
        return SeasonAsk(asked.mechanism, asked.codes, asked.public)

    def refresh(self, public: PublicRows) -> Summary:
        """Release what is due, and publish what follows from it. Raises BudgetRefused, WrongInput or NotVerified.

        public   the public rows of now
        """
        run = self.run
        self.rehearse()  # refuses here, before anything private is read
        domain = planned_domain(run.stores, run.plan)
        asked = self.ask(domain)
        opening, now = opening_of(run.plan, asked, self.public.encoding, run.stores.vault), datetime.now(UTC)
        identity = opening.identity
        run.wait_for(f"{identity}-refresh")  # no other opens a season of this stream meanwhile
        known = [each for each in run.stores.ledger.sessions(domain.name) if each.identity == identity]
        if any(each.division != opening.division for each in known):
            raise NotVerified(
                "the key by which units are set aside is not the one that the stream began with: put back the newer "
                "copy of the vault"
            )
        answered = bool(known) and self._answered(known[-1], now)
        stream, further = self._stream(known, answered=answered)
        self.ended = [each for each in known if each.stream == stream and each.ended]
        self.run = run = replace(run, new_session=further)
        (admitted,) = admit(run, domain, [replace(asked, seasons_of=stream)], public)
        private = PrivateFiles.of(run, admitted.stream.sources)
        precheck_tables(run, private, self.public.encoding, admitted.session)
        session = admitted.session
        if session is not None and answered:
            passed = self.replay(session, admitted)
        else:
            session, counted = self.counted(admitted, private, now)
            passed = self._pass(session, admitted, counted, self.again(session, counted, private))
        student = self.fit(run, admitted, passed, passed.session.id)
        passed = self._tested(admitted, private, passed, student)
        summary = publish(run, admitted, passed, student, codes=self._codes)
        with run.stores.vault.create(published_mark(passed.session.id)) as sink:
            sink.write(str(passed.session.asked).encode())
        return summary

    def replay(self, session: Session, admitted: Admitted[TalliesAsk]) -> Disclosure:
        """The releases so far, and the labels inferred from the last."""
        return self._with_labels(admitted, Disclosure(session, self._releases(session), 0, datetime.now(UTC)))

    def fit(self, run: RunContext, admitted: Admitted[TalliesAsk], passed: Disclosure, where: str) -> Student:
        """As of tallies; and what the models of earlier releases were right on, if that is what was measured."""
        student, (*releases, _) = super().fit(run, admitted, passed, where), passed.released
        if run.test is None or not student.figures:  # which a student that is fitted to labels has not
            return student
        files = (json.loads(run.stores.released.read(ref)) for ref in releases)
        found = history(files, self._codes, run.test.path, admitted.stream.encoding)
        return student.model_copy(update={"history": found})

    def _releases(self, session: Session) -> list[Ref]:
        """The files that a season has released, in order."""
        batches = self.run.stores.ledger.batches(session.id)
        return [batch.outcome.released for batch in batches if batch.outcome is not None]

    def _answered(self, session: Session, now: datetime) -> bool:
        """Whether nothing is due but to publish the last release."""
        vault = self.run.stores.vault
        counted, marked = list(periods_counted(vault, session)), vault.take(published_mark(session.id))
        if len(counted) < session.batches and not session.ended:
            raise NotVerified(
                f"the vault lacks periods that session {session.id} released: an older copy of it was put back; put "
                f"the newer one in its place, or end the season by `concord close --whole {session.id}`"
            )
        if not session.asked or len(counted) != session.asked or not vault.has_secret(f"sessions/{session.id}"):
            return False  # none, or one is begun, or the season is lost
        until, unpublished = counted[-1].period.until, marked is None or int(marked[1]) < session.asked
        return unpublished or (until != "" and now < datetime.fromisoformat(until))

    def _stream(self, known: Sequence[Session], *, answered: bool) -> tuple[str, bool]:
        """The stream whose season is due, and whether one more session is opened. Raises BudgetRefused if that would
        ask everybody again, since whoever was asked is not known any more.

        known   all seasons with this plan's settings, in order
        """
        ledger, vault, asked_for = self.run.stores.ledger, self.run.stores.vault, self.run.new_session
        new = f"{self.run.plan.privacy.domain}-{secrets.token_hex(4)}-stream"
        if not known:
            return new, asked_for
        last = known[-1]
        if answered or not last.ended:
            return last.stream, False
        whole = ledger.goes_on(last.stream) and vault.has_secret(f"streams/{last.stream}")
        seasons = [each for each in known if each.stream == last.stream]
        if whole and all(len(list(periods_counted(vault, each))) >= each.batches for each in seasons):
            return last.stream, True
        if not asked_for:
            raise BudgetRefused(
                f"the season of session {last.id} has ended ({last.status}) after {last.asked} releases, and this home "
                "does not know any more whom it asked: a further one asks everybody again and costs again, so it must "
                "be asked for with --new-session"
            )
        return new, True

    def _tested(
        self, admitted: Admitted[TalliesAsk], private: PrivateFiles, passed: Disclosure, student: Student
    ) -> Disclosure:
        """`passed`, and the test of the last release's student, if the plan asks for one."""
        run, vault, session = self.run, self.run.stores.vault, passed.session
        if run.plan.test is None:
            return passed
        *_, last = periods_counted(vault, session)
        passed = pass_test_of_release(run, self, admitted, private, passed, student, last.aside)
        vault.destroy(f"aside/{session.domain}/{session.stream}")
        return passed

    def _beginning(self, run: RunContext) -> Beginning:
        """How a stream of this way begins, with the public rows of now; of one that has begun, its record stays."""
        encoding, own = self.public.encoding, run.own(self.public.batches)
        return Beginning(read=_reading(run), encoding=encoding, codes=self._codes, source=own)

    def _past(self) -> list[PeriodCounts]:
        """The periods of the stream's earlier seasons that were begun, in order."""
        vault = self.run.stores.vault
        return [found for each in self.ended for found in islice(periods_counted(vault, each), each.batches)]

    def counted(
        self, admitted: Admitted[TalliesAsk], private: PrivateFiles, now: datetime
    ) -> tuple[Session, list[PeriodCounts]]:
        """The session, open, and all of its periods up to the one that is due, which is taken and counted now."""
        run, vault, plan = self.run, self.run.stores.vault, self.run.plan
        counted = [] if admitted.session is None else list(periods_counted(vault, admitted.session))
        past = self._past()
        known = [each.period for each in (*past, *counted)]
        places = names_held(vault, private.files)
        contents = contents_by_place(plan, vault, places)
        check_unchanged(plan, contents, known)
        period = None
        if admitted.session is None or len(counted) == admitted.session.asked:
            columns = columns_asked(plan, self.public.encoding)
            period = take(plan, vault, contents, known, columns, until=self._until(now))
            if not period.files:
                err.print(f"{'refresh':>8} no file is new: a release all the same, since none may follow from rows")
        if self.public.batches:  # which one of several homes may do without: the question says how it goes on
            keep_beginning(vault, plan.privacy.domain, admitted.ask.stream, self._beginning(run))
        session = begin(run, admitted, private, Counted((), ()))
        if period is not None:
            before = _names_of([*past, *counted])
            made = self._count(session, period, before, private, f"{session.asked:05d}")
            made = self._with_aside(session, made, _names_of([*past, *counted], aside=True), private)
            if contents_by_place(plan, vault, period.files) != period.files:
                raise NotVerified(f"a file of {PRIVATE} changed while it was read: nothing was drawn, so refresh again")
            counted = [*counted, keep_counted(vault, session, session.asked, made)]
        return session, counted

    def again(self, session: Session, counted: Sequence[PeriodCounts], private: PrivateFiles) -> list[tuple[Ref, ...]]:
        """The sums of these periods without units that were erased since; none if the ones on record are there."""
        run, vault = self.run, self.run.stores.vault
        known = counted_again(vault, session)
        sums = [*known, *(each.sums for each in counted[len(known) :])]
        if all(vault.has(ref) for of_period in sums for ref in of_period):
            return sums if known else []
        if not run.erased:
            return []  # which stops
        err.print(f"{'erased':>8} the season is counted again without the units that were")
        sums, before = [], _names_of(self._past())
        for number, each in enumerate(counted):
            made = self._count(session, each.period, before, private, f"again-{len(run.erased)}-{number:05d}")
            sums, before = [*sums, made.sums], made.names
        keep_again(vault, session, sums)
        return sums

    def _count(
        self, session: Session, period: Period, before: Sequence[Ref], private: PrivateFiles, name: str
    ) -> PeriodCounts:
        run, codes, vault = self.run, self._codes, self.run.stores.vault
        if before and not vault.has_secret(f"streams/{session.stream}"):  # by another key everybody would be new
            raise NotVerified(
                "the vault lacks the key by which the stream knows whom it asked: put back a copy of it, or end the "
                f"season by `concord close --whole {session.id}`"
            )
        found, names = list[Ref](), tuple(before)
        if period.files:
            table = Files(private.table.path, tuple(period.files.values()))
            encoding, erased = self.public.encoding, run.erased
            found = arrive(run, run.plan, table, period, encoding, codes, erased, session.stream, list(before))
            names = tuple(found[BLOCKS:])
        sums = list[Ref]()
        for at, question in enumerate(self.questions):
            blocks = tally(run, found[:BLOCKS], question.record()) if found else []
            path = f"sums/{session.domain}/{session.id}/{name}-{at}.npy"
            sums.append(keep_total(blocks, question, vault, path))
        return PeriodCounts(period=period, sums=tuple(sums), names=names)

    def _with_aside(
        self, session: Session, counted: PeriodCounts, before: Sequence[Ref], private: PrivateFiles
    ) -> PeriodCounts:
        """A period with the units that are set aside, if the plan sets some aside."""
        run, files = self.run, counted.period.files
        if run.plan.test is None or not files:
            return counted.model_copy(update={"others": tuple(before)})
        table, encoding = Files(private.table.path, tuple(files.values())), self.public.encoding
        found = keep_aside(run, run.plan, table, counted.period, encoding, run.erased, session.stream, list(before))
        return counted.model_copy(update={"others": tuple(found[:NAMES]), "aside": tuple(found[NAMES:])})

    def _pass(
        self,
        session: Session,
        admitted: Admitted[TalliesAsk],
        counted: Sequence[PeriodCounts],
        again: Sequence[Sequence[Ref]],
    ) -> Disclosure:
        """Pass the last of these periods through the door."""
        run, codes = self.run, self._codes
        rows = read_sample(sample(run, run.plan.privacy.domain, codes, admitted.stream.batches), run.stores.vault)
        past = [json.loads(run.stores.released.read(ref)) for each in self.ended for ref in self._releases(each)[-1:]]
        follow = partial(follow_totals, rows, codes, past)
        release = partial(
            release_period,
            mechanism=self.mechanism,
            questions=self.questions,
            counted=counted,
            again=again,
            follow=follow,
        )
        passed, earlier = pass_door(run, session, release), self._releases(session)[:-1]
        self.tidy(session, counted)
        return self._with_labels(admitted, replace(passed, released=[*earlier, *passed.released]))

    def tidy(self, session: Session, counted: Sequence[PeriodCounts]) -> None:
        """Remove from the vault what only the last of these periods needed, once it is released."""
        run, vault = self.run, self.run.stores.vault
        run.stages.forget(vault.paths(f"sums/{session.domain}/{session.stream}", "*.npy"))
        for kind in ("units", "sums"):  # its blocks of rows, and their sums
            vault.destroy(f"{kind}/{session.domain}/{session.stream}")
        for each in self.ended:  # whose periods are not counted again
            if (vault.root / (sums := f"sums/{session.domain}/{each.id}")).exists():
                vault.destroy(sums)
        known = (
            *counted[-1].names,
            *counted[-1].others,
            *_names_of(self._past()),
        )  # the season's first, from which it may be counted again
        if last := {str(PurePath(ref.path).parent) for ref in known}:
            for path in vault.paths(f"arrived/{session.domain}/{session.stream}", "*", last):
                vault.destroy(path)

    def _with_labels(self, admitted: Admitted[TalliesAsk], passed: Disclosure) -> Disclosure:
        """`passed`, and the file of the labels inferred from its last release."""
        stream, last = admitted.stream, passed.released[-1]
        claim = label_claim(admitted, passed)
        labels = infer(self.run, passed.session.id, last, stream.encoding, self._codes, stream.batches, claim)
        return replace(passed, released=[*passed.released, labels])

    def _until(self, now: datetime) -> str:
        """The end of the period that begins now, by the plan's clock; empty without one. Raises WrongInput."""
        clock = None if self.run.plan.stream is None else self.run.plan.stream.clock
        return "" if clock is None else next_time(clock, "UTC", now, "stream.clock").isoformat()


def _reading(run: RunContext) -> str:
    """A digest of the plan's fields by which its encoding is learned."""
    read = encode.arguments(run.plan, run.files("public"))["plan"]
    return key_of(run.stores.vault, "reading", "1", {"plan": read})


def _names_of(periods: Sequence[PeriodCounts], *, aside: bool = False) -> tuple[Ref, ...]:
    """The files of all names up to the last of these periods: of units that learn, or that are set aside."""
    found = (each.others if aside else each.names for each in reversed(periods))
    return next(filter(None, found), ())


def published_mark(session: str) -> str:
    """The file of the vault that says how many releases of a session were published whole."""
    return f"sessions/{session}/published"


def check_stream(plan: Plan) -> None:
    """Raise WrongInput if the plan has no stream."""
    if plan.stream is None:
        raise WrongInput("stream must be given in the plan to be refreshed; without it, `concord run` learns once")


@flow(name="refresh", flow_run_name="refresh {plan.privacy.domain}")
def refresh(plan: Plan, home: Path, new_session: bool = False) -> Summary:
    """Publish a classifier learned from all private rows that arrived so far, as one more release of the season.

    new_session   open a further session if the stream cannot go on, which asks everybody again and costs again
    """
    check_stream(plan)
    with running(plan, home, new_session=new_session) as run:
        way, public = ByStream.of(run)
        return shown(way.refresh(public))
