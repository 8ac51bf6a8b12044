"""Sketch: tables of the private rows at the door, then rounds of labels, of a plan that declares a schema in place of
public rows.

Its steps pass the door as rounds of tallies do (tasks.asks.tallies): drawn once, published with what is asked next.

Assumes      the schema was declared, not read off private rows: nobody can check that
Guarantees   as tasks.asks.tallies: a step is drawn for once, for a question that it paid for
Ends         with the last round; the session is charged whole, also if it is closed before
Not covered  how good synthetic rows are. Checked by tests/flows/test_sketch_flow.py
"""

from dataclasses import dataclass
from typing import Self

from concord.artifacts.errors import WrongInput
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding
from concord.artifacts.table_schema import TableSchema
from concord.tasks.asks.tallies import TalliesAsk
from concord.tasks.data.codes import Codes
from concord.tasks.data.grid import reading_columns
from concord.tasks.mechanisms.sketch import Sketch, sketch_rounds


@dataclass(frozen=True)
class SketchAsk(TalliesAsk):
    """The steps of a sketch; `codes` is the digest of the grid, `public` that of the schema."""

    @classmethod
    def of(cls, plan: Plan, grid: Codes) -> Self:
        """What a plan asks that declares a schema. Raises WrongInput if the budget is too small."""
        schema = schema_of_plan(plan)
        return cls(planned_sketch(plan, grid), grid.digest, (schema.digest,), bounds=plan.data.bounds)


def schema_of_plan(plan: Plan) -> TableSchema:
    """The declared columns that a plan learns from. Raises WrongInput if it declares none, or not all features."""
    if plan.data.declared is None:
        raise WrongInput("data.schema must be given in the plan")
    return plan.data.declared if plan.data.features is None else plan.data.declared.only(plan.data.features)


def planned_sketch(plan: Plan, grid: Codes) -> Sketch:
    """The mechanism of a plan, for the cells of its grid. Raises WrongInput."""
    narrow = [grid.fields[at].size for at in grid.fine]
    wide = [grid.fields[at].size for at, own in zip(grid.coarse, grid.fine, strict=True) if at != own]
    return Sketch.calibrate(
        epsilon=plan.privacy.epsilon,
        delta=plan.privacy.delta,
        classes=len(plan.data.classes),
        rounds=sketch_rounds(classes=len(plan.data.classes), narrow=narrow, wide=wide),
        many=plan.data.unit is not None,
    )


def reading_of(plan: Plan) -> Encoding:
    """The rules by which private rows are read for the grid."""
    data = plan.data
    return Encoding(
        columns=reading_columns(schema_of_plan(plan)),
        label=data.label,
        classes=data.classes,
        bounds=data.bounds,
        unit=data.unit,
        format=data.format,
    )
