"""The command line, stopped at one place, so that a test can interfere with it there:

    python -m tests.promises.stalling PLACE ARGUMENTS OF CONCORD

PLACE   "starting", while its server starts; or the name of a stage, after its work and before its end. To stop in a
        worker that fits a teacher, a plan names the learner `Stuck`, in whatever thread or process
It prints a line on standard error, then stops for good, in C, where Python's signal handlers are not called. With a `+`
after PLACE it stops until a line comes on standard input.
"""

import hashlib
import multiprocessing
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sklearn.linear_model import LogisticRegression

STUCK = "stuck at "


def stop(place: str, resumed: str = "") -> None:
    """Stop, for longer than any test waits, or until a line comes if it is to be resumed."""
    os.write(2, f"{STUCK}{place}\n".encode())
    if resumed:
        os.read(0, 1)
        return
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2_000_000_000)


class Stuck(LogisticRegression):  # type: ignore[misc]
    """A learner that never finishes, except in the rehearsal in the main thread of the command."""

    def fit(self, *rows: Any) -> Any:
        if multiprocessing.parent_process() or threading.current_thread() is not threading.main_thread():
            stop("fit")
        return super().fit(*rows)


def stall(at: str) -> None:
    """Have this process stop at that place."""
    place, resumed, _ = at.partition("+")
    if place == "starting":
        from tests.world import flows_server

        answers = flows_server._by_own

        def started(*given: Any) -> None:
            stop("starting", resumed)
            answers(*given)

        flows_server._by_own = started  # type: ignore[assignment]
        return
    from tests.world import Begun, Stages

    if place == "poll":  # part of the stage that runs around it
        begin = Stages.begin

        def begun(self: Stages, work: Any, arguments: Any) -> Begun:
            ended = begin(self, work, arguments)

            def stopping() -> tuple[Any, bool]:
                result = ended()
                stop(place, resumed)
                return result

            return stopping

        Stages.begin = begun  # type: ignore[method-assign]
        return
    true = Stages._shown

    @contextmanager
    def shown(self: Stages, name: Any, total: int = 1) -> Iterator[Any]:
        with true(self, name, total) as progress:
            yield progress
            if name == place:
                stop(place, resumed)

    Stages._shown = shown  # type: ignore[method-assign]


def stall_once_prepared(at: str) -> None:
    """As `stall`, arranged once Prefect's settings are made, since Prefect reads them on import."""
    from tests.world import flows_home

    prepare, places = flows_home.prepare, [at]

    def prepared(*home: Any, **how: Any) -> Any:
        result = prepare(*home, **how)
        while places:  # a command prepares its home more than once
            stall(places.pop())
        return result

    flows_home.prepare = prepared


if __name__ == "__main__":
    from tests.world import main

    stall_once_prepared(sys.argv.pop(1))
    main()
