"""Attacks on mechanisms: worst neighbouring streams of votes, and how telling each possible answer to them is.

One teacher votes otherwise on every row of a stream. Its answers are reduced to one score, the log-likelihood ratio
here over there as if rows were independent: where they are, that is the best statistic there is (Neyman & Pearson);
where they are not, another could be better, but any bound that follows from this one is true.

Assumes      nothing: whatever an attack is, what it shows of a mechanism is a lower bound
Guarantees   `here` and `there` are neighbours: on each row one vote moves from one class to another
Ends         nothing is drawn here
Not covered  the best attack: streams are fixed beforehand, those of exact tests in tests/privacy are not
Checked by tests/privacy/test_audit.py
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from artifacts.errors import WrongInput
from tasks.mechanisms.confident import Confident
from tasks.mechanisms.laplace_votes import LaplaceVotes
from tasks.mechanisms.noisy_votes import NoisyVotes
from tasks.mechanisms.published import Published
from tasks.mechanisms.refusal import Floats, probabilities
from tasks.mechanisms.sparse_vector import SparseVector
from tasks.mechanisms.stable import StableVoting
from tasks.mechanisms.threshold import sum_tail
from tasks.mechanisms.voting import REFUSED, Answers, Ints, Mechanism

LEAST_REFUSED = 1 / 3
"""Rows refused less often than this are not asked: they would show little more, at the price of long streams."""
NEAR = 4
"""Rows that should be answered, before each that should be refused, in the attack on a noisy threshold."""
SPLIT_SHARE = 1 / 5
"""Part of the trials for rows whose labels differ. Only a broken mechanism answers these often."""
ENOUGH = 1e-300
"""Least probability whose logarithm is taken."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A stream on two neighbours, `here` and `there` (rows, classes), and how its answers are scored.

    labels  (rows, classes + 1): what each label of a row adds to the score; REFUSED, −1, is the last column
    counts  what noise (rows, columns) costs in log-likelihood, for mechanisms that release noisy counts
    share   of the trials of an audit
    """

    name: str
    here: Ints
    there: Ints
    labels: Floats
    counts: Callable[[Ints], Floats] | None = None
    share: float = 1.0

    def score(self, answers: Answers) -> float:
        """Log-likelihood ratio of these answers: the larger, the more likely here."""
        rows = len(answers.labels)
        score = float(self.labels[np.arange(rows), answers.labels].sum())
        if self.counts is None or answers.counts is None:
            return score
        released = answers.labels != REFUSED
        told = slice(1 if self.here.shape[1] == 2 else 0, None)  # of two classes, one count tells both
        here, there = ((answers.counts - votes[:rows])[released, told] for votes in (self.here, self.there))
        return score + float((self.counts(there) - self.counts(here)).sum())


def attacks_on(mechanism: Mechanism, classes: int, teachers: int) -> tuple[Attack, ...]:
    """The attacks on a mechanism, whose shares add to one. Raises WrongInput for a mechanism none is known for.

    teachers    votes a row, for the mechanisms where it matters
    """
    match mechanism:
        case StableVoting():
            return _waiting(mechanism, classes), _split(mechanism.cutoff, classes)
        case SparseVector() | Published():
            return _crossing(mechanism, classes), _split(mechanism.cutoff, classes)
        case NoisyVotes():
            return (_counting(mechanism.queries, classes, teachers, partial(_gaussian, mechanism.scale)),)
        case LaplaceVotes():
            return (_counting(mechanism.queries, classes, teachers, partial(_laplace, mechanism.scale)),)
        case Confident():
            return (_doubting(mechanism, classes, teachers),)
        case _:
            raise WrongInput(f"no attack is known on {mechanism.name!r}")


def _waiting(mechanism: StableVoting, classes: int) -> Attack:
    """One row over and over, at adjacent distances: how many answers until the last refusal tells which.

    Of all pairs, the one whose waiting times overlap least: their Bhattacharyya coefficient is
    √(pq) / (1 − √((1−p)(1−q))) for refusal probabilities p and q.
    """
    refused, answered = probabilities(mechanism.refusal)
    p, q, not_p, not_q = refused[:-1], refused[1:], answered[:-1], answered[1:]
    overlap = np.sqrt(p * q) / (1 - np.sqrt(not_p * not_q))
    overlap[1:][q[1:] < LEAST_REFUSED] = 1.0
    at = int(overlap.argmin())
    rows = math.ceil(2 * mechanism.cutoff / q[at]) + 20
    return Attack(
        name=f"{rows} rows at distance {at} here and {at + 1} there",
        here=_at(np.full(rows, at), at + 1, classes),
        there=_at(np.full(rows, at + 1), at + 1, classes),
        labels=_weights(np.tile([p[at], q[at], not_p[at], not_q[at]], (rows, 1)), classes),
        share=1 - SPLIT_SHARE,
    )


def _crossing(mechanism: SparseVector | Published, classes: int) -> Attack:
    """The proof's worst case, over and over: rows farther here, to be answered, then one that is nearer, refused."""
    rows = min(4 * mechanism.cutoff + 2 * NEAR, mechanism.queries or 2**62)
    crossed = (np.arange(rows) % (NEAR + 1) == NEAR).astype(np.int64)
    low = mechanism.threshold
    tails = [sum_tail(mechanism.threshold_scale, mechanism.query_scale, least) for least in (1, 0)]
    here, there = np.array(tails)[1 - crossed], np.array(tails)[crossed]
    return Attack(
        name=f"{rows} rows at distances {low} and {low + 1}, {NEAR} of them farther here for one that is nearer",
        here=_at(low + 1 - crossed, low + 1, classes),
        there=_at(low + crossed, low + 1, classes),
        labels=_weights(np.column_stack([1 - here, 1 - there, here, there]), classes),
        share=1 - SPLIT_SHARE,
    )


