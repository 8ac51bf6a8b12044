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
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

from prefect import flow

from concord.artifacts.domains import Domain
from concord.artifacts.errors import BudgetRefused, NotVerified, WrongInput
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import PublicRows, Ref
from concord.artifacts.sessions import Session
from concord.flows.admit import admit, precheck_tables
from concord.flows.cache import digested, key_of, only
from concord.flows.outcome import Summary, shown
from concord.flows.run import OF_HOMES, Admitted, PrivateFiles, RunContext, running
from concord.flows.season import Periods, check_periods, published_mark
from concord.flows.set_aside import pass_test_of_release
from concord.flows.stage import Disclosure, pass_door
from concord.flows.stages import encode, put
from concord.flows.steps import publish
from concord.flows.tally import BySums, infer, label_claim, sample
from concord.tasks.asks.stream import (
    Beginning,
    PeriodCounts,
    SeasonAsk,
    beginning_of,
    periods_counted,
    release_step,
)
from concord.tasks.asks.tallies import TalliesAsk
from concord.tasks.door.admit import opening_of, planned_domain, sessions_for
from concord.tasks.door.door import Step, released_by
from concord.tasks.door.stores import Stores
from concord.tasks.mechanisms.distance import Ints
from concord.tasks.mechanisms.stream import Stream
from concord.tasks.student.infer import read_sample
from concord.tasks.student.seasons import follow_totals, history
from concord.tasks.student.study import Student


