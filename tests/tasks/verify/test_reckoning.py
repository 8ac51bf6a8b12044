"""The ledger's rule kept a second time: ledgers that break it and are chained well are found, whoever broke it.

An honest ledger passes. What the issue found passes the chain and the book, and not this; and so does what production
code with a fault planted in filter, charge or settlement writes.
"""

from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.artifacts.ledger.openings import batch, outcome
from tests.artifacts.ledger.test_ledger_model import Answer, InMemory
from tests.support.chained import Said, rewrite
from tests.support.published import opening
from tests.support.sentences import says
from tests.tasks.verify.ledger_faults import FAULTS, UNBOUNDED
from tests.world import (
    HIDDEN,
    NEIGHBOURS,
    BudgetRefused,
    Charge,
    Draw,
    Entry,
    Ledger,
    LedgerState,
    LogRecord,
    Mechanism,
    NoisyVotes,
    NotVerified,
    Opening,
    Relabelling,
    Remarks,
    SparseVector,
    StableVoting,
    Universal,
    calibrate_relabelled,
    ledger_faults,
    verify,
)

STABLE = StableVoting.calibrate(epsilon=1.0, delta=1e-6, cutoff=4)
NOISY = NoisyVotes.calibrate(epsilon=1.0, delta=1e-6, queries=150, classes=2)
LARGE = NoisyVotes.calibrate(epsilon=3.0, delta=1e-6, queries=10, classes=2)
SMALL = NoisyVotes.calibrate(epsilon=0.2, delta=1e-6, queries=10, classes=2)
VECTOR = SparseVector.calibrate(epsilon=0.5, delta=1e-6, cutoff=3)
SUBSET = Relabelling(hypotheses="stumps", features=("age",), grid="0" * 64, share=0.25)
RELABELLED = calibrate_relabelled(
    SUBSET, epsilon=1.0, delta=1e-6, make=lambda e, d: StableVoting.calibrate(epsilon=e, delta=d, cutoff=4)
)


def test_the_neighbours_it_knows_are_those_that_domains_compare() -> None:
    """It shares no line with what writes the ledger, so it has the words a second time."""
    assert HIDDEN == NEIGHBOURS


def named(ledger: Ledger) -> None:
    """Name the domain `people`."""
    ledger.name_domain("people", unit="one row", neighbours="add or remove one unit", epsilon=8.0, delta=1e-4)


def asked(runs: Mechanism, name: str, **changes: Any) -> Opening:
    return replace(opening(runs, name), **changes)


def history(home: Path) -> Ledger:
    """Everything a ledger may go through: each kind of session, refusals, settlements, recaps, a copy put back."""
    ledger = Ledger(f"sqlite:///{home / 'ledger.db'}")
    named(ledger)
    ledger.open_session(asked(STABLE, "s-1"))
    ledger.begin_batch("s-1", batch())
    ledger.commit_batch("s-1", outcome(refused=1))
    ledger.begin_batch("s-1", batch(1, first=100, rows=2))
    ledger.settle("s-1", give_back=True)  # one refusal, and a batch of two that may have been drawn
    ledger.open_session(asked(NOISY, "s-2"), further=True)
    ledger.begin_batch("s-2", batch())
    ledger.commit_batch("s-2", outcome(refused=0))
    ledger.begin_batch("s-2", batch(1, first=100))
    ledger.commit_batch("s-2", outcome(1, asked=50))
    ledger.recap("people", 9.0, 2e-4, "the board said so")
    ledger.remark("people", "erased", "digest of a unit")
    ledger.open_session(_chosen("s-3", secret="rows"), further=True)
    ledger.open_session(asked(VECTOR, "s-4"), further=True)
    ledger.settle("s-4", give_back=True)
    ledger.open_session(asked(RELABELLED, "s-5", epsilon=1.0, delta=1e-6), further=True)
    ledger.begin_batch("s-5", batch())
    ledger.commit_batch("s-5", outcome(refused=4))
    ledger.open_session(asked(STABLE, "s-6"), further=True)
    ledger.restore("the disk died")
    ledger.open_session(asked(STABLE, "s-7"), further=True)
    return ledger


def _chosen(name: str, secret: Literal["rows", "labels"]) -> Opening:
    mechanism = Universal(epsilon=0.25, secret=secret)
    terms = {"epsilon": 0.25, "delta": 0.0, "cutoff": None, "queries": None, "teachers": 0, "per_refusal": None}
    return asked(STABLE, name, mechanism=mechanism.settings(), whole=mechanism.cost, **terms)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("CONCORD_LEDGER", raising=False)
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


def found(ledger: Ledger) -> list[str]:
    """What breaks the rule in a ledger that chain and book believe."""
    ledger.verify()
    return list(ledger_faults(ledger.records()))


def test_an_honest_history_keeps_the_rule(home: Path) -> None:
    assert found(history(home)) == []


def at(place: int, *path: str, value: Any) -> Callable[[list[Said]], None]:
    def change(result: list[Said]) -> None:
        part: Any = result[place].body
        for step in path[:-1]:
            part = part[step]
        assert part[path[-1]] != value
        part[path[-1]] = value

    return change


