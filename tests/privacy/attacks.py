"""Attacks on mechanisms: the worst streams known on two neighbours, and the score of each possible answer.

Assumes      nothing: any attack gives a lower bound of what a mechanism leaks
Guarantees   `here` and `there` are neighbours: on each row one vote moves from one class to another, or one unit is
             there or not
Not covered  the best attack: streams are fixed beforehand, those of the exact tests are not

One teacher votes otherwise on every row of a stream. Its answers are reduced to one score, the log-likelihood ratio
here over there as if rows were independent: if they are, that is the best statistic there is (Neyman & Pearson);
if they are not, another could be better, but any bound that follows from this one is true.
Checked by tests/privacy/test_audit.py.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, singledispatch
from typing import Any

import numpy as np
from scipy.special import ndtr

from tests import world

SPLIT_SHARE = 1 / 5
"""Share of trials spent on rows whose labels differ. Only a broken mechanism answers these often."""
LEAST_PROBABILITY = 1e-300
"""Least probability whose logarithm is taken."""
LEAST_REFUSED = 1 / 3
"""Rows that stable voting refuses less often are left out: they reveal little more and make streams long."""
ANSWERED = 4
"""Rows that should be answered before each row that should be refused, in the attack on a noisy threshold."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A stream on two neighbours, `here` and `there` (rows, classes), and how its answers are scored.

    labels     (rows, classes + 1): what each label of a row adds to the score; REFUSED, −1, is the last column
    surprisal  minus the log-likelihood of noise (rows, columns), for mechanisms that release noisy counts
    share      of the trials of an audit
    """

    here: world.Ints
    there: world.Ints
    labels: world.Floats
    surprisal: Callable[[world.Ints], world.Floats] | None = None
    share: float = 1.0

    @property
    def rows(self) -> int:
        """Number of rows of the stream."""
        return len(self.here)

    def play(self, release: Callable[..., world.Answers], side: int, source: world.RandomSource) -> float:
        """Score of one session with the mechanism's `release`, on side 0 (here) or 1 (there)."""
        return self.score(release((self.here, self.there)[side], source, 0, 0))

    def score(self, answers: world.Answers) -> float:
        """Log-likelihood ratio of these answers: the larger, the more likely here."""
        rows = len(answers.labels)
        score = float(self.labels[np.arange(rows), answers.labels].sum())
        if self.surprisal is None or answers.counts is None:
            return score
        released = answers.labels != world.REFUSED
        counted = slice(1 if self.here.shape[1] == 2 else 0, None)  # of two classes, one count has both
        here, there = ((answers.counts - votes[:rows])[released, counted] for votes in (self.here, self.there))
        return score + float((self.surprisal(there) - self.surprisal(here)).sum())


@dataclass(frozen=True, kw_only=True)
class SumsAttack:
    """Sums of every round on two neighbours, (numbers,) each, under Gaussian noise of the rounds' scales."""

    sides: tuple[tuple[world.Ints, ...], tuple[world.Ints, ...]]
    scales: tuple[float, ...]
    share: float = 1.0

    @property
    def rows(self) -> int:
        """Number of draws of noise in a session."""
        return sum(map(len, self.sides[0]))

    def play(self, release: Callable[..., world.Ints], side: int, source: world.RandomSource) -> float:
        """Log-likelihood ratio of all rounds of one session, released one after another."""
        score = 0.0
        for number, (here, there, scale) in enumerate(zip(*self.sides, self.scales, strict=True)):
            released = release(number, (here, there)[side], source)
            score += float(((released - there) ** 2 - (released - here) ** 2).sum() / (2 * scale**2))
        return score


Attacks = tuple[Any, ...]
"""Attacks, or attacks on sums."""


@singledispatch
def attacks_on(mechanism: Any, classes: int, teachers: int) -> Attacks:
    """Attacks on a mechanism, whose shares add up to one; `teachers` is the number of votes on a row."""
    raise NotImplementedError(type(mechanism))


