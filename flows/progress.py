"""Progress of a stage: a line on the console (stderr) and, for long stages, an artifact in the Prefect UI."""

import time
from types import TracebackType
from typing import Self, cast
from uuid import UUID

from prefect.artifacts import create_progress_artifact, update_progress_artifact
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

console = Console(stderr=True, highlight=False)
"""The operator's console. Standard output is left to results."""

SHOW_AFTER = 2.0
"""Seconds after which a stage is worth an artifact; each update costs the server 8 to 25 ms."""


class Progress:
    """Counts the parts of a stage as they end. Use as a context."""

    def __init__(self, name: str, total: int) -> None:
        self.name, self.total = name, total
        self.done, self.all_cached = 0, True
        self._artifact: UUID | None = None
        self._started = self._updated = time.monotonic()
        columns = (TextColumn("{task.description:>8}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._bars = Bars(
            *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
        )
        self._bar = self._bars.add_task(name, total=total)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()
        if kind is None:
            seconds = time.monotonic() - self._started
            how = "[dim]from cache[/dim]" if self.all_cached else f"{seconds:.1f} s"
            console.print(f"{self.name:>8} [green]✓[/green] {self.total} part{'s' * (self.total != 1)}, {how}")

    def advance(self, *, cached: bool) -> None:
        """One more part is done."""
        self.done += 1
        self.all_cached = self.all_cached and cached
        self._bars.update(self._bar, completed=self.done)
        now = time.monotonic()
        if now - self._started > SHOW_AFTER and (now - self._updated > 1 or self.done == self.total):
            self._updated = now
            self._publish(100 * self.done / self.total)

    def _publish(self, percent: float) -> None:
        if self._artifact is None:
            self._artifact = cast("UUID", create_progress_artifact(progress=percent, description=self.name))
        else:
            update_progress_artifact(artifact_id=self._artifact, progress=percent)
