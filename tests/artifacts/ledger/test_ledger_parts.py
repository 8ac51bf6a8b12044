"""The ledger's parts: what is frozen, and what a domain is charged by them. What each part is charged, and seasons, are
in test_ledger_model.py, by planted faults, and exactly in tests/privacy/test_divided.py and test_seasons.py."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests import world
from tests.support.chained import rewrite
from tests.support.openings import InMemory
from tests.support.planted import DIVISION, SOME, ask, named


def test_nats_and_delta_are_each_the_most_of_any_part() -> None:
    totals = {world.LEARNING: charge(3, 1), world.TEST: charge(2, 5)}
    assert world.artifacts_parts.largest(totals) == charge(3, 5)
    charges = [
        world.Counted(world.LEARNING, "", charge(3, 1)),
        world.Counted(world.TEST, "", charge(2, 5)),
        world.Counted(world.EVERY, "", charge(1, 0)),
    ]
    assert list(world.running_totals(charges)) == [charge(0, 0), charge(3, 1), charge(3, 5), charge(4, 5)]


def charge(nats: int, delta: int) -> world.Charge:
    return world.Charge(renyi=world.Charge().renyi + nats, delta=world.Charge().delta + delta)


def test_a_domain_is_divided_once() -> None:
    ledger = named(InMemory())
    ledger.divide("people", DIVISION)
    lines = len(ledger.records())
    ledger.divide("people", DIVISION)
    ledger.divide("people", replace(DIVISION, commitment="another key"))
    assert len(ledger.records()) == lines
    assert ledger.division("people") == DIVISION
    for other in (replace(DIVISION, share=0.2), replace(DIVISION, naming="{}")):
        with pytest.raises(world.WrongInput, match="divided once"):
            ledger.divide("people", other)
        with pytest.raises(world.WrongInput, match="divided once"):
            ledger.check_division("people", other)
    with pytest.raises(world.WrongInput, match="no domain"):
        ledger.divide("nobody", DIVISION)
    second = world.LogRecord.after(ledger._state.head, world.Entry(domain="people", event=DIVISION), at="now")
    with pytest.raises(world.NotVerified, match="contradicts"):
        ledger._state.read(second)


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda entries: entries.insert(2, entries[1]), "divided before"),
        (lambda entries: entries[1].body.update(share=1.5), "the division is not valid"),
        (lambda entries: entries[2].body.update(part="nobody"), "names a part that does not exist"),
    ],
)
def test_a_ledger_that_breaks_the_rule_of_parts_is_found(
    tmp_path: Path, change: Callable[[list[Any]], object], wrong: str
) -> None:
    ledger = named(world.Ledger.of(tmp_path))
    ledger.divide("people", DIVISION)
    ask(ledger, SOME, part=world.LEARNING, division=DIVISION.commitment)
    rewrite(tmp_path, change)
    assert any(wrong in item for item in world.ledger_faults(world.Ledger.of(tmp_path).records()))
