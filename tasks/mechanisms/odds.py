"""Profiles, odds and attacks: how a mechanism behaves on public or simulated votes.

    profile      a public guess of how teachers share their votes
    Odds         for a row of votes: the probabilities that it is refused, and that noise changes its label
    Attack       worst neighbouring streams of votes, and the score of each possible answer

Each mechanism has methods `odds` and `attacks`; this file holds what they share.

Statement of profiles and odds
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

Statement of attacks
    Assumes      nothing: any attack gives a lower bound of what the mechanism leaks
    Guarantees   `here` and `there` are neighbours: on each row one vote moves from one class to another
    Ends         nothing is drawn here
    Not covered  the best attack: streams are fixed beforehand, those of exact tests in tests/privacy are not

One teacher votes otherwise on every row of a stream. Its answers are reduced to one score, the log-likelihood ratio
here over there as if rows were independent: if they are, that is the best statistic there is (Neyman & Pearson);
if they are not, another could be better, but any bound that follows from this one is true.
Checked by tests/privacy/test_audit.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from concord.artifacts.errors import WrongInput
from concord.tasks.mechanisms.distance import REFUSED, Answers, Floats, Ints, RandomSource

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


SPLIT_SHARE = 1 / 5
"""Share of trials spent on rows whose labels differ. Only a broken mechanism answers these often."""
LEAST_PROBABILITY = 1e-300
"""Least probability whose logarithm is taken."""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """A stream on two neighbours, `here` and `there` (rows, classes), and how its answers are scored.

    labels     (rows, classes + 1): what each label of a row adds to the score; REFUSED, −1, is the last column
    surprisal  minus the log-likelihood of noise (rows, columns), for mechanisms that release noisy counts
    share      of the trials of an audit
    """

    name: str
    here: Ints
    there: Ints
    labels: Floats
    surprisal: Callable[[Ints], Floats] | None = None
    share: float = 1.0

    @property
    def rows(self) -> int:
        """Number of rows of the stream."""
        return len(self.here)

    def play(self, release: Callable[..., Answers], side: int, source: RandomSource) -> float:
        """Score of one session with the mechanism's `release`, on side 0 (here) or 1 (there)."""
        return self.score(release((self.here, self.there)[side], source, 0, 0))

    def score(self, answers: Answers) -> float:
        """Log-likelihood ratio of these answers: the larger, the more likely here."""
        rows = len(answers.labels)
        score = float(self.labels[np.arange(rows), answers.labels].sum())
        if self.surprisal is None or answers.counts is None:
            return score
        released = answers.labels != REFUSED
        columns = slice(1 if self.here.shape[1] == 2 else 0, None)  # of two classes, one count has both
        here, there = ((answers.counts - votes[:rows])[released, columns] for votes in (self.here, self.there))
        return score + float((self.surprisal(there) - self.surprisal(here)).sum())


@dataclass(frozen=True, kw_only=True)
class SumsAttack:
    """Sums of every round on two neighbours, (numbers,) each, under Gaussian noise of the rounds' scales."""

    name: str
    sides: tuple[tuple[Ints, ...], tuple[Ints, ...]]
    scales: tuple[float, ...]
    share: float = 1.0

    @property
    def rows(self) -> int:
        """Number of draws of noise in a session."""
        return sum(map(len, self.sides[0]))

    def play(self, release: Callable[..., Ints], side: int, source: RandomSource) -> float:
        """Log-likelihood ratio of all rounds of one session, released one after another."""
        score = 0.0
        for number, (here, there, scale) in enumerate(zip(*self.sides, self.scales, strict=True)):
            released = release(number, (here, there)[side], source)
            score += float(((released - there) ** 2 - (released - here) ** 2).sum() / (2 * scale**2))
        return score


class Attacked(Protocol):
    """The part of a mechanism that an audit uses."""

    @property
    def name(self) -> str: ...
    @property
    def release(self) -> Callable[..., Any]: ...
    def attacks(self, classes: int, teachers: int) -> Sequence["Attack | SumsAttack"]: ...


def split_attack(rows: int, classes: int) -> Attack:
    """Rows whose labels differ, at distance 0 on both sides: any released label gives the side away."""
    labels = np.zeros((rows, classes + 1))
    labels[:, 0], labels[:, 1] = 1.0, -1.0
    level, lost = (at_distance(np.full(rows, distance), 0, classes) for distance in (-1, -2))
    name = f"{rows} rows whose labels differ"
    return Attack(name=name, here=level, there=lost, labels=labels, share=SPLIT_SHARE)


def at_distance(distance: Ints, most: int, classes: int) -> Ints:
    """Votes of 2·most + 4 teachers, (rows, classes), at each distance (rows,) up to `most`; −1 is a tie."""
    half = most + 2
    return _votes(half + distance + 1, 2 * half, classes)


def one_vote_moved(rows: int, classes: int, first: int, teachers: int) -> tuple[Ints, Ints]:
    """Two neighbours (rows, classes): `first` votes for class 0 on every row here, one fewer there; class 1 has the
    others. Raises WrongInput if there is no such vote."""
    if not 1 <= first <= teachers:
        raise WrongInput(f"an audit needs at least one teacher, got {teachers}")
    here, there = (_votes(np.full(rows, count), teachers, classes) for count in (first, first - 1))
    return here, there


def label_weights(odds: NDArray[np.float64], classes: int) -> Floats:
    """Score of each label from probabilities (rows, 4): refusal here and there, then an answer here and there."""
    logs = np.log(np.maximum(odds, LEAST_PROBABILITY))
    labels = np.repeat((logs[:, 2] - logs[:, 3])[:, None], classes + 1, axis=1)
    labels[:, REFUSED] = logs[:, 0] - logs[:, 1]
    return labels


def _votes(first: Ints, teachers: int, classes: int) -> Ints:
    """`first` votes for class 0 and the others for class 1."""
    votes = np.zeros((len(first), classes), np.int64)
    votes[:, 0], votes[:, 1] = first, teachers - first
    return votes
