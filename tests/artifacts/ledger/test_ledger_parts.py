"""The ledger's parts: what is frozen, what each part is charged, and a second reckoning that sees faults in it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.chained import rewrite
from tests.support.openings import InMemory
from tests.support.planted import DIVISION, SMALL_SEASON, SOME, SOME_SEASON, TESTED, ask, named, season
from tests.world import (
    EVERY,
    LEARNING,
    TEST,
    Charge,
    Counted,
    DomainCharge,
    Entry,
    Ledger,
    LogRecord,
    NotVerified,
    WrongInput,
    artifacts_parts,
    ledger_faults,
    running_totals,
)

OWN: dict[str, Any] = {"division": DIVISION.commitment}


def in_memory(*, divided: bool = True) -> InMemory:
    """A ledger whose domain is divided, or not yet."""
    ledger = InMemory()
    named(ledger)
    if divided:
        ledger.divide("people", DIVISION)
    return ledger


def test_the_domain_pays_the_larger_of_its_parts() -> None:
    ledger = in_memory()
    ask(ledger, SOME, part=LEARNING, **OWN)
    learning = ledger.total("people")
    ask(ledger, TESTED, part=TEST, **OWN)
    tested = ledger.domains()[0].filter.charge(TESTED.cost)
    assert ledger.totals("people") == {LEARNING: learning, TEST: tested}
    assert ledger.total("people").amounts == tuple(map(max, learning.amounts, tested.amounts))
    ask(ledger, SOME)
    assert ledger.total("people").amounts == tuple(map(max, learning.times(2).amounts, (learning + tested).amounts))
    assert [ledger.part_of(name) for name in ("of 0", "of 1", "of 2")] == [LEARNING, TEST, EVERY]
    assert list(ledger_faults(ledger.records())) == []


def test_nats_and_delta_are_each_the_most_of_any_part() -> None:
    totals = {LEARNING: charge(3, 1), TEST: charge(2, 5)}
    assert artifacts_parts.largest(totals) == charge(3, 5)
    charges = [Counted(LEARNING, "", charge(3, 1)), Counted(TEST, "", charge(2, 5)), Counted(EVERY, "", charge(1, 0))]
    assert list(running_totals(charges)) == [charge(0, 0), charge(3, 1), charge(3, 5), charge(4, 5)]


def charge(nats: int, delta: int) -> Charge:
    return Charge(renyi=Charge().renyi + nats, delta=Charge().delta + delta)


def test_each_part_is_filled_by_itself() -> None:
    alone = ask(in_memory(divided=False), SOME, 50)
    ledger = in_memory()
    assert ask(ledger, SOME, 50, part=LEARNING, **OWN) == alone > 1
    assert ask(ledger, TESTED, 50, part=TEST, **OWN) > 1
    assert ask(ledger, SOME) == 0
    assert list(ledger_faults(ledger.records())) == []


@pytest.mark.parametrize("division", ["another", ""])
def test_a_charge_that_names_another_division_counts_in_every_part(division: str) -> None:
    ledger = in_memory()
    ask(ledger, TESTED, part=TEST, division=division)
    assert set(ledger.totals("people").values()) == {ledger.domains()[0].filter.charge(TESTED.cost)}
    assert ledger.part_of("of 0") == EVERY
    assert list(ledger_faults(ledger.records())) == []


def test_one_that_was_opened_before_the_division_counts_in_every_part_for_ever() -> None:
    ledger = in_memory(divided=False)
    ask(ledger, SOME, part=LEARNING, **OWN)
    ledger.divide("people", DIVISION)
    assert ledger.part_of("of 0") == EVERY
    assert len(set(ledger.totals("people").values())) == 1
    assert list(ledger_faults(ledger.records())) == []


def test_a_domain_is_divided_once() -> None:
    ledger = in_memory()
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


def test_seasons_of_a_stream_are_charged_once_by_both_reckonings() -> None:
    ledger = in_memory()
    large, small = (ledger.domains()[0].filter.charge(of.cost) for of in (SOME_SEASON, SMALL_SEASON))
    for made in (SMALL_SEASON, SOME_SEASON, SMALL_SEASON):
        season(ledger, "a", made)
    season(ledger, "b", SMALL_SEASON)
    season(ledger, "c", SMALL_SEASON, TEST)
    season(ledger, "c", SMALL_SEASON, TEST)
    season(ledger, "", SMALL_SEASON)
    assert ledger.totals("people") == {LEARNING: large + small.times(2), TEST: large + small.times(3)}
    assert list(ledger_faults(ledger.records())) == []
    certified = DomainCharge.of(ledger.domains()[0], ledger)
    assert certified.used == pytest.approx(ledger.domains()[0].filter.share(ledger.total("people")))


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
    ask(ledger, SOME, part=LEARNING, **OWN)
    rewrite(tmp_path, change)
    assert any(wrong in item for item in ledger_faults(Ledger.of(tmp_path).records()))
