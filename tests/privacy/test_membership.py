"""What an attacker gains: the exact law of Gaussian noise never passes the bound, which is tighter than that of ε, δ
alone, follows from published settings of every kind, and sees a planted bug."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from concord.artifacts.certificate import Certificate
from concord.artifacts.guarantee import Guarantee
from concord.artifacts.kinds import Kind
from concord.artifacts.privacy import Cost
from concord.artifacts.sections import MECHANISMS
from concord.tasks.asks.kinds import KINDS, delta_of
from concord.tasks.mechanisms.tallies import Tallies, planned_rounds
from concord.tasks.publish.first_page import guarantees_of, most_found
from tests.support.recorded import RECORDED

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
TALLIES = Tallies.calibrate(**BUDGET, classes=2, rounds=planned_rounds(classes=2, fields=4, codes=12))
SETTINGS: dict[str, Mapping[str, Any]] = {
    name: {key: value for key, value in RECORDED[name].items() if key != "relabel"} for name in (*KINDS, *MECHANISMS)
}
WRONG = np.linspace(0, 1, 101)


def certificate_of(*settings: Mapping[str, Any], part: str = "") -> Certificate:
    """A certificate of sessions that state (1, 1e-5) or their own claim, with as much of it as the bound needs."""
    claims = [{**BUDGET, **{name: each[name] for name in BUDGET if name in each}} for each in settings]
    records = [
        {
            "session": f"people-{at}",
            "purpose": "labels",
            "mechanism": {"name": str(each.get("name")), "settings": dict(each), "proof": "", "releases": ""},
            "guarantee": claims[at],
            "part": part,
            "teachers": 0,
            "counts": {"asked": 0, "answered": 0, "refused": 0, "not_asked": 0},
            "files": [],
        }
        for at, each in enumerate(settings)
    ]
    none = {"epsilon": 4.0, "delta": 4e-5}
    domain = {"name": "people", "sessions": len(records), "order": 5.0, "cap": none, "spent": none, "remaining": none}
    together = {name: sum(claim[name] for claim in claims) for name in BUDGET}
    claim = Guarantee.at(**together, unit="one row", neighbours="add or remove one unit")
    return Certificate.model_validate(
        {
            "data_version": "1",
            "guarantee": claim.model_dump(),
            "sessions": records,
            "domain": {**domain, "charges": []},
        }
    )


@pytest.mark.parametrize("name", SETTINGS)
def test_every_kind_states_a_delta_that_falls_to_its_own_and_bounds_more_than_its_claim(name: str) -> None:
    kind, certificate = Kind.of(SETTINGS[name]), certificate_of(SETTINGS[name])
    claim = certificate.leading.guarantee
    found = [delta_of(kind, epsilon) for epsilon in np.linspace(0, claim.epsilon, 17)]
    assert found == sorted(found, reverse=True)
    assert 0 < found[0] < 1
    assert found[-1] <= claim.delta * (1 + 1e-8)
    guarantees = guarantees_of(certificate)
    bound = np.array([most_found(guarantees, wrong) for wrong in WRONG])
    alone = np.array([certificate.guarantee.most_found(wrong) for wrong in WRONG])
    assert (bound >= WRONG).all()
    assert (np.diff(bound) >= 0).all()
    assert (bound <= alone).all()


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 0.0), (1.0, 1e-5), (4.0, 1e-3)])
def test_the_area_under_the_bound_of_a_claim_is_known(epsilon: float, delta: float) -> None:
    guarantee = Guarantee.at(epsilon, delta, "one row", "add or remove one unit")
    steps = 100_000
    area = sum(guarantee.most_found((at + 0.5) / steps) for at in range(steps)) / steps
    assert area == pytest.approx(1 - (1 - delta) ** 2 / (1 + np.exp(epsilon)), abs=1e-6)
    assert guarantee.most_found(0.0) == pytest.approx(delta)
    assert guarantee.most_found(1.0) == 1.0


def gaussian_power(mu: float) -> Any:
    """True positives of the best test between two Gaussians that lie mu apart."""
    return norm.cdf(norm.ppf(WRONG) + mu)


def test_no_test_of_gaussian_noise_passes_it_and_one_percent_finds_two() -> None:
    """The largest shift of all rounds together is known exactly; half of that noise is found out."""
    mu = np.sqrt(sum(square / scale**2 for square, _, scale in TALLIES.moves))
    guarantees = guarantees_of(certificate_of(TALLIES.settings()))
    bound = np.array([most_found(guarantees, wrong) for wrong in WRONG])
    power = gaussian_power(mu)
    assert (bound >= power - 1e-12).all()
    assert (bound - power).max() < 0.01
    assert 0.019 < most_found(guarantees, 0.01) < 0.0205
    assert most_found(guarantees[:1], 0.01) == pytest.approx(0.0271928, abs=1e-6)  # the claim alone
    assert (gaussian_power(2 * mu) > bound + 1e-3).any()


def test_sessions_compose_as_in_the_certificate_and_unknown_settings_have_their_claim_alone() -> None:
    one, two = (guarantees_of(certificate_of(*[TALLIES.settings()] * times)) for times in (1, 2))
    assert most_found(one, 0.01) < most_found(two, 0.01) < Guarantee.at(2.0, 2e-5, "", "").most_found(0.01)
    mu = np.sqrt(2 * sum(square / scale**2 for square, _, scale in TALLIES.moves))
    assert (np.array([most_found(two, wrong) for wrong in WRONG]) >= gaussian_power(mu) - 1e-12).all()
    for settings in ({}, {"name": "unheard of"}, {**SETTINGS["noisy_votes"], "relabel": {}}):
        found = guarantees_of(certificate_of(settings))
        assert [most_found(found, wrong) for wrong in (0.0, 0.01, 0.5)] == [
            found[0].most_found(wrong) for wrong in (0.0, 0.01, 0.5)
        ]


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.9])
def test_a_delta_of_a_cost_is_no_less_than_what_two_outcomes_need(epsilon: float) -> None:
    """Of randomised response the hockey-stick sum is known; a curve alone allows more, and additive δ is added."""
    flipped = 1 / (1 + np.exp(1.0))
    exact = max(0.0, (1 - flipped) - np.exp(epsilon) * flipped)
    response = Cost.approximate(1.0)
    assert exact <= response.delta_at(epsilon) <= exact * 1.001 + 1e-9
    assert Cost(renyi=response.renyi).delta_at(epsilon) > exact
    assert Cost.approximate(1.0, 0.01).delta_at(epsilon) >= exact + 0.01
    assert Cost(renyi=response.renyi, claims=((0.2, 1e-9),)).delta_at(epsilon) <= (1.0 if epsilon < 0.2 else 1.1e-9)
