"""What scores of many trials prove: a lower bound on ε that holds whatever the mechanism is.

Assumes      trials are independent, those of either neighbour alike; δ is the claimed one
Guarantees   with probability at least `confidence`, no (ε, δ) guarantee holds for any ε below `lower_bound`
Ends         one bound a sample: the half an event was chosen on is not the half it is counted in
Not covered  upper bounds: an attack that shows nothing proves nothing

Proof. (ε, δ)-DP says Pr[E here] ≤ e^ε·Pr[E there] + δ for every event E, and the same with here and there exchanged, so
ε ≥ ln((p − δ) / q). The event is chosen on one half. On the other, each of p's lower and q's upper limit (Clopper &
Pearson 1934, exact) fails with probability at most (1 − confidence)/2. ∎
Events are "the score is at least c" and "below c": with a log-likelihood ratio as the score they are the best of all.
Source: Jagielski, Ullman & Oprea 2020, Algorithm 1; with δ, Nasr et al. 2021.
Checked by tests/privacy/test_audit.py: coverage by enumeration, and against choosing and counting on one sample.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

from tasks.mechanisms.refusal import Floats

TAIL = 200
"""Cuts tried from either end of the scores, at ranks that grow geometrically."""


@dataclass(frozen=True)
class Event:
    """The score is at least `cut`, more likely here; or else, not `above`, it is below, more likely there."""

    cut: float
    above: bool

    def hits(self, scores: Floats) -> int:
        """In how many of the trials (trials,) it happened."""
        return int(np.count_nonzero((scores >= self.cut) == self.above))


def log_ratio(likely: Any, rare: Any, trials: int, delta: float, confidence: float) -> Any:
    """Lower limit of ln((p − δ)/q), from the hits of an event in so many trials on either side; broadcasts.

    −inf where p may be no larger than δ.
    """
    miss = (1 - confidence) / 2
    low = np.where(likely > 0, beta.ppf(miss, np.maximum(likely, 1), trials - likely + 1), 0.0)
    high = np.where(rare < trials, beta.ppf(1 - miss, rare + 1, np.maximum(trials - rare, 1)), 1.0)
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(low - delta, 0.0) / high)


def best_event(here: Floats, there: Floats, delta: float, confidence: float) -> tuple[Event, float]:
    """The event that would prove most if it were counted on these very scores, two times (trials,), and how much."""
    trials = len(here)
    cuts = _cuts(np.concatenate([here, there]))
    at_least = [trials - np.searchsorted(np.sort(scores), cuts) for scores in (here, there)]
    above = log_ratio(at_least[0], at_least[1], trials, delta, confidence)
    below = log_ratio(trials - at_least[1], trials - at_least[0], trials, delta, confidence)
    bounds = np.concatenate([above, below])
    best = int(bounds.argmax())
    return Event(float(cuts[best % len(cuts)]), above=best < len(cuts)), float(bounds[best])


def _cuts(scores: Floats) -> Floats:
    ranks = np.geomspace(1, len(scores), TAIL).astype(np.int64) - 1
    ordered = np.sort(scores)
    return np.unique(np.concatenate([ordered[ranks], ordered[::-1][ranks]]))


def lower_bound(event: Event, here: Floats, there: Floats, delta: float, confidence: float) -> float:
    """ε that `event` proves on scores (trials,) it was not chosen on; 0 where it proves nothing."""
    sides = (here, there) if event.above else (there, here)
    likely, rare = (event.hits(scores) for scores in sides)
    return max(0.0, float(log_ratio(likely, rare, len(here), delta, confidence)))
