"""Planning: which mechanism, and which cutoff, teaches most within a budget, from public figures alone.

Every mechanism is calibrated by the catalogue, just as the door calibrates it, and its outcome expected over a public
profile of votes. What a mechanism teaches is counted in labels without noise: with a part e of labels changed by noise,
a learner needs (1 − e·C/(C − 1))^(−2) times as many rows (Angluin & Laird 1988, for C = 2 classes), so a released label
is worth the inverse of that. Refused rows are worth nothing.

Assumes      budget, teachers, queries and profile are public
Guarantees   nothing is charged and nothing drawn: a plan reads no private row and costs no privacy
Ends         not applicable
Not covered  soft labels, which keep more of a noisy count than its label; how easy the rows are that get answered;
             a session that goes on with further rows

Checked by tests/tasks/test_planning.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from artifacts.errors import WrongInput
from artifacts.sections import MECHANISMS
from tasks.mechanisms.mechanism import Mechanism
from tasks.mechanisms.outcome import Outcome
from tasks.mechanisms.search import Stream, margin_needed, teachers_needed

NEAR = 0.9
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
    near = NEAR * max(option.worth for option in options)
    return sorted(options, key=lambda one: (not one.feasible, -min(one.worth, near)))


def recommend(options: Sequence[Option]) -> Option:
    """The option to take, its reason completed by what is next best. Raises WrongInput where none is feasible."""
    best, *others = options
    if not best.feasible:
        enough = min((one.teachers_needed for one in options if one.teachers_needed), default=None)
        hint = f"; from about {enough:,} teachers on, one can" if enough else ""
        raise WrongInput(f"no mechanism can label these rows within the budget{hint}")
    rival = next((f"; {one.name} would teach as much as {one.worth:,.0f}" for one in others if one.feasible), "")
    return replace(best, reason=f"{best.reason}{rival}")


def choose(stream: Stream, cutoff: int | None = None) -> tuple[str, int | None]:
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


def _reason(mechanism: Mechanism, stream: Stream, expected: Outcome, worth: float) -> str:
    rows = f"answers about {expected.answered:,.0f} of {stream.queries:,} rows"
    if mechanism.cutoff is not None:
        return f"{rows} before refusal {mechanism.cutoff:,}, each with the label most teachers gave"
    return f"{rows}, noise changing {expected.changed:.1%} of the labels: as good as {worth:,.0f} labels without noise"


def _too_few(needed: int | None) -> str:
    if needed is None:
        return "at this agreement no number of teachers is enough"
    return f"teachers are too few or agree too little: a row of average agreement takes {needed:,}"


def _worth(expected: Outcome, classes: int) -> float:
    kept = max(0.0, 1 - expected.changed * classes / (classes - 1))
    return expected.answered * kept**2
