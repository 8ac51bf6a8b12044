"""Every mechanism's noise has the law that its statement claims: a scale that is a fifth too small is found.

An audit proves an ε, and a claim with δ has slack: noise a fifth too small often stays within it. So the law itself is
compared. What is watched of a session, such as the square of its noise, has a mean that the claimed scale gives
exactly; another mean is found. How many sessions are watched follows from the power that is wanted, by the same
computation at the planted scale.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

from tests.privacy.attacks import at_distance, attacks_on
from tests.privacy.audit import Fresh
from tests.privacy.small import SUMS, calibrated
from tests.world import MECHANISMS, REFUSED, WHOLE, Draws, Ints, sum_tail

PLANTED = 0.8
"""Of the scale, or of the probability of a refusal."""
ROWS = 64
"""Draws of a session, at most."""
FALSE_ALARM, MISSED = 1e-8, 1e-6
"""How often a right law is found wrong, and a planted one is not found."""

Moments = tuple[float, float]


@dataclass(frozen=True)
class Watched:
    """What is watched of one session's noise, and the mean and standard deviation of that if it has `factor` of its
    scale."""

    of: Callable[[Any], float]
    law: Callable[[float], Moments]

    @property
    def trials(self) -> int:
        """Sessions in which the planted law is missed no more often than MISSED: means are normal, of so many."""
        (mean, sd), (other, its_sd) = self.law(1.0), self.law(PLANTED)
        return math.ceil(((norm.isf(FALSE_ALARM / 2) * sd + norm.isf(MISSED) * its_sd) / (mean - other)) ** 2)

    def stands(self, source: Fresh) -> bool:
        """Whether the mean of as many sessions is that of the claimed law."""
        seen = []
        for _ in range(self.trials):
            source.next_trial()
            seen.append(self.of(source))
        mean, sd = self.law(1.0)
        return bool(abs(np.mean(seen) - mean) <= norm.isf(FALSE_ALARM / 2) * sd / math.sqrt(self.trials))


class Thin(Fresh):
    """The planted fault: noise of PLANTED times its scale, and rows refused with PLANTED times their probability."""

    def uniform(self, first: int, rows: int) -> Draws:
        largest = float(WHOLE) * (1 - 2**-50)
        return np.minimum(super().uniform(first, rows) / PLANTED, largest).astype(np.uint64)

    def _take(self, sampler: Callable[[float, int], Ints], scale: float, size: int) -> Ints:
        return super()._take(sampler, PLANTED * scale, size)


def squares(scale: float, factor: float, power: int = 2) -> Moments:
    """Of (noise / scale)², whose noise is discrete Gaussian; with power 1 of |noise / scale|, of discrete Laplace."""
    noise = np.arange(-math.ceil(40 * scale), math.ceil(40 * scale) + 1) / scale
    sizes = np.abs(noise) ** power
    weights = np.exp(-sizes / power / factor**power)
    mean = np.average(sizes, weights=weights)
    return float(mean), float(np.sqrt(np.average((sizes - mean) ** 2, weights=weights)))


def of_sums(mechanism: Any) -> Watched:
    """The mean square of the noise of all rounds."""
    (attack,) = attacks_on(mechanism, 2, 30)
    rounds = list(zip(attack.sides[0], attack.scales, strict=True))

    def seen(source: Any) -> float:
        noise = [(mechanism.release(at, sums, source) - sums) / scale for at, (sums, scale) in enumerate(rounds)]
        return float((np.concatenate(noise) ** 2).mean())

    def law(factor: float) -> Moments:
        each = np.array([squares(scale, factor) for sums, scale in rounds for _ in sums])
        return each[:, 0].mean(), math.hypot(*each[:, 1]) / len(each)

    return Watched(seen, law)


def of_counts(mechanism: Any, power: int = 2) -> Watched:
    """The noise of the count of one row, which none refuses."""
    votes = np.array([[0, 1000]])

    def seen(source: Any) -> float:
        return float(abs((mechanism.release(votes, source, 0, 0).counts - votes)[0, 1] / mechanism.scale) ** power)

    return Watched(seen, lambda factor: squares(mechanism.scale, factor, power))


def of_refusals(mechanism: Any, votes: Ints, refused: Callable[[float], float]) -> Watched:
    """Whether a row (1, classes) is refused, which has a probability at each factor."""

    def law(factor: float) -> Moments:
        return refused(factor), math.sqrt(refused(factor) * (1 - refused(factor)))

    return Watched(lambda source: float(mechanism.release(votes, source, 0, 0).labels[0] == REFUSED), law)


def of_threshold(mechanism: Any) -> Watched:
    """Whether a row is refused whose distance is beyond the threshold by a scale."""
    beyond = math.ceil(mechanism.query_scale)
    row = at_distance(np.array([mechanism.threshold + beyond]), mechanism.threshold + beyond, 2)
    scales = mechanism.threshold_scale, mechanism.query_scale
    return of_refusals(mechanism, row, lambda factor: sum_tail(factor * scales[0], factor * scales[1], beyond))


def of_table(mechanism: Any) -> Watched:
    """Whether a row is refused that is refused about half of the time."""
    half = int(np.argmin(np.abs(mechanism.refusal / WHOLE - 0.5)))
    row = at_distance(np.array([half]), half, 2)
    return of_refusals(mechanism, row, lambda factor: factor * float(mechanism.refusal[half]) / WHOLE)


def of_test(mechanism: Any) -> Watched:
    """Whether a row is refused whose largest count is beyond the threshold by a scale."""
    beyond, most = round(mechanism.test_scale), math.ceil(40 * mechanism.test_scale)

    def refused(factor: float) -> float:
        law = np.exp(-((np.arange(-most, most + 1) / mechanism.test_scale / factor) ** 2) / 2)
        return float(law[: most - beyond].sum() / law.sum())

    return of_refusals(mechanism, np.array([[0, mechanism.threshold + beyond]]), refused)


WATCHED: dict[str, Callable[[], Watched]] = {
    "noisy_votes": lambda: of_counts(calibrated("noisy_votes")),
    "laplace_votes": lambda: of_counts(calibrated("laplace_votes"), 1),
    "confident": lambda: of_counts(calibrated("confident")),
    "confident: its test": lambda: of_test(calibrated("confident")),
    "sparse_vector": lambda: of_threshold(calibrated("sparse_vector")),
    "published": lambda: of_threshold(calibrated("published")),
    "stable": lambda: of_table(calibrated("stable", cutoff=20)),
    **{name: partial(of_sums, mechanism) for name, mechanism in SUMS.items()},
}


def test_every_mechanism_is_watched() -> None:
    assert {name.partition(":")[0] for name in WATCHED} >= {*MECHANISMS, *SUMS}


@pytest.mark.parametrize("name", WATCHED)
def test_noise_has_the_law_that_is_claimed_and_a_scale_a_fifth_too_small_is_found(name: str) -> None:
    watched = WATCHED[name]()
    assert watched.trials < 20_000
    assert watched.stands(Fresh(watched.trials, ROWS))
    assert not watched.stands(Thin(watched.trials, ROWS))
