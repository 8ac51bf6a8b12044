"""Check released sums: rounds, the releases of a season and the steps of a sketch, against what their session paid for
and against one another.

    question ─ paid for? announced? ─ sums ─ model ─ the next question ─ …          rounds
                                    ─ running totals ─ …                            a season
                                    ─ tables ─ groups ─ synthetic cells ─ …         a sketch

It shares no line with what asks them (tasks.mechanisms), decodes them or fits synthetic rows (tasks.student).

Assumes      the settings are those on record, and prove their claim (tasks.verify.recompute); each file has the form of
             its kind (tasks.verify.forms)
Guarantees   found and named: a round that a unit moves further than was paid for, or with more numbers, other noise or
             another grid; a question that was not announced, or does not follow from the model before it; a release
             that asks another question than the first, or whose running totals, or their noise, do not follow from what
             was released; of a sketch, a first step that asks other tables than all views of the schema's grid, two-way
             tables of other columns or of groups that are no groups of its cells, codes of labels that are none,
             a number of units that does not follow from the count; synthetic rows of other columns than the schema's
             and a label, whose numbers lie in other cells than were published, whose texts are other than these cells
             have, or whose shares differ from the released tables by more than noise and DRIFT
Not covered  the sums themselves, which were drawn; that a model was decoded from them, or how a mixture was fitted
             Checked by tests/tasks/verify/test_every_field.py and
             tests/flows/test_sketch_flow.py
"""

import math
from base64 import b64decode
from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import polars as pl

from concord.artifacts.errors import NotVerified
from concord.tasks.data.codes import CodedField, CodeMatrix, Codes, coarser
from concord.tasks.data.encode import reading_columns
from concord.tasks.data.grid import grid_of, groups_of, recoded, values_in
from concord.tasks.verify.checks import equal
from concord.tasks.verify.forms import (
    DecodedForm,
    LearnedForm,
    NextForm,
    QuestionForm,
    ReleaseForm,
    RoundForm,
    SketchForm,
    TablesForm,
)
from concord.tasks.verify.kinds import RoundSettings
from concord.tasks.verify.recompute import SketchSettings, StreamSettings
from concord.tasks.verify.recompute_gaussian import MOST_STEPS, ROUNDING, TalliesSettings, moved_norm

STEPS_A_NAT = 256
"""Whole steps of a model in a nat of its logit."""
FARTHEST_WEIGHT = 2**40
WIDTHS = 6
"""Standard deviations of noise by which estimates may differ from what was released."""
DRIFT = 0.1
"""Share of synthetic rows that may lie in other wide cells than the released table has, besides noise: rows are fitted
to tables of two columns as well."""

FieldSpans = Mapping[int, tuple[int, int]]
"""The first code of each field that was asked for, and the one after its last."""


def check_rounds(kind: TalliesSettings, rounds: Sequence[RoundForm]) -> str:
    """Check that each round asked no more than it paid for, and what the one before announced. Raises NotVerified."""
    for number, form in enumerate(rounds):
        check_round(kind, number, form, rounds[number - 1] if number else None)
    return f"{len(rounds)} rounds asked no more than they paid for"


def check_round(kind: TalliesSettings, number: int, form: RoundForm, before: RoundForm | None = None) -> None:
    """Raise NotVerified unless a round asked what was paid for and, if the one before it announced that, what it
    announced."""
    following, question = None if before is None else before.following, form.question
    if following is not None and (following.fields, following.model) != (question.fields, question.model):
        raise NotVerified(f"round {number} asks another question than the round before announced")
    if following is None and question.model is not None:
        raise NotVerified(f"round {number} expects labels by a model that no round before it announced")
    if form.round != number:
        raise NotVerified(f"round {number} asks another question than was paid for")
    _check_asked(kind, number, question, form.sums, form.scale)


