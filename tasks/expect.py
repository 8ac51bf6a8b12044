"""Expect: what a plan would come to, from the plan and public tables alone; nothing is spent and nothing private read.

The ε of a plan is shared out before a mechanism sees it: the choice of a student takes its part, and relabelling leaves
(ε, δ) of the mechanism's own, on a secret subset. Planning shares it as the door does (`tasks.admit.calibrated`).

Not covered  how well a public guess of agreement describes the private teachers. Checked by tests/tasks/test_expect.py
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from artifacts.errors import WrongInput
from artifacts.plan import Plan
from artifacts.privacy import ORDERS, Filter
from artifacts.sections import RelabelPlan
from tasks.agreement import Guess, expected_agreement, public_rows
from tasks.encode import encode_public, learn_encoding
from tasks.hypothesis_space import hypothesis_space
from tasks.mechanisms.accounting import check_budget
from tasks.mechanisms.fitting import LEAST_ORDER
from tasks.mechanisms.planning import Option, plan_mechanism
from tasks.mechanisms.relabelled import inner_budget
from tasks.mechanisms.sample_sizes import cover_error, selection_rows
from tasks.mechanisms.search import TYPICAL_AGREEMENT, Stream
from tasks.mechanisms.universal import Universal
from tasks.relabel import Subset, subset_of

RATIOS = (0.25, 0.5, 1, 2, 4)
"""What is compared with what is planned, as multiples of it."""
EXCESSES = (0.1, 0.05, 0.02, 0.01, 0.005)
"""What a chosen student may err more than the best candidate, for which the private units it takes are told."""
BETA = 0.05
"""The odds with which a chosen student may err more than is told."""


@dataclass(frozen=True, kw_only=True)
class Premises:
    """What planning goes by, all of it public. Raises WrongInput where that makes no sense.

    epsilon, delta   what labels may spend, and beside them the choice of a student
    agreement        a guess, as profile.profile takes it
    order            the Rényi order of the domain, where it is known
    mechanism        the one that is planned; None where the best is to be taken
    cutoff           the one that is planned for it; None where the best is to be taken
    choice           the part of ε that the choice of a student takes
    relabel          how rows are relabelled before teachers learn from them, where they are
    accountant       what proves the (ε, δ) of stable voting
    """

    epsilon: float
    delta: float
    teachers: int
    queries: int
    classes: int
    agreement: Guess = TYPICAL_AGREEMENT
    order: float = LEAST_ORDER
    mechanism: str | None = None
    cutoff: int | None = None
    choice: float = 0.0
    relabel: RelabelPlan | None = None
    accountant: str = "renyi"

    def __post_init__(self) -> None:
        check_budget(epsilon=self.epsilon, delta=self.delta, queries=self.queries, classes=self.classes)
        if self.epsilon <= self.choice:
            rule = f"which the choice of the student takes, got {self.epsilon:g}"
            raise WrongInput(f"epsilon must be above student.epsilon = {self.choice:g}, {rule}")

    @property
    def subset(self) -> Subset | None:
        """How the secret subset is drawn, from which alone teachers learn; None where they learn from all rows."""
        labels = self.epsilon - self.choice
        return None if self.relabel is None else subset_of(self.relabel, labels, self.delta)

    @property
    def stream(self) -> Stream:
        """What a mechanism would meet, at the (ε, δ) that is left for it. Raises WrongInput where none is."""
        left = self.epsilon - self.choice, self.delta
        if self.subset is not None:
            left = inner_budget(*left, **self.subset)
        return Stream.expected(
            epsilon=left[0],
            delta=left[1],
            teachers=self.teachers,
            queries=self.queries,
            classes=self.classes,
            agreement=self.agreement,
            order=self.order,
            accountant=self.accountant,
        )


def premises_of(plan: Plan, queries: float | None = None) -> dict[str, Any]:
    """The fields of Premises that a plan says; `queries` goes before its own, and before counting its public rows.

    Raises WrongInput where a public table of it cannot be read.
    """
    lifetime, labeling = plan.privacy.lifetime, plan.labeling
    asked = queries or labeling.queries or (None if plan.data.public is None else public_rows(plan))
    return {
        "epsilon": plan.privacy.epsilon,
        "delta": plan.privacy.delta,
        "teachers": plan.teachers.count,
        **({} if asked is None else {"queries": asked}),
        "classes": len(plan.data.classes),
        "agreement": expected_agreement(plan),
        "order": Filter.freeze(lifetime.epsilon, lifetime.delta).order,
        "mechanism": None if labeling.mechanism == "auto" else labeling.mechanism,
        "cutoff": labeling.cutoff,
        "choice": plan.student.epsilon or 0.0,
        "relabel": plan.relabel,
        "accountant": labeling.accountant,
    }


def dearer(premises: Premises) -> float | None:
    """How many times as much the domain is charged for stable voting at the planned cutoff as the Rényi accountant
    would have it charged, whose table is less steep. None if that accountant is planned, if there is no cutoff yet, or
    if rows are relabelled, which is charged by the whole's ε."""
    if premises.accountant == "renyi" or premises.cutoff is None or premises.relabel is not None:
        return None
    at = ORDERS.index(premises.order)
    game, renyi = (
        replace(premises, accountant=name).stream.calibrated("stable", premises.cutoff).cost.renyi[at]
        for name in (premises.accountant, "renyi")
    )
    return game / renyi


