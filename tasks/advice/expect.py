"""Expect: results of a plan, from the plan and public tables alone; nothing is spent and nothing private is read.

The ε of a plan is divided before a mechanism is calibrated: the choice of a student takes its part, and relabelling
leaves an (ε, δ) for the mechanism on a secret subset. Planning divides as the door does
(`tasks.asks.votes`).

Not covered  how well a public guess of agreement describes the private teachers. Checked by
             tests/tasks/advice/test_expect.py and tests/flows/cli/test_plan_command.py
"""

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from concord.artifacts.domains import Filter
from concord.artifacts.errors import WrongInput
from concord.artifacts.learners import RelabelPlan
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import TextFormat
from concord.tasks.advice.compare import LabelRequest
from concord.tasks.advice.tallies import learning_units
from concord.tasks.asking.relabel import Subset, hypothesis_space, subset_of
from concord.tasks.data.cells import cast_rows
from concord.tasks.data.encode import learn_encoding
from concord.tasks.data.files import format_of
from concord.tasks.data.matrix import encode
from concord.tasks.data.tables import open_public
from concord.tasks.mechanisms.error_estimate import check_parameters
from concord.tasks.mechanisms.exponential import Universal
from concord.tasks.mechanisms.relabelled import inner_budget

Guess = float | NDArray[np.float64]
"""The agreement of teachers: the mean share of the winning class, or a table of votes on public rows."""
EXCESSES = (0.1, 0.05, 0.02, 0.01, 0.005)
"""Excess errors of a chosen student over the best candidate, for which the number of private units is given."""
BETA = 0.05
"""Probability with which a chosen student may err more than stated."""


@dataclass(frozen=True, kw_only=True)
class Premises(LabelRequest):
    """Public inputs of planning: the request at the budget of labels and of the choice of a student together.

    mechanism        the planned mechanism; None for the best
    cutoff           its planned cutoff; None for the best
    choice           the part of ε for the choice of a student
    relabel          how rows are relabelled before teachers learn from them, if they are
    """

    mechanism: str | None = None
    cutoff: int | None = None
    choice: float = 0.0
    relabel: RelabelPlan | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.epsilon <= self.choice:
            rule = f"which the choice of the student takes, got {self.epsilon:g}"
            raise WrongInput(f"epsilon must be above student.epsilon = {self.choice:g}, {rule}")

    @property
    def subset(self) -> Subset | None:
        """Settings of the secret subset from which teachers learn; None if they learn from all rows."""
        labels = self.epsilon - self.choice
        return None if self.relabel is None else subset_of(self.relabel, labels, self.delta)

    @property
    def request(self) -> LabelRequest:
        """The request that a mechanism would answer, at the (ε, δ) left for it. Raises WrongInput if none is left."""
        given = {item.name: getattr(self, item.name) for item in fields(LabelRequest) if item.init}
        given["epsilon"] = self.epsilon - self.choice
        if (subset := self.subset) is not None:
            given["epsilon"], given["delta"] = inner_budget(given["epsilon"], self.delta, **subset)
            given["units"] = None if self.units is None else self.units * subset["share"]
        return LabelRequest(**given)


def premises_of(plan: Plan, rows: int | None = None, order: float | None = None) -> dict[str, Any]:
    """The fields of Premises that a plan states.

    rows    the number of public rows, if it is known
    order   the Rényi order of its domain, if the ledger has it
    Raises WrongInput if one of its public tables cannot be read or has no rows.
    """
    lifetime, labeling = plan.privacy.lifetime, plan.labeling
    if rows is None:
        table = None if plan.data.public is None else open_public(plan.path("public"), form=plan.data.format)
        heights = () if table is None else (frame.height for frame in table.frames(table.names[:1]))
        rows = labeling.queries if table is None else sum(heights)
    paid = labeling.queries or rows
    return {
        "epsilon": plan.privacy.epsilon,
        "delta": plan.privacy.delta,
        "teachers": plan.teachers.count,
        **({} if rows is None or paid is None else {"queries": min(rows, paid), "room": max(0, paid - rows)}),
        "classes": len(plan.data.classes),
        "order": order or Filter.freeze(lifetime.epsilon, lifetime.delta).order,
        "mechanism": None if labeling.mechanism == "auto" else labeling.mechanism,
        "cutoff": labeling.cutoff,
        "choice": plan.epsilon_beside_labels,
        "relabel": plan.relabel,
        "units": learning_units(plan),
    }