def _check_asked(kind: TalliesSettings, number: int, question: QuestionForm, sums: Sequence[int], scale: float) -> None:
    """Raise NotVerified unless sums answer a question that was paid for: on whatever grid, a unit must move them no
    further than the round paid for, and they must be no more numbers."""
    if number >= len(kind.rounds):
        raise NotVerified(f"round {number} is not what tallies release")
    paid, fields, spans = kind.rounds[number], question.fields, sorted(question.spans)
    if (question.classes, question.what, question.count) != (kind.classes, paid.what, paid.count):
        raise NotVerified(f"round {number} asks another question than was paid for")
    if scale != paid.scale:
        raise NotVerified(f"round {number} states other noise than was paid for")
    if any(not 0 <= start < stop for start, stop in spans) or any(a[1] > b[0] for a, b in pairwise(spans)):
        raise NotVerified(f"round {number} asks for a cell twice, or for none")
    columns = 1 if question.what == "codes" or question.classes <= 2 else question.classes
    size = sum(stop - start for start, stop in spans) * columns + (question.count > 0)
    once = len({*fields}) == len(fields) == len(spans)
    if not once or min(fields, default=0) < 0 or not len(sums) == size <= paid.cells:
        raise NotVerified(f"round {number} has another size than was paid for")
    grid = kind.model_copy(update={"steps": question.steps})
    moved = paid.model_copy(update={"least": question.least, "fields": len(fields), "cells": len(sums)})
    steady = 0 <= question.least <= question.steps <= MOST_STEPS
    if not steady or moved_norm(grid, moved) > moved_norm(kind, paid):
        raise NotVerified(f"a unit moves round {number} further than was paid for")
    if (question.steps, question.least) != _grid(kind, paid, len(fields)):
        raise NotVerified(f"round {number} has another grid than was paid for")


