"""The terminal: the consoles all commands share, how a stage shows how far it is, and how a command ends when asked to.

A command may die anywhere: what is spent is in vault and ledger before anybody sees it, and the next run goes on from
there (tests/promises/test_crash_learn.py). So a command that is interrupted ends at once, in one sentence, and nothing
is unwound: unwinding waits for whatever the command is at, and Prefect tells its server, for minutes if that is gone.
Python writes each signal into a pipe as it arrives, whoever handles it and whatever the main thread is at; a thread
reads it and ends the process. Checked by tests/promises/test_endings.py.
"""

import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
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

NOTHING_LOST = "nothing that was spent is lost: the same command goes on with it"
SENTENCES = {
    signal.SIGINT: f"interrupted; {NOTHING_LOST}",
    signal.SIGTERM: f"ended by SIGTERM; {NOTHING_LOST}",
    signal.SIGHUP: f"ended, since its terminal was closed; {NOTHING_LOST}",
}
LEAVING_PATIENCE = 2.0
"""Seconds after which a command ends without its last words: a terminal that is stopped takes none."""
CLEAR = "\r\x1b[2K\x1b[?25h"
"""Erases a line of progress, and shows the cursor."""

_watched = threading.Event()
_leaving = threading.Lock()


@contextmanager
def hushed(quiet: bool = True) -> Iterator[None]:
    """While it lasts, standard error says nothing of stages, if that is asked for."""
    before, err.quiet = err.quiet, quiet or err.quiet
    try:
        yield
    finally:
        err.quiet = before


_asked = threading.Event()


@contextmanager
def asking(wanted: bool) -> Iterator[None]:
    """While it lasts, the operator may be asked a question, if there is a terminal."""
    if wanted:
        _asked.set()
    try:
        yield
    finally:
        _asked.clear()


def confirmed(question: str) -> bool:
    """What the operator answers; yes if nobody may be asked: what is asked about decides nothing by itself."""
    if not (_asked.is_set() and sys.stdin.isatty() and err.is_terminal and not err.quiet):
        return True
    return err.input(f"{question}? [y/N] ", markup=False).strip().lower() in ("y", "yes")


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
    shows the time it has taken. `idle` are seconds in which other stages ran instead.
    """

    def __init__(self, name: str, total: int) -> None:
        self.name, self.total = name, total
        self.done, self.all_cached = 0, True
        self.idle = 0.0
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

    @property
    def seconds(self) -> float:
        """How long the stage has taken."""
        return time.monotonic() - self._started - self.idle

    def _account(self) -> Iterator[str]:
        """How the stage went: its parts, the time they took, and their rate if that was long."""
        seconds = self.seconds
        if self.total != 1:
            yield f"{self.done:,} of {self.total:,} parts" if self.done < self.total else f"{self.total:,} parts"
        yield "[dim]from cache[/dim]" if self.all_cached else f"{seconds:.1f} s"
        if self.total > 1 and seconds > SHOW_AFTER and not self.all_cached:
            yield rate(self.done, seconds)

    def _publish(self) -> None:
        if not on_page():
            return
        from prefect.artifacts import create_progress_artifact, update_progress_artifact

        percent = 100 * self.done / self.total
        text = f"{self.name}: {self.done:,} of {self.total:,} part{'s' * (self.total != 1)}"
        if self._artifact is None:
            self._artifact = cast("UUID", create_progress_artifact(progress=percent, description=text))
        else:
            update_progress_artifact(artifact_id=self._artifact, progress=percent, description=text)


def on_page() -> bool:
    """Whether a flow run goes on, whose page in Prefect's UI shows what it comes to: a replay has none."""
    from prefect.context import FlowRunContext  # commands without stages wait

    return FlowRunContext.get() is not None


def watch() -> None:
    """From now on a signal ends this process with its sentence and 128 and its number as the status, as a shell has it.

    To be called first, in the main thread of a command. A signal that is ignored, as by nohup, stays so.
    """
    _watched.set()
    heard, result = os.pipe()
    os.set_blocking(result, False)
    signal.set_wakeup_fd(result, warn_on_full_buffer=False)
    for number in SENTENCES:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    threading.Thread(target=_hear, args=(heard,), daemon=True).start()
    _shield()


def shield_workers() -> None:
    """Let the processes that a command starts from here on sleep through Ctrl-C: they end with it, without a word."""
    if _watched.is_set():
        resource_tracker.ensure_running()  # it lets Ctrl-C through again when it starts
        _shield()


def end_with_parent() -> None:
    """In a worker process: end when the process that started it does, of which it would hear nothing."""
    threading.Thread(target=_follow, daemon=True).start()


def leave(status: int, sentence: str) -> None:
    """End this process now, with what it started, if it is a command that is watched."""
    if not _watched.is_set():
        return
    _leaving.acquire()  # for good: who leaves first says why
    last_words = threading.Thread(target=_say, args=(sentence,), daemon=True)
    last_words.start()
    last_words.join(LEAVING_PATIENCE)
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(status)


def _follow() -> None:
    if parent := multiprocessing.parent_process():
        parent.join()
        os._exit(1)


def _hear(heard: int) -> None:
    number = signal.Signals(os.read(heard, 1)[0])
    while number not in SENTENCES:
        number = signal.Signals(os.read(heard, 1)[0])
    leave(128 + number, SENTENCES[number])


def _say(sentence: str) -> None:
    clear = CLEAR if os.isatty(2) else ""
    with suppress(OSError):
        os.write(2, f"{clear}concord: {sentence}\n".encode())


def _shield() -> None:
    """Only the thread that hears takes Ctrl-C; this one, all that it starts, and their processes do not."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
