"""The terminal: the consoles shared by all commands, questions to the operator, and the progress of stages.

Whatever a console prints passes `PrintableConsole.render`, so no name in it acts on the terminal; `say` also keeps it
on its line. Checked by tests/flows/cli/test_strangers_words.py.
"""

import logging
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Self, cast
from uuid import UUID

from rich.console import Console, ConsoleOptions, RenderableType
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
from rich.segment import Segment
from rich.text import Text

from concord.artifacts.errors import in_lines, in_one_line

NARROW: dict[str, Any] = {"box": None, "pad_edge": False, "padding": (0, 2, 0, 0)}
"""Layout of tables."""


class PrintableConsole(Console):
    """A console of text as it is: no markup, no emoji by their names, and no letter that acts on the terminal."""

    def __init__(self, *, stderr: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, markup=False, emoji=False)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """The segments of anything printed; those that control the terminal are Rich's own."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=in_lines(segment.text))


out = PrintableConsole()
"""Results, on standard output."""
err = PrintableConsole(stderr=True)
"""Progress, warnings and questions to the operator, on standard error."""


def say(sentence: str, *, mark: str = "", style: str = "", to: Console = out) -> None:
    """Print a sentence on one line, after a mark in that style; words of strangers in it are escaped."""
    to.print(Text.assemble((mark, style), in_one_line(sentence)), soft_wrap=True)


SHOW_AFTER = 2.0
"""Seconds after which a stage gets a progress artifact in Prefect; each update costs the server 8 to 25 ms."""


@contextmanager
def hushed(quiet: bool = True) -> Iterator[None]:
    """Within the context, if `quiet`, stages print nothing to standard error."""
    before, err.quiet = err.quiet, quiet or err.quiet
    try:
        yield
    finally:
        err.quiet = before


_ours: ContextVar[bool] = ContextVar("_ours", default=False)
"""Whether what is logged is of our flows."""


@contextmanager
def prefect_hushed() -> Iterator[None]:
    """Within the context, print nothing of our flows' logs on Prefect's console, where our errors are one sentence. Its
    filter stays, since it lets through all that is a user's."""
    from prefect.logging.handlers import PrefectConsoleHandler  # as heavy as Prefect

    for handler in logging.getLogger().handlers:
        if isinstance(handler, PrefectConsoleHandler):
            handler.addFilter(_is_a_users)
    before = _ours.set(True)
    try:
        yield
    finally:
        _ours.reset(before)


def _is_a_users(_: logging.LogRecord) -> bool:
    return not _ours.get()


_asked = threading.Event()


@contextmanager
def asking(wanted: bool) -> Iterator[None]:
    """Within the context, if `wanted` and at a terminal, the operator may be asked questions."""
    if wanted:
        _asked.set()
    try:
        yield
    finally:
        _asked.clear()


def may_ask() -> bool:
    """Whether the operator may be asked."""
    return _asked.is_set() and sys.stdin.isatty() and err.is_terminal and not err.quiet


class RateColumn(ProgressColumn):
    """Parts a second, once some are done."""

    def render(self, task: Bar) -> Text:
        return Text(rate(task.completed, task.elapsed or 0.0), style="progress.data.speed")


def _columns(*, counted: bool) -> tuple[ProgressColumn, ...]:
    """The columns of a stage: its name, how far it is if its parts or steps are counted, and the time it has taken."""
    progress = (
        (BarColumn(), MofNCompleteColumn(), RateColumn(), TimeRemainingColumn()) if counted else (SpinnerColumn(),)
    )
    return (TextColumn("{task.description:>8}"), *progress, TimeElapsedColumn())


def rate(done: float, seconds: float) -> str:
    """The rate in parts per second, as text; empty if it is not known yet."""
    return f"{done / seconds:.3g}/s" if done and seconds else ""


class Progress:
    """Counts the parts of a stage as they end. Use as a context.

    A stage of several parts shows how many are done, at what rate, and the time that remains; one of a single part
    shows the time it has taken, or how many of its steps are done if they are many. `idle` counts the seconds in
    which other stages ran instead.
    """

    def __init__(self, name: str, total: int) -> None:
        self.name, self.total = name, total
        self.done, self.all_cached = 0, True
        self.idle, self._steps = 0.0, 0
        self._artifact: UUID | None = None
        self._started = self._updated = time.monotonic()
        shown = err.is_terminal and not err.quiet
        self._bars = Bars(*_columns(counted=total != 1), console=err, transient=True, disable=not shown)
        self._bar = self._bars.add_task(name, total=total)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()
        if kind is not None:
            return
        seconds, words = self.seconds, []
        if self.total != 1:
            words.append(
                f"{self.done:,} of {self.total:,} parts" if self.done < self.total else f"{self.total:,} parts"
            )
        words.append("[dim]from cache[/dim]" if self.all_cached else f"{seconds:.1f} s")
        if self.total > 1 and seconds > SHOW_AFTER and not self.all_cached:
            words.append(rate(self.done, seconds))
        err.print(f"{self.name:>8} [green]✓[/green] {', '.join(words)}", markup=True)

    def advance(self, *, cached: bool) -> None:
        """One more part is done."""
        self.done += 1
        self.all_cached = self.all_cached and cached
        self._bars.update(self._bar, completed=self.done, total=self.total)
        self._publish_at_times(self.done, self.total, "part")

    def step(self, done: int, size: int) -> None:
        """Report that `done` of `size` steps inside a part are done; they are shown in place of the parts."""
        if done and size != self._steps:
            self._steps, self._bars.columns = size, _columns(counted=True)
            self._bars.reset(self._bar, total=size)
        if done:
            self._bars.update(self._bar, completed=done)
            self._publish_at_times(done, size, "step")

    @property
    def seconds(self) -> float:
        """Seconds that the stage has taken."""
        return time.monotonic() - self._started - self.idle

    def _publish_at_times(self, done: int, total: int, what: str) -> None:
        now = time.monotonic()
        if now - self._started > SHOW_AFTER and (now - self._updated > 1 or done == total):
            self._updated = now
            self._publish(100 * done / total, f"{self.name}: {done:,} of {total:,} {what}{'s' * (total != 1)}")

    def _publish(self, percent: float, text: str) -> None:
        if not on_page():
            return
        from prefect.artifacts import create_progress_artifact, update_progress_artifact

        if self._artifact is None:
            self._artifact = cast("UUID", create_progress_artifact(progress=percent, description=text))
        else:
            update_progress_artifact(artifact_id=self._artifact, progress=percent, description=text)


def on_page() -> bool:
    """Whether a flow run is active, with a page in Prefect's UI: a replay has none."""
    from prefect.context import FlowRunContext  # heavy: commands without stages do without it

    return FlowRunContext.get() is not None
