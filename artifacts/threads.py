"""Threads that stop when the thread that waits for them is interrupted.

Python raises Ctrl-C, and Prefect SIGTERM, in the main thread alone, and a pool of threads is waited for until all that
it has begun is done. Here what others run is stopped by an exception of its own, before the wait.

Assumes      CPython, which can raise an exception in another thread, between two steps of its program
Guarantees   of an interrupted context nothing further begins, and what runs ends with the call into compiled code that
             it is in; a thread that works for nobody is never stopped
Not covered  how long such a call takes; a thread that starts as the signal comes: it stops, but is not waited for.
             Checked by tests/artifacts/test_process.py
"""

import ctypes
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

Given = TypeVar("Given")
Returned = TypeVar("Returned")
NAP = 0.1
"""The longest time in seconds that the thread that waits hears no signal."""


class Abandoned(BaseException):
    """Raised in a thread whose result nobody waits for any more."""


class Threads(ThreadPoolExecutor):
    """A pool whose `each` stops if the context is left by an interruption, rather than by an error."""

    def __init__(self, workers: int) -> None:
        super().__init__(workers)
        self._working, self._turn, self._interrupted = set[int](), threading.Lock(), False

    def each(self, work: Callable[[Given], Returned], items: Iterable[Given]) -> Iterator[Returned]:
        """The results of `work` on each item, in order."""

        def stoppable(item: Given) -> Returned:
            here = threading.get_ident()
            with self._turn:
                if self._interrupted:
                    raise Abandoned
                self._working.add(here)
            try:
                return work(item)
            finally:
                with self._turn:
                    self._working.discard(here)

        futures = [self.submit(stoppable, item) for item in items]
        for future in futures:
            while not future.done():  # a signal may arrive in another thread, and is heard when this one wakes
                wait([future], NAP)
            yield future.result()

    def __exit__(self, kind: type[BaseException] | None, *rest: Any) -> bool | None:
        if kind is not None and not issubclass(kind, Exception):
            self.shutdown(wait=False, cancel_futures=True)
            with self._turn:
                self._interrupted = True
                for thread in self._working:  # none of them ends its work before it has its turn
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(Abandoned))
        return super().__exit__(kind, *rest)
