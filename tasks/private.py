"""Private work: nothing of the data may leave it by an error, a warning or a print.

Checked by tests/test_private.py.
"""

import functools
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from contextvars import ContextVar
from typing import Any, ParamSpec, TextIO, TypeVar, cast

from polars.exceptions import PanicException
from threadpoolctl import threadpool_limits

from artifacts.errors import ConcordError, EnvironmentFailed

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def private_stage(work: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A stage whose failures say the stage and the kind of error alone; our own errors hold no values and pass.

    Raised outside the handler, so that neither the message nor the chain of causes holds what was being read.
    """

    @functools.wraps(work)
    def guarded(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return work(*args, **kwargs)
        except ConcordError:
            raise
        except (Exception, PanicException) as failed:
            kind = type(failed).__name__
        raise EnvironmentFailed(f"stage {work.__name__} failed ({kind}); nothing of the data is shown")

    return guarded


@contextmanager
def calm() -> Iterator[None]:
    """Fits and predictions inside it are silent (no print, no warning, in this thread) and on one core each, so that
    sums are added in one order and a teacher is the same however many are trained beside it."""
    token = _silent.set(True)
    _calm.enter()
    try:
        with threadpool_limits(1, user_api="openmp"):  # OpenMP counts its threads by caller
            yield
    finally:
        _calm.leave()
        _silent.reset(token)


class _Valve:
    """A stream that swallows what a silent thread writes; in all else, the stream it stands for."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, words: str) -> int:
        return len(words) if _silent.get() else self._stream.write(words)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Calm:
    """What is the whole process's: set by the first thread that enters, undone by the last that leaves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._undo = ExitStack()

    def enter(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._undo.enter_context(warnings.catch_warnings())
                warnings.simplefilter("ignore")
                self._undo.enter_context(redirect_stdout(cast(TextIO, _Valve(sys.stdout))))
                self._undo.enter_context(redirect_stderr(cast(TextIO, _Valve(sys.stderr))))
                self._undo.enter_context(threadpool_limits(1, user_api="blas"))

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._undo.close()


_silent: ContextVar[bool] = ContextVar("silent", default=False)
_calm = _Calm()
