"""The command line's console script, which a signal ends in one sentence from its first moment.

Offers       `main`
Its own      `commands` (the command line; to plan, run and extend); the other commands: `record`;
             `advice` (questions and output of `init` and `plan`), `show` (other output), `app` (what commands
             share: options, start and end; their order in --help)
"""

import ctypes
import gc
import importlib
import os
import sys
from contextlib import suppress

from concord.flows.ending import watch

YOUNG = 100_000
"""Objects that are made before garbage is looked for. Imports make half a million, none of them garbage: Python's own
700 cost a tenth of a cached run."""

M_ARENA_MAX = -8
"""From <malloc.h> of GNU's C library: sets the most heaps from which threads take memory."""


def main() -> None:
    """Run `concord.flows.cli.commands.command` in a process that a signal ends at once."""
    gc.set_threshold(YOUNG)
    share_heap()
    open_streams()
    watch()
    try:
        importlib.import_module("concord.flows.cli.commands").command()  # a quarter of a second, when Ctrl-C may come
    finally:
        gc.freeze()  # the process ends anyway: a last collection would take up to two seconds


def share_heap() -> None:
    """Have all threads take memory from one heap, where the C library can. By itself it gives them several, and what is
    freed in one is not used by another: a run of a million rows took 300 MiB more at its peak, and no less time."""
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def open_streams() -> None:
    """Open standard input, output and error as empty files where they are closed, as some that start daemons leave
    them: the next file that is opened, such as the ledger, would get the number, and what is printed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            descriptor = os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
            os.set_inheritable(descriptor, True)
            setattr(sys, name, os.fdopen(descriptor, mode, encoding="utf-8"))
