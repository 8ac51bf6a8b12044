"""Private work: nothing of the data may leave it by an error, a warning, a log or a print.

Checked by tests/tasks/data/test_private.py.
"""

import ctypes
import functools
import logging
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from contextvars import ContextVar
from typing import Any, ParamSpec, TextIO, TypeVar, cast

from polars.exceptions import PanicException
from threadpoolctl import ThreadpoolController

from concord.artifacts.errors import ConcordError, EnvironmentFailed

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

PRIVATE_FAILURES = (Exception, PanicException, SystemExit)
"""What the work on private rows may end in. A fit that leaves the program must not: its exit status would be theirs."""


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
        except PRIVATE_FAILURES as failed:
            kind = type(failed).__name__
        raise EnvironmentFailed(f"stage {work.__name__} failed ({kind}); nothing of the data is shown")

    return guarded


@contextmanager
def silenced() -> Iterator[None]:
    """Fits and predictions inside it are silent (no print, log or warning, in this thread; nothing reaches the
    process's own standard output, whoever writes there) and on one core each, so that sums are added in one order and
    a teacher is the same however many are trained beside it."""
    token = _silent.set(True)
    _silence.enter()
    try:
        with _libraries(len(sys.modules)).limit(limits=1, user_api="openmp"):  # which counts its threads by caller
            yield
    finally:
        _silence.leave()
        _silent.reset(token)


@functools.lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:  # noqa: ARG001  # a library comes with a module
    """The libraries that have threads of their own, looked for once for so many modules: that takes milliseconds."""
    return ThreadpoolController()


class _Valve:
    """A stream that swallows what a silent thread writes; in all else, the stream it stands for."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, words: str) -> int:
        return len(words) if _silent.get() else self._stream.write(words)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Silence:
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
                self._undo.enter_context(_logs_hushed())
                self._undo.enter_context(_descriptor_hushed(1))
                self._undo.enter_context(redirect_stdout(cast(TextIO, _Valve(sys.stdout))))
                self._undo.enter_context(redirect_stderr(cast(TextIO, _Valve(sys.stderr))))
                self._undo.enter_context(_libraries(len(sys.modules)).limit(limits=1, user_api="blas"))

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._undo.close()


@contextmanager
def _logs_hushed() -> Iterator[None]:
    """Handlers pass over what a silent thread logs: those of Prefect hold streams, or send it to a server."""
    named = [logger for logger in logging.root.manager.loggerDict.values() if isinstance(logger, logging.Logger)]
    handlers = [handler for logger in (logging.root, *named) for handler in logger.handlers]
    for handler in handlers:
        handler.addFilter(_heard)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(_heard)


def _heard(_: logging.LogRecord) -> bool:
    return not _silent.get()


@contextmanager
def _descriptor_hushed(descriptor: int) -> Iterator[None]:
    """What is written to `descriptor` goes nowhere: compiled code, such as liblinear's, knows nothing of sys.stdout."""
    try:
        kept = os.dup(descriptor)
    except OSError:
        yield  # it is closed: nobody can hear it
        return
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)  # what C holds back would be heard later
        os.dup2(kept, descriptor)
        os.close(kept)


_silent: ContextVar[bool] = ContextVar("silent", default=False)
_silence = _Silence()
