"""Planned tallies: the rounds and the noise of a plan, and what to expect of them.

The plan is what runs: the flow calls `planned_tallies` too, with the same codes.

Not covered  what several columns say together: additive codes do not express it, and pairs of columns are asked about
             if single ones say little alone. Checked by tests/tasks/advice/test_recommend.py and
             tests/flows/cli/test_plan_command.py
"""

import math
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

import polars as pl

from concord.artifacts.errors import WrongInput
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, Passed
from concord.artifacts.sections import TALLIES
from concord.tasks.advice.compare import Option
from concord.tasks.advice.worth import (
    BINS,
    cells_that_are_heard,
    later_fields,
    learning_units,
    lost,
    rounds_of,
    rounds_of_spaces,
    worth_of_tallies,
)
from concord.tasks.data.codes import CODED, VECTOR_CELLS, Codes, PlannedSizes, coarse_bins, deepens, learn_codes
from concord.tasks.data.vectors import VectorField
from concord.tasks.mechanisms.stream import Stream, bits_for
from concord.tasks.mechanisms.tallies import LATER_FIELDS, PAIRED, Tallies, planned_rounds
from concord.tasks.student.directions import most_rows

DIVIDED = 4 * 32 * 12
"""Cells that are heard, from which the outermost bins of numbers are divided: their quarters then hold 60 times as many
units as the noise of a single round."""


def check_columns(plan: Plan, encoding: Encoding) -> None:
    """Raise WrongInput if rows cannot be turned into codes, or if the student cannot read codes."""
    for column in encoding.columns:
        if column.kind == "list" and plan.student.reads_codes:
            raise WrongInput(
                f"student.estimator must be given, since {column.name!r} holds lists: the model that tallies are "
                "decoded to knows them by cells alone, and a student that is fitted to inferred labels reads them whole"
            )
    if all(column.kind == "null" for column in encoding.columns):
        raise WrongInput("labeling.mechanism = 'tallies' needs a feature of data.public that holds a value")


def planned_sizes(plan: Plan, encoding: Encoding) -> PlannedSizes:
    """What `learn_codes` is asked for by a plan: bins of a number, the most cells of a vector, and whether the
    outermost bins are divided, as they are if their quarters are heard well.

    Measured on 20 normal numbers of a simulated table, at ε = 2: half a point more of accuracy with 100,000 private
    rows and with 1,000,000.
    """
    columns, units = [column for column in encoding.columns if isinstance(column, CODED)], plan.labeling.rows
    sizes: PlannedSizes = {"coarse": coarse_bins(plan.privacy.epsilon), "cells": VECTOR_CELLS}
    if units is not None:
        with suppress(WrongInput):  # a budget that is too small is refused where rounds are planned
            once = read_at_end(_of_rounds(plan, len(columns), VECTOR_CELLS))
            if any(isinstance(column, Passed) for column in columns):
                sizes["cells"] = min(VECTOR_CELLS, cells_that_are_heard(once, units / math.sqrt(_holders(plan))))
            elif _alone(plan) and cells_that_are_heard(once, units) >= DIVIDED:
                sizes["tails"] = True
    return sizes


def planned_codes(plan: Plan, encoding: Encoding, frames: Iterable[pl.DataFrame]) -> Codes:
    """The codes of a plan, from the cast rows of its public table."""
    return learn_codes(frames, encoding.columns, **planned_sizes(plan, encoding))


def planned_tallies(plan: Plan, codes: Codes, rows: int, begun: tuple[int, int] | None = None) -> Tallies:
    """The tallies of a plan, with these codes and `rows` public rows. Raises WrongInput.

    begun   rounds of labels of a session that goes on, and the fields of its last one, since another version may
            advise otherwise
    """
    made = partial(
        _of_rounds, plan, len(codes.coarse), codes.size, spaces=deepens(codes), pairs=asks_pairs(plan, codes)
    )
    once = made()
    if isinstance(once, Stream):
        return once
    units, rows = (plan.labeling.rows or 0) / math.sqrt(_holders(plan)), min(rows, most_rows(codes))
    advised = _rounds(plan, codes, rows, once), later_fields(len(codes.coarse), once.rho, rows, units)
    rounds, later = begun or advised
    return once if rounds == 1 else made(rounds=rounds, later=later)


