"""The ledger against a model of a page: whatever is asked, in whatever order, both give the same answer.

The model counts in fractions and knows the rule and nothing of chains, databases or states. So that agreement means
something, ledgers with a fault planted in them are put to the same questions, and each must be told from the model.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.artifacts.ledger.openings import DOMAIN, batch, named, opening, outcome
from tests.world import Batch, Charge, ConcordError, Cost, Entry, Filter, Ledger, LedgerState, LogRecord, Session

Answer = TypeVar("Answer")
Pair = tuple[Fraction, Fraction]
ROOM: Pair = (Fraction(DOMAIN.filter.budget), Fraction(DOMAIN.filter.delta_additive))


def cost(refusals: int, delta: float) -> Cost:
    """About a twelfth of the cap a refusal, and additive δ; either part may be the one that reaches it."""
    rho = float(DOMAIN.filter.budget) / DOMAIN.filter.order / 12
    return Cost(renyi=Cost.gaussian(rho * refusals).renyi, delta=delta * refusals)


def pair(charge: Charge, times: int = 1) -> Pair:
    return Fraction(charge.renyi) * times, Fraction(charge.delta) * times


def within(first: Pair, second: Pair) -> bool:
    return first[0] <= second[0] and first[1] <= second[1]


@dataclass
class Model:
    """A session as the rule sees it."""

    whole: Pair
    each: Charge | None
    cutoff: int
    refused: int = 0
    rows: list[int] = field(default_factory=list)
    pending: bool = False
    settled: Pair | None = None

    @property
    def charge(self) -> Pair:
        return self.whole if self.settled is None else self.settled

    @property
    def may_begin(self) -> bool:
        return self.settled is None and not self.pending

    def end(self, give_back: bool) -> None:
        possible = min(self.cutoff, self.refused + (self.rows[-1] if self.pending else 0))
        happened = pair(self.each, possible) if self.each and give_back else self.whole
        self.settled = happened if within(happened, self.whole) else self.whole


class InMemory(Ledger):
    """A ledger without a database: the same decisions, lines and folding."""

    def __init__(self) -> None:
        self._state = LedgerState()

    def _read(self, ask: Callable[[LedgerState], Answer]) -> Answer:
        return ask(self._state)

    def _consider(self, decide: Callable[[LedgerState], object]) -> None:
        decide(self._state)

    def _write(self, decide: Callable[[LedgerState], list[Entry]], ask: Callable[[LedgerState], Answer]) -> Answer:
        for entry in decide(self._state):
            self._state.read(LogRecord.after(self._state.head, entry, at="now"))
        return ask(self._state)


def refusal(act: Callable[[], object]) -> str:
    try:
        act()
    except ConcordError as refused:
        return type(refused).__name__
    return "done"


class InMemoryMachine(RuleBasedStateMachine):
    """Asks a ledger and the model the same questions."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger = named(self.make())
        self.model: dict[str, Model] = {}

    def make(self) -> Ledger:
        return InMemory()

    def total(self) -> Pair:
        charges = [item.charge for item in self.model.values()]
        return sum((charge[0] for charge in charges), Fraction()), sum((charge[1] for charge in charges), Fraction())

    def pick(self, data: st.DataObject) -> tuple[str, Model]:
        name = data.draw(st.sampled_from(sorted(self.model)))
        return name, self.model[name]

    @rule(
        size=st.integers(1, 5), delta=st.sampled_from([0.0, 1e-7, 4e-6]), returns=st.booleans(), further=st.booleans()
    )
    def open(self, size: int, delta: float, returns: bool, further: bool) -> None:
        name = f"session {len(self.model)}"
        asked = opening(name, cutoff=size, whole=cost(size, delta), per_refusal=cost(1, delta) if returns else None)
        whole, before = pair(DOMAIN.filter.charge(asked.whole)), self.total()
        covered = within((before[0] + whole[0], before[1] + whole[1]), ROOM)
        welcome = covered and (further or not self.model)
        expected = "done" if welcome else "BudgetRefused" if covered else "NotCovered"
        assert refusal(lambda: self.ledger.check_opening(asked, DOMAIN, further=further)) == expected
        assert refusal(lambda: self.ledger.open_session(asked, further=further)) == expected
        if welcome:
            each = DOMAIN.filter.charge(asked.per_refusal) if asked.per_refusal else None
            self.model[name] = Model(whole=whole, each=each, cutoff=size)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), rows=st.integers(1, 5), slip=st.sampled_from([0, 0, 0, -1, 1]))
    def begin(self, data: st.DataObject, rows: int, slip: int) -> None:
        name, model = self.pick(data)
        new = batch(len(model.rows), first=sum(model.rows) + slip, rows=rows)
        if model.settled is not None:
            expected = "BudgetRefused"
        else:
            expected = "done" if model.may_begin and not slip else "NotVerified"
        assert refusal(lambda: self.ledger.begin_batch(name, new)) == expected
        if expected == "done":
            model.rows.append(rows)
            model.pending = True

    @precondition(lambda self: any(item.rows for item in self.model.values()))
    @rule(data=st.data(), changed=st.sampled_from([{}, {"question_digest": "others"}, {"exact_digest": "others"}]))
    def begin_again(self, data: st.DataObject, changed: dict[str, Any]) -> None:
        name = data.draw(st.sampled_from(sorted(name for name, item in self.model.items() if item.rows)))
        model = self.model[name]
        index = data.draw(st.integers(0, len(model.rows) - 1))
        old = batch(index, first=sum(model.rows[:index]), rows=model.rows[index], **changed)
        never_released = model.pending and index == len(model.rows) - 1
        closed = "BudgetRefused" if never_released and model.settled is not None else "done"
        assert refusal(lambda: self.ledger.begin_batch(name, old)) == ("NotVerified" if changed else closed)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), refused=st.sampled_from([0, 1, 1, 2, 5]))
    def commit(self, data: st.DataObject, refused: int) -> None:
        name, model = self.pick(data)
        rows = model.rows[-1] if model.rows else 1
        new = outcome(max(0, len(model.rows) - 1), asked=rows, refused=min(refused, rows))
        possible = model.pending and model.settled is None and model.refused + new.refused <= model.cutoff
        if model.rows and not model.pending:
            return  # whether it is said twice alike is another rule's
        assert refusal(lambda: self.ledger.commit_batch(name, new)) == ("done" if possible else "NotVerified")
        if possible:
            assert refusal(lambda: self.ledger.commit_batch(name, new)) == "done"
            assert refusal(lambda: self.ledger.commit_batch(name, replace(new, asked=rows + 1))) == "NotVerified"
            model.refused, model.pending = model.refused + new.refused, False
            if model.refused == model.cutoff:
                model.end(give_back=True)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), give_back=st.booleans())
    def settle(self, data: st.DataObject, give_back: bool) -> None:
        name, model = self.pick(data)
        if model.settled is None:
            model.end(give_back)
        assert pair(self.ledger.settle(name, give_back=give_back).charge) == model.settled

    @invariant()
    def the_domain_is_charged_what_the_rule_says(self) -> None:
        assert pair(self.ledger.total("census")) == self.total()
        assert within(self.total(), ROOM)

    @invariant()
    def no_row_is_answered_twice(self) -> None:
        for name, model in self.model.items():
            state = self.ledger.session(name)
            assert (state.batches, state.next_row, state.refused) == (len(model.rows), sum(model.rows), model.refused)
            assert (state.status == "open") == (model.settled is None)


