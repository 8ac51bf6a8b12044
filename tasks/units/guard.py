"""Guards of work on private rows: no data may leave by an error, a warning, a log or a print.

Checked by tests/tasks/units/test_private.py.
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
"""Exceptions caught from work on private rows. SystemExit is one: an exit status must not depend on private rows."""


def private_stage(work: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """A stage whose failures show only the stage and the kind of error; our own errors hold no values and pass.

    The error is raised outside the handler, so that neither message nor chain of causes holds private data.
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
    """Context for fits and predictions. They are silent: no print, log or warning of this thread is seen, and nothing
    reaches the process's standard output. They run on one core each, so that sums are added in one order and a teacher
    does not depend on how many are trained at once."""
    token = _silent.set(True)
    _silence.enter()
    try:
        with _libraries(len(sys.modules)).limit(limits=1, user_api="openmp"):  # OpenMP's limit is per calling thread
            yield
    finally:
        _silence.leave()
        _silent.reset(token)


@functools.lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:  # noqa: ARG001  # a library comes with a module
    """The libraries that have threads of their own, searched again only if there are more modules: it takes
    milliseconds."""
    return ThreadpoolController()


class _Valve:
    """A stream that discards the output of silent threads and otherwise behaves as the stream it wraps."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, words: str) -> int:
        return len(words) if _silent.get() else self._stream.write(words)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Silence:
    """Settings of the whole process, set by the first thread that enters and undone by the last that leaves."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._undo = ExitStack()

    def enter(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside > 1:
                return
            self._undo.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            named = [log for log in logging.root.manager.loggerDict.values() if isinstance(log, logging.Logger)]
            for handler in [handler for logger in (logging.root, *named) for handler in logger.handlers]:
                handler.addFilter(_heard)  # those of Prefect hold streams, or send records to a server
                self._undo.callback(handler.removeFilter, _heard)
            self._undo.enter_context(_descriptor_hushed(1))
            self._undo.enter_context(redirect_stdout(cast(TextIO, _Valve(sys.stdout))))
            self._undo.enter_context(redirect_stderr(cast(TextIO, _Valve(sys.stderr))))
            self._undo.enter_context(_libraries(len(sys.modules)).limit(limits=1, user_api="blas"))

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._undo.close()


def _heard(_: logging.LogRecord) -> bool:
    """Whether a log handler takes a record: not those of silent threads."""
    return not _silent.get()


@contextmanager
def _descriptor_hushed(descriptor: int) -> Iterator[None]:
    """Discard output to `descriptor`: compiled code, such as liblinear's, does not use sys.stdout."""
    try:
        kept = os.dup(descriptor)
    except OSError:
        yield  # it is closed, so nothing can be seen
        return
    sys.stdout.flush()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)  # output buffered by C would appear later
        os.dup2(kept, descriptor)
        os.close(kept)


_silent: ContextVar[bool] = ContextVar("silent", default=False)
_silence = _Silence()