def _of_rounds(
    plan: Plan,
    fields: int,
    codes: int,
    *,
    rounds: int = 1,
    spaces: bool = False,
    pairs: bool = False,
    later: int = LATER_FIELDS,
) -> Tallies:
    """The tallies of a plan with so many fields, codes and rounds of labels; of a stream, with a single one."""
    classes, secret, many = len(plan.data.classes), plan.privacy.secret, plan.data.unit is not None
    epsilon, delta = plan.privacy.epsilon, plan.privacy.delta
    planned = planned_rounds(
        classes=classes,
        fields=fields,
        codes=codes,
        rounds=rounds,
        secret=secret,
        spaces=spaces,
        pairs=pairs,
        later=later,
    )
    if plan.stream is None:
        return Tallies.calibrate(
            epsilon=epsilon, delta=delta, classes=classes, rounds=planned, secret=secret, many=many
        )
    units, season = plan.labeling.rows, plan.stream.season
    assert units is not None
    return Stream.of_season(
        epsilon=epsilon,
        delta=delta,
        classes=classes,
        rounds=planned,
        season=season,
        many=many,
        bits=bits_for(units, season),
    )


def asks_pairs(plan: Plan, codes: Codes) -> bool:
    """Whether pairs of columns are asked about if single ones say little: not of many columns, vectors or numbers as
    labels; nor if labels alone are secret, or of streams and several homes."""
    vectors = any(isinstance(field, VectorField) for field in codes.fields)
    return _alone(plan) and not vectors and 2 <= len(codes.coarse) <= PAIRED


def _alone(plan: Plan) -> bool:
    """Whether rows with a class are asked about by one home, once, and not their labels alone."""
    rows_with_class = plan.privacy.secret == "rows" and plan.data.bounds is None
    return rows_with_class and plan.stream is None and plan.homes is None


def read_at_end(mechanism: Tallies) -> Tallies:
    """As it is decoded in the end: of a stream, plain tallies with the noise of its last running totals."""
    return mechanism.as_read(mechanism.season) if isinstance(mechanism, Stream) else mechanism


def _rounds(plan: Plan, codes: Codes, rows: int, once: Tallies) -> int:
    """Rounds of labels, by public facts alone; `once` has a single one."""
    units = plan.labeling.rows
    assert units is not None
    if plan.privacy.secret == "labels":
        return 1  # features are known, so one round has all of the budget
    if plan.data.bounds is not None:
        return 1  # measured on 30,000 and 3,000 made-up rows: a second one taught nothing more of a number
    if deepens(codes):
        return rounds_of_spaces(once, codes.size, units / math.sqrt(_holders(plan)))
    if all(isinstance(field, VectorField) for field in codes.fields):
        return 1  # it measures all cells: a model of cells adds nothing
    return rounds_of(len(codes.coarse), once.rho / _holders(plan), rows, units)


def _holders(plan: Plan) -> int:
    """How many add noise of their own to a sum."""
    return 1 if plan.homes is None else len(plan.homes.names)


def tallies_option(plan: Plan, codes: Codes, rows: int) -> Option:
    """The option of tallies, to compare with voting mechanisms; not feasible if they do not fit the budget."""
    try:
        mechanism = read_at_end(planned_tallies(plan, codes, rows))
    except WrongInput as wrong:
        return Option(name=TALLIES, feasible=False, reason=str(wrong))
    units = learning_units(plan)
    assert units is not None  # a plan for tallies states its rows
    asked_of, classes = [codes.fields[field] for field in codes.coarse], len(plan.data.classes)
    sizes = [field.size if isinstance(field, VectorField) else min(field.size, BINS) for field in asked_of]
    worth = worth_of_tallies(mechanism, sizes, units=units, public=rows)
    asked = f"noisy sums of {len(sizes)} columns over {units:,.0f} units"
    return Option(
        name=TALLIES,
        feasible=True,
        expected_answered=rows,
        expected_right=rows,
        worth=worth,
        lost=lost(worth, classes, len(sizes)) if classes else None,
        needs="the number of private units, roughly",
        reason=f"{asked} label all public rows: as good as {worth:,.0f} labels",
    )
