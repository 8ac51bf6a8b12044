"""The audit: its bounds cover what they should, its attacks are neighbours, honest mechanisms stand, twins fall."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from tests import world
from tests.privacy.attacks import attacks_on
from tests.privacy.audit import audit, best_event, log_ratio, lower_bound
from tests.privacy.small import SUMS, calibrated

EPSILON, DELTA = 2.0, 1e-6
SURE = 1 - 1e-8
"""Confidence of bounds that a test relies on: it may fail once in a hundred million runs."""


def proved(mechanism: world.Mechanism) -> float:
    """The ε an audit proves of `mechanism`. Noise takes longer to draw than keyed streams do."""
    trials = 10_000 if mechanism.keyed else 3_000
    return audit(mechanism.release, attacks_on(mechanism, 2, 30), delta=DELTA, trials=trials, confidence=SURE)


Ratio = Callable[[Any, Any, int, float, float], Any]


def misses(ratio: Ratio, p: float, q: float, trials: int, delta: float) -> float:
    """The exact probability that a bound of confidence 0.9 is above the truth, ln((p − δ)/q)."""
    hits = np.arange(trials + 1)
    above = ratio(hits[:, None], hits[None, :], trials, delta, 0.9) > np.log((p - delta) / q)
    return float(binom.pmf(hits, trials, p) @ above @ binom.pmf(hits, trials, q))


CASES = [
    (p, q, trials, delta) for p in (0.1, 0.5, 0.95) for q in (0.02, 0.5) for trials in (10, 60) for delta in (0, 0.05)
]


@pytest.mark.parametrize(("p", "q", "trials", "delta"), CASES)
def test_the_bound_is_above_the_truth_as_rarely_as_it_says(p: float, q: float, trials: int, delta: float) -> None:
    assert misses(log_ratio, p, q, trials, delta) <= 0.1


def test_frequencies_taken_for_probabilities_are_rejected() -> None:
    def naive(likely: Any, rare: Any, trials: int, delta: float, confidence: float) -> Any:  # noqa: ARG001
        return np.log(np.maximum(likely / trials - delta, 0) / np.maximum(rare / trials, 1e-9) + 1e-300)

    assert max(misses(naive, *case) for case in CASES) > 0.1


def test_delta_forgotten_is_rejected() -> None:
    def forgetful(likely: Any, rare: Any, trials: int, delta: float, confidence: float) -> Any:  # noqa: ARG001
        return log_ratio(likely, rare, trials, 0.0, confidence)

    assert misses(forgetful, 0.1, 0.02, 60, 0.09) > 0.1


def test_an_event_is_not_counted_where_it_was_chosen() -> None:
    """On two samples of one law nothing should be proved; choosing and counting on one half proves much."""
    generator = np.random.default_rng(5)
    same = other = 0
    for _ in range(200):
        here, there, here_too, there_too = generator.normal(size=(4, 300))
        event, promise = best_event(here, there, 0.0, 0.8)
        same += promise > 0
        other += lower_bound(event, here_too, there_too, 0.0, 0.8) > 0
    assert other <= binom.isf(1e-6, 200, 0.2) < same


def test_the_score_is_the_likelihood_ratio_of_stable_voting() -> None:
    mechanism = calibrated("stable", cutoff=3)
    attack = attacks_on(mechanism, 2, 30)[0]
    draws = world.mechanisms_noise.keyed_draws(bytes(32), 0, len(attack.here))

    def log_likelihood(votes: world.Ints, labels: world.Ints) -> float:
        odds = mechanism.refusal.take(world.distance_to_instability(votes)[: len(labels)], mode="clip") / world.WHOLE
        return float(np.log(np.where(labels == world.REFUSED, odds, 1 - odds)).sum())

    for votes in (attack.here, attack.there):
        labels = mechanism.answer(votes, draws)
        truth = log_likelihood(attack.here, labels) - log_likelihood(attack.there, labels)
        assert attack.score(world.Answers(labels)) == pytest.approx(truth)


@pytest.mark.parametrize("name", world.MECHANISMS)
def test_honest_mechanisms_stand(name: str) -> None:
    assert proved(calibrated(name)) <= EPSILON


def test_most_of_what_pure_noise_spends_is_proved() -> None:
    assert proved(calibrated("laplace_votes")) > EPSILON / 2


class AnswersUndrawn(world.StableVoting):
    """Answers every second row whatever was drawn."""

    def answer(self, votes: world.Ints, draws: Any, refused: int = 0) -> world.Ints:
        return super().answer(votes, np.where(np.arange(len(draws)) % 2, np.uint64(world.WHOLE - 1), draws), refused)


def scales(mechanism: world.Mechanism) -> dict[str, float]:
    """The scales of its noise."""
    return {key: value for key, value in mechanism.model_dump(mode="json").items() if key.endswith("scale")}


def thinner(name: str) -> Any:
    """The mechanism with all its noise scaled down."""
    made = calibrated(name)
    return made.with_(**{key: scale / THINNER.get(name, 8) for key, scale in scales(made).items()})


def forgets_composition() -> world.StableVoting:
    """The table of one refusal, run until the five hundredth: of the hundredth an audit this short is not sure."""
    made: world.StableVoting = calibrated("stable", cutoff=1)
    return made.with_(cutoff=500)


def with_table(entries: slice) -> world.StableVoting:
    made: world.StableVoting = calibrated("stable", cutoff=20)
    return made.with_(refusal=made.refusal[entries].copy())


def answers_undrawn() -> world.StableVoting:
    made = calibrated("stable", cutoff=20)
    return AnswersUndrawn(**{key: getattr(made, key) for key in ("epsilon", "delta", "cutoff", "order", "refusal")})


THINNER = {"published": 80}
"""Factors of mechanisms that spend less than they are charged."""
BROKEN: dict[tuple[str, str], Callable[[], world.Mechanism]] = {
    **{(name, "noise unscaled"): partial(thinner, name) for name in world.MECHANISMS if scales(calibrated(name))},
    ("stable", "sensitivity forgotten"): partial(with_table, slice(None, None, 6)),
    ("stable", "table shifted"): partial(with_table, slice(20, None)),
    ("stable", "composition forgotten"): forgets_composition,
    ("stable", "rows answered whatever was drawn"): answers_undrawn,
    ("sparse_vector", "labels escape"): lambda: calibrated("sparse_vector", cutoff=3).with_(threshold=0),
}


def test_a_bug_is_planted_in_every_mechanism() -> None:
    assert {name for name, _ in BROKEN} == world.MECHANISMS.keys()


@pytest.mark.parametrize("bug", BROKEN, ids=": ".join)
def test_planted_bugs_are_caught(bug: tuple[str, str]) -> None:
    assert proved(BROKEN[bug]()) > EPSILON


class Quiet:
    """The planted bug: noise of a fifth of the scale."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def gaussian(self, scale: float, size: int) -> world.Ints:
        return np.asarray(self.source.gaussian(scale / 5, size))


@pytest.mark.parametrize("sums", SUMS)
def test_sums_are_attacked_and_a_planted_bug_is_caught(sums: str) -> None:
    mechanism = SUMS[sums]
    claim: dict[str, Any] = {"delta": mechanism.delta, "trials": 2_000, "confidence": 1 - 1e-7}
    attacks = attacks_on(mechanism, 2, 30)
    assert audit(mechanism.release, attacks, **claim) <= 1.0

    def quiet(number: int, exact: world.Ints, source: Any) -> world.Ints:
        return np.asarray(mechanism.release(number, exact, Quiet(source)))

    assert audit(quiet, attacks, **claim) > 1.0
