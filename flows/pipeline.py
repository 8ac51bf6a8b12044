"""The stages of one run in order: what each is given, and on what its cached result depends."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel

from artifacts.certificate import Guarantee
from artifacts.errors import WrongInput
from artifacts.plan import Plan
from artifacts.schemas import Ref
from artifacts.sessions import Session
from flows import work
from flows.stages import StageName, StageReport, Stages
from flows.work import Public, Record
from tasks.admit import admit, calibrated, canonical, check_ensemble, identity, name_domain, open_session, spent
from tasks.encode import labelled_rows
from tasks.files import find_files
from tasks.release import Door
from tasks.study import Student

VERSIONS: dict[StageName, int] = {"encode": 1, "split": 1, "teach": 1, "poll": 1, "study": 1, "certify": 1}
"""Raised when what a stage computes changes, so that no older cached result answers for it."""

TABLE = "refusal"
"""A setting too long for the console: the certificate holds it."""


class Summary(BaseModel):
    """What a run came to, as `concord run --json` prints it."""

    run_id: str
    session: str
    certificate: str
    report: str
    guarantee: dict[str, Any]
    mechanism: dict[str, Any]
    teachers: int
    asked: int
    answered: int
    refused: int
    student: dict[str, Any]
    spent_now: dict[str, float]
    stages: list[StageReport]


class Pipeline:
    """One run over one plan. Every stage's key digests all that its result depends on, and nothing else."""

    session: Session | None

    def __init__(self, plan: Plan, home: Path, *, new_session: bool, start_from: StageName | None) -> None:
        self.plan, self.home, self.new_session = plan, home, new_session
        self.door = Door.of(home)
        self.stages = Stages(home, start_from)
        self.spent_before = spent(self.door, name_domain(self.door, plan))

    def encode(self) -> Public:
        """Encoding and batches of the public rows."""
        data = self.plan.data.model_dump(include={"label", "unit", "classes", "features"})
        depends = (data, self._files("public"), self.plan.labeling.batch)
        public: Public = self.stages.one("encode", work.encode, self._call("encode", depends, plan=self.plan))
        if self.plan.data.test is not None:
            labelled_rows(self.plan.path("test"), public.encoding)  # told now, while nothing is spent
        return public

    def admit(self, public: Public) -> None:
        """Find the session this plan goes on with, or make sure that one may be opened."""
        order = name_domain(self.door, self.plan).filter.order
        self.mechanism = calibrated(self.plan, public.rows, order)
        self.identity = identity(self.door.vault, self.plan, self.mechanism, public.encoding, public.batches)
        self.session = admit(self.door, self.plan, self.mechanism, self.identity, new_session=self.new_session)

    def split(self, public: Public) -> list[Ref]:
        """Private rows by shard, one file a block; refused where they are not those the session was opened with."""
        teachers, domain = self.plan.teachers, self.plan.privacy.domain
        depends = (self._files("private"), public.encoding.digest, domain, teachers.count, teachers.block)
        call = self._call("split", depends, plan=self.plan, encoding=public.encoding)
        shards: list[Ref] = self.stages.one("split", work.split, call)
        if self.session is not None:
            check_ensemble(self.door.vault, self.session, self.plan, shards)
        return shards

    def teach(self, public: Public, shards: Sequence[Ref]) -> list[Ref]:
        """One model a shard, mapped over blocks."""
        plan, encoding = self.plan.teachers, public.encoding
        learner = (plan.estimator, plan.params, encoding.digest)
        calls = []
        for first, block in zip(range(0, plan.count, plan.block), shards, strict=True):
            span = (first, min(first + plan.block, plan.count))
            depends = (block.digest, span, *learner)
            calls.append(self._call("teach", depends, block=block, shards=span, plan=plan, encoding=encoding))
        return self.stages.each("teach", work.teach, calls)

    def poll(self, public: Public, teachers: Sequence[Ref]) -> list[Ref]:
        """Votes of all teachers, mapped over batches of public rows."""
        ensemble = (public.encoding.digest, *(block.digest for block in teachers))
        calls = [
            self._call(
                "poll", (batch.ref.digest, ensemble), batch=batch, teachers=list(teachers), encoding=public.encoding
            )
            for batch in public.batches
        ]
        return self.stages.each("poll", work.poll, calls)

    def release(self, public: Public, shards: Sequence[Ref], votes: Sequence[Ref]) -> list[Ref]:
        """The door: reserve, draw once, publish; or replay what was published before."""
        self.at_door = datetime.now(UTC)
        session = self.session or open_session(
            self.door, self.plan, self.mechanism, self.identity, shards, new_session=self.new_session
        )

        def through_the_door() -> tuple[list[Ref], bool]:
            labels: list[Ref] = work.release(
                self.home, session, self.mechanism, self.plan.data.classes, public.batches, votes
            )
            self.session = self.door.ledger.session(session.id)
            return labels, self.session == session

        return list(self.stages.uncached("release", through_the_door))

    def study(self, public: Public, labels: Sequence[Ref]) -> Student:
        """The student, learned from released labels and public rows alone."""
        test = None if self.plan.data.test is None else self._files("test")
        learned_from = ([batch.ref.digest for batch in public.batches], [ref.digest for ref in labels])
        depends = (self.plan.student.model_dump(), public.encoding.digest, *learned_from, test)
        arguments = {"session": self._session.id, "encoding": public.encoding, "batches": public.batches}
        call = self._call("study", depends, plan=self.plan, labels=list(labels), **arguments)
        student: Student = self.stages.one("study", work.study, call)
        return student

    def certify(self, public: Public, labels: Sequence[Ref], student: Student) -> Summary:
        """Certificate, report and MLflow run; and what this run came to."""
        session, domain = self._session, name_domain(self.door, self.plan)
        charged = spent(self.door, domain)
        depends = (session.id, session.asked, session.status, charged, student.model_dump())
        call = self._call("certify", depends, plan=self.plan, session=session.id, started=self.at_door)
        call |= {"per_refusal": self.mechanism.per_refusal, "public": public, "labels": list(labels)}
        record: Record = self.stages.one("certify", work.certify, {**call, "student": student})
        guarantee = Guarantee.of(domain, session)
        return Summary(
            run_id=record.run_id,
            session=session.id,
            certificate=str(self.door.released.root / record.certificate.path),
            report=str(self.door.released.root / record.report.path),
            guarantee=guarantee.model_dump(),
            mechanism={name: value for name, value in session.mechanism.items() if name != TABLE},
            teachers=session.teachers,
            asked=session.asked,
            answered=session.answered,
            refused=session.refused,
            student={"accuracy": student.accuracy, "model_uri": record.model_uri},
            spent_now={
                "epsilon": charged[0] - self.spent_before[0],
                "delta": charged[1] - self.spent_before[1],
            },
            stages=self.stages.reports,
        )

    @property
    def _session(self) -> Session:
        if self.session is None:
            raise RuntimeError("the session is opened at the door, before anything is published")
        return self.session

    def _call(self, name: StageName, depends: Sequence[Any], **arguments: Any) -> dict[str, Any]:
        """A task's arguments: `arguments`, the home folder, and the key its result is cached by."""
        key = f"{name}-{self.door.vault.digest(name, str(VERSIONS[name]), canonical(depends))}"
        return {"key": key, "home": self.home, **arguments}

    def _files(self, field: Literal["private", "public", "test"]) -> list[str]:
        """Keyed digests of the files behind a path of the plan. Raises WrongInput."""
        files = find_files(self.plan.path(field), f"data.{field}")
        try:
            return [self.door.vault.digest_file(file.path) for file in files]
        except OSError as failed:
            raise WrongInput(f"data.{field} cannot be read: {failed.strerror}") from None