def _split(rows: int, classes: int) -> Attack:
    """Rows whose labels differ, at distance 0 on both sides: any label tells all."""
    labels = np.zeros((rows, classes + 1))
    labels[:, 0], labels[:, 1] = 1.0, -1.0
    level, lost = (_at(np.full(rows, distance), 0, classes) for distance in (-1, -2))
    name = f"{rows} rows whose labels differ"
    return Attack(name=name, here=level, there=lost, labels=labels, share=SPLIT_SHARE)


def _counting(rows: int, classes: int, teachers: int, counts: Callable[[Ints], Floats]) -> Attack:
    """On every row, one vote more for class 0 here and for class 1 there."""
    here, there = _one_vote(rows, classes, teachers - teachers // 2, teachers)
    labels = np.zeros((rows, classes + 1))
    return Attack(name=f"{rows} rows, one vote moved on each", here=here, there=there, labels=labels, counts=counts)


def _doubting(mechanism: Confident, classes: int, teachers: int) -> Attack:
    """Every row's largest count is at the threshold here, and one below it there."""
    rows, most = mechanism.queries, min(mechanism.threshold, teachers)
    here, there = _one_vote(rows, classes, most, teachers)
    passed = norm.sf(mechanism.threshold - 0.5 - np.array([most, most - 1]), scale=mechanism.test_scale)
    return Attack(
        name=f"{rows} rows whose largest count is {most} here and {most - 1} there",
        here=here,
        there=there,
        labels=_weights(np.tile([*(1 - passed), *passed], (rows, 1)), classes),
        counts=partial(_gaussian, mechanism.scale),
    )


def _at(distance: Ints, most: int, classes: int) -> Ints:
    """Votes of 2·most + 4 teachers, (rows, classes), at each distance (rows,) up to `most`; −1 is a tie."""
    half = most + 2
    return _votes(half + distance + 1, 2 * half, classes)


def _one_vote(rows: int, classes: int, first: int, teachers: int) -> tuple[Ints, Ints]:
    if not 1 <= first <= teachers:
        raise WrongInput(f"an audit needs at least one teacher, got {teachers}")
    here, there = (_votes(np.full(rows, count), teachers, classes) for count in (first, first - 1))
    return here, there


def _votes(first: Ints, teachers: int, classes: int) -> Ints:
    """`first` votes for class 0 and the others for class 1."""
    votes = np.zeros((len(first), classes), np.int64)
    votes[:, 0], votes[:, 1] = first, teachers - first
    return votes


def _weights(odds: NDArray[np.float64], classes: int) -> Floats:
    """Score of each label from the probabilities (rows, 4) of refusal here and there, and of an answer."""
    logs = np.log(np.maximum(odds, ENOUGH))
    labels = np.repeat((logs[:, 2] - logs[:, 3])[:, None], classes + 1, axis=1)
    labels[:, REFUSED] = logs[:, 0] - logs[:, 1]
    return labels


def _gaussian(scale: float, noise: Ints) -> Floats:
    return np.asarray(noise**2 / (2 * scale**2))


def _laplace(scale: float, noise: Ints) -> Floats:
    return np.asarray(np.abs(noise) / scale)
