"""The ledger's parts: what is frozen, what each part is charged, and a second reckoning that sees faults in it."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.privacy.test_seasons import FAULTS as SEASON_FAULTS
from tests.support.chained import rewrite
from tests.support.published import opening
from tests.tasks.verify.test_reckoning import Kept, named
from tests.world import (
    EVERY,
    LEARNING,
    TEST,
    BudgetRefused,
    Charge,
    Counted,
    Division,
    Entry,
    Ledger,
    LogRecord,
    NoisyVotes,
    NotVerified,
    Parts,
    PrivateTest,
    Round,
    Stream,
    WrongInput,
    artifacts_parts,
    domain_charge,
    ledger_faults,
    ledger_state,
    running_totals,
)

DIVISION = Division(commitment="c" * 64, share=0.1, naming='{"data.unit": [["person", false]]}')
NOISY = NoisyVotes.calibrate(epsilon=2.0, delta=1e-6, queries=10, classes=2)
TESTED = PrivateTest.calibrate(epsilon=2.0, delta=1e-6, classes=2, secret="rows")


def ask(ledger: Ledger, name: str, part: str, division: str = DIVISION.commitment) -> None:
    made = TESTED if part == TEST else NOISY
    asked = replace(
        opening(NOISY, name),
        mechanism=made.settings(),
        whole=made.cost,
        per_refusal=None,
        cutoff=None,
        queries=made.queries,
        epsilon=2.0,
        delta=1e-6,
        part=part,
        division=division if part else "",
    )
    ledger.open_session(asked, further=True)


def fill(ledger: Ledger, part: str, most: int = 50) -> int:
    """How many sessions of that part fit."""
    for count in range(most):
        try:
            ask(ledger, f"{part}-{len(ledger.sessions('people'))}", part)
        except BudgetRefused:
            return count
    return most


def kept(*, divided: bool = True) -> Kept:
    ledger = Kept()
    ledger.name_domain("people", unit="one row", neighbours="add or remove one unit", epsilon=8.0, delta=1e-4)
    if divided:
        ledger.divide("people", DIVISION)
    return ledger


DOMAIN_FILTER = kept().domains()[0].filter


def test_the_domain_pays_the_larger_of_its_parts() -> None:
    ledger = kept()
    ask(ledger, "l-1", LEARNING)
    learning = ledger.total("people")
    ask(ledger, "t-1", TEST)
    tested = ledger.domains()[0].filter.charge(TESTED.cost)
    assert ledger.totals("people") == {LEARNING: learning, TEST: tested}
    assert ledger.total("people").amounts == tuple(map(max, learning.amounts, tested.amounts))
    ask(ledger, "e-1", EVERY)
    assert ledger.total("people").amounts == tuple(map(max, learning.times(2).amounts, (learning + tested).amounts))
    assert [ledger.part_of(name) for name in ("l-1", "t-1", "e-1")] == [LEARNING, TEST, EVERY]
    assert list(ledger_faults(ledger.kept)) == []


def test_nats_and_delta_are_each_the_most_of_any_part() -> None:
    totals = {LEARNING: charge(3, 1), TEST: charge(2, 5)}
    assert artifacts_parts.largest(totals) == charge(3, 5)
    charges = [Counted(LEARNING, "", charge(3, 1)), Counted(TEST, "", charge(2, 5)), Counted(EVERY, "", charge(1, 0))]
    assert list(running_totals(charges)) == [charge(0, 0), charge(3, 1), charge(3, 5), charge(4, 5)]


def charge(nats: int, delta: int) -> Charge:
    return Charge(renyi=Charge().renyi + nats, delta=Charge().delta + delta)


def test_each_part_is_filled_by_itself() -> None:
    alone = fill(kept(divided=False), EVERY)
    ledger = kept()
    learning, tests = fill(ledger, LEARNING), fill(ledger, TEST)
    assert learning == alone > 1
    assert tests > 1
    assert fill(ledger, EVERY) == 0
    assert list(ledger_faults(ledger.kept)) == []


@pytest.mark.parametrize("division", ["another", ""])
def test_a_charge_that_names_another_division_counts_in_every_part(division: str) -> None:
    ledger = kept()
    ask(ledger, "t-1", TEST, division)
    assert set(ledger.totals("people").values()) == {DOMAIN_FILTER.charge(TESTED.cost)}
    assert ledger.part_of("t-1") == EVERY
    assert list(ledger_faults(ledger.kept)) == []


def test_one_that_was_opened_before_the_division_counts_in_every_part_for_ever() -> None:
    ledger = kept(divided=False)
    ask(ledger, "l-1", LEARNING)
    ledger.divide("people", DIVISION)
    assert ledger.part_of("l-1") == EVERY
    assert len(set(ledger.totals("people").values())) == 1
    assert list(ledger_faults(ledger.kept)) == []


def test_a_domain_is_divided_once() -> None:
    ledger = kept()
    lines = len(ledger.kept)
    ledger.divide("people", DIVISION)
    ledger.divide("people", replace(DIVISION, commitment="another key"))
    assert len(ledger.kept) == lines
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


touched = Parts.touched_by


def the_least(totals: dict[str, Charge]) -> Charge:
    return min(totals.values(), key=lambda total: total.amounts)


FAULTS: dict[str, tuple[Any, str, Any]] = {
    "another division counts as this one": (Parts, "touched_by", lambda _, session: session.part),
    "what touches every part counts as learning": (
        Parts,
        "touched_by",
        lambda book, session: touched(book, session) or LEARNING,
    ),
    "what touches every part counts in none": (
        ledger_state,
        "by_part",
        lambda charges: artifacts_parts.by_part([item for item in charges if item[0]]),
    ),
    "the least of the parts is charged": (ledger_state, "largest", the_least),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_ledgers_parts_is_found(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    ledger = kept()
    own = DIVISION.commitment
    for part, division, most in ((EVERY, "", 1), (LEARNING, own, 50), (TEST, "another", 50), (TEST, own, 50)):
        for number in range(most):
            try:
                ask(ledger, f"{part}-{division[:3]}-{number}", part, division)
            except BudgetRefused:
                break
    assert any("covers" in wrong for wrong in ledger_faults(ledger.kept))


ONE_ROUND = (Round(fields=1, cells=4, least=0, share=1.0),)
LARGE, SOME, SMALL = (
    Stream.calibrate(epsilon=of, delta=1e-6, classes=2, rounds=ONE_ROUND, season=2) for of in (6.0, 1.0, 0.5)
)


def season(ledger: Ledger, stream: str, made: Stream = LARGE, part: str = EVERY) -> None:
    name = f"s-{len(ledger.sessions('people'))}"
    division = DIVISION.commitment if part else ""
    of: dict[str, Any] = {
        "mechanism": made.settings(),
        "epsilon": made.epsilon,
        "queries": made.queries,
        "whole": made.cost,
    }
    asked = replace(opening(NOISY, name), stream=stream, part=part, division=division, **of)
    ledger.open_session(asked, further=True)
    ledger.settle(name, give_back=False)


def test_seasons_of_a_stream_are_charged_once_by_both_reckonings() -> None:
    ledger = kept()
    large, small = (ledger.domains()[0].filter.charge(of.cost) for of in (SOME, SMALL))
    for made in (SMALL, SOME, SMALL):
        season(ledger, "a", made)
    season(ledger, "b", SMALL)
    season(ledger, "c", SMALL, TEST)
    season(ledger, "c", SMALL, TEST)
    season(ledger, "", SMALL)
    assert ledger.totals("people") == {LEARNING: large + small.times(2), TEST: large + small.times(3)}
    assert list(ledger_faults(ledger.kept)) == []
    certified = domain_charge(ledger.domains()[0], ledger)
    assert certified.used == pytest.approx(ledger.domains()[0].filter.share(ledger.total("people")))


@pytest.mark.parametrize("fault", sorted(SEASON_FAULTS))
def test_a_fault_in_the_charge_of_seasons_is_found(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    monkeypatch.setattr(ledger_state, "by_part", SEASON_FAULTS[fault])
    found = list[str]()
    for streams in ("a b", "a b- b", "a a- .", ". ."):  # a dot is of none, a dash a small one
        ledger = kept()
        with suppress(BudgetRefused):
            for of in streams.split():
                season(ledger, of.strip("-."), SMALL if "-" in of else LARGE)
        found += ledger_faults(ledger.kept)
    assert any("covers" in wrong for wrong in found)


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
    ledger = Ledger.of(tmp_path)
    named(ledger)
    ledger.divide("people", DIVISION)
    ask(ledger, "l-1", LEARNING)
    rewrite(tmp_path, change)
    assert any(wrong in item for item in ledger_faults(Ledger.of(tmp_path).records()))