@attacks_on.register
def _(mechanism: world.StableVoting, classes: int, teachers: int) -> Attacks:  # noqa: ARG001
    """Waiting asks one row over and over, at adjacent distances, and counts the answers before the last refusal. The
    pair chosen is the one whose waiting times overlap least: their Bhattacharyya coefficient is
    √(pq) / (1 − √((1−p)(1−q))) for refusal probabilities p and q. The other rows are those whose labels differ."""
    refused, answered = world.table_probabilities(
        mechanism.refusal.repeat(2) if len(mechanism.refusal) == 1 else mechanism.refusal
    )
    p, q, not_p, not_q = refused[:-1], refused[1:], answered[:-1], answered[1:]
    overlap = np.sqrt(p * q) / (1 - np.sqrt(not_p * not_q))
    overlap[1:][q[1:] < LEAST_REFUSED] = 1.0
    at = int(overlap.argmin())
    rows = math.ceil(2 * mechanism.cutoff / q[at]) + 20
    waiting = Attack(
        here=at_distance(np.full(rows, at), at + 1, classes),
        there=at_distance(np.full(rows, at + 1), at + 1, classes),
        labels=label_weights(np.tile([p[at], q[at], not_p[at], not_q[at]], (rows, 1)), classes),
        share=1 - SPLIT_SHARE,
    )
    return waiting, split_attack(mechanism.cutoff, classes)


@attacks_on.register
def _(mechanism: world.NoisyThreshold, classes: int, teachers: int) -> Attacks:  # noqa: ARG001
    """Crossing is the proof's worst case, repeated: rows at a larger distance here, likely to be answered, then a row
    at a smaller distance here, likely to be refused. The other rows are those whose labels differ."""
    rows = min(4 * mechanism.cutoff + 2 * ANSWERED, mechanism.queries or 2**62)
    crossed = (np.arange(rows) % (ANSWERED + 1) == ANSWERED).astype(np.int64)
    low = mechanism.threshold
    tails = [world.sum_tail(mechanism.threshold_scale, mechanism.query_scale, least) for least in (1, 0)]
    here, there = np.array(tails)[1 - crossed], np.array(tails)[crossed]
    crossing = Attack(
        here=at_distance(low + 1 - crossed, low + 1, classes),
        there=at_distance(low + crossed, low + 1, classes),
        labels=label_weights(np.column_stack([1 - here, 1 - there, here, there]), classes),
        share=1 - SPLIT_SHARE,
    )
    return crossing, split_attack(mechanism.cutoff, classes)


