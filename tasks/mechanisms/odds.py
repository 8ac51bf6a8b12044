"""Profiles and odds: how a mechanism behaves on public or simulated votes.

    profile      a public guess of how teachers share their votes
    Odds         for a row of votes: the probabilities that it is refused, and that noise changes its label

Each mechanism has a method `odds`; this file holds what they share.

Statement
    Assumes      the votes are public: a figure, or a simulation. Votes of the private teachers are not, nor are their
                 odds
    Guarantees   nothing about privacy; the same guess gives the same profile. Odds of refusal are exact, except for
                 `confident`; these, and odds of changed labels, treat discrete noise as continuous, with a correction
                 of half a vote
    Ends         not applicable: nothing is drawn
    Not covered  how well the guess describes the private teachers; whether their plurality is the right label

A profile is an array (rows, classes), each row the shares of one public query's votes from the largest class down,
summing to 1. It stands for the stream to come: rows are taken to be drawn from it independently. A figure is the mean
share of the winning class. Shares are then spread as Beta(b, 1 − b) between 1/classes and 1, most of it near full
agreement with a thin tail of torn rows: with a mean of 0.913 this meets the quantiles of 200 logistic teachers' margins
on UCI Adult from 1% to 70% within 0.03. What the winner lacks goes to as few rivals as can hold it, so that margins are
the least the figure allows.
Checked by tests/tasks/mechanisms/test_outcome.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from concord.tasks.mechanisms.distance import Floats, Ints

Shares = NDArray[np.float64]

TYPICAL_AGREEMENT = 0.9
"""Mean share of the winning class if nothing is known of rows and columns, close to that of linear teachers on tables
and digits."""
PROFILE_ROWS = 512
"""Rows of a profile."""


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


MIDDLES = (np.arange(64) + 0.5) / 64
"""Quantiles that represent the distribution of the winner's noise."""


@dataclass(frozen=True)
class Odds:
    """By row: the probability that it is refused, and that noise changes the label released for it."""

    refused: Floats
    changed: Floats


def only_refused(refused: Floats) -> Odds:
    """Odds of a mechanism that releases the plurality label or nothing."""
    return Odds(refused, np.zeros(len(refused)))


def distances(votes: Floats) -> Ints:
    """Distance to instability (rows,), as in distance.py, of votes that need not be whole."""
    return np.maximum(0, (_margins(votes) - 1) // 2)


def changed_odds(
    votes: Floats, scale: float, cdf: Callable[[Floats], Floats], quantile: Callable[[Floats], Floats]
) -> Floats:
    """The probability that the largest noisy count is not the winner's, (rows,).

    Two classes share one draw of noise, so half the margin changes the label; with more classes each has its own.
    """
    if votes.shape[1] == 2:
        return cdf((0.5 - np.ceil(_margins(votes) / 2)) / scale)
    lead = (votes[:, :1] - votes[:, 1:] + 0.5) / scale
    kept = [cdf(lead + noise).prod(axis=1) for noise in quantile(MIDDLES)]
    return np.asarray(1 - np.mean(kept, axis=0))


def _margins(votes: Floats) -> Ints:
    """Whole votes by which the winner leads, (rows,)."""
    return np.floor(votes[:, 0] - votes[:, 1] + 1e-6).astype(np.int64)
