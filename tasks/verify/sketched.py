"""Check the steps of a sketch against one another: the grid of its schema, groups of its cells, and synthetic rows.

It shares no line with what fits synthetic rows (tasks.student): it does not fit them again.

Assumes      each step is what was paid for (tasks.verify.rounds), and the settings prove their claim
Guarantees   found and named: a first step that asks other tables than all views of the schema's grid; two-way tables of
             other columns, or of groups that are no groups of its cells; codes of labels that are none; synthetic rows
             of other columns than the schema's and a label, whose numbers lie in other cells than were published, whose
             texts are other than these cells have, or whose shares differ from the released tables by more than noise
             and DRIFT; a number of units that does not follow from the count
Not covered  how the mixture was fitted: it is computed in floats, once. Checked by tests/flows/test_sketch_flow.py
"""

import io
from base64 import b64decode
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import polars as pl

from concord.artifacts.errors import NotVerified
from concord.tasks.data.codes import CodeMatrix, Codes, coarser
from concord.tasks.data.grid import grid_of, groups_of, reading_columns, recoded, values_in
from concord.tasks.verify.checks import equal
from concord.tasks.verify.forms import SketchForm, TablesForm
from concord.tasks.verify.kinds import Sketch

WIDTHS = 6
"""Standard deviations of noise by which estimates may differ from what was released."""
DRIFT = 0.1
"""Share of synthetic rows that may lie in other wide cells than the released table has, besides noise: rows are fitted
to tables of two columns as well."""


def check_sketch(kind: Sketch, steps: Sequence[SketchForm], tables: Sequence[bytes]) -> CodeMatrix:
    """The codes (rows, F) of the synthetic rows by which labels are inferred for them.

    Raises NotVerified unless the steps of a sketch fit its schema, and `tables`, the file of synthetic rows, fits them.
    """
    schema = steps[0].declared
    if schema is None or any(step.declared is not None for step in steps[1:]):
        raise NotVerified("the first step of a sketch, and no other, must state its schema")
    grid = grid_of(schema)
    equal("the cells of the schema", grid.digest, kind.codes)
    spans = tuple((grid.span(at).start, grid.span(at).stop) for at in range(grid.width))
    first = steps[0].question
    equal("the tables of the first step", (first.fields, first.spans), (tuple(range(grid.width)), spans))
    of_tables = [step for step in steps if step.question.what == "codes"]
    by_labels = kind.classes > 2 and len(of_tables) > 1  # as the tables of the first labels say, too
    drawn_in = len(of_tables) if by_labels else len(of_tables) - 1
    for number, step in enumerate(steps):
        equal(f"whether step {number} holds synthetic rows", step.synthetic is not None, number == drawn_in)
    for number, step in enumerate(of_tables):
        equal(f"the number of units in step {number}", step.units, steps[0].units)
    _check_units(kind, steps[0])
    if len(of_tables) > 1:
        _check_pairs(grid, steps[0], of_tables[1])
    last = of_tables[-1]
    if last.following is None or last.following.codes is None:
        raise NotVerified("the last tables of a sketch must be followed by a question about codes of their own")
    _grouped(grid, last.following.codes)
    cells = _cells(grid, steps[drawn_in])
    _check_shares(kind, grid, steps[0], cells)
    placed = np.column_stack([cells.get(at, cells[grid.fine[0]]) for at in range(grid.width)]).astype(np.int32)
    due = values_in(schema, grid, placed, b"")  # without columns of one value; numbers are drawn anew within cells
    for table in tables:
        rows = pl.read_parquet(io.BytesIO(table))
        before = slice(-2 if kind.classes else -1)  # a class has its probability beside it
        equal("the columns of synthetic rows before their label", rows.columns[before], due.columns)
        equal("the types of synthetic rows", rows.dtypes[before], due.dtypes)
        read = grid.of_raw(rows, reading_columns(schema))
        texts = [name for name, stored in due.schema.items() if stored == pl.String]  # a person's is in a bucket, too
        if not (all(np.array_equal(read[:, at], cells[at]) for at in grid.fine) and rows[texts].equals(due[texts])):
            raise NotVerified("the values of synthetic rows are not such as the released cells have")
    return recoded(placed, grid, last.following.codes)


