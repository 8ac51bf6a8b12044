"""Rehearse a sketch: what tables and rounds of labels would teach, on plausible rows with synthetic labels.

    plausible rows of synthetic labels ─ tables and sums, planned noise ─ synthetic rows ─ decode ─ scores of the rows

Steps, synthetic rows and decoder are the code that runs; `rehearse` has the labels and measures. Each draw has rows of
its own, because nobody knows what the private ones are like.

    latent groups ─ factors ─ a place in each column's order ─ the cell at that place of a plausible margin

Margins resemble those of real tables: bell-shaped, skewed and uneven ones, numbers that are mostly at their minimum, a
few categories with most rows, some missing cells. Columns depend on one another through FACTORS factors, whose groups
are the clusters that a strong signal follows.

A wide schema would take minutes. So MOST_COLUMNS of its columns are rehearsed, chosen by the digest of their names,
with that share of the units. The noise of two-way tables grows with the number of columns, so relative to the units it
is the same as with all columns; for the noise of labels see `rehearse_tallies`.

Assumes      plan, schema and class shares are public
Guarantees   nothing private is read and nothing is charged: NumPy's generator is seeded, so results repeat
Not covered  private rows that are like none of the plausible ones, as if a few factors do not describe how columns
             depend on one another.
             Checked by tests/tasks/advice/test_rehearse.py
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import numpy as np

from concord.artifacts.plan import Plan
from concord.artifacts.table_schema import DeclaredRange, TableSchema, varies
from concord.tasks.advice.planned import NO_PUBLIC_TABLE, learning_units, planned_sketch
from concord.tasks.advice.public_facts import class_shares
from concord.tasks.advice.rehearse import (
    SIGNALS,
    Ahead,
)
from concord.tasks.advice.rehearse_tallies import RoundAhead, SumsStage, rehearse_labels, simulated_steps
from concord.tasks.data.codes import CodedField, CodeMatrix, Codes, NumberField, coarser
from concord.tasks.data.encode import as_declared, reading_encoding
from concord.tasks.data.grid import grid_of, recoded
from concord.tasks.mechanisms.distance import Floats, Ints
from concord.tasks.mechanisms.sketch import Sketch
from concord.tasks.mechanisms.tallies import Tallies
from concord.tasks.student.margins import Margins
from concord.tasks.student.questions import RoundFile
from concord.tasks.student.sketch import SketchPlanner
from concord.tasks.student.synthetic import label_codes, table_codes

ROWS = 4_000
"""Plausible rows of a draw."""
DRAWS = 2
MOST_COLUMNS = 16
BINS = 16
"""Quantiles of a number on which synthetic labels depend."""
FACTORS = 3
"""Latent numbers of a row; each column follows a weighted mean of them."""
GROUPS = 12
"""Latent groups of rows, which lie apart along the factors."""
HEAVY = 6.0
"""Exponent that skews a third of the numeric columns: their range is then far wider than most of their values."""
MISSING = 0.1
"""Largest share of missing cells in a column; one in four has some."""


def plausible_cells(schema: TableSchema, rows: int, rng: np.random.Generator) -> CodeMatrix:
    """Rows (rows, fields) as cells of the schema's grid."""
    grid, declared = grid_of(schema), {column.name: column for column in schema.columns}
    centres = rng.normal(size=(GROUPS, FACTORS))
    factors = (centres[rng.integers(0, GROUPS, rows)] + rng.normal(size=(rows, FACTORS)) / 2) / np.sqrt(1.25)
    rows_as_cells = np.empty((rows, grid.width), np.int32, order="F")
    for wide, narrow in zip(grid.coarse, grid.fine, strict=True):
        field, weight = grid.fields[narrow], rng.normal(size=FACTORS)
        along, dependence = factors @ weight / np.linalg.norm(weight), rng.random()
        place = np.sqrt(dependence) * along + np.sqrt(1 - dependence) * rng.normal(size=rows)
        cells = np.sort(_margin(field, declared[field.name], rows, rng))[np.argsort(np.argsort(place))]
        if rng.random() < 1 / 4:
            cells[rng.random(rows) < MISSING * rng.random()] = field.size - 1
        rows_as_cells[:, narrow] = cells + field.start
        rows_as_cells[:, wide] = coarser(field, grid.fields[wide])[cells] + grid.fields[wide].start
    return rows_as_cells


def _margin(field: CodedField, column: object, rows: int, rng: np.random.Generator) -> Ints:
    """Cells (rows,) of one column, none of them missing."""
    if not isinstance(field, NumberField):
        shares = np.arange(1, field.size - 1) ** -rng.uniform(0.5, 2.5)
        order = rng.permutation(len(shares))
        return np.asarray(order[rng.choice(len(shares), rows, p=shares / shares.sum())])
    low, high = (column.low, column.high) if isinstance(column, DeclaredRange) else (0.0, 2.0)
    shape: Floats = rng.beta(math.exp(2 * rng.random()), math.exp(2 * rng.random()), size=rows)
    shape = shape**HEAVY if rng.random() < 1 / 3 else shape
    if rng.random() < 1 / 4:  # mostly the minimum, as with gains and losses
        shape[rng.random(rows) < rng.uniform(0.3, 0.95)] = 0
    return np.searchsorted(field.cuts, low * (1 - shape) + high * shape, side="right").astype(np.int64)


