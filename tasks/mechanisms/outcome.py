"""What to expect of a mechanism on a stream: rows answered, and the part of their labels that noise has changed.

Assumes      the votes are public: a guess of them, or a simulation
Guarantees   nothing about privacy: arithmetic on the mechanism's own odds (odds.py)
Ends         not applicable: nothing is drawn
Not covered  whether the plurality of the teachers is the right label

A noisy threshold stays for a whole epoch, while its odds take it afresh for each row. That counts too few answers,
never too many: with r(X) the rate of refusal under noise X, an epoch outlasts t rows with probability E (1 − r(X))^t,
at least (1 − E r(X))^t by Jensen's inequality, so epochs are at least as long. Checked by tests/tasks/test_outcome.py.
"""

from dataclasses import dataclass

from scipy.stats import binom

from tasks.mechanisms.mechanism import Mechanism
from tasks.mechanisms.profile import Floats


@dataclass(frozen=True)
class Outcome:
    """What is expected of a stream: rows answered, and the part of their labels that noise has changed."""

    answered: float
    changed: float


def outcome(mechanism: Mechanism, votes: Floats, queries: int) -> Outcome:
    """What is expected when `queries` rows are drawn from those of `votes` (rows, classes) and asked in turn."""
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
    changed = float((answered_odds * by_row.changed).sum() / max(answered_odds.sum(), 1e-300))
    return Outcome(answered=answered, changed=changed)


def _expected_up_to(most: int, trials: int, chance: float) -> float:
    """E min(most, N) for N ~ Binomial(trials, chance)."""
    below = trials * chance * float(binom.cdf(most - 2, trials - 1, chance))
    return below + most * float(binom.sf(most - 1, trials, chance))
