"""Progress of a release, for an observer: drawing and decoding a round of many classes takes minutes.

Only numbers of draws and of classes are told, which are public, and never what was drawn.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Told = Callable[[int, int], None]
_told: ContextVar[Told] = ContextVar("told", default=lambda _done, _size: None)


@contextmanager
def telling(told: Told) -> Iterator[None]:
    """Within the context, `told` is called with how many steps are done, and how many there are."""
    token = _told.set(told)
    try:
        yield
    finally:
        _told.reset(token)


def tell(done: int, size: int) -> None:
    """Report to the observer that so many steps of `size` are done."""
    _told.get()(done, size)
