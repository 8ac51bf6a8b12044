"""How much teachers err, released once with noise, to choose a cutoff by (BTT18, Remark 1).

In each shard the rows of some units are set aside; a teacher learns from the others and is tested on those. Only the
sum over shards is released, in a session of its own (tasks.mechanisms.error_estimate).

Assumes      blocks are those of `tasks.units.split`, with a column ASIDE; plan and encoding are public
Guarantees   (ε, 0) for the released sum: one unit is in one shard, and one shard moves the sum by `steps` at most. The
             cutoff that is suggested is accurate with probability 1 − β, for rows and queries drawn from one
             distribution, if teachers are so many that noise refuses no row on which at most a third of them err
Ends         with its one release
Not covered  fewer teachers: a session may then refuse every row, as `concord plan` shows. Teachers that learn from all
             rows of a shard err a little less; a cutoff for other data or other teachers.
             Checked by tests/flows/test_estimate.py and tests/privacy/test_error_estimate.py, where the printed cutoff
             is too small
"""

import json
import math
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel

from concord.artifacts.errors import WrongInput
from concord.artifacts.plan import Plan
from concord.tasks.door.ask import SingleAsk
from concord.tasks.door.door import Drawn
from concord.tasks.door.exact import FormName
from concord.tasks.mechanisms.calibration import calibrated_estimate
from concord.tasks.mechanisms.error_estimate import ErrorEstimate


@dataclass(frozen=True)
class EstimateAsk(SingleAsk[ErrorEstimate]):
    """An error estimate; `about` is the public share of units that are set aside."""

    purpose: ClassVar[str] = "an estimate"
    form: ClassVar[FormName] = "errors"
    file: ClassVar[str] = "estimate.json"

    @classmethod
    def of(cls, plan: Plan, epsilon: float, share: float) -> "EstimateAsk":
        """An estimate of a plan's teachers, at that ε. Raises WrongInput."""
        return cls(calibrated_estimate(epsilon=epsilon, shards=plan.teachers.count), {"share": share})

    @property
    def teachers(self) -> int:
        """Number of shards."""
        return self.mechanism.shards

    def depends(self, plan: Plan) -> dict[str, Any]:
        """How teachers learn; nothing that concerns the budget for labels."""
        return {
            "secret": plan.privacy.secret,
            "teachers": plan.teachers.model_dump(include={"count", "estimator", "params"}),
            "estimate": self.settings(),
        }

    def result(self, drawn: Drawn) -> dict[str, Any]:
        """The sum, and the settings by which it is read."""
        return {"format": "concord error estimate 2", "settings": self.settings(), "sum": int(drawn.arrays[0][0])}


class Suggestion(BaseModel):
    """An estimated error rate and the cutoff it suggests; all of it follows from the released sum.

    rate        mean error of a teacher on rows set aside; upper_rate is above it with probability 1 − beta/2
    queries     public rows the cutoff is for: enough with probability 1 − beta if every teacher errs at the upper rate
                (BTT18, Theorem 3.2)
    """

    rate: float
    upper_rate: float
    queries: int
    beta: float
    cutoff: int

    @classmethod
    def of(cls, ask: EstimateAsk, released: bytes, *, queries: int, beta: float) -> "Suggestion":
        """The suggestion computed from the released file."""
        estimate, noisy = ask.mechanism, int(json.loads(released)["sum"])
        return cls(
            rate=mean_rate(estimate, noisy),
            upper_rate=upper_rate(estimate, noisy, beta / 2),
            queries=queries,
            beta=beta,
            cutoff=suggested_cutoff(estimate, noisy, queries=queries, beta=beta),
        )


def mean_rate(estimate: ErrorEstimate, noisy: int) -> float:
    """The mean error rate estimated from a noisy sum, between 0 and 1."""
    return min(1.0, max(0.0, noisy / (estimate.shards * estimate.steps)))


def upper_rate(estimate: ErrorEstimate, noisy: int, beta: float) -> float:
    """A rate that the mean of all shards exceeds with probability at most β over the noise, rounding included."""
    check_parameters(fractions={"beta": beta}, positive={})
    highest = noisy + laplace_reach(estimate.scale, beta) + estimate.shards / 2
    return min(1.0, max(0.0, highest / (estimate.shards * estimate.steps)))


def suggested_cutoff(estimate: ErrorEstimate, noisy: int, *, queries: int, beta: float) -> int:
    """T of BTT18, Theorem 3.2, for that many queries at the upper rate; β is halved between the two.

    At least 1 and at most `queries`, with which a session cannot halt before its end.
    """
    error = upper_rate(estimate, noisy, beta / 2)
    if error in (0, 1):
        return queries if error else 1
    return min(queries, exact_cutoff(error=error, queries=queries, beta=beta / 2, teachers=estimate.shards))


def exact_cutoff(*, error: float, queries: int, beta: float, teachers: int) -> int:
    """T for which Theorem 3.2 holds when a session halts at its T-th refusal: three times a binomial quantile.

    With probability 1 − β none of k teachers, each wrong on Binomial(m, p) rows at most, is wrong on more than B rows;
    then fewer than 3B rows have over k/3 wrong votes (Lemma 3.3), so that the T-th refusal does not come, if no other
    row is refused: the theorem asks for a k by which noise refuses none.
    """
    from scipy.stats import binom  # heavy, and rarely asked for

    check_parameters(fractions={"error": error, "beta": beta}, positive={"queries": queries, "teachers": teachers})
    return max(1, 3 * int(binom.isf(beta / teachers, queries, error)))


def check_parameters(*, fractions: dict[str, float], positive: dict[str, float]) -> None:
    """Raises WrongInput naming the first argument that is out of its range."""
    for name, value in fractions.items():
        if not 0 < value < 1:
            raise WrongInput(f"{name} must be between 0 and 1, got {value!r}")
    for name, value in positive.items():
        if not 0 < value < math.inf:
            raise WrongInput(f"{name} must be positive and finite, got {value!r}")


def laplace_reach(scale: float, tail: float) -> int:
    """The least whole t ≥ 0 that discrete Laplace noise reaches with probability at most `tail`."""
    # Pr[noise ≥ t] is p^t/(1 + p) for whole t > 0, p = e^(−1/scale)
    return math.ceil(max(0.0, -scale * (math.log(tail) + math.log1p(math.exp(-1 / scale)))))