def opened(home: Path, mechanism: Mechanism = STABLE) -> None:
    ledger = Ledger.of(home)
    named(ledger)
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


def test_sessions_beyond_the_cap_are_found(home: Path) -> None:
    """Seven sessions that bring ε to 9.66 of a cap of 8."""
    opened(home, NoisyVotes.calibrate(epsilon=3.3, delta=1e-6, queries=10, classes=2))

    def seven(result: list[Said]) -> None:
        for copy in (f"s-{number}" for number in range(2, 8)):
            body = {**deepcopy(result[1].body), "id": copy, "commitment": f"key of {copy}"}
            result.append(Said("people", copy, "open", body))

    rewrite(home, seven)
    ledger = Ledger.of(home)
    domain = ledger.domain("people")
    assert domain is not None
    assert domain.filter.spent(ledger.total("people"))[0] > 8
    assert "but the domain's cap covers" in said_of(home)


def test_parts_of_delta_that_are_more_than_the_cap_are_found(home: Path) -> None:
    """δ_R + δ_A of 1.09e-3 under a cap of 1e-4."""
    opened(home)
    rewrite(home, at(0, "filter", "delta_additive", value=1.04e-3))
    assert says(said_of(home), 0.0001, 5e-05, 0.00104)


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


def test_a_second_secret_of_one_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By another secret an erased unit is not known."""
    ledger = Kept()
    named(ledger)
    for about in ("domains/people first", "streams/weekly first", "domains/people first"):
        ledger.remark("people", "secret", about)
    assert [*ledger_faults(ledger.kept)] == []
    with pytest.raises(NotVerified, match="restore that one"):
        ledger.remark("people", "secret", "domains/people second")
    monkeypatch.setattr(Remarks, "check_secret", lambda *_: None)
    ledger.remark("people", "secret", "domains/people second")
    assert "the domain is bound to another" in str([*ledger_faults(ledger.kept)])


def test_amounts_that_are_too_large_are_found_as_well(home: Path) -> None:
    opened(home)
    rewrite(home, at(1, "per_refusal", "delta", value="0.0001"))
    assert "a refusal is charged" in said_of(home)


def test_a_choice_that_hides_other_neighbours_than_its_domain_is_found(home: Path) -> None:
    ledger = Ledger.of(home)
    named(ledger)
    ledger.open_session(_chosen("s-1", secret="labels"))
    assert says(said_of(home), "entry 2", "s-1", "labels")


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_what_writes_the_ledger_is_found(home: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    assert found(history(home)) != []


class Kept(InMemory):
    """A ledger without a database that keeps its lines."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[LogRecord] = []

    def _write(self, decide: Callable[[LedgerState], list[Entry]], ask: Callable[[LedgerState], Answer]) -> Answer:
        for entry in decide(self._state):
            self.kept.append(LogRecord.after(self._state.head, entry, at="now"))
            self._state.read(self.kept[-1])
        return ask(self._state)


def fill(ledger: Ledger, *openings: tuple[Mechanism, int]) -> None:
    """Open so many sessions of each mechanism, but for those that are refused."""
    for mechanism, times in openings:
        for _ in range(times):
            with suppress(BudgetRefused):
                ledger.open_session(asked(mechanism, f"of {len(ledger.sessions('people'))}"), further=True)


@pytest.mark.parametrize("fault", [None, *UNBOUNDED])
def test_a_filter_that_admits_too_much_is_found(monkeypatch: pytest.MonkeyPatch, fault: str | None) -> None:
    if fault is not None:
        monkeypatch.setattr(*UNBOUNDED[fault])
    ledger = Kept()
    named(ledger)
    fill(ledger, (LARGE, 8), (SMALL, 200))
    faults = list(ledger_faults(ledger.kept))
    assert any("but the domain's cap covers" in item for item in faults) == (fault is not None)
    assert fault is not None or faults == []


def _returned(book: LedgerState, domain: str) -> None:
    """A restoration that gives back what the newer copy may have drawn on."""
    for session in book.sessions_of(domain):
        if session.status == "open":
            book.sessions[session.id] = replace(session, status="closed", settled=Charge())


@pytest.mark.parametrize("forgetful", [False, True])
def test_what_a_restoration_gives_back_is_found(monkeypatch: pytest.MonkeyPatch, forgetful: bool) -> None:
    if forgetful:
        monkeypatch.setattr(LedgerState, "_restore", _returned)
    ledger = Kept()
    named(ledger)
    fill(ledger, (LARGE, 3))
    ledger.restore("the disk died")
    fill(ledger, (LARGE, 8))
    assert bool(list(ledger_faults(ledger.kept))) == forgetful


@pytest.mark.parametrize("fault", [*FAULTS, *UNBOUNDED])
def test_the_planted_faults_are_none_of_the_reckonings_own(fault: str) -> None:
    """What is planted is planted in code that the reckoning does not use."""
    owner = {**FAULTS, **UNBOUNDED}[fault][0]
    assert getattr(owner, "__module__", getattr(owner, "__name__", "")).startswith("concord.artifacts.")