@dataclass(frozen=True, kw_only=True)
class AtEpsilon:
    """What a mechanism is expected to do were the plan's ε this; teachers learn from `share` of the private rows.

    share   None where nothing of ε is left for the mechanism
    """

    epsilon: float
    share: float | None
    option: Option


def what_if(premises: Premises, name: str) -> list[AtEpsilon]:
    """The mechanism of that name at RATIOS of the planned ε, as the plan would run it then."""
    return [_at(premises, premises.epsilon * ratio, name) for ratio in RATIOS]


def _at(premises: Premises, epsilon: float, name: str) -> AtEpsilon:
    cutoff = premises.cutoff if premises.mechanism in (None, name) else None
    try:
        other = replace(premises, epsilon=epsilon)
        stream, share = other.stream, 1.0 if other.subset is None else other.subset["share"]
    except WrongInput as none_left:
        nothing = Option(name=name, feasible=False, needs="another budget", reason=str(none_left))
        return AtEpsilon(epsilon=epsilon, share=None, option=nothing)
    return AtEpsilon(epsilon=epsilon, share=share, option=plan_mechanism(name, stream, cutoff))


@dataclass(frozen=True, kw_only=True)
class ChosenStudent:
    """What the choice of a universal student costs and gives; see sample_sizes.universal_sizes for the theorem.

    epsilon        its cost is (ε, 0), pure
    dimension      VC dimension of the class
    candidates     hypotheses to choose from, one for each way in which the class can label the public rows
    cover_error    what the best candidate errs more than the best hypothesis of the class, at most
    private_units  by what the student errs more than the best candidate, at most, and by ε: units that are enough
    beta           how likely it may err more than the best of the class by more than both together
    """

    epsilon: float
    hypotheses: str
    dimension: int
    public_rows: int
    candidates: int
    cover_error: float
    private_units: dict[float, dict[float, int]]
    beta: float = BETA


def expect_choice(plan: Plan, epsilon: float) -> ChosenStudent:
    """What to expect of a plan's universal student, chosen at that ε. Raises WrongInput.

    Alon, Bassily & Moran (2019): half of the odds for the cover, half for the choice among its candidates.
    """
    if plan.data.public is None:
        rule = "planning reads no private row, not even the features that data.public_share makes public"
        raise WrongInput(f"data.public must be given to say how many hypotheses the student is chosen from: {rule}")
    encoding = learn_encoding(plan)
    X = encode_public(plan.path("public"), encoding)
    space = hypothesis_space(plan.student.space, encoding, X, "student")
    candidates = len(space.dichotomies(X.astype(float)))
    units = partial(selection_rows, candidates=candidates, beta=BETA / 2)
    each = Universal(epsilon=epsilon, secret=plan.privacy.secret).choice.rate
    return ChosenStudent(
        epsilon=epsilon,
        hypotheses=space.name,
        dimension=space.dimension,
        public_rows=len(X),
        candidates=candidates,
        cover_error=cover_error(dimension=space.dimension, rows=len(X), beta=BETA / 2),
        private_units={
            excess: {epsilon * ratio: units(alpha=excess, rate=each * ratio) for ratio in RATIOS} for excess in EXCESSES
        },
    )
