"""Progress of a release, for an observer: drawing and decoding a round of many classes takes minutes.

Only numbers of draws and of classes are reported, which are public, and never what was drawn.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Observer = Callable[[int, int], None]
_observer: ContextVar[Observer] = ContextVar("observer", default=lambda _done, _size: None)


@contextmanager
def reporting(observer: Observer) -> Iterator[None]:
    """Within the context, `observer` is called with how many steps are done, and how many there are."""
    token = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(token)


def report(done: int, size: int) -> None:
    """Report to the observer that so many steps of `size` are done."""
    _observer.get()(done, size)
