"""Progress of a stage: a line on the console (stderr) and, for long stages, an artifact in the Prefect UI.

Where the results of stages are kept for Prefect: sealed, and checked before anything in them is parsed.

    results/KEY = seal ‖ record      the seal: HMAC-SHA256 of KEY and the record, under a key derived for results alone

KEY is a stage's cache key, a keyed digest of all that its result depends on. A result decides: it names the files that
are read next, and holds figures that are published. The record is Prefect's own, and names its serializer, which could
be one that runs code; so nothing but JSON is ever sealed, and nothing without a seal is parsed.

Assumes      the vault's key is secret; a stage's key digests all that its result depends on
Guarantees   what is read back was written here, as the result of that very key: an edited file, a file put under
             another's name and one from elsewhere count as absent, so the stage runs again. An older result put back
             under its own name answers the same question from the same inputs
Not covered  what a result refers to: those files are checked as they are read. Results of 0.1.0 have no seal, and are
             made again. Checked by tests/flows/test_sealed.py

How a stage runs: as Prefect tasks, cached by content, with progress, and reported as cached or not.
"""

import hmac
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast
from uuid import NAMESPACE_URL, UUID, uuid5

from prefect import task
from prefect.artifacts import create_progress_artifact, update_progress_artifact
from prefect.client.schemas.objects import State
from prefect.filesystems import WritableFileSystem
from prefect.futures import as_completed
from prefect.serializers import JSONSerializer
from prefect.tasks import Task
from pydantic import PrivateAttr
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.progress import Task as Bar
from rich.text import Text

from concord.artifacts.errors import NotVerified
from concord.artifacts.home.released import Released
from concord.artifacts.home.vault import SEAL_BYTES, Vault, derive, keyed_digest
from concord.artifacts.home.whole import make_folder, write_whole
from concord.artifacts.schemas import Ref
from concord.flows.keys import Place, key_of
from concord.flows.outcome import STAGES, StageName, StageReport

console = Console(stderr=True, highlight=False)
"""The operator's console. Standard output is left to results."""

SHOW_AFTER = 2.0
"""Seconds after which a stage is worth an artifact; each update costs the server 8 to 25 ms."""


@contextmanager
def hushed(quiet: bool = True) -> Iterator[None]:
    """While it lasts, the console says nothing of stages, where that is asked for."""
    before, console.quiet = console.quiet, quiet or console.quiet
    try:
        yield
    finally:
        console.quiet = before


class RateColumn(ProgressColumn):
    """Parts a second, once some are done."""

    def render(self, task: Bar) -> Text:
        return Text(rate(task.completed, task.elapsed or 0.0), style="progress.data.speed")


def rate(done: float, seconds: float) -> str:
    """How many parts a second; nothing where that is not known yet."""
    return f"{done / seconds:.3g}/s" if done and seconds else ""


class Progress:
    """Counts the parts of a stage as they end. Use as a context.

    A stage of several parts shows how many are done, at what rate, and the time that remains; one of a single part
    shows the time it has taken.
    """

    def __init__(self, name: str, total: int) -> None:
        self.name, self.total = name, total
        self.done, self.all_cached = 0, True
        self._artifact: UUID | None = None
        self._started = self._updated = time.monotonic()
        counted = (BarColumn(), MofNCompleteColumn(), RateColumn(), TimeRemainingColumn())
        columns = (TextColumn("{task.description:>8}"), *(counted if total > 1 else (SpinnerColumn(),)))
        shown = console.is_terminal and not console.quiet
        self._bars = Bars(*columns, TimeElapsedColumn(), console=console, transient=True, disable=not shown)
        self._bar = self._bars.add_task(name, total=total)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()
        if kind is None:
            console.print(f"{self.name:>8} [green]✓[/green] {', '.join(self._account())}")

    def advance(self, *, cached: bool) -> None:
        """One more part is done."""
        self.done += 1
        self.all_cached = self.all_cached and cached
        self._bars.update(self._bar, completed=self.done)
        now = time.monotonic()
        if now - self._started > SHOW_AFTER and (now - self._updated > 1 or self.done == self.total):
            self._updated = now
            self._publish()

    def _account(self) -> Iterator[str]:
        """How the stage went: its parts, the time they took, and their rate where that was long."""
        seconds = time.monotonic() - self._started
        if self.total != 1:
            yield f"{self.total:,} parts"
        yield "[dim]from cache[/dim]" if self.all_cached else f"{seconds:.1f} s"
        if self.total > 1 and seconds > SHOW_AFTER and not self.all_cached:
            yield rate(self.total, seconds)

    def _publish(self) -> None:
        percent = 100 * self.done / self.total
        text = f"{self.name}: {self.done:,} of {self.total:,} part{'s' * (self.total != 1)}"
        if self._artifact is None:
            self._artifact = cast("UUID", create_progress_artifact(progress=percent, description=text))
        else:
            update_progress_artifact(artifact_id=self._artifact, progress=percent, description=text)


JSON = JSONSerializer().model_dump(mode="json")
KEY = re.compile(r"[\w-]+")


