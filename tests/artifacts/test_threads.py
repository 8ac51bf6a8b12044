"""Threads end with the thread that waits for them, and not before."""

import signal
import threading
import time
from collections.abc import Iterator
from itertools import count

import pytest

from tests.world import Abandoned, Threads


def test_results_are_in_order() -> None:
    with Threads(3) as pool:
        assert list(pool.each(lambda item: -item, range(10))) == [-item for item in range(10)]


def test_what_runs_is_stopped_by_a_signal_that_another_thread_gets_and_nothing_else_begins() -> None:
    """A pool of Python's own waits until all is done, and may not even hear of the signal before."""
    begun, ended = list[int](), list[type[BaseException]]()
    running, submitted = threading.Event(), threading.Event()

    def items() -> Iterator[int]:
        yield from range(20)
        submitted.set()  # the signal comes while the pool is waited for, not amid Python's own `submit`

    def work(item: int) -> None:
        begun.append(item)
        try:
            if item == 0:
                running.set()
            if item == 1:
                running.wait(60)
                submitted.wait(60)
                signal.pthread_kill(threading.get_ident(), signal.SIGINT)
            for _ in count():  # for ever
                time.sleep(0.001)
        except BaseException as end:
            ended.append(type(end))
            raise

    with pytest.raises(KeyboardInterrupt), Threads(2) as pool:
        list(pool.each(work, items()))
    assert (sorted(begun), ended) == ([0, 1], [Abandoned, Abandoned])


def test_an_error_lets_what_was_begun_end() -> None:
    begun, ended = threading.Event(), list[int]()

    def work(item: int) -> int:
        if item == 0:
            begun.wait(60)
            raise ValueError("the first")
        begun.set()
        time.sleep(0.05)
        ended.append(item)
        return item

    def failing() -> None:
        with Threads(2) as pool:
            for _ in pool.each(work, range(2)):
                pass

    with pytest.raises(ValueError, match="the first"):
        failing()
    assert ended == [1]
