"""How a session moves: the order of its steps, the counts that can be, and what it owes at its end."""

from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.openings import DOMAIN, batch, opening, outcome, refusals, session
from tests.world import (
    Charge,
    Cost,
    Domain,
    NotVerified,
    Session,
    Settlement,
    WrongInput,
)


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
