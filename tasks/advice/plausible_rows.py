"""Plausible rows: simulated tables that a declared schema allows, on which a sketch is rehearsed.

    latent groups ─ factors ─ a place in each column's order ─ the cell at that place of a plausible margin

Margins resemble those of real tables: bell-shaped, skewed and uneven ones, numbers that are mostly at their minimum, a
few categories with most rows, some missing cells. Columns depend on one another through FACTORS factors, whose groups
are the clusters that a strong signal follows.

Assumes      the schema is public
Guarantees   nothing private is read; the same generator gives the same rows
Not covered  dependence that a few factors do not describe. Checked by tests/tasks/advice/test_rehearse_sketch.py
"""

import math

import numpy as np

from concord.artifacts.table_schema import DeclaredRange, TableSchema
from concord.tasks.data.codes import CodedField, CodeMatrix, NumberField
from concord.tasks.data.grid import grid_of, groups_of
from concord.tasks.mechanisms.distance import Floats, Ints

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
    found = np.empty((rows, grid.width), np.int32, order="F")
    for wide, narrow in zip(grid.coarse, grid.fine, strict=True):
        field, weight = grid.fields[narrow], rng.normal(size=FACTORS)
        along, own = factors @ weight / np.linalg.norm(weight), rng.random()
        place = np.sqrt(own) * along + np.sqrt(1 - own) * rng.normal(size=rows)
        cells = np.sort(_margin(field, declared[field.name], rows, rng))[np.argsort(np.argsort(place))]
        if rng.random() < 1 / 4:
            cells[rng.random(rows) < MISSING * rng.random()] = field.size - 1
        found[:, narrow] = cells + field.start
        found[:, wide] = groups_of(field, grid.fields[wide])[cells] + grid.fields[wide].start
    return found


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
