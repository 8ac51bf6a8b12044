"""What to expect of a mechanism on a stream of votes: rows answered, and the share of their labels that noise changes.

    profile      a public guess of how teachers share their votes
    odds         by row of votes, that a mechanism refuses it, and that noise changes its label: by a formula, if there
                 is one for its kind, else of simulated sessions
    expectation  of a mechanism on such votes, by its odds

Assumes      the votes are public: a guess, or a simulation. Votes of the private teachers are not, nor are their odds
Guarantees   nothing about privacy; the same guess gives the same profile. By formulas, odds of refusal are exact,
             except for `confident`; these, and odds of changed labels, treat discrete noise as continuous, with a
             correction of half a vote
Ends         not applicable: noise is simulated, and protects nothing
Not covered  how well the guess describes the private teachers; whether their plurality is the right label
             Checked by tests/tasks/advice/test_outcome.py

A profile is an array (rows, classes), each row the shares of one public query's votes from the largest class down,
summing to 1. It stands for the stream to come: rows are taken to be drawn from it independently. A figure is the mean
share of the winning class. Shares are then spread as Beta(b, 1 − b) between 1/classes and 1, most of it near full
agreement with a thin tail of torn rows: with a mean of 0.913 this meets the quantiles of 200 logistic teachers' margins
on UCI Adult from 1% to 70% within 0.03. What the winner lacks goes to as few rivals as can hold it, so that margins are
the least the figure allows.

A noisy threshold is kept for a whole epoch, while its odds draw it afresh for each row. This may count too few answers,
never too many: with r(X) the rate of refusal under noise X, an epoch outlasts t rows with probability E (1 − r(X))^t,
at least (1 − E r(X))^t by Jensen's inequality, so epochs are at least as long.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtr, ndtri

from concord.tasks.mechanisms.confident import ConfidentGNMax
from concord.tasks.mechanisms.distance import REFUSED, WHOLE, Draws, Floats, Ints
from concord.tasks.mechanisms.laplace_votes import LaplaceVotes
from concord.tasks.mechanisms.mechanism import Mechanism
from concord.tasks.mechanisms.noisy_votes import NoisyVotes
from concord.tasks.mechanisms.relabelled import Relabelled
from concord.tasks.mechanisms.sparse_vector import NoisyThreshold, sum_tail
from concord.tasks.mechanisms.stable import StableVoting

Shares = NDArray[np.float64]

TYPICAL_AGREEMENT = 0.9
"""Mean share of the winning class if nothing is known of rows and columns, close to that of linear teachers on tables
and digits."""
PROFILE_ROWS = 512
"""Rows of a profile."""
MIDDLES = (np.arange(64) + 0.5) / 64
"""Quantiles that represent the distribution of the winner's noise."""
SIMULATED = 2**18
"""Cells of votes that are simulated: all rows, as often as they are fewer."""


def profile(agreement: float, classes: int) -> Shares:
    """The profile (rows, classes) of a guess, the mean share of the winning class, above 1/classes and at most 1."""
    above = (agreement * classes - 1) / (classes - 1)
    quantiles = (np.arange(PROFILE_ROWS) + 0.5) / PROFILE_ROWS
    spread: Any = betaincinv(above, 1 - above, quantiles) if above < 1 else np.ones(PROFILE_ROWS)
    winner = (1 + (classes - 1) * np.asarray(spread)) / classes
    held, rest = [winner], 1 - winner
    for _ in range(classes - 1):  # as few rivals as can hold it
        held.append(np.minimum(winner, rest))
        rest = rest - held[-1]
    return np.stack(held, axis=1)


@dataclass(frozen=True)
class Odds:
    """By row: the probability that it is refused, and that noise changes the label released for it; and the largest
    number of rows that are released, None if they are not limited."""

    refused: Floats
    changed: Floats
    most: int | None = None

    @classmethod
    def refusing(cls, refused: Floats) -> "Odds":
        """Odds of a mechanism that releases the plurality label or nothing."""
        return cls(refused, np.zeros(len(refused)))


@dataclass(frozen=True)
class SimulatedNoise:
    """A `RandomSource` for simulations alone: its noise is no protection."""

    rng: np.random.Generator

    def uniform(self, first: int, rows: int) -> Draws:  # noqa: ARG002, rows are drawn for once
        """64-bit draws."""
        return self.rng.integers(0, 2**64, rows, dtype=np.uint64)

    def laplace(self, scale: float, size: int) -> Ints:
        """Discrete Laplace noise: the difference of two geometric draws."""
        stops = -np.expm1(-1 / scale)
        return self.rng.geometric(stops, size) - self.rng.geometric(stops, size)

    def gaussian(self, scale: float, size: int) -> Ints:
        """Rounded Gaussian noise."""
        return np.rint(self.rng.normal(scale=scale, size=size)).astype(np.int64)

    def once(self, name: str, draw: Callable[[], Ints]) -> Ints:  # noqa: ARG002, a session is one call
        """What `draw` gives."""
        return draw()


