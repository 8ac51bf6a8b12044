"""The consoles that all commands share, and how a stage shows there, and in Prefect's UI, how far it is."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self, cast
from uuid import UUID

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

out = Console(highlight=False)
"""Results, on standard output."""
err = Console(stderr=True, highlight=False)
"""Progress, warnings and questions to the operator, on standard error."""

SHOW_AFTER = 2.0
"""Seconds after which a stage is worth an artifact; each update costs the server 8 to 25 ms."""


@contextmanager
def hushed(quiet: bool = True) -> Iterator[None]:
    """While it lasts, standard error says nothing of stages, if that is asked for."""
    before, err.quiet = err.quiet, quiet or err.quiet
    try:
        yield
    finally:
        err.quiet = before


class RateColumn(ProgressColumn):
    """Parts a second, once some are done."""

    def render(self, task: Bar) -> Text:
        return Text(rate(task.completed, task.elapsed or 0.0), style="progress.data.speed")


def rate(done: float, seconds: float) -> str:
    """How many parts a second; nothing if that is not known yet."""
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
        shown = err.is_terminal and not err.quiet
        self._bars = Bars(*columns, TimeElapsedColumn(), console=err, transient=True, disable=not shown)
        self._bar = self._bars.add_task(name, total=total)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()
        if kind is None:
            err.print(f"{self.name:>8} [green]✓[/green] {', '.join(self._account())}")

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
        """How the stage went: its parts, the time they took, and their rate if that was long."""
        seconds = time.monotonic() - self._started
        if self.total != 1:
            yield f"{self.total:,} parts"
        yield "[dim]from cache[/dim]" if self.all_cached else f"{seconds:.1f} s"
        if self.total > 1 and seconds > SHOW_AFTER and not self.all_cached:
            yield rate(self.total, seconds)

    def _publish(self) -> None:
        from prefect.artifacts import create_progress_artifact, update_progress_artifact  # commands without stages wait

        percent = 100 * self.done / self.total
        text = f"{self.name}: {self.done:,} of {self.total:,} part{'s' * (self.total != 1)}"
        if self._artifact is None:
            self._artifact = cast("UUID", create_progress_artifact(progress=percent, description=text))
        else:
            update_progress_artifact(artifact_id=self._artifact, progress=percent, description=text)
