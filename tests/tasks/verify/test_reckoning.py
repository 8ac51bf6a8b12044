"""The ledger's rule kept a second time: ledgers that break it and are chained well are found, whoever broke it.

An honest ledger passes. What breaks the rule passes the chain and the book, and not this. What code with a fault in it
writes: tests/artifacts/ledger/test_ledger_model.py.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.chained import Said, rewrite
from tests.support.openings import batch
from tests.support.planted import STABLE, asked, chosen, named
from tests.support.sentences import says
from tests.world import HIDDEN, NEIGHBOURS, Draw, Ledger, Mechanism, NotVerified, ledger_faults, verify


def test_the_neighbours_it_knows_are_those_that_domains_compare() -> None:
    """It shares no line with what writes the ledger, so it has the words a second time."""
    assert HIDDEN == NEIGHBOURS


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CONCORD_LEDGER", raising=False)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def found(ledger: Ledger) -> list[str]:
    """What breaks the rule in a ledger that chain and book believe."""
    ledger.verify()
    return list(ledger_faults(ledger.records()))


def at(place: int, *path: str, value: Any) -> Callable[[list[Said]], None]:
    def change(result: list[Said]) -> None:
        part: Any = result[place].body
        for step in path[:-1]:
            part = part[step]
        assert part[path[-1]] != value
        part[path[-1]] = value

    return change


def opened(home: Path, mechanism: Mechanism = STABLE) -> None:
    ledger = named(Ledger.of(home))
    ledger.open_session(asked(mechanism, "s-1"))


def said_of(home: Path) -> str:
    """What verify says of the rule, where it finds nothing wrong with the chain; nothing where it holds."""
    checks = {check.name: check for check in verify(home)}
    assert checks["ledger chain"].ok
    return "" if checks["ledger rule"].ok else checks["ledger rule"].detail


def test_sessions_that_ask_everybody_are_no_seasons_of_a_stream(home: Path) -> None:
    """The largest of them would be all that is covered."""
    opened(home)
    rewrite(home, at(1, "stream", value="people-weekly"))
    assert says(said_of(home), "entry 2", "s-1", "stream", "'stable'")


def test_a_refusal_that_costs_next_to_nothing_is_found(home: Path) -> None:
    opened(home)
    assert said_of(home) == ""
    rewrite(home, at(1, "per_refusal", "renyi", value="1E-18"))
    assert says(said_of(home), "entry 2", "s-1", "refusal", "1e-18 nats")


@pytest.mark.parametrize("where", [1, 3], ids=["before anything was begun", "again under its name"])
def test_noise_drawn_out_of_turn_is_found(home: Path, where: int) -> None:
    opened(home)
    ledger = Ledger.of(home)
    ledger.begin_batch("s-1", batch())
    ledger.record_draw("s-1", Draw(name="answers-00000", digest="of the draw"))
    assert found(ledger) == []
    rewrite(home, lambda lines: lines.insert(where + 1, lines[3]))
    with pytest.raises(NotVerified, match=r"\('draw'\)"):
        Ledger.of(home).verify()
    assert says(str(list(ledger_faults(Ledger.of(home).records()))), "noise", "no batch", "again")


def test_a_choice_that_hides_other_neighbours_than_its_domain_is_found(home: Path) -> None:
    ledger = named(Ledger.of(home))
    ledger.open_session(chosen("s-1", secret="labels"))
    assert says(said_of(home), "entry 2", "s-1", "labels")