class SealedResults(WritableFileSystem):
    """Prefect's result storage in one home folder. It carries no key: whoever uses it opens the vault."""

    home: Path
    _block_type_name = "Concord sealed results"
    # Prefect refuses blocks its server does not know. No server knows this id: what it says of results is not followed.
    _block_document_id: UUID | None = PrivateAttr(uuid5(NAMESPACE_URL, "concord/sealed results"))

    def read_path(self, path: str, **_: Any) -> bytes:  # type: ignore[override]  # Prefect calls either kind
        """The record of a key. Raises NotVerified where there is none that this vault sealed."""
        sealed = self._file(path).read_bytes()
        seal, record = sealed[:SEAL_BYTES], sealed[SEAL_BYTES:]
        if not hmac.compare_digest(seal, self._seal(path, record)):
            raise NotVerified(f"the result {path} is not what was written")
        return record

    def write_path(self, path: str, content: bytes, **_: Any) -> None:  # type: ignore[override]  # as above
        """Seal the record of a key, in the place of the one before. Raises TypeError where it is not JSON."""
        if json.loads(content)["metadata"]["serializer"] != JSON:
            raise TypeError(f"the result {path} must be serialized as JSON")
        make_folder(self.home / "results")
        with write_whole(self._file(path), self.home) as file:
            file.write(self._seal(path, content) + content)

    def is_foreign(self, key: str) -> bool:
        """Whether there is a result of that key, and it is not what was written."""
        try:
            self.read_path(key)
        except FileNotFoundError:
            return False
        except (OSError, NotVerified):
            return True
        return False

    def _file(self, key: str) -> Path:
        if not KEY.fullmatch(key):
            raise NotVerified(f"the result {key} must be named by a cache key")
        return self.home / "results" / key

    def _seal(self, key: str, record: bytes) -> bytes:
        secret = derive(Vault(self.home / "vault").secret("installation"), "results")
        return bytes.fromhex(keyed_digest(secret, "result", key, record))


Call = Mapping[str, Any]


def stage(name: StageName, version: int = 1) -> Callable[[Callable[..., Any]], Task[..., Any]]:
    """A function `(place, **arguments)` as a stage: a Prefect task, cached by all its arguments (`flows.keys`).

    version   raised when what the stage computes changes, so that no older cached result answers for it
    Results are small references; JSON, never pickles, and sealed (`flows.stage`).
    """
    return cast(
        "Callable[[Callable[..., Any]], Task[..., Any]]",
        task(
            name=name,
            version=str(version),
            persist_result=True,
            result_serializer="json",
            cache_key_fn=lambda _, arguments: cast(str, arguments["place"].key),
        ),
    )


class Stages:
    """Runs the stages of one flow run in turn and remembers how each went."""

    def __init__(self, home: Path, start_from: StageName | None) -> None:
        self.home, self._kept = home, SealedResults(home=home)
        self.reports: list[StageReport] = []
        self._again = STAGES[STAGES.index(start_from) :] if start_from else ()

    def one(self, work: Task[..., Any], **arguments: Any) -> Any:
        """The result of a stage that is one task, run in the flow's own process."""
        return self.uncached(named(work), lambda: self.result(work, **arguments))

    def result(self, work: Task[..., Any], **arguments: Any) -> tuple[Any, bool]:
        """The result of one task, and whether it is from the cache: part of a stage that does more."""
        call = self.call(work, arguments)
        task = self._ready(work, [call])
        state = _state(task, call)
        result = state.result()
        if state.name == "Cached" and not self._there(result):
            state = _state(task.with_options(refresh_cache=True), call)
            result = state.result()
        return result, state.name == "Cached"

    def call(self, work: Task[..., Any], arguments: Call) -> Call:
        """What a stage is called with: its arguments, and the place that their key names."""
        key = key_of(Vault(self.home / "vault"), work.name, str(work.version), arguments)
        return {"place": Place(self.home, key), **arguments}

    def again(self, name: StageName) -> bool:
        """Whether a stage was asked to run again."""
        return name in self._again

    def each(self, work: Task[..., Any], mapped: Iterable[Call]) -> list[Any]:
        """The results of a stage mapped over blocks or batches by the flow's task runner, in order."""
        calls = [self.call(work, arguments) for arguments in mapped]
        task = self._ready(work, calls)
        return self._timed(named(work), lambda progress: self._mapped(task, calls, progress), len(calls))

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

    def _ready(self, work: Task[..., Any], calls: Sequence[Call]) -> Task[..., Any]:
        """The task that answers from cache, or runs again where that is asked for or its result is not to be believed;
        which is said here, once: the tasks may run anywhere."""
        name = named(work)
        if self.again(name):
            return work.with_options(refresh_cache=True)
        if foreign := sum(self._kept.is_foreign(call["place"].key) for call in calls):
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


def named(work: Task[..., Any]) -> StageName:
    """Which stage a task is."""
    return cast(StageName, work.name)


def _state(work: Task[..., Any], call: Call) -> State[Any]:
    return cast("State[Any]", work(**call, return_state=True))


def _plain(result: Any) -> Any:
    return [_plain(item) for item in result] if isinstance(result, list | tuple) else result.model_dump()


def _refs(result: Any) -> list[dict[str, str]]:
    """All references inside a result."""
    if isinstance(result, Mapping):
        if set(result) == {"path", "digest"}:
            return [dict(result)]
        result = list(result.values())
    return [ref for item in result for ref in _refs(item)] if isinstance(result, list | tuple) else []
