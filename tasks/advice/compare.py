"""Compare: which mechanism, and which cutoff, teaches most within a budget, from public figures alone.

Every mechanism is calibrated by the catalogue, just as the door calibrates it, and its outcome expected over a public
profile of votes: a guess of how much teachers agree, which is a figure, or a table of votes that public teachers cast
on public rows. What a mechanism teaches is counted in labels without noise: with a part e of labels changed by noise,
a learner needs (1 − e·C/(C − 1))^(−2) times as many rows (Angluin & Laird 1988, for C = 2 classes), so a released label
is worth the inverse of that. Refused rows are worth nothing. The cutoff that answers most is searched, and the least
margin and ensemble that are enough; more votes of the winner never make a row fail more often.

Assumes      budget, teachers, queries and profile are public
Guarantees   nothing is charged and nothing drawn: a plan reads no private row and costs no privacy. Every search ends
             at the same place each time
Ends         not applicable
Not covered  soft labels, which keep more of a noisy count than its label; how easy the rows are that get answered;
             a session that goes on with further rows; several best cutoffs far apart: the search stops where a larger
             one answers less than half

Checked by tests/tasks/advice/test_planning.py and tests/flows/cli/test_plan_command.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from concord.artifacts.errors import WrongInput
from concord.artifacts.plan import Plan
from concord.artifacts.sections import MECHANISMS
from concord.tasks.data.tables import open_public
from concord.tasks.mechanisms.adaptive_adversary import LEAST_ORDER
from concord.tasks.mechanisms.distance import Floats
from concord.tasks.mechanisms.mechanism import Expectation, Mechanism, calibrate, expectation
from concord.tasks.mechanisms.noise import check_budget
from concord.tasks.mechanisms.odds import Shares, profile

Guess = float | NDArray[np.float64]

FAILURE_ODDS = 0.01
"""A margin or a number of teachers is enough when a row is refused, or its label changed, with at most these odds."""
TYPICAL_AGREEMENT = 0.9
"""The mean share of the winning class where no guess is given: near that of linear teachers on tables and digits."""
LARGEST_SEARCHED = 10**7
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
        """What a public guess of agreement says will be met. Raises WrongInput if the figures make no sense.

        agreement   as `odds.profile` takes it
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

    def outcome(self, mechanism: Mechanism) -> Expectation:
        """What is expected of it."""
        return expectation(mechanism, self.shares * self.teachers, self.queries)

    def best(self, name: str, cutoffs: Sequence[int]) -> Mechanism:
        """The mechanism at the one of the cutoffs at which it answers most. Raises WrongInput if none fits."""

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
    return _least(lambda margin: _fails(mechanism, share + margin * level) <= FAILURE_ODDS)


def teachers_needed(mechanism: Mechanism, stream: Stream) -> int | None:
    """The least ensemble that is enough for a row of average vote shares; None where none is."""
    average = stream.shares.mean(axis=0)

    def enough(teachers: int) -> bool:
        return _fails(mechanism.for_teachers(teachers / stream.teachers), average * teachers) <= FAILURE_ODDS

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
        if high > LARGEST_SEARCHED:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


AS_GOOD_AS_BEST = 0.9
"""Of options worth at least this part of the most, the first of MECHANISMS is best: a guess cannot rank them."""
CUTOFFS = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000, 2000, 3000, 5000, 10_000, 20_000, 30_000)
"""Cutoffs that are tried. Public and fixed: a cutoff must not follow from private votes."""


@dataclass(frozen=True, kw_only=True)
class Option:
    """What one mechanism is expected to do with the stream. JSON by dataclasses.asdict.

    feasible           it fits the budget, and is expected to teach at least one label a class
    cutoff             of CUTOFFS, the one that teaches most; None for mechanisms that do not pay by refusal
    margin_needed      votes by which a winner must lead to fail with odds of 1% at most, whoever else has votes
    teachers_needed    teachers for which a row of average agreement does; None where no number is enough
    expected_answered  rows
    label_error        part of released labels that noise changes
    worth              labels without noise that would teach as much
    needs              what must be fixed before it is asked
    """

    name: str
    feasible: bool
    cutoff: int | None = None
    margin_needed: int | None = None
    teachers_needed: int | None = None
    expected_answered: float = 0.0
    label_error: float = 0.0
    expected_right: float = 0.0
    worth: float = 0.0
    needs: str
    reason: str


def plan_mechanisms(stream: Stream, cutoff: int | None = None) -> list[Option]:
    """Every mechanism with what is expected of it, best first; at that cutoff alone, where it is fixed already."""
    options = [plan_mechanism(name, stream, cutoff) for name in MECHANISMS]
    near = AS_GOOD_AS_BEST * max(option.worth for option in options)
    return sorted(options, key=lambda option: (not option.feasible, -min(option.worth, near)))


