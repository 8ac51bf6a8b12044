"""Stages: Prefect tasks whose results are cached by all of their arguments.

    @stage("split", version=2, reads=("data.label", …))     a function `(place, **arguments)` of small references
    def split(place, plan, …) -> list[Ref]: …

    shards = split(run, plan, …)                            a flow calls it, in its own process
    teachers = teach(run, blocks, plan, …)                  a `mapped` stage: once per block, by the task runner
    with poll.in_turn(run, batches, ahead, …) as polled:    or once per part on demand, a few parts ahead
    labels = run.stages.pass_door(session, steps)           never cached: a release is replayed from the ledger

A stage gets the side of the door that its `place` is annotated with: PrivatePlace or PublicPlace.
The key of a result is derived from the arguments (`flows.cache`), so no argument can be left out of it. A stage can
read only those fields of its `plan` that are listed in `reads`.
"""

import inspect
import logging
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar, cast

from prefect import task
from prefect.client.schemas.objects import State
from prefect.context import FlowRunContext
from prefect.exceptions import FailedRun
from prefect.futures import as_completed
from prefect.task_runners import ThreadPoolTaskRunner
from prefect.tasks import Task
from prefect.utilities.annotations import quote

from concord.artifacts.errors import ConcordError
from concord.artifacts.schemas import Ref
from concord.artifacts.sessions import Session
from concord.artifacts.stores import PrivatePlace, PublicPlace, Stores
from concord.flows.cache import SealedResults, key_of, only, refs_of
from concord.flows.console import Progress, err
from concord.flows.outcome import STAGES, StageName, StageReport
from concord.tasks.door.door import Step, release
from concord.tasks.mechanisms.noise import reporting

Call = Mapping[str, Any]
P = ParamSpec("P")
Side = TypeVar("Side", PrivatePlace, PublicPlace)
Each = TypeVar("Each", bound=Hashable)
Returned = TypeVar("Returned")
Begun = Callable[[], tuple[Any, bool]]
"""A task that was begun: waits for the result, and returns it with whether it is from the cache."""


class OneSentence(logging.Filter):
    """Logs an error that is no fault of this program, or a state that a flow returned for one, by its sentence. Prefect
    adds a traceback to any."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, ConcordError | FailedRun):
            record.msg, record.args, record.exc_info = str(error), (), None
        return True


for _runs in ("prefect.flow_runs", "prefect.task_runs"):  # here, because workers import this module too
    logging.getLogger(_runs).addFilter(OneSentence())


class InRun(Protocol):
    """The part of a run's context that stages need."""

    @property
    def stages(self) -> "Stages": ...


class Described:
    """A stage's task, the fields of a plan it reads, and the arguments of a call by their names."""

    def __init__(self, name: StageName, version: int, reads: Sequence[str], function: Callable[..., Any]) -> None:
        self.name, self.reads, self.signature = name, reads, inspect.signature(function)
        self.task: Task[..., Any] = task(
            name=name,
            version=str(version),
            persist_result=True,
            result_serializer="json",  # never pickles
            cache_key_fn=lambda _, arguments: cast(str, arguments["place"].key),
        )(function)

    def arguments(self, *values: Any, **named: Any) -> dict[str, Any]:
        """The function's arguments by name, except its place; the plan is reduced to the fields it reads."""
        bound = self.signature.bind(None, *values, **named)
        bound.apply_defaults()
        given = dict(list(bound.arguments.items())[1:])
        return given | {"plan": only(given["plan"], *self.reads)} if self.reads else given

    def call(self, home: Path, arguments: Call) -> Call:
        """The arguments of the task, with the place in that home that their key names: not that of a record of another
        type, or of one that has moved since, which could not be read back."""
        version = f"{self.task.version} {self.signature.return_annotation}"
        key = key_of(home, self.name, version, arguments)
        return {"place": self.signature.parameters["place"].annotation(home, key), **arguments}


class CachedStage(Described, Generic[P, Returned]):
    """A stage that is one task, run in the flow's own process."""

    def __call__(self, run: InRun, *values: P.args, **named: P.kwargs) -> Returned:
        return cast(Returned, run.stages.uncached(self.name, lambda: self.with_cached(run, *values, **named)))

    def with_cached(self, run: InRun, *values: P.args, **named: P.kwargs) -> tuple[Returned, bool]:
        """The result, and whether it is from the cache: for a stage that is part of another one."""
        return run.stages.result(self, self.arguments(*values, **named))