class DatabaseMachine(InMemoryMachine):
    """The same over SQLite, opened anew whenever it pleases."""

    def make(self) -> Ledger:
        self.home = tempfile.TemporaryDirectory()
        return Ledger.of(Path(self.home.name))

    @rule()
    def open_the_ledger_again(self) -> None:
        self.ledger.verify()
        self.ledger = Ledger.of(Path(self.home.name))

    def teardown(self) -> None:
        self.home.cleanup()


QUIET = settings(suppress_health_check=list(HealthCheck), stateful_step_count=25)


def test_the_ledger_agrees_with_the_model() -> None:
    run_state_machine_as_test(InMemoryMachine, settings=settings(QUIET, max_examples=60))


@pytest.mark.slow
def test_the_ledger_on_disk_agrees_with_the_model() -> None:
    run_state_machine_as_test(DatabaseMachine, settings=settings(QUIET, max_examples=12))


owed, begin, admits, begin_batch, open_session = (
    Session.owed,
    Session.begin,
    Filter.admits,
    LedgerState.begin,
    LedgerState.open,
)


def ignoring_votes(state: LedgerState, name: str, new: Batch) -> list[Entry]:
    known = state.batch(name, new.index)
    return begin_batch(state, name, new if known is None else replace(new, exact_digest=known.exact_digest))


FAULTS: dict[str, tuple[type, str, Any]] = {
    "forgets what is reserved": (Session, "charge", property(lambda item: item.settled or Charge())),
    "returns everything": (Session, "owed", lambda _, **__: Charge()),
    "returns what it must keep": (Session, "owed", lambda item, **_: owed(item, give_back=True)),
    "forgets the pending batch": (Session, "owed", lambda item, **how: owed(replace(item, pending=None), **how)),
    "forgets one refusal": (
        Session,
        "owed",
        lambda item, **how: owed(replace(item, refused=max(0, item.refused - 1)), **how),
    ),
    "forgets Rényi": (Filter, "admits", lambda item, total: admits(item, Charge(delta=total.delta))),
    "forgets additive δ": (Filter, "admits", lambda item, total: admits(item, Charge(renyi=total.renyi))),
    "goes on after the cutoff": (Session, "exhausted", property(lambda _: False)),
    "starts rows again": (Session, "begin", lambda item, new: begin(replace(item, next_row=new.first), new)),
    "lets votes change": (LedgerState, "begin", ignoring_votes),
    "opens further sessions unasked": (
        LedgerState,
        "open",
        lambda state, asked, **_: open_session(state, asked, further=True),
    ),
}
"""Ledgers with one fault each: where it is planted, and what stands there then."""


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_told_from_the_model(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, twin = FAULTS[fault]
    monkeypatch.setattr(owner, name, twin)
    seek = settings(QUIET, max_examples=3000, phases=(Phase.generate,), stateful_step_count=15)  # short walks find more
    with pytest.raises(AssertionError):
        run_state_machine_as_test(InMemoryMachine, settings=seek)
