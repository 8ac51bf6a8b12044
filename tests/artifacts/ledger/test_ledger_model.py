"""The ledger against a model of a page: whatever is asked, in whatever order, both give the same answer.

The model counts in fractions and knows the rule and nothing of chains, databases or states. So that agreement means
something, faults are planted in the ledger: each must be told from the model, or be found by the replay of what the
faulty ledger wrote.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import inf
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.support import postgresql
from tests.support.openings import DOMAIN, InMemory, batch, named, opening, outcome
from tests.support.planted import FAULTS, walked
from tests.world import Charge, ConcordError, Cost, Draw, Ledger, ledger_faults

Pair = tuple[Fraction, Fraction]
ROOM: Pair = (Fraction(DOMAIN.filter.budget), Fraction(DOMAIN.filter.delta_additive))
CHANGED: dict[str, dict[str, Any]] = {
    "question": {"question_digest": "others"},
    "exact answer": {"exact_digest": "others"},
    "position": {"rows": 9},
}


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
    cutoff: float
    queries: float
    asked: int = 0
    refused: int = 0
    rows: list[int] = field(default_factory=list)
    draws: dict[str, str] = field(default_factory=dict)
    pending: bool = False
    settled: Pair | None = None

    @property
    def charge(self) -> Pair:
        return self.whole if self.settled is None else self.settled

    def takes(self, asked: int, refused: int) -> bool:
        """Whether so many rows of the pending batch may have been asked and refused."""
        asked, refused = self.asked + asked, self.refused + refused
        whole = asked == self.asked + self.rows[-1] or (
            asked < self.asked + self.rows[-1] and (refused >= self.cutoff or asked >= self.queries)
        )
        return whole and refused <= self.cutoff and asked <= self.queries

    def end(self, give_back: bool) -> None:
        possible = min(self.cutoff, self.refused + (self.rows[-1] if self.pending else 0))
        happened = pair(self.each, int(possible)) if self.each and give_back else self.whole
        self.settled = happened if within(happened, self.whole) else self.whole


def refusal(act: Callable[[], object], saying: str = "") -> str:
    """The error that an act ends in, and whether its sentence says that."""
    try:
        act()
    except ConcordError as refused:
        return type(refused).__name__ if saying in str(refused) else str(refused)
    return "done"


class Machine(RuleBasedStateMachine):
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
        size=st.integers(1, 5),
        delta=st.sampled_from([0.0, 1e-7, 4e-6]),
        pays=st.sampled_from(["by refusal", "by refusal", "whole", "by row"]),
        further=st.booleans(),
    )
    def open(self, size: int, delta: float, pays: str, further: bool) -> None:
        name = f"session {len(self.model)}"
        each = cost(1, delta) if pays == "by refusal" else None
        ends = {"cutoff": None, "queries": size} if pays == "by row" else {"cutoff": size}
        asked = opening(name, whole=cost(size, delta), per_refusal=each, **ends)
        whole, before = pair(DOMAIN.filter.charge(asked.whole)), self.total()
        covered = within((before[0] + whole[0], before[1] + whole[1]), ROOM)
        welcome = covered and (further or not self.model)
        expected = "done" if welcome else "BudgetRefused" if covered else "NotCovered"
        assert refusal(lambda: self.ledger.check_opening(asked, DOMAIN, further=further)) == expected
        assert refusal(lambda: self.ledger.open_session(asked, further=further)) == expected
        if welcome:
            self.model[name] = Model(
                whole=whole,
                each=DOMAIN.filter.charge(each) if each else None,
                cutoff=inf if pays == "by row" else size,
                queries=size if pays == "by row" else inf,
            )

    @precondition(lambda self: self.model)
    @rule(
        data=st.data(),
        rows=st.sampled_from([1, 2, 3, 5, 0, -1]),
        slip=st.sampled_from([0, 0, 0, -1, 1]),
        skip=st.sampled_from([0, 0, 0, 1]),
    )
    def begin(self, data: st.DataObject, rows: int, slip: int, skip: int) -> None:
        name, model = self.pick(data)
        new = batch(len(model.rows) + skip, first=sum(model.rows) + slip, rows=rows)
        if model.settled is not None:
            expected = "BudgetRefused"
        else:
            expected = "NotVerified" if model.pending or slip or skip or rows < 1 else "done"
        assert refusal(lambda: self.ledger.begin_batch(name, new)) == expected
        if expected == "done":
            model.rows.append(rows)
            model.pending = True

    @precondition(lambda self: any(item.rows for item in self.model.values()))
    @rule(data=st.data(), changed=st.sampled_from(["", *CHANGED]))
    def begin_again(self, data: st.DataObject, changed: str) -> None:
        name = data.draw(st.sampled_from(sorted(name for name, item in self.model.items() if item.rows)))
        model = self.model[name]
        index = data.draw(st.integers(0, len(model.rows) - 1))
        place: dict[str, Any] = {"first": sum(model.rows[:index]), "rows": model.rows[index]}
        old = batch(index, **(place | CHANGED.get(changed, {})))
        never_released = model.pending and index == len(model.rows) - 1
        closed = "BudgetRefused" if never_released and model.settled is not None else "done"
        expected = "NotVerified" if changed else closed
        saying = f"{changed} of batch {index} of session {name} changed" if changed else ""
        assert refusal(lambda: self.ledger.begin_batch(name, old), saying) == expected
        assert len(self.ledger.batches(name)) == len(model.rows)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), digest=st.sampled_from("ab"))
    def draw(self, data: st.DataObject, digest: str) -> None:
        name, model = self.pick(data)
        drawn = f"answers-{max(0, len(model.rows) - 1)}"
        if model.pending and model.settled is None:
            model.draws.setdefault(drawn, digest)
        expected = "done" if model.draws.get(drawn) == digest else "NotVerified"
        assert refusal(lambda: self.ledger.record_draw(name, Draw(name=drawn, digest=digest))) == expected

    @precondition(lambda self: self.model)
    @rule(
        data=st.data(),
        refused=st.sampled_from([0, 1, 1, 2, 5]),
        more=st.sampled_from([0, 0, 0, -1, 1]),
        answered=st.sampled_from([0, 0, 0, -1, 1]),
    )
    def commit(self, data: st.DataObject, refused: int, more: int, answered: int) -> None:
        name, model = self.pick(data)
        asked = (model.rows[-1] if model.rows else 1) + more
        refused = min(refused, asked)
        new = outcome(max(0, len(model.rows) - 1), asked=asked, refused=refused)
        given = replace(new, answered=new.answered + answered)
        if model.rows and not model.pending:
            return  # whether it is said twice alike is asked below
        open_now = model.pending and model.settled is None
        possible = open_now and not answered and model.takes(asked, refused)
        assert refusal(lambda: self.ledger.commit_batch(name, given)) == ("done" if possible else "NotVerified")
        if possible:
            assert refusal(lambda: self.ledger.commit_batch(name, new)) == "done"
            assert refusal(lambda: self.ledger.commit_batch(name, replace(new, asked=asked + 1))) == "NotVerified"
            model.asked, model.refused, model.pending = model.asked + asked, model.refused + refused, False
            if model.refused == model.cutoff or model.asked == model.queries:
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
            assert (state.batches, state.next_row) == (len(model.rows), sum(model.rows))
            assert (state.asked, state.refused) == (model.asked, model.refused)
            assert (state.status == "open") == (model.settled is None)


class OnSqlite(Machine):
    """Two openings of one database take turns, and are opened anew whenever it pleases."""

    def make(self) -> Ledger:
        self.home = tempfile.TemporaryDirectory()
        self.url = f"sqlite:///{self.home.name}/ledger.db"
        self.other = Ledger(self.url)
        return Ledger(self.url)

    @rule()
    def take_turns(self) -> None:
        self.ledger, self.other = self.other, self.ledger

    @rule()
    def open_the_ledger_again(self) -> None:
        self.ledger.verify()
        self.ledger = Ledger(self.url)

    def teardown(self) -> None:
        self.home.cleanup()


@pytest.fixture(scope="module")
def on_postgresql() -> Iterator[type[Machine]]:
    """The same on a server."""
    with postgresql.server() as address:

        class OnPostgresql(OnSqlite):
            def make(self) -> Ledger:
                postgresql.empty(address)
                self.url = f"postgresql+psycopg://{address}"
                self.other = Ledger(self.url)
                return Ledger(self.url)

            def teardown(self) -> None:
                self.ledger.verify()

        yield OnPostgresql


QUIET = settings(suppress_health_check=list(HealthCheck), stateful_step_count=25)


@pytest.mark.parametrize(("machine", "examples"), [(Machine, 60), (OnSqlite, 6)], ids=["memory", "sqlite"])
def test_the_ledger_agrees_with_the_model(machine: type[Machine], examples: int, exhaustive: bool) -> None:
    run_state_machine_as_test(machine, settings=settings(QUIET, max_examples=examples * (20 if exhaustive else 1)))


@pytest.mark.slow
def test_the_ledger_on_a_server_agrees_with_the_model(on_postgresql: type[Machine], exhaustive: bool) -> None:
    run_state_machine_as_test(on_postgresql, settings=settings(QUIET, max_examples=200 if exhaustive else 4))


UNSEEN = (
    "returns what it must keep",
    "starts rows again",
    "lets votes change",
    "opens further sessions unasked",
    "forgets additive δ",
)
"""Faults that the records of these walks do not show."""
MODELLED = (
    *UNSEEN,
    "forgets what is reserved",
    "returns everything",
    "forgets the pending batch",
    "forgets a refusal",
    "forgets Rényi",
    "goes on after the cutoff",
)


@pytest.mark.parametrize("fault", [None, *FAULTS])
def test_the_replay_finds_a_planted_fault(fault: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if fault is not None:
        monkeypatch.setattr(*FAULTS[fault])
    found = any(list(ledger_faults(ledger.records())) for ledger in walked(InMemory))
    assert found is (fault is not None and fault not in UNSEEN)


@pytest.mark.parametrize("fault", MODELLED)
def test_the_model_finds_a_planted_fault(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*FAULTS[fault])
    seek = settings(QUIET, max_examples=3000, phases=(Phase.generate,), stateful_step_count=15)  # short ones find more
    with pytest.raises(AssertionError):
        run_state_machine_as_test(Machine, settings=seek)


@pytest.mark.parametrize("fault", FAULTS)
def test_no_fault_is_planted_in_the_replay(fault: str) -> None:
    owner = FAULTS[fault][0]
    assert getattr(owner, "__module__", getattr(owner, "__name__", "")).startswith("concord.artifacts.")
