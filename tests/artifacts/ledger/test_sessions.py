"""How a session moves: the order of its steps, the counts that can be, and what it owes at its end."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.artifacts.ledger.openings import DOMAIN, at_most, batch, opening, outcome, refusals, session
from tests.world import (
    Batch,
    BatchOutcome,
    BudgetRefused,
    Charge,
    Cost,
    Domain,
    NotVerified,
    Session,
    Settlement,
    WrongInput,
)


def test_a_session_that_pays_by_row_ends_at_its_last_row() -> None:
    state = session(cutoff=None, queries=150, per_refusal=None)
    state = state.begin(batch(0)).commit(outcome(0))
    assert not state.exhausted
    assert state.begin(batch(1, first=100)).commit(outcome(1, asked=50)).exhausted


@pytest.mark.parametrize(
    "wrong",
    [
        batch(0, first=100),  # an index twice
        batch(2, first=100),  # an index left out
        batch(1, first=0),  # rows again
        batch(1, first=99),  # one row again
        batch(1, first=101),  # one row left out
        batch(1, first=100, rows=0),
        batch(1, first=100, rows=-100),
        batch(1, first=100, outcome=outcome(1)),
    ],
)
def test_rows_neither_restart_nor_overlap(wrong: Batch) -> None:
    state = session().begin(batch()).commit(outcome())
    with pytest.raises(NotVerified):
        state.begin(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        outcome(1),  # another batch
        outcome(0, asked=101),  # more rows than the batch holds
        outcome(0, asked=99),  # fewer, though nothing ended
        outcome(0, refused=11),  # beyond the cutoff
        replace(outcome(0), answered=99),  # counts that do not add up
        replace(outcome(0), answered=101, refused=-1),
    ],
)
def test_counts_that_cannot_be_are_refused(wrong: BatchOutcome) -> None:
    with pytest.raises(NotVerified):
        session().begin(batch()).commit(wrong)


def test_more_rows_than_paid_for_are_refused() -> None:
    with pytest.raises(NotVerified):
        session(cutoff=None, queries=99, per_refusal=None).begin(batch()).commit(outcome())


def ended() -> Session:
    state = session()
    return state.settle(Settlement(charge=state.owed(give_back=True), status="closed"))


def test_after_its_end_a_session_does_nothing() -> None:
    closed = ended()
    with pytest.raises(BudgetRefused):
        closed.begin(batch())
    with pytest.raises(NotVerified):
        closed.settle(Settlement(charge=closed.reserved, status="closed"))
    pending = replace(closed, pending=batch(), batches=1, next_row=100)
    with pytest.raises(NotVerified):
        pending.commit(outcome())


@given(refused=st.integers(0, 10), cutoff=st.integers(10, 50), pending=st.integers(0, 30))
def test_what_returns_is_exactly_what_cannot_have_been_spent(refused: int, cutoff: int, pending: int) -> None:
    state = session(cutoff=cutoff).begin(batch()).commit(outcome(0, refused=min(refused, cutoff - 1)))
    state = state.begin(batch(1, first=100, rows=pending)) if pending else state
    assert state.per_refusal is not None
    happened = min(state.refused + pending, cutoff)
    owed = state.owed(give_back=True)
    assert at_most(owed, state.reserved)
    if happened < cutoff:
        assert owed == state.per_refusal.times(happened)
    elif owed != state.per_refusal.times(happened):  # both were rounded up, each by itself
        assert owed == state.reserved
    assert state.owed(give_back=False) == state.reserved


def test_two_bounds_are_never_mixed() -> None:
    dear = Cost(renyi=refusals(1).renyi, delta=1e-6)  # ten refusals: less Rényi than reserved, more additive δ
    state = session(whole=refusals(20), per_refusal=dear).begin(batch()).commit(outcome(refused=9))
    assert state.owed(give_back=True) == state.reserved


@pytest.mark.parametrize("part", [Decimal("1e-18"), Decimal("-1e-18")])
def test_a_session_settles_at_nothing_between_or_beyond(part: Decimal) -> None:
    state = session().begin(batch()).commit(outcome(refused=3))
    for charge in (state.reserved, state.owed(give_back=True)):
        other = Charge(renyi=charge.renyi + part, delta=charge.delta)
        with pytest.raises(NotVerified):
            state.settle(Settlement(charge=other, status="closed"))
        assert state.settle(Settlement(charge=charge, status="closed")).charge == charge


@given(rho=st.floats(min_value=5e-324, max_value=1e-30), delta=st.floats(min_value=5e-324, max_value=1e-40))
def test_a_positive_spend_never_rounds_to_nothing(rho: float, delta: float) -> None:
    tiny = Cost(renyi=Cost.gaussian(rho).renyi, delta=delta)
    admitted = Session.charged(opening(whole=tiny, per_refusal=tiny), by=DOMAIN.filter)
    assert admitted.reserved.renyi > 0
    assert admitted.reserved.delta > 0
    state = replace(admitted, refused=1)
    assert state.owed(give_back=True).renyi > 0


@pytest.mark.parametrize("cap", [(0, 1e-5), (-1, 1e-5), (float("inf"), 1e-5), (float("nan"), 1e-5), (1, 0), (1, 1)])
def test_a_cap_must_be_one(cap: tuple[float, float]) -> None:
    with pytest.raises(WrongInput, match="the cap's"):
        Domain.frozen("d", unit="row", neighbours="add or remove one", epsilon=cap[0], delta=cap[1])
    with pytest.raises(WrongInput, match="the cap's"):
        DOMAIN.recapped(*cap)
