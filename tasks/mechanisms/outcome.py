"""What to expect of a mechanism on rows of votes: the odds that a row is refused, or its label changed by noise.

Assumes      the votes are public: a guess of them, or a simulation. Odds of private votes are themselves private
Guarantees   nothing about privacy. Odds of refusal are exact, but for `confident`; those, and of changed labels, take
             discrete noise as continuous, with half a vote's correction
Ends         not applicable: nothing is drawn
Not covered  whether the plurality of the teachers is the right label

A noisy threshold stays for a whole epoch, while the odds here take it afresh for each row. That counts too few answers,
never too many: with r(X) the rate of refusal under noise X, an epoch outlasts t rows with probability E (1 − r(X))^t,
at least (1 − E r(X))^t by Jensen's inequality, so epochs are at least as long. Checked by tests/tasks/test_outcome.py.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from tasks.mechanisms.confident import Confident
from tasks.mechanisms.laplace_votes import LaplaceVotes
from tasks.mechanisms.noisy_votes import NoisyVotes
from tasks.mechanisms.profile import Floats
from tasks.mechanisms.refusal import WHOLE
from tasks.mechanisms.stable import StableVoting
from tasks.mechanisms.threshold import NoisyThreshold, sum_tail
from tasks.mechanisms.voting import Ints, Mechanism

MIDDLES = (np.arange(64) + 0.5) / 64
"""Quantiles of the winner's noise that stand for all of it."""


@dataclass(frozen=True)
class Odds:
    """By row: the probability that it is refused when asked, and that a label released for it is changed by noise."""

    refused: Floats
    changed: Floats


@dataclass(frozen=True)
class Outcome:
    """What is expected of a stream: rows answered, and the part of their labels that noise has changed."""

    answered: float
    changed: float


def odds(mechanism: Mechanism, votes: Floats) -> Odds:
    """Odds by row of votes (rows, classes), each row from the largest count down."""
    match mechanism:
        case StableVoting():
            table = mechanism.refusal / WHOLE
            return _unchanged(table.take(_distance(votes), mode="clip"))
        case NoisyThreshold():
            return _unchanged(_below_threshold(mechanism, _distance(votes)))
        case Confident():
            short = mechanism.threshold - 0.5 - votes[:, 0]
            return Odds(ndtr(short / mechanism.test_scale), _changed(votes, mechanism.scale, ndtr, ndtri))
        case NoisyVotes():
            return Odds(np.zeros(len(votes)), _changed(votes, mechanism.scale, ndtr, ndtri))
        case LaplaceVotes():
            return Odds(np.zeros(len(votes)), _changed(votes, mechanism.scale, _laplace, _laplace_quantile))
    raise TypeError(f"no odds are known for {mechanism.name}")


def outcome(mechanism: Mechanism, votes: Floats, queries: int) -> Outcome:
    """What is expected when `queries` rows are drawn from those of `votes` (rows, classes) and asked in turn."""
    by_row = odds(mechanism, votes)
    answered_odds = 1 - by_row.refused
    rate = float(by_row.refused.mean())
    if isinstance(mechanism, Confident):
        answered = _expected_up_to(mechanism.answers, queries, 1 - rate)
    elif mechanism.cutoff is None or rate == 0:
        answered = float(queries)
    else:
        # Wald: rows asked until the T-th refusal or the last row are the expected refusals over their rate.
        answered = _expected_up_to(mechanism.cutoff, queries, rate) * (1 - rate) / rate
    changed = float((answered_odds * by_row.changed).sum() / max(answered_odds.sum(), 1e-300))
    return Outcome(answered=answered, changed=changed)


def _expected_up_to(most: int, trials: int, chance: float) -> float:
    """E min(most, N) for N ~ Binomial(trials, chance)."""
    below = trials * chance * float(binom.cdf(most - 2, trials - 1, chance))
    return below + most * float(binom.sf(most - 1, trials, chance))


def _unchanged(refused: Floats) -> Odds:
    return Odds(refused, np.zeros(len(refused)))


def _margin(votes: Floats) -> Ints:
    """Whole votes by which the winner leads, (rows,)."""
    return np.floor(votes[:, 0] - votes[:, 1] + 1e-6).astype(np.int64)


def _distance(votes: Floats) -> Ints:
    """As distance.py has it."""
    return np.maximum(0, (_margin(votes) - 1) // 2)


def _below_threshold(mechanism: NoisyThreshold, distance: Ints) -> Floats:
    """Pr[distance + Y ≤ threshold + X], each distance by its own exact tail."""
    scales = mechanism.threshold_scale, mechanism.query_scale
    different, place = np.unique(distance, return_inverse=True)
    short = (mechanism.threshold - different).tolist()
    refused = [sum_tail(*scales, -less) if less <= 0 else 1 - sum_tail(*scales, less + 1) for less in short]
    return np.array(refused)[place]


def _changed(
    votes: Floats, scale: float, cdf: Callable[[Floats], Floats], quantile: Callable[[Floats], Floats]
) -> Floats:
    """The probability that the largest noisy count is not the winner's, (rows,).

    Two classes share one noise, so half the margin is enough to change the label; more classes have one each.
    """
    if votes.shape[1] == 2:
        return cdf((0.5 - np.ceil(_margin(votes) / 2)) / scale)
    lead = (votes[:, :1] - votes[:, 1:] + 0.5) / scale
    kept = [cdf(lead + noise).prod(axis=1) for noise in quantile(MIDDLES)]
    return np.asarray(1 - np.mean(kept, axis=0))


def _laplace(at: Floats) -> Floats:
    """Distribution function of Laplace noise of scale 1."""
    tail = np.exp(-np.abs(at)) / 2
    return np.where(at < 0, tail, 1 - tail)


def _laplace_quantile(at: Floats) -> Floats:
    return np.asarray(-np.sign(at - 0.5) * np.log1p(-2 * np.abs(at - 0.5)))
