"""Seasons of streams: exact δ of a unit that arrives whenever an asker says, who opens whatever the ledger admits.

Sessions are randomised responses to whether the unit is there. A season asks it only if it arrives in that season,
which the asker decides by what was released; a session over all units asks it always. The worst is found by trying all.
The ledger is the real one; faults are planted in it.
"""

import math
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import pytest

from tests.privacy.ledgers import DELTA, DOMAIN, EPSILON, named, opening
from tests.support.openings import InMemory
from tests.support.planted import FAULTS, SEASONS
from tests.world import BudgetRefused, Cost, Opening

MOST = 4
"""Sessions that an asker opens."""


class Asked(NamedTuple):
    """A session: its ε, the stream of which it is a season, and whether an older copy was put back before."""

    epsilon: float
    stream: str = ""
    restored: bool = False


LARGE, SMALL = 1.2, 0.1
"""The cap covers two of the first kind nowhere, and one with some of the second."""
KINDS = (Asked(LARGE), *(Asked(epsilon, stream) for stream in "ab" for epsilon in (LARGE, SMALL)))
RESTORED = (Asked(LARGE, "a"), Asked(SMALL, "a", restored=True), Asked(LARGE, "a", restored=True))
"""Seasons before and after an older copy of the home was put back, which does not know whom those before asked."""


def season(name: str, asked: Asked) -> Opening:
    return opening(name, asked.epsilon, stream=asked.stream)


def book_of(opened: Iterable[Asked]) -> InMemory | None:
    """The ledger after those sessions, each of which has ended. None: the last is refused."""
    book, lost = named(), False
    for number, asked in enumerate(opened):
        if asked.restored and not lost:
            book.restore("the disk died")
            lost = True
        try:
            book.open_session(season(f"s-{number}", asked), further=True)
        except BudgetRefused:
            return None
        book.settle(f"s-{number}", give_back=False)
    return book


def worst(kinds: tuple[Asked, ...]) -> float:
    """The largest δ at EPSILON that any asker reaches of whether a unit is there."""

    @cache
    def admitted(opened: tuple[Asked, ...]) -> bool:
        return book_of(opened) is not None

    @cache
    def gain(opened: tuple[Asked, ...], arrived: frozenset[tuple[str, bool]], loss: float) -> float:
        """Σ (1 − e^(ε − loss))⁺ that is still to be had of a unit that is known to those streams."""
        best = max(0.0, 1 - math.exp(EPSILON - loss))
        for asked in kinds if len(opened) < MOST else ():
            more, here = (*opened, asked), (asked.stream, asked.restored)
            if (opened and opened[-1].restored and not asked.restored) or not admitted(more):
                continue
            if asked.stream:  # it waits, or has been asked
                best = max(best, gain(more, arrived, loss))
            if here in arrived:
                continue
            odds, then = 1 / (1 + math.exp(-asked.epsilon)), arrived | ({here} if asked.stream else set())
            turned = round(loss + asked.epsilon, 6), round(loss - asked.epsilon, 6)
            best = max(best, odds * gain(more, then, turned[0]) + (1 - odds) * gain(more, then, turned[1]))
        return best

    return gain((), frozenset(), 0.0)


def test_a_unit_keeps_the_cap_in_whichever_seasons_it_arrives() -> None:
    assert worst(KINDS) <= DELTA


def test_what_follows_a_restored_copy_may_ask_units_again_and_adds() -> None:
    assert worst(RESTORED) <= DELTA


def test_any_number_of_seasons_fits_beside_sessions_that_ask_everybody() -> None:
    small = Asked(SMALL)
    book = book_of([Asked(LARGE, "a"), small, *[Asked(LARGE, "a")] * 5, Asked(SMALL, "a"), Asked(SMALL, "b")])
    assert book is not None
    each = [DOMAIN.filter.charge(Cost.approximate(epsilon)) for epsilon in (LARGE, SMALL)]
    assert book.total("people") == each[0] + each[1].times(2)
    assert book_of([Asked(LARGE), Asked(LARGE)]) is None
    assert book_of([Asked(LARGE, "a"), Asked(LARGE, "b")]) is None


def test_seasons_follow_one_another_and_a_further_stream_must_be_asked_for() -> None:
    book = book_of([Asked(SMALL, "a")])
    assert book is not None
    book.open_session(season("s-1", Asked(SMALL, "a")), further=False)
    with pytest.raises(BudgetRefused, match="a season of stream 'a' is open"):
        book.open_session(season("s-2", Asked(SMALL, "a")), further=True)
    with pytest.raises(BudgetRefused, match="must be asked for"):
        book.open_session(season("s-2", Asked(SMALL, "b")), further=False)
    restored = book_of(RESTORED[:2])
    assert restored is not None
    with pytest.raises(BudgetRefused, match="must be asked for"):
        restored.open_session(season("s-2", RESTORED[1]), further=False)


# Faults in the ledger -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", SEASONS)
def test_a_planted_fault_breaks_the_cap(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    monkeypatch.setattr(*SEASONS[fault])
    assert worst(KINDS) > DELTA


def test_a_restored_copy_that_is_believed_breaks_the_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS["believes a restored copy"])
    assert worst(RESTORED) > DELTA
