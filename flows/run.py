"""A line of stages: the session it goes on with, the rows it walks, what it is charged, and the files it names."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from concord.artifacts.errors import WrongInput
from concord.artifacts.mlflow.store import ready_store
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, Ref
from concord.artifacts.sessions import Domain, Session
from concord.flows.keys import Files, Public
from concord.flows.outcome import StageName
from concord.flows.stage import Stages, console
from concord.tasks.asking import teachers as asking_teachers
from concord.tasks.data.encode import labelled_rows
from concord.tasks.data.tables import TableFile, find_files
from concord.tasks.data.units import private_files
from concord.tasks.door.admit import calibrated, check_going_on, spent
from concord.tasks.door.checkpoint import (
    Checkpoint,
    PublicSource,
    check_staged,
    read_checkpoint,
    stream,
    write_checkpoint,
)
from concord.tasks.door.erase import erased_units
from concord.tasks.door.release import RUN, Stores, a_run_in, alone, opening
from concord.tasks.mechanisms.relabelled import Relabelled, Relabelling
from concord.tasks.publish.track import column_types
from concord.tasks.student import study


class RunContext:
    """What every run stands on, whatever its stages.

    Use as a context: while it lasts, no other command goes on with its session, and none erases in its domain.
    """

    session: Session | None
    private: tuple[str, ...]
    files_with_rows: tuple[str, ...]
    relabelled: tuple[Ref, ...] = ()
    erased: tuple[str, ...]

    def __init__(
        self, plan: Plan, home: Path, *, new_session: bool = False, start_from: StageName | None = None
    ) -> None:
        self.plan, self.home, self.new_session = plan, home, new_session
        self.door = Stores.of(home)
        self.stages = Stages(home, start_from)
        self._held = ExitStack()

    def __enter__(self) -> Self:
        if aside := ready_store(self.home):
            console.print(f"{'MLflow':>8} the store could not be read, so it is made anew: the old one is {aside}")
        self._held.enter_context(a_run_in(self.door.vault, self.plan.privacy.domain))
        self.erased = erased_units(self.door, self.plan.privacy.domain)  # while this lasts, no more are
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._held.close()

    def own(self, public: Public) -> PublicSource:
        """The plan's own public rows."""
        files = tuple(self._digests("public"))
        return PublicSource(path=self.plan.path("public"), digests=files, batches=tuple(public.batches))

    def walk(self, encoding: Encoding, sources: tuple[PublicSource, ...]) -> Public:
        """Those sources as one stream. Raises NotVerified where rows that a session was given are gone."""
        if self.session is not None:
            check_staged(self.door.vault, self.session.id, sources)
        self.sources = sources
        return Public(encoding=encoding, batches=stream(sources))

    def rehearse(self, encoding: Encoding) -> None:
        """Raise WrongInput where teachers, student or test table would fail later: now, while nothing is spent."""
        asking_teachers.rehearse_teachers(self.plan.teachers, encoding)
        study.rehearse_student(self.plan.student, encoding)
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

    def wait_for(self, identity: str) -> None:
        """Wait until no other command opens a session of that identity: this one then goes on with it."""
        self._held.enter_context(opening(self.door.vault, identity, _say_waiting))
        self.spent_before = spent(self.door, self.domain)  # what the other one was charged is not this one's

    def hold(self, session: str) -> Checkpoint | None:
        """Wait until no other command goes on with the session, and take its recipe as that left it."""
        self._held.enter_context(alone(self.door.vault, session, RUN))
        self.session = self.door.ledger.session(session)
        return read_checkpoint(self.door.vault, session)

    def go_on(self, session: Session, recipe: Checkpoint) -> None:
        """Make sure that the session goes on by its recipe as it began: the same mechanism, tables that still fit."""
        own = Public(encoding=recipe.encoding, batches=list(recipe.sources[0].batches))
        self.calibrate(self.door.ledger.domain_of(session), own)
        check_going_on(self.door.vault, session, self.mechanism)
        self.rehearse(recipe.encoding)
        column_types(self.plan.path("public"), recipe.encoding)  # MLflow is told of them once all is spent

    def name_private(self) -> None:
        """Note which files are private. Raises WrongInput where one has been named public, or is of another domain.

        Only files with rows are told by their bytes: two exports without any are alike whoever is in the table, and
        one row more in one of them must not decide how the run ends. That a whole file with rows is known again, byte
        for byte, is the one thing here that a private row can change.
        """
        if self.erased:
            console.print(f"{'erased':>8} units of domain {self.plan.privacy.domain} are left out")
        self.table = self.files("private")
        self.private = self.table.digests
        self.files_with_rows = tuple(
            digest for file, digest in zip(private_files(self.plan), self.private, strict=True) if file.holds_rows()
        )
        self.door.ledger.check_holding(self.plan.privacy.domain, self.files_with_rows)
        self.keep_apart("data.public", (digest for source in self.sources for digest in source.digests))
        self.keep_apart("data.test", [] if self.plan.data.test is None else self._digests("test"))

    def keep_apart(self, field: str, digests: Iterable[str]) -> None:
        """Raise WrongInput where a private file has been named public: its rows would be published as they are."""
        if not set(self.files_with_rows).isdisjoint(digests):
            raise WrongInput(f"{field} must not hold a file of data.private, which would then be published")

    def keep(self, session: Session, public: Public, teachers: Sequence[Ref], relabelled: tuple[Ref, ...] = ()) -> None:
        """Keep what a session needs to go on; where nobody votes, `teachers` are the numbers it answers from."""
        recipe = Checkpoint(
            plan=self.plan,
            encoding=public.encoding,
            teachers=tuple(teachers),
            sources=self.sources,
            private=self.files_with_rows,
            relabelled=relabelled,
        )
        write_checkpoint(self.door.vault, session.id, recipe)

    def at_the_door(self, stage: StageName, session: Session, work: Callable[[], Any]) -> tuple[Any, Session]:
        """What passed the door in a session, drawn now or replayed; and the session after."""

        def passed() -> tuple[tuple[Any, Session], bool]:
            released, after = work(), self.door.ledger.session(session.id)
            self.at_door = datetime.now(UTC)  # when it is passed: no published moment tells of private work
            return (released, after), after == session

        released, after = self.stages.uncached(stage, passed)
        return released, after

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

    def files(self, field: Literal["private", "public", "test"]) -> Files:
        """The files behind a path of the plan. Raises WrongInput."""
        return Files(self.plan.path(field), tuple(self._digests(field)))

    @property
    def test(self) -> Files | None:
        """The public test table, where there is one."""
        return None if self.plan.data.test is None else self.files("test")

    @property
    def spans(self) -> Iterator[tuple[int, int]]:
        """The shards of each block: the first, and the one after the last."""
        count, block = self.plan.teachers.count, self.plan.teachers.block
        return ((first, min(first + block, count)) for first in range(0, count, block))

    def _digests(self, field: Literal["private", "public", "test"]) -> list[str]:
        """Keyed digests of the files behind a path of the plan. Raises WrongInput."""
        private = field == "private"
        files = private_files(self.plan) if private else find_files(self.plan.path(field), f"data.{field}")
        return [self._digest(file) for file in files]

    def _digest(self, file: TableFile) -> str:
        try:
            return self.door.vault.digest_file(file.path)
        except OSError as failed:
            raise WrongInput(f"{file.field} cannot be read: {failed.strerror}") from None


def _say_waiting() -> None:
    console.print(f"{'waiting':>8} for another command that runs the same plan; this one goes on with its session")
