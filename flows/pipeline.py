"""The stages of one run in order: what each is given, and on what its cached result depends."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import tasks.relabel
import tasks.study
import tasks.teach
from artifacts.encoding import Encoding
from artifacts.errors import WrongInput
from artifacts.guarantee import Guarantee
from artifacts.plan import Plan
from artifacts.privacy import Cost
from artifacts.schemas import Ref
from artifacts.sessions import Domain, Session
from flows import work
from flows.outcome import STAGES, StageName, Summary, briefly
from flows.progress import console
from flows.stages import Stages
from flows.work import Public, Record
from tasks.admit import (
    Asked,
    admit,
    calibrated,
    canonical,
    check_ensemble,
    check_going_on,
    claim,
    identity,
    open_session,
    planned_domain,
    spent,
    training,
)
from tasks.certify import caveats, domain_of
from tasks.encode import labelled_rows
from tasks.erasing import erased_units
from tasks.files import TableFile, find_files
from tasks.mechanisms.relabelled import Relabelled, Relabelling
from tasks.recipe import Recipe, Source, check_staged, online_votes, read_recipe, stream, write_recipe
from tasks.release import RUN, Door, a_run_in, alone
from tasks.study import Student
from tasks.track import column_types
from tasks.unlabelled import with_public

VERSIONS: dict[StageName, int] = dict.fromkeys(STAGES, 1)
"""Raised when what a stage computes changes, so that no older cached result answers for it."""


class Pipeline:
    """One run over one plan. Every stage's key digests all that its result depends on, and nothing else.

    Use as a context: while it lasts, no other command goes on with its session, and none erases in its domain.
    """

    session: Session | None
    private: tuple[str, ...]
    relabelled: tuple[Ref, ...] = ()
    erased: tuple[str, ...]

    def __init__(
        self, plan: Plan, home: Path, *, new_session: bool = False, start_from: StageName | None = None
    ) -> None:
        self.plan, self.home, self.new_session = plan, home, new_session
        self.door = Door.of(home)
        self.stages = Stages(home, start_from)
        self._held = ExitStack()

    def __enter__(self) -> Self:
        self._held.enter_context(a_run_in(self.door.vault, self.plan.privacy.domain))
        self.erased = erased_units(self.door, self.plan.privacy.domain)  # while this lasts, no more are
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def encode(self) -> Public:
        """Encoding and batches of the public rows."""
        if self.plan.data.public is None:
            self.plan = with_public(self.plan, self.door.vault, self._digests("private"), self.erased)
        data = self.plan.data.model_dump(include={"label", "unit", "classes", "features"})
        depends = (data, self._digests("public"), self.plan.labeling.batch)
        public: Public = self.stages.one("encode", work.encode, self._call("encode", depends, plan=self.plan))
        self.rehearse(public.encoding)
        return public

    def admit(self, public: Public) -> Public:
        """Find the session this plan goes on with, or make sure that one may be opened.

        Returns the stream of the session: the plan's own rows, then those it was extended with.
        """
        self.calibrate(planned_domain(self.door, self.plan), public)
        who = identity(self.door.vault, self.plan, self.mechanism, public.encoding, public.batches)
        self.asked = Asked.labels(self.plan, self.mechanism, who)
        self.session = admit(self.door, self.asked, new_session=self.new_session)
        recipe = None if self.session is None else self.hold(self.session.id)
        return self.walk(public.encoding, (self.own(public), *(recipe.sources[1:] if recipe else ())))

    def own(self, public: Public) -> Source:
        """The plan's own public rows."""
        files = tuple(self._digests("public"))
        return Source(path=self.plan.path("public"), digests=files, batches=tuple(public.batches))

    def rehearse(self, encoding: Encoding) -> None:
        """Raise WrongInput where teachers, student or test table would fail later: now, while nothing is spent."""
        tasks.teach.rehearse(self.plan.teachers, encoding)
        tasks.study.rehearse(self.plan.student, encoding)
        self.rehearse_test(encoding)

    def rehearse_test(self, encoding: Encoding) -> None:
        """Raise WrongInput where the test table would fail later."""
        if self.plan.data.test is not None:
            labelled_rows(self.plan.path("test"), encoding)

    def calibrate(self, domain: Domain, own: Public) -> None:
        """The plan's mechanism for its domain and its own public rows; and what was spent before."""
        self.domain, self.spent_before = domain, spent(self.door, domain)
        self.mechanism = calibrated(self.plan, own.encoding, own.batches, domain.filter.order, self.door.vault)

    @property
    def relabelling(self) -> Relabelling | None:
        """How private rows are relabelled, where the plan asks for it."""
        return self.mechanism.relabelling if isinstance(self.mechanism, Relabelled) else None

    def hold(self, session: str) -> Recipe | None:
        """Wait until no other command goes on with the session, and take its recipe as that left it."""
        self._held.enter_context(alone(self.door.vault, session, RUN))
        self.session = self.door.ledger.session(session)
        return read_recipe(self.door.vault, session)

    def go_on(self, session: Session, recipe: Recipe) -> None:
        """Make sure that the session goes on by its recipe as it began: the same mechanism, tables that still fit."""
        own = Public(encoding=recipe.encoding, batches=list(recipe.sources[0].batches))
        self.calibrate(domain_of(session, self.door.ledger), own)
        check_going_on(self.door.vault, session, self.mechanism)
        self.rehearse(recipe.encoding)
        column_types(self.plan.path("public"), recipe.encoding)  # MLflow is told of them once all is spent

    def walk(self, encoding: Encoding, sources: tuple[Source, ...]) -> Public:
        """Those sources as one stream. Raises NotVerified where rows that a session was given are gone."""
        if self.session is not None:
            check_staged(self.door.vault, self.session.id, sources)
        self.sources = sources
        return Public(encoding=encoding, batches=stream(sources))

    def split(self, public: Public) -> list[Ref]:
        """Private rows, or those of the secret subset, by shard; one file a block."""
        teachers, domain, secret = self.plan.teachers, self.plan.privacy.domain, self.plan.privacy.secret
        self.name_private()
        share = None if self.relabelling is None else self.relabelling.share
        shape = (teachers.count, teachers.block, secret, self.plan.data.public_share, share)
        depends = (self.private, public.encoding.digest, domain, *shape, *self.erased)
        arguments = {"encoding": public.encoding, "share": share, "erased": self.erased}
        call = self._call("split", depends, plan=self.plan, **arguments)
        shards: list[Ref] = self.stages.one("split", work.split, call)
        return shards

    def relabel(self, public: Public, shards: list[Ref]) -> list[Ref]:
        """What teachers learn from: the shards, relabelled where the plan asks for it; in as many blocks.

        Raises NotVerified where it is not what the session was opened with.
        """
        if self.relabelling is not None:
            depends = ([block.digest for block in shards], public.encoding.digest, asdict(self.relabelling))
            space = tasks.relabel.candidates(self.plan, public.encoding, self.sources[0].batches, self.door.vault)
            arguments = {"encoding": public.encoding, "space": space, "settings": self.relabelling}
            call = self._call("relabel", depends, plan=self.plan, blocks=shards, **arguments)
            made: tasks.relabel.Relabelled = self.stages.one("relabel", work.relabel, call)
            self.relabelled = (made.choice, *shards, *made.blocks)
            shards = list(made.blocks)
        if self.session is not None:
            check_ensemble(self.door.vault, self.session, training(self.plan, shards))
        return shards

    def name_private(self) -> None:
        """Note which files are private. Raises WrongInput where one has been named public, or is of another domain."""
        if self.erased:
            console.print(f"{'erased':>8} units of domain {self.plan.privacy.domain} are left out")
        self.private = tuple(self._digests("private"))
        self.door.ledger.check_holding(self.plan.privacy.domain, self.private)
        self.keep_apart("data.public", (digest for source in self.sources for digest in source.digests))
        self.keep_apart("data.test", [] if self.plan.data.test is None else self._digests("test"))

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
        """Votes of all teachers, mapped over batches of public rows; those on rows asked online are there."""
        ensemble = (public.encoding.digest, *(block.digest for block in teachers))
        vault = self.door.vault
        there = {batch.ref.digest: vault.find(online_votes(vault, teachers, batch)) for batch in public.batches}
        calls = [
            self._call(
                "poll", (batch.ref.digest, ensemble), batch=batch, teachers=list(teachers), encoding=public.encoding
            )
            for batch in public.batches
            if there[batch.ref.digest] is None
        ]
        fresh = iter(self.stages.each("poll", work.poll, calls))
        return [there[batch.ref.digest] or next(fresh) for batch in public.batches]

    def open(self, public: Public, shards: Sequence[Ref], teachers: Sequence[Ref]) -> None:
        """Reserve the cost of the session where it is not open yet, and keep what it needs to go on."""
        claim(self.door, self.plan, self.private)
        if self.session is None:
            made_of = training(self.plan, shards)
            self.hold(open_session(self.door, self.asked, made_of, new_session=self.new_session).id)
        self.keep(self._session, public, teachers, self.relabelled)

    def keep(self, session: Session, public: Public, teachers: Sequence[Ref], relabelled: tuple[Ref, ...] = ()) -> None:
        """Keep what a session needs to go on; where nobody votes, `teachers` are the numbers it answers from."""
        recipe = Recipe(
            plan=self.plan,
            encoding=public.encoding,
            teachers=tuple(teachers),
            sources=self.sources,
            private=self.private,
            relabelled=relabelled,
        )
        write_recipe(self.door.vault, session.id, recipe)

    def release(self, public: Public, votes: Sequence[Ref]) -> list[Ref]:
        """The door: draw once and publish; or replay what was published before."""
        session, classes = self._session, self.plan.data.classes
        self.asked_before = session.asked
        labels, self.session = self.at_the_door(
            "release", session, lambda: work.release(self.home, session, self.mechanism, classes, public.batches, votes)
        )
        return list(labels)

    def at_the_door(self, stage: StageName, session: Session, work: Callable[[], Any]) -> tuple[Any, Session]:
        """What passed the door in a session, drawn now or replayed; and the session after."""

        def passed() -> tuple[tuple[Any, Session], bool]:
            released, after = work(), self.door.ledger.session(session.id)
            self.at_door = datetime.now(UTC)  # when it is passed: no published moment tells of private work
            return (released, after), after == session

        released, after = self.stages.uncached(stage, passed)
        return released, after

    def study(self, public: Public, labels: Sequence[Ref]) -> Student:
        """The student, learned from released labels and public rows alone."""
        test = None if self.plan.data.test is None else self._digests("test")
        learned_from = ([batch.ref.digest for batch in public.batches], [ref.digest for ref in labels])
        depends = (self.plan.student.model_dump(), public.encoding.digest, *learned_from, test)
        arguments = {"session": self._session.id, "encoding": public.encoding, "batches": public.batches}
        call = self._call("study", depends, plan=self.plan, labels=list(labels), **arguments)
        student: Student = self.stages.one("study", work.study, call)
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
        said = caveats(self.domain, [session, *map(self.door.ledger.session, beside)], self.door.ledger)
        taught = (self.plan.student.model_dump(), student.model_dump())  # other words may teach the same student
        answers = ([ref.digest for ref in released], {name: [ref.digest for ref in beside[name]] for name in beside})
        depends = (session.id, session.asked, session.status, charged, answers, taught, said)
        call = self._call("certify", depends, plan=self.plan, session=session.id, started=self.at_door)
        call |= {"per_refusal": per_refusal, "public": public, "labels": list(released), "beside": dict(beside)}
        record: Record = self.stages.one("certify", work.certify, {**call, "student": student})
        return Summary(
            run_id=record.run_id,
            session=session.id,
            certificate=str(self.door.released.root / record.certificate.path),
            report=str(self.door.released.root / record.report.path),
            guarantee=guarantee.model_dump(),
            mechanism=briefly(session.mechanism),
            teachers=session.teachers,
            asked=session.asked,
            answered=session.answered,
            refused=session.refused,
            asked_now=asked_now,
            student={"accuracy": student.accuracy, "model_uri": record.model_uri},
            stages=self.stages.reports,
            **self.charged_now(),
        )

    def charged_now(self) -> dict[str, Any]:
        """What the domain was charged while this ran, and of it what it is charged once, as a summary has them."""
        before, after = self.spent_before, spent(self.door, self.domain)
        once = self.domain.filter.conversion if any(after) and not any(before) else 0.0
        return {"spent_now": {"epsilon": after[0] - before[0], "delta": after[1] - before[1]}, "conversion": once}

    @property
    def _session(self) -> Session:
        if self.session is None:
            raise RuntimeError("the session is opened at the door, before anything is published")
        return self.session

    def _call(self, name: StageName, depends: Sequence[Any], **arguments: Any) -> dict[str, Any]:
        """A task's arguments: `arguments`, the home folder, and the key its result is cached by."""
        key = f"{name}-{self.door.vault.digest(name, str(VERSIONS[name]), canonical(depends))}"
        return {"key": key, "home": self.home, **arguments}

    def _digests(self, field: Literal["private", "public", "test"]) -> list[str]:
        """Keyed digests of the files behind a path of the plan. Raises WrongInput."""
        return [self._digest(file) for file in find_files(self.plan.path(field), f"data.{field}")]

    def keep_apart(self, field: str, digests: Iterable[str]) -> None:
        """Raise WrongInput where a private file has been named public: its rows would be published as they are."""
        if not set(self.private).isdisjoint(digests):
            raise WrongInput(f"{field} must not hold a file of data.private, which would then be published")

    def _digest(self, file: TableFile) -> str:
        try:
            return self.door.vault.digest_file(file.path)
        except OSError as failed:
            raise WrongInput(f"{file.field} cannot be read: {failed.strerror}") from None