@dataclass(frozen=True, kw_only=True)
class SketchStage(SumsStage):
    """A sketch of the rehearsed columns; `cells` are the rows as cells of the schema's grid (m, fields)."""

    schema: TableSchema
    cells: CodeMatrix

    @classmethod
    def of(cls, plan: Plan, draw: int) -> "SketchStage":
        """The rows of a draw, and a sketch of at most MOST_COLUMNS columns."""
        (schema, part), units = rehearsed_columns(plan.data.sketched), learning_units(plan)
        assert units is not None  # a plan for tallies states its rows
        grid, rng = grid_of(schema), np.random.default_rng([draw, *schema.digest.encode()])
        mechanism, cells = planned_sketch(plan, grid), plausible_cells(schema, ROWS, rng)
        counts = tuple(
            np.bincount(cells[:, at] - grid.fields[at].start, minlength=grid.fields[at].size).astype(np.float64)
            for at in grid.fine
        )
        margins = Margins(ROWS, 0.0, counts)
        codes = label_codes(grid, margins, table_codes(grid, margins, BINS, 2 * BINS), BINS)
        return cls(
            mechanism=mechanism,
            codes=codes,
            rows=recoded(cells, grid, codes),
            classes=mechanism.classes or 2,
            units=max(1.0, units * part),
            schema=schema,
            cells=cells,
        )

    @cached_property
    def drawn(self) -> Ints:
        """The private rows, the same for all labels."""
        return super().private(np.random.default_rng(1))

    def private(self, rng: np.random.Generator) -> Ints:  # noqa: ARG002
        """The rows that the released tables count."""
        return self.drawn

    @cached_property
    def begun(self) -> Sequence[RoundFile]:
        """Tables, and the synthetic rows that follow from them."""
        mechanism, labels = self.scaled_to(len(self.drawn)), np.zeros(len(self.drawn), np.int64)
        planner = self.planner(mechanism, len(self.drawn))
        noisy = self.noisy(mechanism, self.drawn, labels, np.random.default_rng(2))
        return simulated_steps(planner, noisy, steps=planner.tables)

    def planner(self, mechanism: Tallies, drawn: int) -> SketchPlanner:  # noqa: ARG002
        """The planner that runs."""
        assert isinstance(mechanism, Sketch)
        return SketchPlanner(mechanism, self.schema)

    def coded(self, codes: Codes) -> CodeMatrix:
        """The rows in codes that group their cells."""
        return recoded(self.cells, grid_of(self.schema), codes)


@dataclass(frozen=True, kw_only=True)
class SketchAhead(Ahead):
    """Cost of a sketch, and what to expect of it, by the schema and public figures alone.

    columns    names of the queried columns; `left_out` has those without a declaration
    steps      what each step asks for
    rho        the domain's charge, in zero-concentrated DP
    views      which views of a row are counted, and why
    """

    columns: tuple[str, ...]
    left_out: tuple[str, ...]
    steps: tuple[RoundAhead, ...]
    rho: float
    views: str


UNFORESEEN = (
    "accuracy cannot be foreseen without the classes' shares: if they are publicly known, state them with --shares, or "
    "in the plan as data.shares"
)


def expect_sketch(plan: Plan) -> SketchAhead:
    """What to expect of a plan that declares a schema; of classes whose shares nobody states, nothing is simulated.

    Raises WrongInput if a sketch does not fit the budget.
    """
    schema = plan.data.sketched
    mechanism = planned_sketch(plan, grid_of(schema))
    read = reading_encoding(plan)
    shares = class_shares(plan, read.model_copy(update={"columns": as_declared(read.columns, schema)}))
    expected = Ahead(rehearsed=(), classes=(), feasible=True, reason=UNFORESEEN)
    if shares or plan.data.bounds:
        stages = [SketchStage.of(plan, draw) for draw in range(DRAWS)]
        rehearsed = [
            rehearse_labels(signal, stage, draw, shares) for signal in SIGNALS for draw, stage in enumerate(stages)
        ]
        expected = Ahead.of(plan.data.classes, rehearsed, "plausible rows of the schema")
    return SketchAhead(
        **vars(expected),
        columns=schema.names,
        left_out=schema.undeclared,
        steps=RoundAhead.all_of(mechanism, ("one-way tables", "two-way tables")[: mechanism.tables]),
        rho=mechanism.rho,
        views=NO_PUBLIC_TABLE,
    )


def rehearsed_columns(schema: TableSchema) -> tuple[TableSchema, float]:
    """The schema of at most MOST_COLUMNS columns, the first ones by the digest of their names; and their share of all
    columns that vary."""
    names = [column.name for column in filter(varies, schema.columns)]
    kept = {*sorted(names, key=lambda name: sha256(name.encode()).digest())[:MOST_COLUMNS]}
    return schema.only([name for name in names if name in kept]), len(kept) / len(names)
