"""How much teachers err, released once with noise, to choose a cutoff by (BTT18, Remark 1).

In each shard the rows of some units are set aside; a teacher learns from the others and is tested on those. Only the
sum over shards is released, in a session of its own (tasks.mechanisms.error_estimate).

Assumes      blocks are those of `tasks.units.split`, with a column ASIDE; plan and encoding are public
Guarantees   (ε, 0) for the released sum: one unit is in one shard, and one shard moves the sum by `steps` at most
Ends         with its one release
Not covered  teachers that learn from all rows of a shard err a little less. Checked by tests/flows/test_estimate.py
"""

import json
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel

from concord.artifacts.plan import Plan
from concord.tasks.door.ask import SingleAsk
from concord.tasks.door.door import Drawn
from concord.tasks.door.exact import FormName
from concord.tasks.mechanisms.error_estimate import ErrorEstimate


@dataclass(frozen=True)
class EstimateAsk(SingleAsk[ErrorEstimate]):
    """An error estimate; `about` is the public share of units that are set aside."""

    purpose: ClassVar[str] = "an estimate"
    form: ClassVar[FormName] = "errors"
    file: ClassVar[str] = "estimate.json"

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
            rate=estimate.rate(noisy),
            upper_rate=estimate.upper_rate(noisy, beta / 2),
            queries=queries,
            beta=beta,
            cutoff=estimate.suggested_cutoff(noisy, queries=queries, beta=beta),
        )