def _check_units(kind: Sketch, step: SketchForm) -> None:
    """Check that the number of units is the released count, within noise."""
    of_step = kind.rounds[0]
    counted, noise = step.sums[-1] / of_step.count, of_step.scale / of_step.count
    if step.units is None or abs(max(1.0, counted) - step.units) > WIDTHS * noise + 1:
        raise NotVerified("the number of units does not follow from the released count")


def _check_shares(kind: Sketch, grid: Codes, step: SketchForm, cells: Mapping[int, Any]) -> None:
    """Check that synthetic rows have the shares of the released tables, by the wide view of a number."""
    units, noise = float(step.units or 1), kind.rounds[0].scale / kind.steps
    for wide, narrow in zip(grid.coarse, grid.fine, strict=True):
        counted = np.maximum(np.array(step.sums[grid.span(wide)]) / kind.steps, 0) / units
        groups = coarser(grid.fields[narrow], grid.fields[wide])
        own = groups[cells[narrow] - grid.fields[narrow].start]
        shares = np.bincount(own, minlength=len(counted)) / len(own)
        if np.abs(shares - counted).sum() / 2 > DRIFT + WIDTHS * noise * len(counted) / units:
            name = grid.fields[narrow].name
            raise NotVerified(f"the shares of {name!r} in synthetic rows are not those of the released table")


def _check_pairs(grid: Codes, first: SketchForm, pairs: SketchForm) -> None:
    """Check that two-way tables are of all pairs of columns, in order, by groups that the step before announced."""
    if not isinstance(first.next, TablesForm):
        raise NotVerified("the first step of a sketch must announce the groups of its two-way tables")
    groups = first.next.tables
    equal("the columns of two-way tables", [group.name for group in groups], [grid.fields[at].name for at in grid.fine])
    for at, group in zip(grid.fine, groups, strict=True):
        equal(f"the first group of {group.name!r}", group.start, 0)
        _group(grid, at, group)
    sizes = [one.size * other.size for one, other in combinations(groups, 2)]
    equal("the sizes of two-way tables", [stop - start for start, stop in pairs.question.spans], sizes)


def _grouped(grid: Codes, codes: Codes) -> None:
    """Check that codes are groups of the grid's cells: of each column a coarse view and, last, a fine one."""
    narrow = {grid.fields[at].name: at for at in grid.fine}
    named = [field.name for field in codes.fields]
    coarse = tuple(named.index(name) for name in narrow if name in named)
    equal("the coarse views of label codes", codes.coarse, coarse)
    equal("the fine views of label codes", codes.fine, tuple(at + named.count(named[at]) - 1 for at in coarse))
    for field in codes.fields:
        if field.name not in narrow:
            raise NotVerified(f"the codes of {field.name!r} are of no declared column")
        _group(grid, narrow[field.name], field)


def _group(grid: Codes, at: int, field: Any) -> None:
    try:
        groups_of(grid.fields[at], field)
    except ValueError as wrong:
        raise NotVerified(str(wrong)) from None


def _cells(grid: Codes, step: SketchForm) -> dict[int, Any]:
    """The published cell of each synthetic row, by narrow field."""
    assert step.synthetic is not None
    try:
        places = np.frombuffer(b64decode(step.synthetic.cells, validate=True), "<u2").reshape(-1, len(grid.fine))
    except ValueError:
        raise NotVerified("synthetic rows do not have a cell for each column") from None
    if not len(places):  # they have no shares, which would differ from those of a released table
        raise NotVerified("a step of a sketch has no synthetic rows")
    found = places.T.astype(np.int64)
    for at, own in zip(grid.fine, found, strict=True):
        if own.max() >= grid.fields[at].size:
            raise NotVerified(f"synthetic rows have cells of {grid.fields[at].name!r} that the schema lacks")
    return {at: own + grid.fields[at].start for at, own in zip(grid.fine, found, strict=True)}