def recommend(options: Sequence[Option]) -> Option:
    """The option to take, its reason completed by what is next best. Raises WrongInput if none is feasible."""
    best, *others = options
    if not best.feasible:
        enough = min((option.teachers_needed for option in options if option.teachers_needed), default=None)
        hint = f"; from about {enough:,} teachers on, one can" if enough else ""
        raise WrongInput(f"no mechanism can label these rows within the budget{hint}")
    rival = next(
        (f"; {other.name} would teach as much as {other.worth:,.0f}" for other in others if other.feasible), ""
    )
    return replace(best, reason=f"{best.reason}{rival}")


def choose_mechanism(stream: Stream, cutoff: int | None = None) -> tuple[str, int | None]:
    """What mechanism = "auto" stands for: a name of the catalogue and its cutoff."""
    best = recommend(plan_mechanisms(stream, cutoff))
    return best.name, best.cutoff


def plan_mechanism(name: str, stream: Stream, cutoff: int | None = None) -> Option:
    """What is expected of one mechanism, at that cutoff or the best of CUTOFFS; not feasible where it has no place."""
    try:
        cutoffs = CUTOFFS if cutoff is None else (cutoff,)
        mechanism = stream.best(name, cutoffs) if "cutoff" in MECHANISMS[name] else stream.calibrated(name, None)
    except WrongInput as wrong:
        return Option(name=name, feasible=False, needs="another budget", reason=str(wrong))
    expected = stream.outcome(mechanism)
    worth = _worth(expected, stream.classes)
    needed = teachers_needed(mechanism, stream)
    feasible = worth >= stream.classes
    return Option(
        name=name,
        feasible=feasible,
        cutoff=mechanism.cutoff,
        margin_needed=margin_needed(mechanism, stream),
        teachers_needed=needed,
        expected_answered=expected.answered,
        label_error=expected.changed,
        expected_right=expected.answered * (1 - expected.changed),
        worth=worth,
        needs=mechanism.needs,
        reason=_reason(mechanism, stream, expected, worth) if feasible else _too_few(needed),
    )


def _reason(mechanism: Mechanism, stream: Stream, expected: Expectation, worth: float) -> str:
    rows = f"answers about {expected.answered:,.0f} of {stream.queries:,} rows"
    if mechanism.cutoff is not None:
        return f"{rows} before refusal {mechanism.cutoff:,}, each with the label most teachers gave"
    return f"{rows}, noise changing {expected.changed:.1%} of the labels: as good as {worth:,.0f} labels without noise"


def _too_few(needed: int | None) -> str:
    if needed is None:
        return "at this agreement no number of teachers is enough"
    return f"teachers are too few or agree too little: a row of average agreement takes {needed:,}"


def _worth(expected: Expectation, classes: int) -> float:
    kept = max(0.0, 1 - expected.changed * classes / (classes - 1))
    return expected.answered * kept**2


def expected_agreement(plan: Plan) -> Guess:
    """The plan's guess: its figure, its table, or what is typical. Raises WrongInput if the table is none."""
    guess = plan.labeling.agreement
    if isinstance(guess, str):
        return read_agreement(str(Path(plan.folder, guess)), len(plan.data.classes))
    return TYPICAL_AGREEMENT if guess is None else guess


def read_agreement(guess: str, classes: int) -> Guess:
    """The figure that `guess` is, or the votes of the table it names. Raises WrongInput if it is neither.

    A table (Parquet, Arrow IPC or CSV) has one row a public query, and either one column, the share of the winning
    class, or one a class, votes or shares in any order: (rows,) or (rows, classes).
    """
    try:
        return float(guess)
    except ValueError:
        return _votes(guess, classes)


def _votes(path: str, classes: int) -> Guess:
    table = open_public(path, "agreement")
    if len(table.names) not in (1, classes):
        rule = f"agreement must have one column, of winners' shares, or {classes}, of votes by class"
        raise WrongInput(f"{rule}; {path} has {len(table.names)}")
    rows = pl.concat([_numbers(frame, path) for frame in table.frames(table.names)]).to_numpy()
    return np.asarray(rows[:, 0] if rows.shape[1] == 1 else rows, np.float64)


def _numbers(frame: pl.DataFrame, path: str) -> pl.DataFrame:
    try:
        numbers = frame.select(pl.all().cast(pl.Float64))
    except pl.exceptions.InvalidOperationError:
        raise WrongInput(f"agreement must hold numbers alone; {path} does not") from None
    if sum(numbers.null_count().row(0)):
        raise WrongInput(f"agreement must have a number in every cell; {path} has empty ones")
    return numbers
