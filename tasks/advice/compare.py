"""Compare: find the voting mechanism and cutoff that are worth most within a budget, from public figures alone.

Every mechanism is calibrated by the catalogue, as at the door, and its expected outcome is computed over a public
profile of votes: a guess of how much teachers agree, which is a figure, or a table of votes that public or simulated
teachers cast on public rows. The search finds the cutoff with most informative labels, and the least sufficient margin;
more votes for the winner never make a row fail more often.

A label that noise changes at random with odds e tells as much of its class as (1 − e·C/(C − 1))² labels without noise
(Angluin & Laird 1988, for C = 2); noisy counts tell as much as the share of their variance that comes from the votes.
That orders ways to answer the same votes. It says nothing of a student: `rehearse_votes` simulates one.

Assumes      budget, teachers, queries and profile are public
Guarantees   nothing is charged and nothing drawn: a plan reads no private row and costs no privacy. Every search is
             deterministic. The best option has no fewer informative labels as ε grows
Ends         not applicable
Not covered  whether answered rows are easier ones; a session that goes on with further rows; several best cutoffs far
             apart: the search stops at a larger cutoff with less than half of the labels

Checked by tests/tasks/advice/test_planning.py and tests/flows/cli/test_plan_command.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike

from concord.artifacts.errors import WrongInput
from concord.artifacts.sections import MECHANISMS
from concord.tasks.mechanisms.distance import Floats
from concord.tasks.mechanisms.mechanism import Expectation, Mechanism, calibrate, expectation
from concord.tasks.mechanisms.noise import check_budget
from concord.tasks.mechanisms.odds import TYPICAL_AGREEMENT, Shares, profile
from concord.tasks.mechanisms.stable import LEAST_ORDER

FAILURE_ODDS = 0.01
"""A margin is enough if a row is refused, or its label changed, with at most these odds."""
LABELS_A_CLASS = 10
"""Least number of informative labels for each class."""
LARGEST_SEARCHED = 10**7
"""Largest margin searched."""


@dataclass(frozen=True, kw_only=True)
class LabelRequest:
    """A request for labels, as expected from public facts. Raises WrongInput if figures are out of range.

    agreement   a guess of how much teachers agree, as `odds.profile` takes it; None for TYPICAL_AGREEMENT
    order       the Rényi order of the domain that is charged, if it is known
    room        later rows beyond `queries` for which a mechanism that ends by rows is calibrated
    units       number of private units that teachers learn from, as stated in public
    shares      the profile (rows, classes) of vote shares that follows from the agreement
    """

    epsilon: float
    delta: float
    teachers: int
    queries: int
    classes: int
    agreement: ArrayLike | None = None
    order: float = LEAST_ORDER
    room: int = 0
    units: float | None = None
    shares: Shares = field(init=False)

    def __post_init__(self) -> None:
        check_budget(epsilon=self.epsilon, delta=self.delta, queries=self.queries, classes=self.classes)
        if self.teachers < 1:
            raise WrongInput(f"planning needs teachers >= 1, got {self.teachers}")
        guess = TYPICAL_AGREEMENT if self.agreement is None else self.agreement
        object.__setattr__(self, "shares", profile(guess, self.classes))

    @property
    def rows(self) -> float | None:
        """Rows of a teacher, if the number of units is known."""
        return None if self.units is None else self.units / self.teachers

    def calibrated(self, name: str, cutoff: int | None) -> Mechanism:
        """The mechanism as the door would calibrate it."""
        return calibrate(
            name,
            epsilon=self.epsilon,
            delta=self.delta,
            cutoff=cutoff,
            queries=self.queries + self.room,
            classes=self.classes,
            teachers=self.teachers,
            order=self.order,
        )

    def outcome(self, mechanism: Mechanism) -> Expectation:
        """The expected result of a mechanism."""
        return expectation(mechanism, self.shares * self.teachers, self.queries)

    def informative(self, expected: Expectation) -> float:
        """The number of labels without noise that tell as much as an expected result."""
        if expected.kept is not None:
            return expected.answered * expected.kept
        return expected.answered * max(0.0, 1 - expected.changed * self.classes / (self.classes - 1)) ** 2

    def best(self, name: str, cutoff: int | None = None) -> Mechanism:
        """The mechanism at that cutoff, or at the one of CUTOFFS with most informative labels. Raises WrongInput if
        none fits."""
        if "cutoff" not in MECHANISMS[name] or cutoff is not None:
            return self.calibrated(name, cutoff if "cutoff" in MECHANISMS[name] else None)

        def labels(place: int) -> float:
            try:
                return self.informative(self.outcome(self.calibrated(name, CUTOFFS[place])))
            except WrongInput:
                return 0.0

        places, tried = len([each for each in CUTOFFS if each <= self.queries]) or 1, list[float]()
        for place in range(0, places, 2):  # every second one until labels have halved, then the best one's neighbours
            tried.append(labels(place))
            if tried[-1] < max(tried) / 2:
                break
        centre = 2 * int(np.argmax(tried))
        near = (place for place in (centre, centre - 1, centre + 1) if 0 <= place < places)
        return self.calibrated(name, CUTOFFS[max(near, key=labels)])


def margin_needed(mechanism: Mechanism, request: LabelRequest) -> int | None:
    """The least lead, in votes, that is enough for any other votes; the worst case is that all others are equal."""
    level = np.full(request.classes, -1 / request.classes)
    level[0] += 1
    share = request.teachers / request.classes
    return _least(lambda margin: _fails(mechanism, share + margin * level) <= FAILURE_ODDS)


def _fails(mechanism: Mechanism, votes: Floats) -> float:
    """The odds that one row of votes (classes,) is refused or its label changed."""
    by_row = mechanism.odds(votes[None, :])
    return float(1 - (1 - by_row.refused[0]) * (1 - by_row.changed[0]))


def _least(enough: Callable[[int], bool]) -> int | None:
    """The least number above 0 that is enough, if larger ones are enough too; None if LARGEST_SEARCHED is not."""
    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
        if high > LARGEST_SEARCHED:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


CUTOFFS = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 3000, 5000, 10_000, 20_000, 30_000)
"""Cutoffs that are tried. Public and fixed: a cutoff must not follow from private votes."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """The expected result of one mechanism. JSON by dataclasses.asdict.

    feasible           whether it fits the budget, with LABELS_A_CLASS informative labels for each class
    cutoff             the one of CUTOFFS with most informative labels; None for mechanisms that do not pay by refusal
    margin_needed      lead in votes at which a row fails with odds of at most 1%, for any other votes
    expected_answered  expected number of answered rows
    label_error        share of released labels that noise changes
    informative        number of labels without noise that tell as much
    needs              settings to fix before it is asked
    reason             why it is recommended, or why it is not feasible
    """

    name: str
    feasible: bool
    cutoff: int | None = None
    margin_needed: int | None = None
    expected_answered: float = 0.0
    label_error: float = 0.0
    informative: float = 0.0
    needs: str = ""
    reason: str


def plan_mechanisms(request: LabelRequest, cutoff: int | None = None) -> list[Option]:
    """The options of all mechanisms, best first: feasible ones, then by informative labels; only at `cutoff`, if it is
    fixed already."""
    options = (plan_mechanism(name, request, cutoff) for name in MECHANISMS)
    return sorted(options, key=lambda option: (not option.feasible, -option.informative))


def recommend(options: Sequence[Option]) -> Option:
    """The first option, with the next best one added to its reason. Raises WrongInput if none is feasible."""
    best, *others = options
    if not best.feasible:
        raise WrongInput("no mechanism can label these rows within the budget")
    rival = next((f"; {other.name}: {other.informative:,.0f}" for other in others if other.feasible), "")
    return replace(best, reason=f"{best.reason}{rival}")


def best_mechanism(request: LabelRequest) -> tuple[float, Mechanism | None]:
    """The most informative labels by a mechanism, and that mechanism; 0 and None if none fits the budget."""
    found: list[tuple[float, Mechanism]] = []
    for name in MECHANISMS:
        try:
            mechanism = request.best(name)
        except WrongInput:
            continue
        found.append((request.informative(request.outcome(mechanism)), mechanism))
    return max(found, key=lambda each: each[0], default=(0.0, None))


def plan_mechanism(name: str, request: LabelRequest, cutoff: int | None = None) -> Option:
    """The option of one mechanism, at that cutoff or the best of CUTOFFS; not feasible if it cannot be calibrated."""
    try:
        mechanism = request.best(name, cutoff)
    except WrongInput as wrong:
        return Option(name=name, feasible=False, needs="another budget", reason=str(wrong))
    expected = request.outcome(mechanism)
    labels, least = request.informative(expected), LABELS_A_CLASS * request.classes
    rows = f"answers about {expected.answered:,.0f} of {request.queries:,} rows"
    good = f"as informative as {labels:,.0f} labels without noise"
    if labels < least:
        reason = (
            f"as informative as {labels:,.0f} labels, and a student needs {least:,} at least: teachers are too few or "
            "agree too little"
        )
    elif mechanism.cutoff is not None:
        reason = f"{rows} before refusal {mechanism.cutoff:,}, each with the label most teachers gave: {good}"
    elif mechanism.counts:
        reason = f"{rows}, with noisy counts, by which {expected.changed:.1%} of the labels change: {good}"
    else:
        reason = f"{rows}, noise changing {expected.changed:.1%} of the labels: {good}"
    return Option(
        name=name,
        feasible=labels >= least,
        cutoff=mechanism.cutoff,
        margin_needed=margin_needed(mechanism, request),
        expected_answered=expected.answered,
        label_error=expected.changed,
        informative=labels,
        needs=mechanism.needs,
        reason=reason,
    )
