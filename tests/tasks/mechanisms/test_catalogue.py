"""What holds of every mechanism, over the catalogue: a new one is held to it by its line there."""

from dataclasses import replace
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.privacy.exact import Silent
from tests.support.recorded import DRAWN, RECORDED
from tests.world import (
    MECHANISMS,
    TALLIES,
    Kind,
    LaplaceVotes,
    Mechanism,
    NoisyVotes,
    calibrate,
    from_settings,
    mechanisms_mechanism,
    noises,
)


@pytest.mark.parametrize("name", DRAWN)
def test_settings_rebuild_it_to_the_bit(name: str) -> None:
    made: Any = DRAWN[name]
    kind = Kind.of({key: value for key, value in RECORDED[made.name].items() if key != "relabel"})
    again: Any = from_settings(kind) if name in MECHANISMS else type(made).from_settings(kind)
    assert type(again) is type(made)
    assert again.settings() == made.settings()
    assert again.cost == made.cost


def test_the_list_of_plans_is_the_files_there_are_and_what_ends_each() -> None:
    """`artifacts.sections` may import no mechanism, so it lists them."""
    files = Path(str(mechanisms_mechanism.__file__)).parent.glob("*.py")
    modules = [import_module(f"concord.tasks.mechanisms.{file.stem}") for file in files]
    assert {module.MECHANISM.name for module in modules if hasattr(module, "MECHANISM")} == {*MECHANISMS, TALLIES}
    for name, ends in MECHANISMS.items():
        taken = signature(mechanisms_mechanism.mechanism_class(name).calibrate).parameters
        assert tuple(end for end in ("cutoff", "queries") if end in taken) == ends


@pytest.mark.parametrize("name", [name for name in MECHANISMS if mechanisms_mechanism.mechanism_class(name).counts])
@pytest.mark.parametrize(
    ("epsilon", "delta", "queries", "classes"),
    [(0.1, 1e-6, 1, 2), (1.0, 1e-5, 1_000, 2), (8.0, 1e-9, 10_000, 10), (1.0, 1e-5, 10**9, 3)],
)
def test_calibration_uses_the_budget_and_no_more(
    name: str, epsilon: float, delta: float, queries: int, classes: int
) -> None:
    """Of mechanisms that release counts, whose cost falls with the noise of each."""
    asked: dict[str, Any] = {"queries": queries, "classes": classes, "teachers": 250, "cutoff": None, "order": 2.0}
    made: Any = calibrate(name, epsilon=epsilon, delta=delta, **asked)
    assert made.cost.epsilon(delta) <= epsilon
    scales = {field: value * 0.9999 for field, value in vars(made).items() if field.endswith("scale")}
    assert replace(made, **scales).cost.epsilon(delta) > epsilon


@pytest.mark.parametrize("classes", [2, 5])
@pytest.mark.parametrize(("made", "law"), [(NoisyVotes, "gaussian"), (LaplaceVotes, "laplace")])
def test_release_asks_for_its_own_scale_and_stops_at_the_last_row_paid_for(made: Any, law: str, classes: int) -> None:
    noisy: Mechanism = made(epsilon=1.0, delta=1e-5, queries=10, classes=classes, scale=3.5)
    source, votes = Silent(), np.ones((6, classes), np.int64)
    answers = [noisy.release(votes, source, first=first, refused=0) for first in (0, 6, 8, 12)]
    assert [each.labels.tolist() for each in answers] == [[0] * rows for rows in (6, 4, 2, 0)]
    assert answers[-1].counts is not None
    assert answers[-1].counts.shape == (0, classes)
    assert source.asked == [(law, 3.5, rows * noises(classes)) for rows in (6, 4, 2, 0)]
