"""The stages of one run in order, and what each is given: its cached result depends on that, whole (`flows.keys`)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from concord.artifacts.errors import EnvironmentFailed
from concord.artifacts.guarantee import Guarantee
from concord.artifacts.mlflow.write import Tracked, Tracking
from concord.artifacts.privacy import Cost
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Session
from concord.flows import work
from concord.flows.keys import Public, only
from concord.flows.mirror import record_missing
from concord.flows.outcome import Summary, briefly
from concord.flows.run import RunContext
from concord.flows.stage import console
from concord.tasks.asking import relabel as asking_relabel
from concord.tasks.data.split import with_public
from concord.tasks.door.admit import (
    Asked,
    check_ensemble,
    claim,
    going_on,
    planned_domain,
    reserve_session,
    session_identity,
    spent,
    training,
)
from concord.tasks.door.checkpoint import online_votes
from concord.tasks.publish.describe import Certified, caveats
from concord.tasks.student.study import Student

UNITS = ("data.label", "data.unit", "data.public_share", "privacy.domain", "privacy.secret")
"""Fields of the plan that say which private rows there are, and whose they are."""


class Pipeline(RunContext):
    """One run over one plan, stage by stage."""

    def encode(self) -> Public:
        """Encoding and batches of the public rows."""
        if self.plan.data.public is None:
            private = self._digests("private")
            self.plan = with_public(self.plan, self.door.vault, private, self.erased, self._say)
        view = only(self.plan, "data.label", "data.unit", "data.classes", "data.features", "labeling.batch")
        public: Public = self.stages.one(work.encode, plan=view, table=self.files("public"))
        self.rehearse(public.encoding)
        return public

    def _say(self, what: str) -> None:
        console.print(f"{'encode':>8} {what}")

    def admit(self, public: Public) -> Public:
        """Find the session this plan goes on with, or make sure that one may be opened.

        Returns the stream of the session: the plan's own rows, then those it was extended with.
        """
        self.calibrate(planned_domain(self.door, self.plan), public)
        who = session_identity(self.door.vault, self.plan, self.mechanism, public.encoding, public.batches)
        self.asked = Asked.labels(self.plan, self.mechanism, who)
        self.wait_for(who)
        self.session = going_on(self.door, self.asked, new_session=self.new_session)
        self.check_opening()
        recipe = None if self.session is None else self.hold(self.session.id)
        return self.walk(public.encoding, (self.own(public), *(recipe.sources[1:] if recipe else ())))

    def check_opening(self) -> None:
        """Raise BudgetRefused where there is no session to go on with and none may be opened; spends nothing."""
        if self.session is None:
            self.door.ledger.check_opening(self.asked.opening(), self.domain, further=self.new_session)

    def split(self, public: Public) -> list[Ref]:
        """Private rows, or those of the secret subset, by shard; one file a block."""
        self.name_private()
        share = None if self.relabelling is None else self.relabelling.share
        shards: list[Ref] = self.stages.one(work.split, **self.units(public), share=share, aside=None)
        return shards

    def units(self, public: Public) -> dict[str, Any]:
        """What the shards of the private table follow from, but for samples of it."""
        view = only(self.plan, *UNITS, "teachers.count", "teachers.block")
        return {"plan": view, "table": self.table, "encoding": public.encoding, "erased": self.erased}

    def relabel(self, public: Public, shards: list[Ref]) -> list[Ref]:
        """What teachers learn from: the shards, relabelled where the plan asks for it; in as many blocks.

        Raises NotVerified where it is not what the session was opened with.
        """
        if self.relabelling is not None:
            space = asking_relabel.candidates(self.plan, public.encoding, self.sources[0].batches, self.door.vault)
            view = only(self.plan, "privacy.domain", "teachers.count", "teachers.block")
            given = {"encoding": public.encoding, "space": space, "settings": self.relabelling}
            made: asking_relabel.RelabelledRows = self.stages.one(work.relabel, plan=view, blocks=shards, **given)
            self.relabelled = (made.choice, *shards, *made.blocks)
            shards = list(made.blocks)
        if self.session is not None:
            check_ensemble(self.door.vault, self.session, training(self.plan, shards))
        return shards

    def teach(self, public: Public, shards: Sequence[Ref]) -> list[Ref]:
        """One model a shard, mapped over blocks."""
        learner = {"plan": only(self.plan.teachers, "estimator", "params"), "encoding": public.encoding}
        blocks = zip(self.spans, shards, strict=True)
        return self.stages.each(work.teach, [{"block": block, "shards": span, **learner} for span, block in blocks])

    def poll(self, public: Public, teachers: Sequence[Ref]) -> list[Ref]:
        """Votes of all teachers, mapped over batches of public rows; those on rows asked online are there."""
        vault, asked = self.door.vault, {"teachers": list(teachers), "encoding": public.encoding}
        there = {batch.ref.digest: vault.find(online_votes(vault, teachers, batch)) for batch in public.batches}
        lacking = [batch for batch in public.batches if there[batch.ref.digest] is None]
        fresh = iter(self.stages.each(work.poll, [{"batch": batch, **asked} for batch in lacking]))
        return [there[batch.ref.digest] or next(fresh) for batch in public.batches]

    def open(self, public: Public, shards: Sequence[Ref], teachers: Sequence[Ref]) -> None:
        """Reserve the cost of the session where it is not open yet, and keep what it needs to go on."""
        claim(self.door, self.plan, self.files_with_rows)
        if self.session is None:
            made_of = training(self.plan, shards)
            self.hold(reserve_session(self.door, self.asked, made_of, new_session=self.new_session).id)
        self.keep(self._session, public, teachers, self.relabelled)

    def release(self, public: Public, votes: Sequence[Ref]) -> list[Ref]:
        """The door: draw once and publish; or replay what was published before."""
        session, classes = self._session, self.plan.data.classes
        self.asked_before = session.asked
        labels, self.session = self.at_the_door(
            "release", session, lambda: work.release(self.home, session, self.mechanism, classes, public.batches, votes)
        )
        return list(labels)

    def study(self, public: Public, labels: Sequence[Ref]) -> Student:
        """The student, learned from released labels and public rows alone."""
        given = {"plan": self.plan.student, "teachers": self.plan.teachers.count, "labels": list(labels)}
        read = {"encoding": public.encoding, "batches": public.batches, "test": self.test}
        student: Student = self.stages.one(work.study, session=self._session.id, **given, **read)
        return student

    def certify(self, public: Public, labels: Sequence[Ref], student: Student) -> Summary:
        """Certificate, report and MLflow run; and what this run came to."""
        session, per_refusal = self._session, self.mechanism.per_refusal
        asked_now = session.asked - self.asked_before
        return self.write_up(session, per_refusal, public, labels, student, asked_now=asked_now, beside={})

    def write_up(
        self,
        session: Session,
        per_refusal: Cost | None,
        public: Public,
        released: Sequence[Ref],
        student: Student,
        *,
        asked_now: int,
        beside: Mapping[str, Sequence[Ref]],
    ) -> Summary:
        """Publish what is said about a session: what it `released`, and by name what others of this run did."""
        charged, guarantee = spent(self.door, self.domain), Guarantee.of(self.domain, session)
        result = caveats(self.domain, [session, *map(self.door.ledger.session, beside)], self.door.ledger)
        call: dict[str, Any] = {
            "plan": only(self.plan, "student", "data.classes"),  # other words may teach the same student
            "session": session.id,
            "per_refusal": per_refusal,
            "labels": list(released),
            "beside": dict(beside),
            "student": student,
            "ledger": (session.asked, session.status, charged, result),
        }
        certified, tracked = self.publish(call, public, per_refusal)
        return Summary(
            run_id=tracked.run_id,
            session=session.id,
            certificate=str(self.door.released.root / certified.certificate.path),
            certificate_digest=certified.certificate.digest,
            report=str(self.door.released.root / certified.report.path),
            guarantee=guarantee.model_dump(),
            mechanism=briefly(session.mechanism),
            teachers=session.teachers,
            asked=session.asked,
            answered=session.answered,
            refused=session.refused,
            asked_now=asked_now,
            student={"accuracy": student.accuracy, "model_uri": tracked.model_uri},
            stages=self.stages.reports,
            **self.charged_now(),
        )

    def publish(self, call: dict[str, Any], public: Public, per_refusal: Cost | None) -> tuple[Certified, Tracked]:
        """Certificate and report, written or from the cache; and MLflow's run of them, made if it is not there."""
        how: dict[str, Any] = {
            "started": self.at_door,
            "studied": datetime.now(UTC),
            "again": self.stages.again("certify"),
        }

        def published() -> tuple[tuple[Certified, Tracked], bool]:
            certified, cached = self.stages.result(work.certify, **call)
            with self._still_certified(call["session"]):
                tracked, there = work.track(self.home, self.plan, certified, public, per_refusal, **how)
            return (certified, tracked), cached and there

        both: tuple[Certified, Tracked] = self.stages.uncached("certify", published)
        for session, wrong in record_missing(self.home, Tracking.of(self.home)):
            result = "is recorded again" if wrong is None else f"is not there and cannot be recorded: {wrong}"
            console.print(f"{'MLflow':>8} session {session} {result}")
        return both

    @contextmanager
    def _still_certified(self, session: str) -> Iterator[None]:
        """What MLflow fails with, and that nothing is lost by it."""
        try:
            yield
        except EnvironmentFailed as failed:
            raise EnvironmentFailed(
                f"session {session} is certified, its files are in {self.door.released.root}, and it is not recorded: "
                f"{failed}; once that is mended, the same command records it and spends nothing"
            ) from None
