"""The ledger's rule: one order, frozen; the counter-example to choosing the best order at admission; nothing is lost.

The adversary of the counter-example opens a Gaussian session, looks at what it gave, and then chooses a two-point
mechanism (one outcome of probability p on D and q on D') among those that a rule admits. Its best δ is computed by
quadrature over the Gaussian session's privacy loss, which is normal: nothing is sampled.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pytest

from tests.privacy.exact import Floats
from tests.support.sentences import facts
from tests.world import ORDERS, RENYI_QUANTUM, Charge, Cost, Filter, calibrated_stable, compose

CAP = Filter.freeze(4.0, 4e-5)
FIRST = 0.05  # ρ of the Gaussian session


@dataclass(frozen=True)
class TwoPoint:
    """Mechanisms that give one outcome with probability p on D and q on D', another otherwise: arrays (choices,)."""

    p: Floats
    q: Floats

    def renyi(self, order: float) -> Floats:
        """The divergence of that order, the larger of both ways."""
        return np.maximum(_divergence(order, self.p, self.q), _divergence(order, self.q, self.p))

    def gain(self, least_loss: Floats) -> Floats:
        """Σ (P − e^x Q)⁺ over both outcomes, for each x (losses, choices)."""
        factor = np.exp(least_loss)[:, None]
        yes = np.maximum(self.p - factor * self.q, 0)
        return np.asarray(yes + np.maximum(1 - self.p - factor * (1 - self.q), 0))


def _divergence(order: float, p: Floats, q: Floats) -> Floats:
    yes = order * np.log(p) + (1 - order) * np.log(q)
    no = order * np.log1p(-p) + (1 - order) * np.log1p(-q)
    return np.asarray(np.logaddexp(yes, no) / (order - 1))


def furthest(order: float, nats: float) -> TwoPoint:
    """For each of many q, the largest p that `nats` at that order admit; by bisection from inside."""
    log_q = np.linspace(-50, -0.02, 400)
    near, far = np.zeros_like(log_q), -log_q - 1e-9
    for _ in range(50):
        middle = (near + far) / 2
        fits = TwoPoint(np.exp(log_q + middle), np.exp(log_q)).renyi(order) <= nats
        near, far = np.where(fits, middle, near), np.where(fits, far, middle)
    return TwoPoint(np.exp(log_q + near), np.exp(log_q))


def budget_at(order: float) -> float:
    """B of the ledger's rule at that order, for the cap's δ_R."""
    return CAP.epsilon - math.log1p(-1 / order) + (math.log(CAP.delta_renyi) + math.log(order)) / (order - 1)


def attack(orders: Sequence[float]) -> float:
    """δ at the cap's ε of a Gaussian session and the two-point mechanism chosen after it, if any order may admit."""
    spread = math.sqrt(2 * FIRST)
    losses = np.linspace(FIRST - 9 * spread, FIRST + 12 * spread, 1_501)
    weights = np.exp(-(((losses - FIRST) / spread) ** 2) / 2)
    best = np.maximum(1 - np.exp(CAP.epsilon - losses), 0)  # asking nothing more
    for order in orders:
        nats = budget_at(order) - order * FIRST
        if nats > 0:
            best = np.maximum(best, furthest(order, nats).gain(CAP.epsilon - losses).max(axis=1))
    return float(np.sum(weights * best) / np.sum(weights))


def test_the_best_of_several_orders_at_admission_exceeds_delta() -> None:
    assert 1.8 < attack(ORDERS[::2]) / CAP.delta_renyi < 1.95


def test_the_frozen_order_does_not_and_is_used_to_the_full() -> None:
    assert 0.99 < attack([CAP.order]) / CAP.delta_renyi <= 1.0


@pytest.mark.parametrize("order", [2.0, 4.0, 9.0, 15.0])
def test_no_other_order_frozen_in_advance_exceeds_delta_either(order: float) -> None:
    assert attack([order]) <= CAP.delta_renyi


def two_point_cost(p: float, q: float) -> Cost:
    pair = TwoPoint(np.array([p]), np.array([q]))
    return Cost(renyi=tuple(float(pair.renyi(order)[0]) for order in ORDERS))


def charged(*costs: Cost) -> Charge:
    return sum(map(CAP.charge, costs), Charge())


def test_the_filter_admits_what_the_frozen_order_does_and_not_what_another_would() -> None:
    gaussian = Cost.gaussian(FIRST)
    ours = furthest(CAP.order, budget_at(CAP.order) - CAP.order * FIRST - 1e-6)
    for p, q in list(zip(ours.p, ours.q, strict=True))[::40]:
        assert CAP.admits(charged(gaussian, two_point_cost(p, q)))
        assert not CAP.admits(charged(gaussian, two_point_cost(p, q), Cost.gaussian(1e-3)))
    other = furthest(15.0, budget_at(15.0) - 15.0 * FIRST)
    costs = [two_point_cost(p, q) for p, q in zip(other.p, other.q, strict=True)]
    assert not all(CAP.admits(charged(gaussian, cost)) for cost in costs)


