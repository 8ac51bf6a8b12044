"""The command line, which stops for good at one place, so that a test can do to it there what it likes:

    python -m tests.promises.stalling PLACE ARGUMENTS OF CONCORD

PLACE   "starting", while its server starts; or the name of a stage, after its work and before it is over. Where a
        worker fits a teacher stops by the learner `Stuck`, in whatever thread or process
It stops in C, where Python's handlers of signals are not called, and says so first on standard error.
"""

import hashlib
import multiprocessing
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from sklearn.linear_model import LogisticRegression

STUCK = "stuck at "


def stop(place: str) -> None:
    """Stop, for longer than any test waits."""
    os.write(2, f"{STUCK}{place}\n".encode())
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000_000)


class Stuck(LogisticRegression):  # type: ignore[misc]
    """A learner that never ends, but for the rehearsal in the main thread of the command."""

    def fit(self, *rows: Any) -> Any:
        if multiprocessing.parent_process() or threading.current_thread() is not threading.main_thread():
            stop("fit")
        return super().fit(*rows)


def stall(place: str) -> None:
    """Have this process stop at that place."""
    if place == "starting":
        from concord.flows.server import Server

        Server.check_answers = lambda _: stop("starting")  # type: ignore[assignment,method-assign]
        return
    from concord.flows.stage import Stages

    true = Stages._timed

    def timed(self: Stages, name: Any, run: Callable[[Any], list[Any]], total: int = 1) -> list[Any]:
        def stopping(progress: Any) -> list[Any]:
            results = run(progress)
            if name == place:
                stop(place)
            return results

        return true(self, name, stopping, total)

    Stages._timed = timed  # type: ignore[method-assign]


if __name__ == "__main__":
    from concord.flows.cli import main

    stall(sys.argv.pop(1))
    main()