def _grid(kind: TalliesSettings, paid: RoundSettings, fields: int) -> tuple[int, int]:
    """The most steps of a vote, and the least count of steps, with which that many fields move as far as was paid
    for."""
    whole = kind.steps
    if fields == paid.fields or not kind.classes:
        return whole, paid.least

    def fits(steps: int) -> bool:
        fewer = paid.model_copy(update={"fields": fields, "least": paid.least * steps // whole})
        return moved_norm(kind.model_copy(update={"steps": steps}), fewer) <= moved_norm(kind, paid)

    most = min(MOST_STEPS, math.isqrt(whole**2 * paid.fields // fields))
    steps = next(steps for steps in range(most, 0, -1) if steps < 2 or fits(steps))
    return steps, paid.least * steps // whole


def check_season(kind: StreamSettings, releases: Sequence[ReleaseForm]) -> str:
    """Check that a season released no more than it pays for, to questions that stayed the same and follow no model, and
    that its running totals, and their noise, follow from what was released. Raises NotVerified."""
    if len(releases) > kind.season:
        raise NotVerified(f"{len(releases)} releases were made, but the settings pay for {kind.season}")
    for number, release in enumerate(releases):
        _check_release(kind, number, release)
        if release.questions != releases[0].questions:
            raise NotVerified(f"release {number} does not continue the season")
        for question, totals in enumerate(release.totals):
            sums = [earlier.sums[question] for earlier in releases[: number + 1]]
            if not totals_off(kind, sums, totals) <= 0:
                raise NotVerified(f"the running totals of release {number} do not follow from what was released")
        if not math.isclose(release.spread**2, sum(_weights(kind, number + 1) ** 2), rel_tol=1e-9):
            raise NotVerified(f"release {number} states other noise than its totals have")
    return f"the running totals follow from {len(releases)} releases"


def _check_release(kind: StreamSettings, number: int, release: ReleaseForm) -> None:
    """Raise NotVerified unless a release asked what was paid for: as a round, for each of its questions."""
    if (release.release, release.season) != (number, kind.season):
        raise NotVerified(f"release {number} does not continue the season")
    if {*map(len, (release.questions, release.sums, release.scales, release.totals))} != {len(kind.rounds)}:
        raise NotVerified("a release is not what a season releases")
    if [*map(len, release.sums)] != [*map(len, release.totals)]:
        raise NotVerified("a release has another size than was paid for")
    for at, (question, paid) in enumerate(zip(release.questions, kind.rounds, strict=True)):
        try:
            _check_asked(kind, at, question, release.sums[at], release.scales[at])
        except NotVerified as wrong:
            raise NotVerified(f"release {number}: {wrong}") from None
        whole = len(question.fields) != paid.fields or question.steps == kind.steps
        if question.model is not None or question.least != paid.least or not whole:
            raise NotVerified(f"release {number} asks another question than was paid for")


def _weights(kind: StreamSettings, releases: int) -> Any:
    """The coefficients of 1/((1 − x)·q(x)): how often a release, from the last on, counts in the totals of so many."""
    q, inverse = kind.weights[:releases], list[float]()
    for k in range(len(q)):  # of 1/q(x), by long division
        inverse.append(((k == 0) - sum(q[j] * inverse[k - j] for j in range(1, k + 1))) / q[0])
    return np.cumsum(inverse)


def totals_off(kind: StreamSettings, sums: Any, totals: Any) -> float:
    """Error of the running totals of a question's last release, in steps, beyond what rounding explains.

    sums    (releases, numbers) of all releases so far, in order
    totals  (numbers,) that the last of them states
    """
    weights, released = _weights(kind, len(sums))[::-1], np.asarray(sums, np.float64)
    most = 1 / 2 + ROUNDING * float(np.abs(weights[:, None] * released).sum(axis=0).max(initial=0.0))
    return float(np.abs(weights @ released - np.asarray(totals, np.float64)).max(initial=0.0)) - most


def check_models(kind: TalliesSettings, files: Sequence[LearnedForm]) -> None:
    """Check that the models and questions in files of rounds or releases fit one another. Raises NotVerified."""
    first = dict[int, tuple[int, int]]()
    codes, spans, before = None, first, None
    for number, form in enumerate(files):
        model, round_by_round = form.decoded, isinstance(form, RoundForm)
        asked, following = ((form.question,), form.following) if isinstance(form, RoundForm) else (form.questions, None)
        for question in asked:
            _laid_out(number, question, codes, spans)
        of_labels = not round_by_round or _decoded_from(kind.rounds) <= number
        by_tables = isinstance(form, SketchForm)  # whose codes of labels follow from them, and stay
        follows = round_by_round and number + 1 < len(kind.rounds)
        follows = follows and (of_labels or (by_tables and kind.rounds[number + 1].what == "labels"))
        equal(f"whether there is a model after round {number}", model is not None, of_labels)
        equal(f"whether a question follows round {number}", following is not None, follows)
        if following is not None and codes is not None and codes.pairs:  # what single columns say was decoded before
            equal(f"the model of round {number}", model, before)
        elif model is not None:
            _fits(number, model, kind, spans)
        if following is not None and model is not None:
            _announced(number, following, model)
        if following is not None and (following.codes is not None or not by_tables):
            codes, spans = following.codes, first if following.codes is None else {}
        before = model


def _decoded_from(rounds: Sequence[RoundSettings]) -> int:
    """The first round after which there is a model: of those for labels, the first by which units have been counted, if
    any round counts them. All numbers together are asked about before that."""
    counted = next((at for at, paid in enumerate(rounds) if paid.count), 0)
    return next(at for at, paid in enumerate(rounds) if paid.what == "labels" and at >= counted)


def _laid_out(number: int, question: QuestionForm, codes: Codes | None, spans: dict[int, tuple[int, int]]) -> None:
    """Check that the fields asked have the codes that they had before, or those that were announced, and in order."""
    for field, span in zip(question.fields, question.spans, strict=True):
        due = spans.setdefault(field, span)
        if codes is not None:
            due = (codes.span(field).start, codes.span(field).stop)
        equal(f"the codes of field {field} in round {number}", span, due)
    for (field, (_, stop)), (following, (start, _)) in pairwise([(-1, (0, 0)), *sorted(spans.items())]):
        skipped_codes, skipped_fields = start - stop, following - field - 1  # those between were not asked for
        if skipped_codes < skipped_fields or (skipped_codes and not skipped_fields):
            raise NotVerified(f"the codes of field {following} in round {number} do not follow those of the one before")


def _fits(number: int, model: DecodedForm, kind: TalliesSettings, spans: FieldSpans) -> None:
    """Check that a decoded model has the codes and classes of the query."""
    columns, last = kind.classes if kind.classes > 2 else 1, max(spans)
    widths = {len(row) for row in (*model.weights, *model.spread, model.intercept, model.prior, model.kappa)}
    fields, codes = len(model.importance) - last - 1, len(model.weights) - spans[last][1]  # that were not asked
    spreads = len(model.spread)  # of each field with weights, and of the intercept
    within = 0 <= fields <= codes and 2 <= spreads <= len(model.importance) + 1
    if widths != {columns} or not within or (codes and not fields):
        raise NotVerified(f"the model of round {number} does not fit the codes and classes that were asked for")


def _announced(number: int, following: NextForm, model: DecodedForm) -> None:
    """Check that the model by which the next round asks, if any, is the decoded one in whole steps."""
    if following.model is None:
        return
    due = np.rint(STEPS_A_NAT * np.array([model.intercept, *model.weights])).clip(-FARTHEST_WEIGHT, FARTHEST_WEIGHT)
    weights = np.frombuffer(b64decode(following.model.weights, validate=True), "<i8")
    stated = weights.reshape(-1, following.model.columns)
    if not np.array_equal(stated[: len(due)], due) or np.any(stated[len(due) :]):
        raise NotVerified(f"the question after round {number} does not follow from its model")


def check_sketch(kind: SketchSettings, steps: Sequence[SketchForm], rows: pl.DataFrame | None) -> CodeMatrix:
    """The codes (rows, F) of the synthetic rows by which labels are inferred for them.

    rows   the synthetic rows with their labels, if they were released as a file
    Raises NotVerified unless the steps of a sketch fit its schema, and the rows fit them.
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
    if rows is not None:
        features = slice(-2 if kind.classes else -1)  # a class has its probability beside it
        equal("the columns of synthetic rows before their label", rows.columns[features], due.columns)
        equal("the types of synthetic rows", rows.dtypes[features], due.dtypes)
        parsed = grid.of_raw(rows, reading_columns(schema))
        texts = [name for name, stored in due.schema.items() if stored == pl.String]  # a person's is in a bucket, too
        if not (all(np.array_equal(parsed[:, at], cells[at]) for at in grid.fine) and rows[texts].equals(due[texts])):
            raise NotVerified("the values of synthetic rows are not such as the released cells have")
    return recoded(placed, grid, last.following.codes)


def _check_units(kind: SketchSettings, step: SketchForm) -> None:
    """Check that the number of units is the released count, within noise."""
    of_step = kind.rounds[0]
    counted, noise = step.sums[-1] / of_step.count, of_step.scale / of_step.count
    if step.units is None or abs(max(1.0, counted) - step.units) > WIDTHS * noise + 1:
        raise NotVerified("the number of units does not follow from the released count")


def _check_shares(kind: SketchSettings, grid: Codes, step: SketchForm, cells: Mapping[int, Any]) -> None:
    """Check that synthetic rows have the shares of the released tables, by the wide view of a number."""
    units, noise = float(step.units or 1), kind.rounds[0].scale / kind.steps
    for wide, narrow in zip(grid.coarse, grid.fine, strict=True):
        counted = np.maximum(np.array(step.sums[grid.span(wide)]) / kind.steps, 0) / units
        groups = coarser(grid.fields[narrow], grid.fields[wide])
        group_of_row = groups[cells[narrow] - grid.fields[narrow].start]
        shares = np.bincount(group_of_row, minlength=len(counted)) / len(group_of_row)
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


def _group(grid: Codes, at: int, field: CodedField) -> None:
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
    cells = dict(zip(grid.fine, places.T.astype(np.int64), strict=True))
    for at, of_field in cells.items():
        if of_field.max() >= grid.fields[at].size:
            raise NotVerified(f"synthetic rows have cells of {grid.fields[at].name!r} that the schema lacks")
    return {at: of_field + grid.fields[at].start for at, of_field in cells.items()}
