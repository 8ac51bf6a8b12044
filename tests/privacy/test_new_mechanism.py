"""A new mechanism is its file, which the catalogue names, and its referee: one is added, and all work.

It answers every row with the plurality label, or by a keyed coin with the other one: randomised response.
"""

import math
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from tests import world
from tests.privacy.attacks import Attack, one_vote_moved
from tests.privacy.audit import audit
from tests.support.at_door import CLASSES, counts_of, make_case
from tests.support.recomputed import charge, least_delta

NAME = "responses"


class Responses(world.PublicSettings):
    """Two classes alone; `each` is the ε of one row."""

    name: ClassVar[str] = NAME
    proof: ClassVar[str] = "tests/privacy/test_new_mechanism.py: randomised response (Warner 1965)"
    keyed: ClassVar[bool] = True
    counts: ClassVar[bool] = False
    cutoff: ClassVar[None] = None
    per_refusal: ClassVar[None] = None

    epsilon: float
    delta: float
    queries: int
    each: float

    @property
    def cost(self) -> world.Cost:
        return world.Cost.approximate(self.each, times=self.queries)

    @property
    def flipped(self) -> float:
        return 1 / (1 + math.exp(self.each))

    def release(self, votes: world.Ints, source: world.RandomSource, first: int, refused: int) -> world.Answers:  # noqa: ARG002
        paid = votes[: max(0, self.queries - first)]
        coins = source.uniform(first, len(paid)) < np.uint64(self.flipped * 2**64)
        return world.Answers(np.where(coins, 1 - world.plurality(paid), world.plurality(paid)))


def calibrated_responses(*, epsilon: float, delta: float, queries: int) -> Responses:
    return Responses(epsilon=epsilon, delta=delta, queries=queries, each=epsilon / queries)


class Referee(world.PureProof, world.VotesSettings):
    """How its settings are read again, and what they cost."""

    queries: int
    each: float

    @property
    def pure(self) -> tuple[float, int, float]:
        return self.each, self.queries, 0.0


class Leaking(Responses):
    """A planted bug: it flips half as often as it says."""

    @property
    def flipped(self) -> float:
        return super().flipped / 8


@pytest.fixture(autouse=True)
def added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lines in the catalogue, in calibration, in the list of plans and in the referee's."""
    monkeypatch.setitem(world.CATALOGUE, NAME, Responses)
    monkeypatch.setitem(world.CALIBRATED, Responses, calibrated_responses)  # type: ignore[misc]
    monkeypatch.setitem(world.MECHANISMS, NAME, ("queries",))
    monkeypatch.setitem(world.KINDS, NAME, Referee)


def made(epsilon: float = 12.0) -> Responses:
    found = world.calibrate(
        NAME, epsilon=epsilon, delta=1e-9, cutoff=None, queries=120, classes=2, teachers=600, order=2.0
    )
    assert isinstance(found, Responses)
    return found


def test_it_is_calibrated_rebuilt_and_planned_by_its_name() -> None:
    assert world.recorded(made().model_dump(mode="json")) == made()
    expected = world.expectation(made(300.0), np.array([[600.0, 0.0]]), 120)
    assert expected.answered == 120
    assert expected.changed == pytest.approx(1 / (1 + math.exp(300 / 120)), rel=0.03)


def test_settings_of_a_later_version_are_not_taken_for_those_of_this_one() -> None:
    with pytest.raises(world.NotVerified, match=f"settings of {NAME!r} are not those .*later"):
        world.recorded({**made().model_dump(mode="json"), "later": 1})


def test_it_passes_the_door_and_a_retry_gives_the_same_labels(tmp_path: Path) -> None:
    case = make_case(tmp_path, made())
    released = case.run()
    assert case.run().equals(released)
    plain = np.concatenate([world.plurality(counts_of(batch)) for batch in range(3)])
    changed = (released["label"].to_numpy(zero_copy_only=False) != np.array(CLASSES)[plain]).sum()
    assert 0 < changed < len(plain)


def test_verify_recomputes_what_it_charges() -> None:
    settings = made(epsilon=2.0).model_dump(mode="json")
    assert least_delta(settings, 2.0) <= 1e-9
    nats, additive = charge(settings, 2.0)
    assert nats == pytest.approx(made(epsilon=2.0).cost.renyi[world.ORDERS.index(2.0)], rel=1e-6)
    assert additive == 0.0


def test_an_audit_attacks_it_and_finds_a_planted_bug() -> None:
    claim = made(epsilon=2.0).with_(queries=1, each=2.0)
    here, there = one_vote_moved(1, 2, 2, 3)
    torn = Attack(here=here, there=there, labels=np.array([[1.0, -1.0, 0.0]]))
    settings: dict[str, Any] = {"delta": 1e-9, "trials": 20_000}
    settings["confidence"] = 1 - 1e-7  # at 0.99 an honest one, whose claim is tight, falls with probability 2e-3
    assert audit(claim.release, [torn], **settings) <= 2.0
    assert audit(Leaking(**dict(claim)).release, [torn], **settings) > 2.0
