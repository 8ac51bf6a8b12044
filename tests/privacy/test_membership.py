"""What an attacker gains: the exact law of Gaussian noise never passes the bound, which is tighter than that of ε, δ
alone, follows from published settings of every kind, and sees a planted bug."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tests.support.recorded import RECORDED
from tests.world import CATALOGUE, Certificate, Guarantee, delta_of, guarantees_of, most_found

BUDGET: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5}
SETTINGS: dict[str, Mapping[str, Any]] = {
    name: {key: value for key, value in RECORDED[name].items() if key != "relabel"}
    for name, kind in CATALOGUE.items()
    if kind.releases  # which a certificate states
}
WRONG = np.linspace(0, 1, 101)


def certificate_of(settings: Mapping[str, Any]) -> Certificate:
    """A certificate of a session that states (1, 1e-5) or its own claim, with as much of it as the bound needs."""
    claim = {**BUDGET, **{name: settings[name] for name in BUDGET if name in settings}}
    record = {
        "session": "people-1",
        "purpose": "labels",
        "mechanism": {"name": str(settings.get("name")), "settings": dict(settings), "proof": "", "releases": ""},
        "guarantee": claim,
        "teachers": 0,
        "counts": {"asked": 0, "answered": 0, "refused": 0, "not_asked": 0},
        "files": [],
    }
    none = {"epsilon": 4.0, "delta": 4e-5}
    domain = {"name": "people", "sessions": 1, "order": 5.0, "cap": none, "spent": none, "remaining": none}
    guarantee = Guarantee.at(**claim, unit="one row", neighbours="add or remove one unit").model_dump()
    parts = {"guarantee": guarantee, "sessions": [record], "domain": {**domain, "charges": []}}
    return Certificate.model_validate({"data_version": "1", **parts})


@pytest.mark.parametrize("name", SETTINGS)
def test_every_kind_states_a_delta_that_falls_to_its_own_and_bounds_more_than_its_claim(name: str) -> None:
    settings, certificate = SETTINGS[name], certificate_of(SETTINGS[name])
    claim = certificate.leading.guarantee
    found = [delta_of(settings, epsilon) for epsilon in np.linspace(0, claim.epsilon, 17)]
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
def test_a_test_of_membership_without_false_positives_finds_at_most_delta(epsilon: float, delta: float) -> None:
    guarantee = Guarantee.at(epsilon, delta, "one row", "add or remove one unit")
    assert guarantee.most_found(0.0) == pytest.approx(delta)
    assert guarantee.most_found(1.0) == 1.0
