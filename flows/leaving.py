"""How a command ends when it is asked to: at once, at whatever point, in one sentence.

A command may die anywhere: what is spent is in vault and ledger before anybody sees it, and the next run goes on from
there (tests/promises/test_crash_learn.py). So nothing is unwound: unwinding waits for whatever the command is at, and
Prefect tells its server, for minutes if that is gone. Python writes each signal into a pipe as it arrives, whoever
handles it and whatever the main thread is at; a thread reads it and ends the process. Checked by
tests/promises/test_ending.py.
"""

import multiprocessing
import os
import signal
import threading
from contextlib import suppress
from multiprocessing import resource_tracker

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
