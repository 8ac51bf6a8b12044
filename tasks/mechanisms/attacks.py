"""Attacks on mechanisms: worst neighbouring streams of votes, and how telling each possible answer to them is.

One teacher votes otherwise on every row of a stream. Its answers are reduced to one score, the log-likelihood ratio
here over there as if rows were independent: if they are, that is the best statistic there is (Neyman & Pearson);
if they are not, another could be better, but any bound that follows from this one is true. Each mechanism has a method
`attacks`; this is what they share.

Assumes      nothing: whatever an attack is, what it shows of a mechanism is a lower bound
Guarantees   `here` and `there` are neighbours: on each row one vote moves from one class to another
Ends         nothing is drawn here
Not covered  the best attack: streams are fixed beforehand, those of exact tests in tests/privacy are not
Checked by tests/privacy/test_audit.py
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from artifacts.errors import WrongInput
from tasks.mechanisms.profile import Floats
from tasks.mechanisms.voting import REFUSED, Answers, Ints

SPLIT_SHARE = 1 / 5
"""Part of the trials for rows whose labels differ. Only a broken mechanism answers these often."""
ENOUGH = 1e-300
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


def split_attack(rows: int, classes: int) -> Attack:
    """Rows whose labels differ, at distance 0 on both sides: any label is telling."""
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
    """Score of each label from the probabilities (rows, 4) of refusal here and there, and of an answer."""
    logs = np.log(np.maximum(odds, ENOUGH))
    labels = np.repeat((logs[:, 2] - logs[:, 3])[:, None], classes + 1, axis=1)
    labels[:, REFUSED] = logs[:, 0] - logs[:, 1]
    return labels


def _votes(first: Ints, teachers: int, classes: int) -> Ints:
    """`first` votes for class 0 and the others for class 1."""
    votes = np.zeros((len(first), classes), np.int64)
    votes[:, 0], votes[:, 1] = first, teachers - first
    return votes
