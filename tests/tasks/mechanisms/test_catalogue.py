"""What holds of every mechanism that answers votes, over the catalogue: a new one is held to it by its line there."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from concord.artifacts.sections import MECHANISMS
from concord.tasks.mechanisms.confident import ConfidentGNMax
from concord.tasks.mechanisms.laplace_votes import LaplaceVotes
from concord.tasks.mechanisms.mechanism import Mechanism, calibrate, from_settings
from concord.tasks.mechanisms.noisy_votes import NoisyVotes, noises
from tests.privacy.exact import Silent


@pytest.mark.parametrize("name", MECHANISMS)
def test_settings_rebuild_it_to_the_bit(name: str) -> None:
    made = calibrate(name, epsilon=1.0, delta=1e-6, cutoff=5, queries=100, classes=3, teachers=250, order=5.0)
    again = from_settings(json.loads(json.dumps(made.settings())))
    assert (made.name, type(again)) == (name, type(made))
    assert again.settings() == made.settings()
    assert again.cost == made.cost


LOUD: dict[str, dict[str, Any]] = {
    "noisy_votes": {"made": NoisyVotes},
    "laplace_votes": {"made": LaplaceVotes},
    "confident": {"made": ConfidentGNMax, "teachers": 250},
}
"""Mechanisms whose cost falls with the noise of every count."""


@pytest.mark.parametrize("name", LOUD)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-6), (1.0, 1e-5), (8.0, 1e-9)])
@pytest.mark.parametrize(("queries", "classes"), [(1, 2), (1_000, 2), (2_000, 10), (10_000, 10), (10**9, 3)])
def test_calibration_uses_the_budget_and_no_more(
    name: str, epsilon: float, delta: float, queries: int, classes: int
) -> None:
    more = dict(LOUD[name])
    mechanism = more.pop("made").calibrate(epsilon=epsilon, delta=delta, queries=queries, classes=classes, **more)
    assert mechanism.cost.epsilon(delta) <= epsilon
    scales = {field: value * 0.9999 for field, value in vars(mechanism).items() if field.endswith("scale")}
    assert replace(mechanism, **scales).cost.epsilon(delta) > epsilon


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize(("made", "law"), [(NoisyVotes, "gaussian"), (LaplaceVotes, "laplace")])
def test_release_asks_for_its_own_scale_and_stops_at_the_last_row_paid_for(made: Any, law: str, classes: int) -> None:
    mechanism: Mechanism = made(epsilon=1.0, delta=1e-5, queries=10, classes=classes, scale=3.5)
    source, votes = Silent(), np.ones((6, classes), np.int64)
    answers = [mechanism.release(votes, source, first=first, refused=0) for first in (0, 6, 8, 12)]
    assert [each.labels.tolist() for each in answers] == [[0] * rows for rows in (6, 4, 2, 0)]
    assert answers[-1].counts is not None
    assert answers[-1].counts.shape == (0, classes)
    assert source.asked == [(law, 3.5, rows * noises(classes)) for rows in (6, 4, 2, 0)]
