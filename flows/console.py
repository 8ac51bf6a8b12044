"""The terminal: the consoles shared by all commands, the progress of stages, and the end of a command by a signal.

A command may be killed anywhere: a spend is in vault and ledger before anybody sees its result, and the next run goes
on from there (tests/promises/test_crash_learn.py). So an interrupted command ends at once, with one sentence, and
nothing is unwound: unwinding would wait for the current operation, and for Prefect's reports to its server, which takes
minutes if the server is gone. Python writes each signal into a pipe as it arrives, whatever handler is set and whatever
the main thread does; a thread reads it and ends the process. Checked by tests/promises/test_endings.py.
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
"""Seconds after which a stage gets a progress artifact in Prefect; each update costs the server 8 to 25 ms."""

NOTHING_LOST = "nothing that was spent is lost: the same command goes on with it"
SENTENCES = {
    signal.SIGINT: f"interrupted; {NOTHING_LOST}",
    signal.SIGTERM: f"ended by SIGTERM; {NOTHING_LOST}",
    signal.SIGHUP: f"ended, since its terminal was closed; {NOTHING_LOST}",
}
LEAVING_PATIENCE = 2.0
"""Seconds after which a command ends without printing its sentence: a stopped terminal takes no output."""
CLEAR = "\r\x1b[2K\x1b[?25h"
"""Erases a line of progress, and shows the cursor."""

_watched = threading.Event()
_leaving = threading.Lock()


@contextmanager
def hushed(quiet: bool = True) -> Iterator[None]:
    """Within the block, if `quiet`, stages print nothing to standard error."""
    before, err.quiet = err.quiet, quiet or err.quiet
    try:
        yield
    finally:
        err.quiet = before


_asked = threading.Event()


@contextmanager
def asking(wanted: bool) -> Iterator[None]:
    """Within the block, if `wanted` and at a terminal, the operator may be asked questions."""
    if wanted:
        _asked.set()
    try:
        yield
    finally:
        _asked.clear()


def confirmed(question: str) -> bool:
    """The operator's answer; yes if nobody may be asked, since the program must not stop by itself."""
    if not (_asked.is_set() and sys.stdin.isatty() and err.is_terminal and not err.quiet):
        return True
    return err.input(f"{question}? [y/N] ", markup=False).strip().lower() in ("y", "yes")


class RateColumn(ProgressColumn):
    """Parts a second, once some are done."""

    def render(self, task: Bar) -> Text:
        return Text(rate(task.completed, task.elapsed or 0.0), style="progress.data.speed")


def rate(done: float, seconds: float) -> str:
    """The rate in parts per second, as text; empty if it is not known yet."""
    return f"{done / seconds:.3g}/s" if done and seconds else ""


class Progress:
    """Counts the parts of a stage as they end. Use as a context.

    A stage of several parts shows how many are done, at what rate, and the time that remains; one of a single part
    shows the time it has taken. `idle` counts the seconds in which other stages ran instead.
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
        """The words of the stage's last line: its parts, their time, and their rate if the stage was long."""
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
    """Whether a flow run is active, with a page in Prefect's UI: a replay has none."""
    from prefect.context import FlowRunContext  # heavy: commands without stages do without it

    return FlowRunContext.get() is not None


def watch() -> None:
    """From now on, end this process upon a signal, with its sentence and the shell's exit status, 128 plus its number.

    To be called first, in the main thread of a command. A signal that is ignored, as under nohup, stays ignored.
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
    """Have processes that a command starts from now on ignore Ctrl-C: they end silently with the command."""
    if _watched.is_set():
        resource_tracker.ensure_running()  # started first: starting it unblocks Ctrl-C
        _shield()


def end_with_parent() -> None:
    """In a worker process: end when the parent process ends, since no signal would tell of that."""
    threading.Thread(target=_follow, daemon=True).start()


def leave(status: int, sentence: str) -> None:
    """End this process and its children now, if it is a command under `watch`."""
    if not _watched.is_set():
        return
    _leaving.acquire()  # never released: the first caller gives the reason
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
    """Block Ctrl-C in this thread, its later threads and their processes; only the listening thread takes it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
