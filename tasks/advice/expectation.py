"""What to expect of a mechanism on a stream of votes: rows answered, and the share of their labels that noise changes.

    profile      a public guess of how teachers share their votes
    expectation  of a mechanism on such votes, by its own odds

Assumes      the votes are public: a guess, or a simulation
Guarantees   nothing about privacy; the same guess gives the same profile
Ends         not applicable: nothing is drawn
Not covered  how well the guess describes the private teachers; whether their plurality is the right label
             Checked by tests/tasks/mechanisms/test_outcome.py

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

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from concord.tasks.mechanisms.distance import Floats
from concord.tasks.mechanisms.mechanism import Mechanism

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


@dataclass(frozen=True)
class Expectation:
    """Expected result of a stream: rows answered, and the share of their labels that noise has changed."""

    answered: float
    changed: float


def expectation(mechanism: Mechanism, votes: Floats, queries: int) -> Expectation:
    """Expectation for `queries` rows drawn from those of `votes` (rows, classes) and asked in turn."""
    by_row = mechanism.odds(votes)
    answered_odds = 1 - by_row.refused
    rate = float(by_row.refused.mean())
    if mechanism.answers is not None:
        answered = _expected_up_to(mechanism.answers, queries, 1 - rate)
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
