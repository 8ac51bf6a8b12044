"""Odds on a row of votes: that it is refused, or its label changed by noise.

Assumes      the votes are public: a guess of them, or a simulation. Odds of private votes are themselves private
Guarantees   nothing about privacy. Odds of refusal are exact, but for `confident`; those, and of changed labels, take
             discrete noise as continuous, with half a vote's correction
Ends         not applicable: nothing is drawn
Not covered  whether the plurality of the teachers is the right label

Each mechanism has a method `odds`; this is what they share. Checked by tests/tasks/test_outcome.py.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tasks.mechanisms.profile import Floats
from tasks.mechanisms.voting import Ints

MIDDLES = (np.arange(64) + 0.5) / 64
"""Quantiles of the winner's noise that stand for all of it."""


@dataclass(frozen=True)
class Odds:
    """By row: the probability that it is refused when asked, and that a label released for it is changed by noise."""

    refused: Floats
    changed: Floats


def only_refused(refused: Floats) -> Odds:
    """Odds of a mechanism that releases the plurality label or nothing."""
    return Odds(refused, np.zeros(len(refused)))


def distances(votes: Floats) -> Ints:
    """Distance to instability (rows,) of votes that need not be whole, as distance.py has it."""
    return np.maximum(0, (_margins(votes) - 1) // 2)


def changed_odds(
    votes: Floats, scale: float, cdf: Callable[[Floats], Floats], quantile: Callable[[Floats], Floats]
) -> Floats:
    """The probability that the largest noisy count is not the winner's, (rows,).

    Two classes share one noise, so half the margin is enough to change the label; more classes have one each.
    """
    if votes.shape[1] == 2:
        return cdf((0.5 - np.ceil(_margins(votes) / 2)) / scale)
    lead = (votes[:, :1] - votes[:, 1:] + 0.5) / scale
    kept = [cdf(lead + noise).prod(axis=1) for noise in quantile(MIDDLES)]
    return np.asarray(1 - np.mean(kept, axis=0))


def _margins(votes: Floats) -> Ints:
    """Whole votes by which the winner leads, (rows,)."""
    return np.floor(votes[:, 0] - votes[:, 1] + 1e-6).astype(np.int64)
