"""The ledger's parts: what is frozen, and what a domain is charged by them. What each part is charged, and seasons, are
in test_ledger_model.py, by planted faults, and exactly in tests/privacy/test_divided.py and test_seasons.py."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.chained import rewrite
from tests.support.openings import InMemory
from tests.support.planted import DIVISION, SOME, ask, named
from tests.world import (
    EVERY,
    LEARNING,
    TEST,
    Charge,
    Counted,
    Entry,
    Ledger,
    LogRecord,
    NotVerified,
    WrongInput,
    artifacts_parts,
    ledger_faults,
    running_totals,
)


def test_nats_and_delta_are_each_the_most_of_any_part() -> None:
    totals = {LEARNING: charge(3, 1), TEST: charge(2, 5)}
    assert artifacts_parts.largest(totals) == charge(3, 5)
    charges = [Counted(LEARNING, "", charge(3, 1)), Counted(TEST, "", charge(2, 5)), Counted(EVERY, "", charge(1, 0))]
    assert list(running_totals(charges)) == [charge(0, 0), charge(3, 1), charge(3, 5), charge(4, 5)]


def charge(nats: int, delta: int) -> Charge:
    return Charge(renyi=Charge().renyi + nats, delta=Charge().delta + delta)


def test_a_domain_is_divided_once() -> None:
    ledger = named(InMemory())
    ledger.divide("people", DIVISION)
    lines = len(ledger.records())
    ledger.divide("people", DIVISION)
    ledger.divide("people", replace(DIVISION, commitment="another key"))
    assert len(ledger.records()) == lines
    assert ledger.division("people") == DIVISION
    for other in (replace(DIVISION, share=0.2), replace(DIVISION, naming="{}")):
        with pytest.raises(WrongInput, match="divided once"):
            ledger.divide("people", other)
        with pytest.raises(WrongInput, match="divided once"):
            ledger.check_division("people", other)
    with pytest.raises(WrongInput, match="no domain"):
        ledger.divide("nobody", DIVISION)
    second = LogRecord.after(ledger._state.head, Entry(domain="people", event=DIVISION), at="now")
    with pytest.raises(NotVerified, match="contradicts"):
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
    ledger = named(Ledger.of(tmp_path))
    ledger.divide("people", DIVISION)
    ask(ledger, SOME, part=LEARNING, division=DIVISION.commitment)
    rewrite(tmp_path, change)
    assert any(wrong in item for item in ledger_faults(Ledger.of(tmp_path).records()))
