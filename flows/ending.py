"""The end of a command by a signal.

A command may be killed anywhere: a spend is in vault and ledger before anybody sees its result, and the next run goes
on from there (tests/promises/test_crash.py). So an interrupted command ends at once, with one sentence, and
nothing is unwound: unwinding would wait for the current operation, and for Prefect's reports to its server, which takes
minutes if the server is gone. Python writes each signal into a pipe as it arrives, whatever handler is set and whatever
the main thread does; a thread reads it and ends the process. Nothing heavy is imported here, since until `watch` is
called a signal ends in a traceback. Checked by tests/promises/test_endings.py.
"""

import os
import signal
import sys
import threading
from contextlib import suppress

NOTHING_LOST = "the budget already charged stays valid: the same command goes on"
NOTHING_CHARGED = "nothing was charged: give the same command again"
ENDED = {
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "ended by SIGTERM",
    signal.SIGHUP: "ended, since its terminal was closed",
}
LEAVING_PATIENCE = 2.0
"""Seconds after which a command ends without printing its sentence: a stopped terminal takes no output."""
CLEAR = "\r\x1b[2K\x1b[?25h"
"""Erases a line of progress, and shows the cursor."""

_watched, may_charge = threading.Event(), threading.Event()
"""Whether a command is watched, and whether it has come so far that it may charge a domain."""
_leaving = threading.Lock()


def watch() -> None:
    """From now on, end this process upon a signal, with its sentence and the shell's exit status, 128 plus its number.

    To be called first, in the main thread of a command. A signal that is ignored, as under nohup, stays ignored.
    """
    _watched.set()
    signals, result = os.pipe()
    os.set_blocking(result, False)
    signal.set_wakeup_fd(result, warn_on_full_buffer=False)
    for number in ENDED:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, lambda *_: None)

    def hear() -> None:
        number = signal.Signals(os.read(signals, 1)[0])
        while number not in ENDED:
            number = signal.Signals(os.read(signals, 1)[0])
        leave(128 + number, sentence(number))

    threading.Thread(target=hear, daemon=True).start()
    _shield()


def sentence(number: signal.Signals) -> str:
    """What a command that this signal ends says of itself."""
    return f"{ENDED[number]}; {NOTHING_LOST if may_charge.is_set() else NOTHING_CHARGED}"


def shield_workers() -> None:
    """Have processes that a command starts from now on ignore Ctrl-C: they end silently with the command."""
    if _watched.is_set():
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()  # started first: starting it unblocks Ctrl-C
        _shield()


def leave(status: int, sentence: str) -> None:
    """End this process and its children now, if it is a command under `watch`."""
    if not _watched.is_set():
        return

    def say() -> None:
        clear = CLEAR if os.isatty(2) else ""
        with suppress(OSError):
            os.write(2, f"{clear}concord: {sentence}\n".encode())

    _leaving.acquire()  # never released: the first caller gives the reason
    last_words = threading.Thread(target=say, daemon=True)
    last_words.start()
    last_words.join(LEAVING_PATIENCE)
    loaded = sys.modules.get("multiprocessing")  # to import it would wait for what the main thread imports just now
    for child in getattr(loaded, "active_children", list)():
        child.kill()
    os._exit(status)


def _shield() -> None:
    """Block Ctrl-C in this thread, its later threads and their processes; only the listening thread takes it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