class MappedStage(Described, Generic[Each, P, Returned]):
    """A stage with one task per part, run by the flow's task runner."""

    def __call__(self, run: InRun, parts: Iterable[Each], *values: P.args, **named: P.kwargs) -> list[Returned]:
        return run.stages.each(self, [self.arguments(part, *values, **named) for part in parts])

    def in_turn(
        self, run: InRun, parts: Sequence[Each], ahead: int, *values: P.args, **named: P.kwargs
    ) -> AbstractContextManager[Callable[[Each], Returned]]:
        """A context with a function that returns the result of a part; a call also begins up to `ahead` parts after it.

        No other part is computed unless it is asked for. All begun parts have finished when the context ends.
        """
        return run.stages.in_turn(self, parts, ahead, lambda part: self.arguments(part, *values, **named))


@dataclass(frozen=True)
class Disclosure:
    """The outcome of passing the door.

    session    its state afterwards
    released   the released files, whether drawn now or replayed
    asked_now  number of rows that were asked now
    at         when the door was passed, so that no published time tells of private work
    """

    session: Session
    released: list[Ref]
    asked_now: int
    at: datetime

    @classmethod
    def of(cls, stores: Stores, before: Session, released: list[Ref]) -> Self:
        """The outcome for a session that was as `before`, now that these files are released."""
        after = stores.ledger.session(before.id)
        return cls(after, released, after.asked - before.asked, stores.ledger.now())


Steps = Callable[[Stores, Session], Iterable[Step]]
"""The steps of a session; see `tasks.door.door.release`."""


def no_steps(*_: object) -> tuple[()]:
    """No steps, for a session that is opened before anything is counted."""
    return ()


def stage(
    name: StageName, *, version: int = 1, reads: Sequence[str] = ()
) -> Callable[[Callable[Concatenate[Side, P], Returned]], CachedStage[P, Returned]]:
    """Decorate a function `(place, **arguments)` as a stage.

    version  raised when the stage's computation changes, so that older cached results no longer count
    reads    the fields of its argument `plan` that it reads; empty if it takes no plan, or reads all of it
    """
    return lambda function: CachedStage(name, version, reads, function)


def mapped(
    name: StageName, *, version: int = 1, reads: Sequence[str] = ()
) -> Callable[[Callable[Concatenate[Side, Each, P], Returned]], MappedStage[Each, P, Returned]]:
    """Decorate a function `(place, part, **arguments)` as a stage that maps over its parts; otherwise as `stage`."""
    return lambda function: MappedStage(name, version, reads, function)


def on_workers(work: Task[..., Any], calls: Sequence[Call]) -> list[Any]:
    """The results of a task that is part of a stage, one for each call in order, by the flow's task runner."""
    return [future.result() for future in [work.submit(**unsearched(call)) for call in calls]]


def unsearched(arguments: Call) -> Call:
    """The arguments of a call in which Prefect is not to search for its futures, of which there are none: it would look
    at every cut of every code. The task, and the function of its cache key, get them as they are. Dask's client would
    make plain tuples of quotes."""
    flow = FlowRunContext.get()
    if flow is not None and not isinstance(flow.task_runner, ThreadPoolTaskRunner):
        return arguments
    return {name: quote(value) for name, value in arguments.items()}


def is_lost(state: State[Any], call: Call, result: Any) -> bool:
    """Whether a call's result is from the cache, and a file that it refers to is gone."""
    return state.name == "Cached" and not all(call["place"].holds(ref) for ref in refs_of(result))


