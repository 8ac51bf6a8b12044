"""The audit: attacks on a mechanism as it runs, with real randomness, and the lower bound on ε that they prove.

Every trial is a whole session: the stream goes through the mechanism's own `release`, with keyed draws under a fresh
key for each batch of trials, or OpenDP noise; only the attack's score of its answers is kept. The scores of many trials
prove a lower bound on ε that holds for any mechanism.

Assumes      trials are independent, those of either neighbour alike; δ is the claimed one
Guarantees   with probability at least `confidence`, no (ε, δ) guarantee holds for any ε below `audit`
Ends         one bound per sample: the half on which an event is chosen is not the half in which it is counted
Not covered  upper bounds: an attack that finds nothing proves nothing

Proof. (ε, δ)-DP says Pr[E here] ≤ e^ε·Pr[E there] + δ for every event E, and the same with here and there exchanged, so
ε ≥ ln((p − δ) / q). The event is chosen on one half. On the other, each of p's lower and q's upper limit (Clopper &
Pearson 1934, exact) fails with probability at most (1 − confidence)/2. ∎
Events are "the score is at least c" and "below c": with a log-likelihood ratio as the score they are the best of all.
Source: Jagielski, Ullman & Oprea 2020, Algorithm 1; with δ, Nasr et al. 2021.
Checked by tests/privacy/test_audit.py: coverage by enumeration, and against choosing and counting on one sample.
"""

import secrets
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta

from tests.privacy.attacks import Attack, SumsAttack
from tests.world import Draws, Floats, Ints, mechanisms_noise

TAIL_CUTS = 200
"""Cuts tried from either end of the scores, at ranks that grow geometrically."""


@dataclass(frozen=True)
class ScoreEvent:
    """The event that the score is at least `cut` (`above`, more likely here), or below it (more likely there)."""

    cut: float
    above: bool

    def hits(self, scores: Floats) -> int:
        """Number of trials, of scores (trials,), in which the event happened."""
        return int(np.count_nonzero((scores >= self.cut) == self.above))


def log_ratio(likely: Any, rare: Any, trials: int, delta: float, confidence: float) -> Any:
    """Lower limit of ln((p − δ)/q), from the hits of an event in so many trials on either side; broadcasts.

    −inf if p may be no larger than δ.
    """
    miss = (1 - confidence) / 2
    low = np.where(likely > 0, beta.ppf(miss, np.maximum(likely, 1), trials - likely + 1), 0.0)
    high = np.where(rare < trials, beta.ppf(1 - miss, rare + 1, np.maximum(trials - rare, 1)), 1.0)
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(low - delta, 0.0) / high)


def best_event(here: Floats, there: Floats, delta: float, confidence: float) -> tuple[ScoreEvent, float]:
    """The event with the largest bound if it were counted on these same scores, two of (trials,), and that bound."""
    trials = len(here)
    both = np.sort(np.concatenate([here, there]))
    ranks = np.geomspace(1, len(both), TAIL_CUTS).astype(np.int64) - 1
    cuts = np.unique(np.concatenate([both[ranks], both[::-1][ranks]]))
    at_least = [trials - np.searchsorted(np.sort(scores), cuts) for scores in (here, there)]
    above = log_ratio(at_least[0], at_least[1], trials, delta, confidence)
    below = log_ratio(trials - at_least[1], trials - at_least[0], trials, delta, confidence)
    bounds = np.concatenate([above, below])
    best = int(bounds.argmax())
    return ScoreEvent(float(cuts[best % len(cuts)]), above=best < len(cuts)), float(bounds[best])


def lower_bound(event: ScoreEvent, here: Floats, there: Floats, delta: float, confidence: float) -> float:
    """ε that `event` proves on scores (trials,) it was not chosen on; 0 if it proves nothing."""
    sides = (here, there) if event.above else (there, here)
    likely, rare = (event.hits(scores) for scores in sides)
    return max(0.0, float(log_ratio(likely, rare, len(here), delta, confidence)))


ROWS_A_BATCH = 2**18
"""Rows drawn for at a time, over all trials of a batch."""
AHEAD = 2**12
"""Noise drawn at a time."""


class Fresh:
    """The `tasks.mechanisms.distance.RandomSource` of one trial after another; `rows` is the longest stream of a
    trial.
    """

    def __init__(self, trials: int, rows: int) -> None:
        self._key, self._trials, self._rows, self._trial = secrets.token_bytes(32), trials, rows, -1
        self._stream: Draws | None = None
        self._pools: dict[tuple[Callable[[float, int], Ints], float], Ints] = {}

    def next_trial(self) -> None:
        """Begin the next trial, forgetting the draws of the last one."""
        self._trial += 1
        self._once: dict[str, Ints] = {}

    def uniform(self, first: int, rows: int) -> Draws:
        """Keyed draws of this trial's rows: each trial has rows of its own under the batch's key."""
        if self._stream is None:
            self._stream = mechanisms_noise.keyed_draws(self._key, 0, self._trials * self._rows)
        start = self._trial * self._rows + first
        return self._stream[start : start + rows]

    def laplace(self, scale: float, size: int) -> Ints:
        """Exact discrete Laplace noise from OpenDP."""
        return self._take(mechanisms_noise.laplace, scale, size)

    def gaussian(self, scale: float, size: int) -> Ints:
        """Exact discrete Gaussian noise from OpenDP."""
        return self._take(mechanisms_noise.gaussian, scale, size)

    def once(self, name: str, draw: Callable[[], Ints]) -> Ints:
        """The value that `draw` gave at its first call in this trial."""
        if name not in self._once:
            self._once[name] = draw()
        return self._once[name]

    def _take(self, sampler: Callable[[float, int], Ints], scale: float, size: int) -> Ints:
        """Noise drawn ahead, each used once: a call of OpenDP for a few draws costs more than the draws."""
        pool = self._pools.get((sampler, scale), np.empty(0, np.int64))
        if len(pool) < size:
            pool = np.concatenate([pool, sampler(scale, max(size, AHEAD))])
        self._pools[sampler, scale] = pool[size:]
        return pool[:size]


def audit(
    release: Callable[..., Any],
    attacks: Iterable[Attack | SumsAttack],
    *,
    delta: float,
    trials: int,
    confidence: float = 0.99,
) -> float:
    """The ε proved by `trials` sessions of a mechanism's `release` on each of two neighbours; 0 if none is.

    Every attack gets its share of the trials. The attack and its event are chosen on one half of them and counted on
    the other.
    """
    found: list[tuple[float, ScoreEvent, Floats]] = []
    for attack in attacks:
        scores = both_sides(release, attack, round(trials * attack.share) // 2 * 2)
        chosen, counted = np.split(scores, 2, axis=1)
        event, promise = best_event(chosen[0], chosen[1], delta, confidence)
        found.append((promise, event, counted))
    _, event, counted = max(found, key=lambda item: item[0])
    return lower_bound(event, counted[0], counted[1], delta, confidence)


def both_sides(release: Callable[..., Any], attack: Attack | SumsAttack, trials: int) -> Floats:
    """Scores (2, trials) of independent sessions on the attack's two neighbours, here and there."""
    scores, size = np.empty((2, trials)), max(1, ROWS_A_BATCH // attack.rows)
    for side in (0, 1):
        for trial in range(trials):
            if trial % size == 0:
                source = Fresh(min(size, trials - trial), attack.rows)
            source.next_trial()
            scores[side, trial] = attack.play(release, side, source)
    return scores