class ByStream(BySums):
    """Private rows are asked in the period in which they arrive; a student learns from the totals of all so far.

    `public` are the rows that the stream's codes were learned from, or will be; those of now may be others.

    left   the sessions so far, if another stream is asked for than theirs
    """

    left: Sequence[str] = ()
    reopens: ClassVar[bool] = False

    @classmethod
    def of(cls, run: RunContext) -> tuple[Self, PublicRows]:
        """The way to go on with the plan's stream, by the codes it began with, and the public rows of now; if there is
        none yet, or another is asked for with other public rows, the way to begin one with these."""
        own, ledger, vault, domain = run.files("public"), run.stores.ledger, run.stores.vault, run.plan.privacy.domain
        known, ways = ledger.sessions(domain), list[tuple[tuple[str, ...], Self]]()
        for stream in dict.fromkeys(each.stream for each in reversed(known) if each.stream):  # the newest first
            begun = beginning_of(vault, domain, stream)
            if begun is None or begun.read != _reading(run):
                continue
            going_on = cls(run, PublicRows(encoding=begun.encoding, batches=begun.source.batches), begun.codes)
            asked = going_on.ask(planned_domain(run.stores, run.plan))
            if sessions_for(run.stores, run.plan, asked, begun.encoding):
                ways.append((begun.source.digests, going_on))
        with_these = (each for rows, each in (ways[:1] if run.new_session else ways) if rows == own.digests)
        way = next(with_these, None if run.new_session or not ways else ways[0][1])
        if way is None:
            public = encode(run, run.plan, own)
            way = cls(run, public)
            way.left = [each.id for each in known] if ways else ()
            return way, public
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

    def replay(self, session: Session, admitted: Admitted[TalliesAsk]) -> Disclosure:
        """The releases so far, and the labels inferred from the last."""
        return self._with_labels(
            admitted, Disclosure(session, released_by(self.run.stores, session.id), 0, datetime.now(UTC))
        )

    def fit(self, run: RunContext, admitted: Admitted[TalliesAsk], passed: Disclosure, where: str) -> Student:
        """As of tallies; and what the models of earlier releases were right on, if that is what was measured."""
        student, (*releases, _) = super().fit(run, admitted, passed, where), passed.released
        odds = getattr(student.test, "prior_odds", None)
        if run.test is None or odds is None:  # which a student that is fitted to labels has not
            return student
        files = (json.loads(run.stores.released.read(ref)) for ref in releases)
        found = history(files, self._codes, run.test.path, admitted.stream.encoding)
        return student.model_copy(update={"history": found})

    def refresh(self, public: PublicRows) -> Summary:
        """Release what is due, and publish what follows from it. Raises BudgetRefused, WrongInput or NotVerified.

        public   the public rows of now
        """
        run = self.run
        self.rehearse()  # refuses here, before anything private is read
        domain = planned_domain(run.stores, run.plan)
        asked = self.ask(domain)
        opening, now = opening_of(run.plan, asked, self.public.encoding, run.stores.vault), datetime.now(UTC)
        run.wait_for(f"{opening.identity}-refresh")  # no other opens a season of this stream meanwhile
        same = sessions_for(run.stores, run.plan, asked, self.public.encoding)
        known = [each for each in same if each.id not in self.left]
        if any(each.division != opening.division for each in known):
            raise NotVerified(
                "the key by which units are set aside is not the one that the stream began with: restore the newer "
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
        periods = Periods(run, self.public.encoding, self._codes, self.questions, self.ended, self._beginning(run))
        if session is not None and answered:
            passed = self.replay(session, admitted)
        else:
            session, counted = periods.counted(admitted, private, now)
            passed = self._pass(session, admitted, counted, periods.again(session, counted, private))
        periods.tidy(session, [*periods_counted(run.stores.vault, session)])
        student = self.fit(run, admitted, passed, passed.session.id)
        passed = self._tested(admitted, private, passed, student)
        summary = publish(run, admitted, passed, student, codes=self._codes)
        with run.stores.vault.create(published_mark(passed.session.id)) as sink:
            sink.write(str(passed.session.asked).encode())
        return summary

    def _answered(self, session: Session, now: datetime) -> bool:
        """Whether nothing is due but to publish the last release."""
        vault = self.run.stores.vault
        counted, marked = list(periods_counted(vault, session)), vault.take(published_mark(session.id))
        check_periods(session, counted)
        if not session.asked or len(counted) != session.asked or not vault.has_secret(f"sessions/{session.id}"):
            return False  # none, or one is begun, or the season is lost
        until, unpublished = counted[-1].period.until, marked is None or int(marked[1]) < session.asked
        return unpublished or (until != "" and now < datetime.fromisoformat(until))

    def _stream(self, known: Sequence[Session], *, answered: bool) -> tuple[str, bool]:
        """The stream whose season is due, and whether one more session is opened. Raises BudgetRefused if that would
        ask everybody again, because it is no longer known who was asked.

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
        if last.erased != len(run.erased):  # also if the vault was restored from a backup
            vault.destroy(f"aside/{session.domain}/{session.stream}")
        passed = pass_test_of_release(run, self, admitted, private, passed, student, last.aside)
        vault.destroy(f"aside/{session.domain}/{session.stream}")
        return passed

    def _beginning(self, run: RunContext) -> Beginning:
        """How a stream of this way begins, with the public rows of now; of one that has begun, its record stays."""
        encoding, own = self.public.encoding, run.own(self.public.batches)
        return Beginning(read=_reading(run), encoding=encoding, codes=self._codes, source=own)

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
        ends = [ref for each in self.ended for ref in released_by(run.stores, each.id)[-1:]]
        past = [json.loads(run.stores.released.read(ref)) for ref in ends]
        follow = partial(follow_totals, rows, codes, past)

        def last(door: Stores, session: Session) -> Iterator[Step[list[Ints]]]:
            yield release_step(door, session, self.mechanism, self.questions, counted, again, follow)

        passed, earlier = pass_door(run, session, last), released_by(run.stores, session.id)[:-1]
        return self._with_labels(admitted, replace(passed, released=[*earlier, *passed.released]))

    def _with_labels(self, admitted: Admitted[TalliesAsk], passed: Disclosure) -> Disclosure:
        """`passed`, and the file of the labels inferred from its last release."""
        stream, last = admitted.stream, passed.released[-1]
        claim = label_claim(admitted, passed)
        labels = infer(self.run, passed.session.id, last, stream.encoding, self._codes, stream.batches, claim)
        return replace(passed, released=[*passed.released, labels])


def _reading(run: RunContext) -> str:
    return key_of(run.stores.vault, "reading", "1", {"plan": fields_read(run.plan)})


def fields_read(plan: Plan) -> Any:
    """The plan's fields by which its encoding is learned, as JSON: streams are known by a digest of them."""
    read = digested(only(plan, *(key for key in encode.reads if key != "data.declared")))  # which no stream has
    read["data"]["format"] = plan.data.format.as_digested
    return read


def check_stream(plan: Plan) -> None:
    """Raise WrongInput if the plan has no stream, or is of several homes."""
    if plan.homes is not None:
        raise WrongInput(OF_HOMES)
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