class Stages:
    """Runs the stages of one flow run, and keeps a report of each."""

    def __init__(self, home: Path, start_from: StageName | None) -> None:
        self.home, self._kept = home, SealedResults(home=home)
        self.reports: list[StageReport] = []
        self._open: list[Progress] = []
        self._again = STAGES[STAGES.index(start_from) :] if start_from else ()

    def result(self, work: Described, arguments: Call) -> tuple[Any, bool]:
        """The result of one task, and whether it is from the cache."""
        call = work.call(self.home, arguments)
        task = self._ready(work, [call])
        state = cast("State[Any]", task(**unsearched(call), return_state=True))
        result = state.result()
        if is_lost(state, call, result):
            state = cast("State[Any]", task.with_options(refresh_cache=True)(**unsearched(call), return_state=True))
            result = state.result()
        return result, state.name == "Cached"

    def pass_door(self, session: Session, steps: Steps, name: StageName = "release") -> Disclosure:
        """Pass the door, in a task of its own: the one way for whatever is asked. It is never cached: a release is
        replayed from the ledger. Its steps call stages as the flow does: no context of that task is sent to workers."""
        with self._alone(name) as progress:
            in_flow, stores = copy_context(), Stores.of(self.home)

            @task(name=name, persist_result=False)
            def at_door() -> list[Ref]:
                return in_flow.run(release, stores, session, steps(stores, session))

            disclosed = Disclosure.of(stores, session, at_door())
            progress.advance(cached=disclosed.session == session)
        return disclosed

    def forget(self, files: Iterable[str]) -> None:
        """Remove the cached results that name those files, each of which is called by its stage's key."""
        for path in files:
            self._kept.discard(Path(path).stem)

    def again(self, name: StageName) -> bool:
        """Whether a stage was asked to run again."""
        return name in self._again

    def each(self, work: Described, parts: Iterable[Call]) -> list[Any]:
        """The results of a task, one for each call, in order."""
        calls = [work.call(self.home, arguments) for arguments in parts]
        task = self._ready(work, calls)
        with self._shown(work.name, len(calls)) as progress:
            futures = [task.submit(**unsearched(call)) for call in calls]
            for future in as_completed(futures):
                future.result()
                progress.advance(cached=future.state.name == "Cached")
            results = [future.result() for future in futures]
            lost = [at for at, future in enumerate(futures) if is_lost(future.state, calls[at], results[at])]
            again = work.task.with_options(refresh_cache=True)
            for at, future in [(at, again.submit(**unsearched(calls[at]))) for at in lost]:
                results[at] = future.result()
                progress.all_cached = False
            self._leave_out(progress.seconds, progress)
        return results

    @contextmanager
    def in_turn(
        self, work: Described, parts: Sequence[Each], ahead: int, arguments: Callable[[Each], Call]
    ) -> Iterator[Callable[[Each], Any]]:
        """A function that returns a task's result for one part, computed on demand; see `MappedStage.in_turn`."""
        places, tasks = {part: at for at, part in enumerate(parts)}, dict[Each, Begun]()
        with self._shown(work.name, len(parts)) as progress:

            def result(part: Each) -> Any:
                started = time.monotonic()
                for near in parts[places[part] : places[part] + 1 + ahead]:
                    tasks[near] = tasks.get(near) or self.begin(work, arguments(near))
                value, cached = tasks.pop(part)()
                progress.advance(cached=cached)
                self._leave_out(time.monotonic() - started, progress)
                return value

            try:
                yield result
            finally:
                for left in tasks.values():
                    with suppress(Exception):  # nobody asked for its result
                        left()

    def begin(self, work: Described, arguments: Call) -> Begun:
        """Have the task runner begin a task."""
        call = work.call(self.home, arguments)
        future = self._ready(work, [call]).submit(**unsearched(call))

        def ended() -> tuple[Any, bool]:
            result = future.result()
            if is_lost(future.state, call, result):
                return work.task.with_options(refresh_cache=True).submit(**unsearched(call)).result(), False
            return result, future.state.name == "Cached"

        return ended

    def uncached(self, name: StageName, work: Callable[[], tuple[Any, bool]]) -> Any:
        """The result of `work`, which returns with it whether it was a replay."""
        with self._alone(name) as progress:
            result, replayed = work()
            progress.advance(cached=replayed)
        return result

    @contextmanager
    def _alone(self, name: StageName) -> Iterator[Progress]:
        """As `_shown`, of a stage of one part, which counts its steps."""
        with self._shown(name) as progress:
            with reporting(progress.step):
                yield progress
            self._leave_out(progress.seconds, progress)

    @contextmanager
    def _shown(self, name: StageName, total: int = 1) -> Iterator[Progress]:
        """Show a stage's progress within the context; then report it, before the stages that ran inside it."""
        at = len(self.reports)
        with Progress(name, total) as progress:
            self._open.append(progress)
            try:
                yield progress
            finally:
                self._open.remove(progress)
        seconds = round(progress.seconds, 3)
        self.reports.insert(at, StageReport(name=name, cached=progress.all_cached, seconds=seconds))

    def _leave_out(self, seconds: float, ended: Progress) -> None:
        """Subtract one stage's seconds from the others in progress."""
        for progress in self._open:
            if progress is not ended:
                progress.idle += seconds

    def _ready(self, work: Described, calls: Sequence[Call]) -> Task[..., Any]:
        """The task, to be answered from cache; or to run again if that is asked for or a cached result was changed. A
        changed one is reported here, once: the tasks may run anywhere."""
        if self.again(work.name):
            return work.task.with_options(refresh_cache=True)
        if foreign := sum(self._kept.is_foreign(call["place"].key) for call in calls):
            many = "1 cached result is" if foreign == 1 else f"{foreign} cached results are"
            err.print(f"{work.name:>8} {many} not what was written: computed again")
        return work.task