@singledispatch
def odds(mechanism: Any, votes: Floats) -> Odds:
    """Odds of a mechanism for each row of votes (rows, classes), whose counts are in falling order."""
    source, whole = SimulatedNoise(np.random.default_rng(0)), np.rint(votes).astype(np.int64)
    passes = [_simulated(mechanism, whole, source) for _ in range(max(1, SIMULATED // votes.size))]
    labels = np.stack(passes)
    answered = (labels != REFUSED).sum(axis=0)
    return Odds(1 - answered / len(passes), (labels > 0).sum(axis=0) / np.maximum(1, answered))


def _simulated(mechanism: Mechanism, votes: Ints, source: SimulatedNoise) -> Ints:
    """Labels (rows,) of sessions, each of which is asked the rows that the one before it left when it ended."""
    labels = np.zeros(0, np.int64)
    while len(labels) < len(votes):
        labels = np.concatenate([labels, mechanism.release(votes[len(labels) :], source, 0, 0).labels])
    return labels


@odds.register
def _of_relabelled(mechanism: Relabelled, votes: Floats) -> Odds:
    return odds(mechanism.inner, votes)


@odds.register
def _of_stable(mechanism: StableVoting, votes: Floats) -> Odds:
    """The table's probabilities of refusal; no label is changed."""
    return Odds.refusing((mechanism.refusal / WHOLE).take(_distances(votes), mode="clip"))


@odds.register
def _of_threshold(mechanism: NoisyThreshold, votes: Floats) -> Odds:
    """Pr[distance + Y ≤ threshold + X] from the exact tail at each distance; no label is changed."""
    scales = mechanism.threshold_scale, mechanism.query_scale
    different, place = np.unique(_distances(votes), return_inverse=True)
    short = (mechanism.threshold - different).tolist()
    refused = [sum_tail(*scales, -less) if less <= 0 else 1 - sum_tail(*scales, less + 1) for less in short]
    return Odds.refusing(np.array(refused)[place])


@odds.register
def _of_confident(mechanism: ConfidentGNMax, votes: Floats) -> Odds:
    """Odds of failing the test, and of a label changed by the noise of its counts."""
    failed = ndtr((mechanism.threshold - 0.5 - votes[:, 0]) / mechanism.test_scale)
    return Odds(np.asarray(failed), _changed(votes, mechanism.scale, ndtr, ndtri), most=mechanism.answers)


@odds.register
def _of_noisy(mechanism: NoisyVotes, votes: Floats) -> Odds:
    """Odds that noise outweighs the margin and changes a label; nothing is refused."""
    return Odds(np.zeros(len(votes)), _changed(votes, mechanism.scale, ndtr, ndtri))


@odds.register
def _of_laplace(mechanism: LaplaceVotes, votes: Floats) -> Odds:
    """As with Gaussian noise, by the Laplace law of scale 1."""

    def distribution(at: Floats) -> Floats:
        tail = np.exp(-np.abs(at)) / 2
        return np.where(at < 0, tail, 1 - tail)

    def quantile(at: Floats) -> Floats:
        return np.asarray(-np.sign(at - 0.5) * np.log1p(-2 * np.abs(at - 0.5)))

    return Odds(np.zeros(len(votes)), _changed(votes, mechanism.scale, distribution, quantile))


def _distances(votes: Floats) -> Ints:
    """Distance to instability (rows,), as in tasks.mechanisms.distance, of votes that need not be whole."""
    return np.maximum(0, (_margins(votes) - 1) // 2)


def _changed(
    votes: Floats, scale: float, distribution: Callable[[Floats], Floats], quantile: Callable[[Floats], Floats]
) -> Floats:
    """The probability that the largest noisy count is not the winner's, (rows,).

    Two classes share one draw of noise, so half the margin changes the label; with more classes each has its own.
    """
    if votes.shape[1] == 2:
        return np.asarray(distribution((0.5 - np.ceil(_margins(votes) / 2)) / scale))
    lead = (votes[:, :1] - votes[:, 1:] + 0.5) / scale
    kept = [distribution(lead + noise).prod(axis=1) for noise in quantile(MIDDLES)]
    return np.asarray(1 - np.mean(kept, axis=0))


def _margins(votes: Floats) -> Ints:
    """Whole votes by which the winner leads, (rows,)."""
    return np.floor(votes[:, 0] - votes[:, 1] + 1e-6).astype(np.int64)


@dataclass(frozen=True)
class Expectation:
    """Expected result of a stream: rows answered, and the share of their labels that noise has changed."""

    answered: float
    changed: float


def expectation(mechanism: Mechanism, votes: Floats, queries: int) -> Expectation:
    """Expectation for `queries` rows drawn from those of `votes` (rows, classes) and asked in turn."""
    by_row = odds(mechanism, votes)
    answered_odds = 1 - by_row.refused
    rate = float(by_row.refused.mean())
    if by_row.most is not None:
        answered = _expected_up_to(by_row.most, queries, 1 - rate)
    elif mechanism.cutoff is None or rate == 0:
        answered = float(queries)
    else:
        # Wald: rows asked until the T-th refusal or the last row are the expected refusals over their rate.
        answered = _expected_up_to(mechanism.cutoff, queries, rate) * (1 - rate) / rate
    weights = answered_odds / max(answered_odds.sum(), 1e-300)
    return Expectation(answered=answered, changed=float((weights * by_row.changed).sum()))


def _expected_up_to(most: int, trials: int, chance: float) -> float:
    """E min(most, N) for N ~ Binomial(trials, chance)."""
    from scipy.stats import binom  # heavy, and rarely asked for

    below = trials * chance * float(binom.cdf(most - 2, trials - 1, chance))
    return below + most * float(binom.sf(most - 1, trials, chance))