@pytest.mark.parametrize(("epsilon", "delta"), [(4.0, 4e-5), (1.0, 1e-5), (0.1, 1e-6), (10.0, 1e-9)])
def test_the_budget_is_that_of_the_rule_rounded_down(epsilon: float, delta: float) -> None:
    cap = Filter.freeze(epsilon, delta)
    a = cap.order
    exact = epsilon - math.log((a - 1) / a) + (math.log(cap.delta_renyi) + math.log(a)) / (a - 1)
    assert cap.delta_renyi + cap.delta_additive == delta
    assert exact * (1 - 1e-8) <= cap.budget <= exact
    assert all(cap.budget / Decimal(a) >= Filter(**{**vars(cap), "order": o}).budget / Decimal(o) for o in ORDERS)


def test_a_full_budget_is_the_cap_as_one_conversion_states_it() -> None:
    full = Cost.gaussian(float(CAP.budget) / CAP.order / (1 + 2e-9))
    assert CAP.admits(CAP.charge(full))
    epsilon, delta = CAP.spent(CAP.charge(full))
    assert epsilon == pytest.approx(CAP.epsilon)
    assert delta == CAP.delta_renyi
    assert full.epsilon(CAP.delta_renyi) <= CAP.epsilon


def test_spending_is_a_sum_in_any_order_and_never_passes_the_cap() -> None:
    costs = [Cost.gaussian(0.07), Cost.approximate(0.4, 1e-6), Cost.approximate(0.01, 1e-7, times=50)]
    assert charged(*costs) == charged(*reversed(costs))
    together = CAP.charge(compose(costs))
    assert abs(together.renyi - charged(*costs).renyi) < Decimal("1e-12")
    spent = Charge()
    while CAP.admits(spent + charged(*costs)):
        spent += charged(*costs)
    assert spent == charged(*costs).times(int(CAP.budget // charged(*costs).renyi))
    assert 0.5 * CAP.epsilon < CAP.spent(spent)[0] <= CAP.epsilon
    assert CAP.delta_renyi < CAP.spent(spent)[1] <= CAP.delta


def test_additive_delta_has_a_cap_of_its_own() -> None:
    half = Decimal(CAP.delta_additive)
    assert CAP.admits(Charge(delta=half))
    assert not CAP.admits(Charge(delta=half + Decimal("1e-30")))
    assert not CAP.admits(CAP.charge(Cost.approximate(0.1, CAP.delta_additive * (1 + 1e-12))))


@pytest.mark.parametrize("amount", [1e-300, 1e-40, 1e-19, 1e-3])
def test_a_positive_spend_never_rounds_to_nothing(amount: float) -> None:
    charge = CAP.charge(Cost(renyi=(amount,) * len(ORDERS), delta=amount))
    assert charge.renyi >= Decimal(amount)
    assert charge.delta >= Decimal(amount)
    assert charge.times(3) == charge + charge + charge


def test_a_cost_that_is_infinite_at_the_order_is_refused() -> None:
    curve = tuple(0.1 if order < CAP.order else math.inf for order in ORDERS)
    with pytest.raises(ValueError, match=facts("infinite", f"{CAP.order:g}")):
        CAP.charge(Cost(renyi=curve))


def test_a_cap_too_small_for_any_spend_admits_none() -> None:
    tiny = Filter(epsilon=1e-3, delta=1e-9, order=1.25, delta_renyi=5e-10, delta_additive=5e-10)
    assert tiny.budget < 0
    assert not tiny.admits(tiny.charge(Cost.gaussian(1e-12)))


def test_refusals_at_their_own_charge_add_up_to_the_reservation() -> None:
    stable = calibrated_stable(epsilon=1.0, delta=1e-5, cutoff=20, order=CAP.order)
    each, whole = CAP.charge(stable.per_refusal).times(20), CAP.charge(stable.cost)
    assert abs(each.renyi - whole.renyi) <= whole.renyi * Decimal("1e-12") + 20 * RENYI_QUANTUM
    assert each.delta == pytest.approx(whole.delta, rel=Decimal("1e-12"))


@pytest.mark.parametrize(
    ("renyi", "delta"), [("0.01", "0"), ("0.3", "1e-7"), ("1e-18", "4e-6"), ("99", "0"), ("0.1", "1")]
)
def test_further_sessions_are_counted_as_they_would_be_admitted(renyi: str, delta: str) -> None:
    """The last that it counts is admitted, and no other; shares of what it counts stay within one."""
    total, each = Charge(renyi=CAP.budget / 7), Charge(renyi=Decimal(renyi), delta=Decimal(delta))
    more = CAP.more(total, each)
    assert not CAP.admits(total + each.times(more + 1))
    assert more == 0 or CAP.admits(total + each.times(more))
    assert more == 0 or CAP.share(total) + more * CAP.share(each) <= 1 + 1e-9