@dataclass(frozen=True, kw_only=True)
class ChosenStudent:
    """Cost and error of the choice of a universal student (Alon, Bassily & Moran 2019).

    epsilon        its cost is pure (ε, 0)
    dimension      VC dimension of the class
    candidates     number of hypotheses to choose from, one for each way in which the class can label the public rows
    cover_error    largest excess error of the best candidate over the best hypothesis of the class
    private_units  sufficient number of units, by largest excess error of the student over the best candidate
    beta           probability that its excess error over the best of the class is more than both together
    """

    epsilon: float
    hypotheses: str
    dimension: int
    public_rows: int
    candidates: int
    cover_error: float
    private_units: dict[float, int]
    beta: float = BETA


def expect_choice(plan: Plan, epsilon: float) -> ChosenStudent:
    """What to expect of a plan's universal student, chosen at that ε. Raises WrongInput.

    Alon, Bassily & Moran (2019): half of β for the cover, half for the choice among its candidates.
    """
    if plan.data.public is None:
        rule = "planning reads no private row, not even the features that data.public_share makes public"
        raise WrongInput(f"data.public must be given to say how many hypotheses the student is chosen from: {rule}")
    encoding = learn_encoding(plan)
    frames = open_public(plan.path("public"), form=encoding.format).frames(encoding.features)
    X = np.concatenate([encode(cast_rows(frame, encoding), encoding) for frame in frames])
    space = hypothesis_space(plan.student.space, encoding, X, "student")
    candidates = len(space.dichotomies(X.astype(float)))
    rate = Universal(epsilon=epsilon, secret=plan.privacy.secret).choice.rate
    return ChosenStudent(
        epsilon=epsilon,
        hypotheses=space.name,
        dimension=space.dimension,
        public_rows=len(X),
        candidates=candidates,
        cover_error=cover_error(dimension=space.dimension, rows=len(X), beta=BETA / 2),
        private_units={
            excess: selection_rows(candidates=candidates, alpha=excess, beta=BETA / 2, rate=rate) for excess in EXCESSES
        },
    )


def cover_error(*, dimension: int, rows: int, beta: float) -> float:
    """α such that hypotheses that agree on `rows` public rows disagree on at most α of all rows, except with
    probability β.

    Least α >= 8/n with 2·(2en/V)^(2V)·2^(−αn/2) <= β, at most 1: double sampling (Blumer et al. 1989) over the
    differences of two hypotheses, of which there are (2en/V)^(2V) on 2n rows by Sauer's lemma.
    """
    check_parameters(fractions={"beta": beta}, positive={"dimension": dimension, "rows": rows})
    if 2 * rows < dimension:
        return 1.0  # Sauer's lemma needs at least as many rows
    spread = 2 * dimension * math.log(2 * math.e * rows / dimension) - math.log(beta)
    return min(1.0, max(8 / rows, 2 / rows * (1 + spread / math.log(2))))


def selection_rows(*, candidates: int, alpha: float, beta: float, rate: float) -> int:
    """Number of private rows for which the exponential mechanism errs at most α more than the best candidate, except
    with probability β.

    rate   fall of the logarithm of a weight with each error: ε if rows are secret, ε/2 if labels are
    Least n with 2·√(ln(4c/β)/(2n)) + ln(2c/β)/(rate·n) <= α for c candidates: Hoeffding's inequality for all, both
    ways, and the mechanism's own utility (McSherry & Talwar 2007).
    """
    check_parameters(fractions={"alpha": alpha, "beta": beta}, positive={"candidates": candidates, "rate": rate})
    spread, choice = math.sqrt(2 * math.log(4 * candidates / beta)), math.log(2 * candidates / beta) / rate
    root = (spread + math.sqrt(spread**2 + 4 * alpha * choice)) / (2 * alpha)
    return math.ceil(root**2)


def read_agreement(guess: str, classes: int, form: TextFormat | None = None) -> Guess:
    """The guess as a number, or the votes in the table it names. Raises WrongInput if it is neither.

    A table (Parquet, Arrow IPC or CSV) has one row per public query, and either one column, the share of the winning
    class, or one per class, votes or shares in any order: (rows,) or (rows, classes).

    form   format of a CSV file; detected if not given
    """
    try:
        return float(guess)
    except ValueError:
        table = open_public(guess, "agreement", form or format_of(guess, field="agreement"))
    if len(table.names) not in (1, classes):
        rule = f"agreement must have one column, of winners' shares, or {classes}, of votes by class"
        raise WrongInput(f"{rule}; {guess} has {len(table.names)}")
    try:
        numbers = pl.concat([frame.select(pl.all().cast(pl.Float64)) for frame in table.frames(table.names)])
    except pl.exceptions.InvalidOperationError:
        raise WrongInput(f"agreement must hold numbers alone; {guess} does not") from None
    if sum(numbers.null_count().row(0)):
        raise WrongInput(f"agreement must have a number in every cell; {guess} has empty ones")
    rows = numbers.to_numpy()
    return np.asarray(rows[:, 0] if rows.shape[1] == 1 else rows, np.float64)
