"""Profiles and odds: how a mechanism behaves on public or simulated votes.

    profile      a public guess of how teachers share their votes
    Odds         for a row of votes: the probabilities that it is refused, and that noise changes its label

Each mechanism has a method `odds`; this file holds what they share.

Statement
    Assumes      the votes are public: a figure, votes on public rows of teachers trained on public data, or a
                 simulation. Votes of the private teachers are not, nor are their odds
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
Checked by tests/tasks/mechanisms/test_profile.py and tests/tasks/mechanisms/test_outcome.py.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from concord.artifacts.errors import WrongInput
from concord.tasks.mechanisms.distance import Floats, Ints

Shares = NDArray[np.float64]

TYPICAL_AGREEMENT = 0.9
"""Mean share of the winning class if nothing is known of rows and columns, close to that of linear teachers on tables
and digits."""
PROFILE_ROWS = 512
"""Most rows of a profile: more would only slow planning."""


def profile(agreement: ArrayLike, classes: int) -> Shares:
    """The profile (rows, classes) of a guess. Raises WrongInput if `agreement` is not a valid guess.

    agreement   the mean share of the winning class; or that share by row (rows,); or vote counts or shares by class
                (rows, classes)
    """
    guess = np.asarray(agreement, np.float64)
    if guess.ndim == 0:
        above = (float(guess) * classes - 1) / (classes - 1)
        if not 0 < above <= 1:
            raise WrongInput(f"agreement must be above 1/classes = {1 / classes:.3g} and at most 1, got {guess:g}")
        quantiles = (np.arange(PROFILE_ROWS) + 0.5) / PROFILE_ROWS
        spread: Any = betaincinv(above, 1 - above, quantiles) if above < 1 else np.ones(PROFILE_ROWS)
        return _spread((1 + (classes - 1) * np.asarray(spread)) / classes, classes)
    if not guess.size or not np.isfinite(guess).all() or guess.min() < 0:
        raise WrongInput("agreement must hold at least one row, of finite numbers that are not negative")
    if guess.ndim == 1:
        return _thinned(_spread(guess, classes))
    if guess.ndim != 2 or guess.shape[1] != classes or guess.sum(axis=1).min() <= 0:
        raise WrongInput(f"agreement must have a vote in every row and {classes} columns of votes, got {guess.shape}")
    return _thinned(-np.sort(-guess / guess.sum(axis=1, keepdims=True), axis=1))


def _spread(winner: Floats, classes: int) -> Shares:
    """Rows of shares with these winners (rows,), the rest held by as few rivals as can hold it."""
    if winner.min() < (1 - 1e-9) / classes or winner.max() > 1:
        raise WrongInput(f"a winner's share must be between 1/classes = {1 / classes:.3g} and 1, got {winner.min():g}")
    rest = 1 - winner
    held = [winner]
    for _ in range(classes - 1):
        held.append(np.minimum(winner, rest))
        rest = rest - held[-1]
    return np.stack(held, axis=1)


def _thinned(shares: Shares) -> Shares:
    """At most PROFILE_ROWS rows, evenly spaced in order of margin."""
    rows = len(shares)
    if rows <= PROFILE_ROWS:
        return shares
    order = np.argsort(shares[:, 0] - shares[:, 1], kind="stable")
    return shares[order[(2 * np.arange(PROFILE_ROWS) + 1) * rows // (2 * PROFILE_ROWS)]]


MIDDLES = (np.arange(64) + 0.5) / 64
"""Quantiles that represent the distribution of the winner's noise."""


@dataclass(frozen=True)
class Odds:
    """By row: the probability that it is refused, and that noise changes the label released for it.

    variance   of the noise in every released count; None if only labels are released
    """

    refused: Floats
    changed: Floats
    variance: float | None = None


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
