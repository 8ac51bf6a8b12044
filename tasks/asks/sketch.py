"""Sketch: tables of the private rows at the door, then rounds of labels, of a plan that declares a schema in place of
public rows.

Its steps pass the door as rounds of tallies do (tasks.asks.tallies): drawn once, published with what is asked next.

Assumes      the schema was declared, not read off private rows: nobody can check that
Guarantees   as tasks.asks.tallies: a step is drawn for once, for a question that it paid for
Ends         with the last round; the session is charged whole, also if it is closed before
Not covered  how good synthetic rows are. Checked by tests/flows/test_sketch_flow.py and, of what follows,
             tests/flows/test_sketch_operations.py
"""

from dataclasses import dataclass
from typing import Any, Self

from concord.artifacts.plan import Plan
from concord.tasks.advice.planned import planned_sketch
from concord.tasks.asks.tallies import TalliesAsk
from concord.tasks.data.codes import Codes
from concord.tasks.data.encode import reading_encoding
from concord.tasks.mechanisms.sketch import Sketch


@dataclass(frozen=True)
class SketchAsk(TalliesAsk):
    """The steps of a sketch; `codes` is the digest of the grid, `public` that of the schema."""

    mechanism: Sketch

    @classmethod
    def of(cls, plan: Plan, grid: Codes) -> Self:
        """What a plan asks that declares a schema. Raises WrongInput if the budget is too small."""
        return cls(
            planned_sketch(plan, grid), grid.digest, (plan.data.sketched.digest,), bounds=plan.data.bounds, coded=grid
        )

    def depends(self, plan: Plan) -> dict[str, Any]:
        """As for tallies; but in place of an encoding, which is learned from synthetic rows, the rules that follow from
        the declared schema alone."""
        return {**super().depends(plan), "encoding": reading_encoding(plan).digest}
