"""Profiles: a public guess of how teachers share their votes, as rows of vote shares.

A profile is an array (rows, classes), each row the shares of one public query's votes from the largest class down,
summing to 1. It stands for the stream to come: rows are taken to be drawn from it independently.

Assumes      the guess is public: a figure, votes on public rows of teachers trained on public data, or a simulation.
             Votes of the private teachers are not
Guarantees   nothing about privacy; the same guess gives the same profile
Ends         not applicable: nothing is drawn
Not covered  how well the guess describes the private teachers

A figure is the mean share of the winning class. Shares are then spread as Beta(b, 1 − b) between 1/classes and 1, most
of it near full agreement with a thin tail of torn rows: with a mean of 0.913 this meets the quantiles of 200 logistic
teachers' margins on UCI Adult from 1% to 70% within 0.03. What the winner lacks goes to as few rivals as can hold it,
so that margins are the least the figure allows. Checked by tests/tasks/test_profile.py.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from artifacts.errors import WrongInput

Floats = NDArray[np.float64]
Shares = NDArray[np.float64]

ROWS = 512
"""Rows of a profile at most: more would only slow planning."""


def profile(agreement: ArrayLike, classes: int) -> Shares:
    """The profile (rows, classes) of a guess. Raises WrongInput where it is none.

    agreement   a figure, the mean share of the winning class; or that share row by row (rows,); or vote counts or
                shares by class (rows, classes)
    """
    guess = np.asarray(agreement, np.float64)
    if guess.ndim == 0:
        return _spread(_beta(float(guess), classes), classes)
    if not guess.size or not np.isfinite(guess).all() or guess.min() < 0:
        raise WrongInput("agreement must hold at least one row, of finite numbers that are not negative")
    if guess.ndim == 1:
        return _thinned(_spread(guess, classes))
    if guess.ndim != 2 or guess.shape[1] != classes or guess.sum(axis=1).min() <= 0:
        raise WrongInput(f"agreement must have a vote in every row and {classes} columns of votes, got {guess.shape}")
    return _thinned(-np.sort(-guess / guess.sum(axis=1, keepdims=True), axis=1))


def _beta(mean: float, classes: int) -> Floats:
    """Shares of the winner at ROWS evenly spaced quantiles."""
    above = (mean * classes - 1) / (classes - 1)
    if not 0 < above <= 1:
        raise WrongInput(f"agreement must be above 1/classes = {1 / classes:.3g} and at most 1, got {mean:g}")
    quantiles = (np.arange(ROWS) + 0.5) / ROWS
    spread: Any = betaincinv(above, 1 - above, quantiles) if above < 1 else np.ones(ROWS)
    return (1 + (classes - 1) * np.asarray(spread)) / classes


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
    """At most ROWS rows, evenly spaced in order of margin."""
    rows = len(shares)
    if rows <= ROWS:
        return shares
    order = np.argsort(shares[:, 0] - shares[:, 1], kind="stable")
    return shares[order[(2 * np.arange(ROWS) + 1) * rows // (2 * ROWS)]]
