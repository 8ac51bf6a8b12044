"""What planning searches for: the cutoff that answers most, and the least margin and ensemble that are enough.

Assumes      all figures are public; more votes of the winner never make a row fail more often
Guarantees   nothing about privacy: every search is over public numbers and ends at the same place each time
Ends         not applicable: nothing is drawn
Not covered  several best cutoffs far apart: the search stops where a larger one answers less than half

Checked by tests/tasks/test_planning.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from artifacts.errors import WrongInput
from tasks.mechanisms.accounting import check_budget
from tasks.mechanisms.catalogue import calibrate
from tasks.mechanisms.fitting import LEAST_ORDER
from tasks.mechanisms.mechanism import Mechanism
from tasks.mechanisms.outcome import Outcome, outcome
from tasks.mechanisms.profile import Floats, Shares, profile

FAILURES = 0.01
"""A margin or a number of teachers is enough when a row is refused, or its label changed, with at most these odds."""
TYPICAL_AGREEMENT = 0.9
"""The mean share of the winning class where no guess is given: near that of linear teachers on tables and digits."""
LARGEST = 10**7
"""No larger margin or ensemble is searched."""


@dataclass(frozen=True, kw_only=True)
class Stream:
    """What is asked for, the profile (rows, classes) of vote shares it will meet, and its domain's Rényi order."""

    epsilon: float
    delta: float
    teachers: int
    queries: int
    classes: int
    shares: Shares
    order: float
    accountant: str = "renyi"

    @classmethod
    def expected(
        cls,
        *,
        epsilon: float,
        delta: float,
        teachers: int,
        queries: int,
        classes: int,
        agreement: ArrayLike = TYPICAL_AGREEMENT,
        order: float = LEAST_ORDER,
        accountant: str = "renyi",
    ) -> Self:
        """What a public guess of agreement says will be met. Raises WrongInput where the figures make no sense.

        agreement   as profile.profile takes it
        order       the Rényi order of the domain it will be charged in, where that is known
        """
        check_budget(epsilon=epsilon, delta=delta, queries=queries, classes=classes)
        if teachers < 1:
            raise WrongInput(f"planning needs teachers >= 1, got {teachers}")
        return cls(
            epsilon=epsilon,
            delta=delta,
            teachers=teachers,
            queries=queries,
            classes=classes,
            shares=profile(agreement, classes),
            order=order,
            accountant=accountant,
        )

    def calibrated(self, name: str, cutoff: int | None) -> Mechanism:
        """The mechanism as the door would calibrate it."""
        return calibrate(
            name,
            epsilon=self.epsilon,
            delta=self.delta,
            cutoff=cutoff,
            queries=self.queries,
            classes=self.classes,
            teachers=self.teachers,
            order=self.order,
            accountant=self.accountant,
        )

    def outcome(self, mechanism: Mechanism) -> Outcome:
        """What is expected of it."""
        return outcome(mechanism, self.shares * self.teachers, self.queries)

    def best(self, name: str, cutoffs: Sequence[int]) -> Mechanism:
        """The mechanism at the one of the cutoffs at which it answers most. Raises WrongInput where none fits."""

        def answered(place: int) -> float:
            try:
                return self.outcome(self.calibrated(name, cutoffs[place])).answered
            except WrongInput:
                return 0.0

        useful = [cutoff for cutoff in cutoffs if cutoff <= self.queries] or cutoffs[:1]
        return self.calibrated(name, cutoffs[_peak(answered, len(useful))])


def margin_needed(mechanism: Mechanism, stream: Stream) -> int | None:
    """The least lead, in votes, that is enough whoever else has votes: all other classes are level."""
    level = np.full(stream.classes, -1 / stream.classes)
    level[0] += 1
    share = stream.teachers / stream.classes
    return _least(lambda margin: _fails(mechanism, share + margin * level) <= FAILURES)


def teachers_needed(mechanism: Mechanism, stream: Stream) -> int | None:
    """The least ensemble that is enough for a row of average vote shares; None where none is."""
    average = stream.shares.mean(axis=0)

    def enough(teachers: int) -> bool:
        return _fails(mechanism.for_teachers(teachers / stream.teachers), average * teachers) <= FAILURES

    return _least(enough)


def _fails(mechanism: Mechanism, votes: Floats) -> float:
    """The odds that one row of votes (classes,) is refused or its label changed."""
    by_row = mechanism.odds(votes[None, :])
    return float(1 - (1 - by_row.refused[0]) * (1 - by_row.changed[0]))


def _peak(score: Callable[[int], float], places: int) -> int:
    """The place of the highest score: of every second one up to where scores have halved, and then of those beside."""
    coarse: list[float] = []
    for place in range(0, places, 2):
        coarse.append(score(place))
        if coarse[-1] < max(coarse) / 2:
            break
    centre = 2 * int(np.argmax(coarse))
    return max((place for place in (centre, centre - 1, centre + 1) if 0 <= place < places), key=score)


def _least(enough: Callable[[int], bool]) -> int | None:
    """The least number above 0 that is enough, for one that stays so; None where LARGEST is not."""
    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
        if high > LARGEST:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