@attacks_on.register
def _(mechanism: world.NoisyCounts, classes: int, teachers: int) -> Attacks:
    """On every row, one more vote for class 0 here and for class 1 there."""
    here, there = one_vote_moved(mechanism.queries, classes, teachers - teachers // 2, teachers)
    labels = np.zeros((mechanism.queries, classes + 1))
    law = laplace_surprisal if isinstance(mechanism, world.LaplaceVotes) else gaussian_surprisal
    return (Attack(here=here, there=there, labels=labels, surprisal=partial(law, mechanism.scale)),)


@attacks_on.register
def _(mechanism: world.ConfidentGNMax, classes: int, teachers: int) -> Attacks:
    """Every row's largest count is at the threshold here, and one below it there."""
    rows, most = mechanism.queries, min(mechanism.threshold, teachers)
    here, there = one_vote_moved(rows, classes, most, teachers)
    passed = ndtr((np.array([most, most - 1]) - mechanism.threshold + 0.5) / mechanism.test_scale)
    labels = label_weights(np.tile([*(1 - passed), *passed], (rows, 1)), classes)
    return (Attack(here=here, there=there, labels=labels, surprisal=partial(gaussian_surprisal, mechanism.scale)),)


@attacks_on.register
def _(mechanism: world.LaplaceRelease, classes: int, teachers: int) -> Attacks:  # noqa: ARG001
    first, ratio = math.floor(mechanism.threshold) + 1, math.exp(-1 / mechanism.scale)
    least = first - np.arange(2 * first + 2)  # noise that answers at each distance
    above = np.where(least > 0, ratio ** np.abs(least) / (1 + ratio), 1 - ratio ** (1.0 - least) / (1 + ratio))
    return _one_question(above, classes)


@attacks_on.register
def _(mechanism: world.OptimalRelease, classes: int, teachers: int) -> Attacks:  # noqa: ARG001
    return _one_question(1 - mechanism.refusal / world.WHOLE, classes)


def _one_question(answered: world.Floats, classes: int) -> Attacks:
    """One question at the adjacent distances whose outcomes overlap least, and one whose answers differ."""
    refused = 1 - answered
    overlap = np.sqrt(answered[:-1] * answered[1:]) + np.sqrt(refused[:-1] * refused[1:])
    at = int(overlap.argmin())
    odds = np.array([[refused[at], refused[at + 1], answered[at], answered[at + 1]]])
    here, there = (at_distance(np.array([distance]), at + 1, classes) for distance in (at, at + 1))
    waiting = Attack(here=here, there=there, labels=label_weights(odds, classes), share=1 - SPLIT_SHARE)
    return waiting, split_attack(1, classes)


@attacks_on.register
def _(mechanism: world.Tallies, classes: int, teachers: int) -> Attacks:  # noqa: ARG001
    """A unit with the largest residual in every round; if labels are secret, its label changes. Contributions are
    computed by the code that runs, for a row with one cell per field."""
    sure = world.IntegerModel(  # of class 0, as far as it may be
        np.zeros((max(each.fields for each in mechanism.rounds), world.columns(mechanism.classes, "labels")), np.int64),
        world.LARGEST_WEIGHT
        * (np.array([-1]) if mechanism.classes <= 2 else np.eye(1, mechanism.classes, dtype=np.int64)[0]),
    )
    sides = list[tuple[world.Ints, ...]]()
    for label in (1, 0):
        sums = []
        for each in mechanism.rounds:
            question = world.RoundQuestion(
                classes=mechanism.classes,
                steps=mechanism.steps,
                what=each.what,
                least=each.least,
                count=each.count,
                fields=tuple(range(each.fields)),
                spans=tuple((code, code + 1) for code in range(each.fields)),
                model=sure if each.what == "labels" else None,
            )
            row = np.arange(each.fields, dtype=np.int32)[None]
            sums.append(world.tally(question, row, np.array([label * (1 if mechanism.classes else mechanism.steps)])))
        sides.append(tuple(sums))
    here, there = sides
    if mechanism.secret == "rows":
        there = tuple(np.zeros_like(sums) for sums in here)
    return (SumsAttack(sides=(here, there), scales=tuple(each.scale for each in mechanism.rounds)),)


@attacks_on.register
def _(mechanism: world.Stream, classes: int, teachers: int) -> Attacks:
    """A unit of the largest contribution that arrives in the first period, through all releases."""
    (once,) = attacks_on.dispatch(world.Tallies)(mechanism, classes, teachers)
    here = tuple(np.int64(q) * sums for q in mechanism.coefficients for sums in once.sides[0])
    sides = here, tuple(np.zeros_like(sums) for sums in here)
    return (replace(once, sides=sides, scales=once.scales * mechanism.season),)


def gaussian_surprisal(scale: float, noise: world.Ints) -> world.Floats:
    """Minus the log-likelihood of discrete Gaussian noise, up to a constant."""
    return np.asarray(noise**2 / (2 * scale**2))


def laplace_surprisal(scale: float, noise: world.Ints) -> world.Floats:
    """Minus the log-likelihood of discrete Laplace noise, up to a constant."""
    return np.asarray(np.abs(noise) / scale)


def split_attack(rows: int, classes: int) -> Attack:
    """Rows whose labels differ, at distance 0 on both sides: any released label gives the side away."""
    labels = np.zeros((rows, classes + 1))
    labels[:, 0], labels[:, 1] = 1.0, -1.0
    level, lost = (at_distance(np.full(rows, distance), 0, classes) for distance in (-1, -2))
    return Attack(here=level, there=lost, labels=labels, share=SPLIT_SHARE)


def at_distance(distance: world.Ints, most: int, classes: int) -> world.Ints:
    """Votes of 2·most + 4 teachers, (rows, classes), at each distance (rows,) up to `most`; −1 is a tie."""
    half = most + 2
    return _votes(half + distance + 1, 2 * half, classes)


def one_vote_moved(rows: int, classes: int, first: int, teachers: int) -> tuple[world.Ints, world.Ints]:
    """Two neighbours (rows, classes): `first` votes for class 0 on every row here, one fewer there; class 1 has the
    others."""
    here, there = (_votes(np.full(rows, count), teachers, classes) for count in (first, first - 1))
    return here, there


def label_weights(odds: world.Floats, classes: int) -> world.Floats:
    """Score of each label from probabilities (rows, 4): refusal here and there, then an answer here and there."""
    logs = np.log(np.maximum(odds, LEAST_PROBABILITY))
    labels = np.repeat((logs[:, 2] - logs[:, 3])[:, None], classes + 1, axis=1)
    labels[:, world.REFUSED] = logs[:, 0] - logs[:, 1]
    return labels


def _votes(first: world.Ints, teachers: int, classes: int) -> world.Ints:
    """`first` votes for class 0 and the others for class 1."""
    votes = np.zeros((len(first), classes), np.int64)
    votes[:, 0], votes[:, 1] = first, teachers - first
    return votes
