"""How a stage runs: as Prefect tasks, cached by content, with progress, and reported as cached or not."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from prefect import task
from prefect.client.schemas.objects import State
from prefect.futures import as_completed
from prefect.tasks import Task

from artifacts.released import Released
from artifacts.schemas import Ref
from flows.outcome import STAGES, StageName, StageReport
from flows.progress import Progress, console
from flows.sealed import SealedResults

Work = TypeVar("Work", bound=Callable[..., Any])
Call = Mapping[str, Any]


def stage(name: str) -> Callable[[Work], Task[..., Any]]:
    """A stage's work as a Prefect task, cached by its argument `key` alone: the digest of all that its result depends
    on. Results are small references; JSON, never pickles, and sealed (`flows.sealed`)."""
    return cast(
        "Callable[[Work], Task[..., Any]]",
        task(
            name=name,
            persist_result=True,
            result_serializer="json",
            cache_key_fn=lambda _, arguments: cast(str, arguments["key"]),
        ),
    )


class Stages:
    """Runs the stages of one flow run in turn and remembers how each went."""

    def __init__(self, home: Path, start_from: StageName | None) -> None:
        self.home, self._kept = home, SealedResults(home=home)
        self.reports: list[StageReport] = []
        self._again = STAGES[STAGES.index(start_from) :] if start_from else ()

    def one(self, name: StageName, work: Task[..., Any], call: Call) -> Any:
        """The result of a stage that is one task, run in the flow's own process."""
        return self.uncached(name, lambda: self.result(name, work, call))

    def result(self, name: StageName, work: Task[..., Any], call: Call) -> tuple[Any, bool]:
        """The result of one task, and whether it is from the cache: part of a stage that does more."""
        task = self._ready(name, work, [call])
        state = _state(task, call)
        result = state.result()
        if state.name == "Cached" and not self._there(result):
            state = _state(task.with_options(refresh_cache=True), call)
            result = state.result()
        return result, state.name == "Cached"

    def again(self, name: StageName) -> bool:
        """Whether a stage was asked to run again."""
        return name in self._again

    def each(self, name: StageName, work: Task[..., Any], calls: Sequence[Call]) -> list[Any]:
        """The results of a stage mapped over blocks or batches by the flow's task runner, in order."""
        task = self._ready(name, work, calls)
        return self._timed(name, lambda progress: self._mapped(task, calls, progress), len(calls))

    def uncached(self, name: StageName, work: Callable[[], tuple[Any, bool]]) -> Any:
        """The result of `work`, which says itself whether it replayed what was there."""

        def run(progress: Progress) -> list[Any]:
            result, replayed = work()
            progress.advance(cached=replayed)
            return [result]

        return self._timed(name, run)[0]

    def _timed(self, name: StageName, run: Callable[[Progress], list[Any]], total: int = 1) -> list[Any]:
        started = time.monotonic()
        with Progress(name, total) as progress:
            results = run(progress)
        seconds = round(time.monotonic() - started, 3)
        self.reports.append(StageReport(name=name, cached=progress.all_cached, seconds=seconds))
        return results

    def _ready(self, name: StageName, work: Task[..., Any], calls: Sequence[Call]) -> Task[..., Any]:
        """The task that answers from cache, or runs again where that is asked for or its result is not to be believed;
        which is said here, once: the tasks may run anywhere."""
        if self.again(name):
            return work.with_options(refresh_cache=True)
        if foreign := sum(self._kept.is_foreign(call["key"]) for call in calls):
            many = "1 cached result is" if foreign == 1 else f"{foreign} cached results are"
            console.print(f"{name:>8} {many} not what was written: computed again")
        return work

    def _mapped(self, work: Task[..., Any], calls: Sequence[Call], progress: Progress) -> list[Any]:
        futures = [work.submit(**call) for call in calls]
        states: dict[Any, bool] = {}
        for future in as_completed(futures):
            future.result()
            states[future] = future.state.name == "Cached"
            progress.advance(cached=states[future])
        results = [future.result() for future in futures]
        lost = [at for at, future in enumerate(futures) if states[future] and not self._there(results[at])]
        again = work.with_options(refresh_cache=True)
        for at, future in [(at, again.submit(**calls[at])) for at in lost]:
            results[at] = future.result()
            progress.all_cached = False
        return results

    def _there(self, result: Any) -> bool:
        """Whether the files a cached result refers to still exist. What they hold is checked when they are read; of
        released files now, since another student or certificate of the same session takes the place of the last."""
        return all(
            (self.home / "vault" / ref["path"]).is_file() or Released(self.home).find(ref["path"]) == Ref(**ref)
            for ref in _refs(_plain(result))
        )


def _state(work: Task[..., Any], call: Call) -> State[Any]:
    return cast("State[Any]", work(**call, return_state=True))


def _plain(result: Any) -> Any:
    return [_plain(one) for one in result] if isinstance(result, list | tuple) else result.model_dump()


def _refs(result: Any) -> list[dict[str, str]]:
    """All references inside a result."""
    if isinstance(result, Mapping):
        if set(result) == {"path", "digest"}:
            return [dict(result)]
        result = list(result.values())
    return [ref for one in result for ref in _refs(one)] if isinstance(result, list | tuple) else []
