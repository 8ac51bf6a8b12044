"""Several homes: the exact law of all their shares for a person who is in one or in several, against planted bugs."""

from dataclasses import replace
from typing import Any

import pytest

from concord.tasks.mechanisms.homes import Joint, Share
from concord.tasks.mechanisms.tallies import Round, Tallies, planned_rounds
from concord.tasks.verify.recompute import SLACK
from tests.privacy.exact import LEFT_OUT
from tests.privacy.test_tallies import exact_delta
from tests.support.recomputed import charge, least_delta
from tests.support.recorded import RECORDED

EPSILON, DELTA = 1.0, 1e-3
STEPS = 16
ONE_CELL = Round(fields=1, cells=1, least=STEPS // 2, share=1.0)
"""Of one row: half a vote, either way."""


def one(**changed: Any) -> Tallies:
    given: dict[str, Any] = {"epsilon": EPSILON, "delta": DELTA, "classes": 2, "rounds": (ONE_CELL,), "steps": STEPS}
    return Tallies.calibrate(**(given | changed))


def delta_of(homes: int, scale: float, epsilon: float) -> float:
    """δ at ε of one release in each of so many homes, of a person who adds the most that they may to each."""
    return exact_delta((STEPS // 2,) * homes, scale, epsilon)


@pytest.mark.parametrize("homes", [1, 2, 3])
def test_what_is_claimed_of_all_homes_holds_for_a_person_in_so_many(homes: int) -> None:
    joint = Joint.of(one(), homes)
    scale = joint.rounds[0].scale
    assert delta_of(homes, scale, joint.epsilon) <= DELTA + LEFT_OUT
    assert joint.epsilon <= homes * EPSILON
    if homes > 1:  # the planted bugs: one home's claim, and one home fewer
        assert delta_of(homes, scale, EPSILON) > DELTA
        assert delta_of(homes, scale, Joint.of(one(), homes - 1).epsilon) > DELTA


def test_divided_noise_would_be_found() -> None:
    """The planted bug of masked sums without masks: each home adds its part of the noise alone."""
    scale = one().rounds[0].scale
    assert delta_of(1, scale, EPSILON) <= DELTA + LEFT_OUT < delta_of(1, scale / 2**0.5, EPSILON)


@pytest.mark.parametrize("homes", [2, 3])
def test_noise_too_narrow_for_the_sharper_proof_is_claimed_by_the_other(homes: int) -> None:
    joint = Joint.of(one(steps=2, rounds=(replace(ONE_CELL, least=1),)), homes)
    assert joint.rounds[0].scale < 3
    assert exact_delta((1,) * homes, joint.rounds[0].scale, joint.epsilon) <= DELTA
    assert least_delta(RECORDED["joint"] | joint.settings(), joint.epsilon) <= DELTA * SLACK


@pytest.mark.parametrize(("homes", "epsilon"), [(2, 1.47), (3, 1.83), (5, 2.44)])
def test_people_in_several_homes_pay_the_sum_of_rho(homes: int, epsilon: float) -> None:
    rounds = planned_rounds(classes=2, fields=14, codes=300)
    each = Tallies.calibrate(epsilon=1.0, delta=1e-5, classes=2, rounds=rounds)
    joint = Joint.of(each, homes)
    assert joint.rho == pytest.approx(homes * each.rho)
    assert joint.epsilon == pytest.approx(epsilon, abs=0.005)
    assert joint.cost.claims == ((joint.epsilon, joint.delta),)


@pytest.mark.parametrize("homes", [1, 2, 5])
def test_another_path_recomputes_the_claim_and_the_charge(homes: int) -> None:
    joint = Joint.of(one(delta=1e-5), homes)
    settings = RECORDED["joint"] | joint.settings()
    assert least_delta(settings, joint.epsilon) <= joint.delta
    nats, delta = charge(settings, 5.0)
    assert nats == pytest.approx(5 * joint.rho)
    assert delta == 0
    if homes > 1:  # settings that say of fewer homes
        assert charge({**settings, "homes": homes - 1}, 5.0)[0] < nats
        assert least_delta(settings, 0.9 * joint.epsilon) > joint.delta


def test_a_share_costs_what_tallies_cost() -> None:
    each = one()
    share = Share(**vars(each))
    assert (share.cost, share.rho, share.name) == (each.cost, each.rho, "share")
    assert least_delta(RECORDED["share"] | share.settings(), EPSILON) == least_delta(each.settings(), EPSILON)


def test_a_sum_of_shares_is_read_with_the_noise_that_it_has() -> None:
    joint = Joint.of(one(), 3)
    read = joint.scaled(4)
    assert read.rounds == (replace(joint.rounds[0], scale=2 * joint.rounds[0].scale),)
