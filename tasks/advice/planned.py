"""Planned: what a plan asks of private rows, by public facts alone: rounds and noise of tallies and sketches, or the
mechanism of votes; and what mechanism = "auto" stands for.

The plan is what runs: the flow calls `planned_tallies` too, with the same codes. Rounds are planned by the number of
private units that the plan states, of public rows and of columns; measurements stand beside each rule. The ε of votes
is divided as at the door (tasks.asks.votes): the choice of a student takes its part, and relabelling leaves an (ε, δ)
for the mechanism on a secret subset.

`auto` is tallies, unless they cannot be asked. Then teachers vote: by `stable` if the plan says at which cutoff its
session ends, otherwise by `noisy_votes`, which need neither a cutoff nor a guess of how much teachers agree. The result
is a plan that names the mechanism; that plan runs, is charged and is recorded.

Assumes      codes, numbers of public rows and R are those of the plan's public rows (tasks.advice.public_facts)
Guarantees   no private row is read, nothing is charged and nothing drawn. The choice follows from the plan and the
             types of public columns, by no arithmetic: it is the same on every machine
Not covered  whether another way would teach more; interactions of several columns: additive codes do not express them,
             and pairs of columns are queried only if single columns predict poorly. Checked by
             tests/tasks/advice/test_recommend.py and test_cover.py, and tests/flows/cli/test_plan_command.py
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

from concord.artifacts.errors import WrongInput
from concord.artifacts.guarantee import later_rows_in_words
from concord.artifacts.plan import Plan
from concord.artifacts.schemas import Encoding, Passed
from concord.artifacts.sections import TALLIES
from concord.tasks.data.codes import CODED, VECTOR_CELLS, Codes, CodeSizes, coarse_bins, deepens
from concord.tasks.data.joined import LEAST_NUMBERS, LEAST_ROWS, RATIO_IN_WORDS, clustered, joinable, most_ratio
from concord.tasks.data.vectors import VectorField
from concord.tasks.mechanisms.calibration import bits_for, calibrate, calibrated_sums, share_for
from concord.tasks.mechanisms.mechanism import Mechanism
from concord.tasks.mechanisms.relabelled import CHOICE_EPSILON, inner_budget
from concord.tasks.mechanisms.sketch import Sketch
from concord.tasks.mechanisms.stream import Stream
from concord.tasks.mechanisms.tallies import Tallies
from concord.tasks.student.directions import most_rows
from concord.tasks.student.rounds import JOINED_SHARE, LATER_FIELDS, PAIRED, planned_rounds, sketch_rounds
from concord.tasks.student.running_totals import as_read

DIVIDED = 4 * 32 * 12
"""Least number of cells that are distinguishable from noise at which the outermost bins of numbers are divided: their
quarters then hold 60 times as many units as the noise of a single round."""

LOUD = 5
"""Units that share a cell, over the standard deviation of the noise in its sums."""
FEWEST_CELLS = 12
"""Fewest cells by which all numbers together are counted."""
MOST_JOINED = 3_000
"""Most of these cells times classes, unless cells are few: each class is decoded by itself. Of letter's 26 classes, 60,
120 and 282 cells have 72.4, 72.0 and 71.6 in 8, 10 and 27 seconds (one run each)."""
LOUD_SHARE, HALF_SHARE = 3 / 20, 1 / 2
"""Shares of ρ for all numbers together in place of JOINED_SHARE: if ε is below 1; and if that would leave fewer cells
above the noise than may be counted. `share_of_joined` says why."""


def check_columns(plan: Plan, encoding: Encoding) -> None:
    """Raise WrongInput if rows cannot be turned into codes, or if the student cannot read codes."""
    for column in encoding.columns:
        if column.kind == "list" and plan.student.learner == "linear":
            raise WrongInput(
                f"student.estimator must be given, since {column.name!r} holds lists: the model that tallies are "
                "decoded to knows them by cells alone, and a student that is fitted to inferred labels reads them whole"
            )
    if all(column.kind == "null" for column in encoding.columns):
        raise WrongInput("labeling.mechanism = 'tallies' needs a feature of data.public that holds a value")


def planned_sizes(plan: Plan, encoding: Encoding) -> CodeSizes:
    """Sizes of the codes that a plan learns: bins of a number, the most cells of a vector, and whether the outermost
    bins are divided, which they are if their quarters clearly exceed the noise.

    Measured on 20 normal numbers of a simulated table, at ε = 2: half a point more of accuracy with 100,000 private
    rows and with 1,000,000.
    """
    columns, units = [column for column in encoding.columns if isinstance(column, CODED)], plan.labeling.rows
    sizes: CodeSizes = {"coarse": coarse_bins(plan.privacy.epsilon), "cells": VECTOR_CELLS}
    if units is not None:
        with suppress(WrongInput):  # a budget that is too small is refused where rounds are planned
            once = read_at_end(_of_rounds(plan, len(columns), VECTOR_CELLS))
            if any(isinstance(column, Passed) for column in columns):
                sizes["cells"] = min(VECTOR_CELLS, cells_that_are_heard(once, units))
            elif _alone(plan) and cells_that_are_heard(once, units) >= DIVIDED:
                sizes["tails"] = True
            if joins(plan, encoding):
                heard = _cells_together(plan, share_of_joined(plan))
                sizes["joined"] = min(most_together(plan), heard) if heard >= FEWEST_CELLS else 0
    return sizes


def share_of_joined(plan: Plan) -> float:
    """The share of ρ for all numbers together, by public facts.

    Measured at ε = .1 (six runs each): with .3 of ρ magic loses 1.1 points to columns alone, with .15 it loses .3, and
    page-blocks and phoneme gain as much or more. At ε = 1 (two runs each), where cells are fewer than may be counted,
    segment has 86.2 with .3 and 88.4 with .5, texture 90.8 and 91.7, banana 87.3 and 88.1; where they are not, letter
    has 72.8 and 72.3, magic and credit the same with both.
    """
    if plan.privacy.epsilon < 1:
        return LOUD_SHARE
    return HALF_SHARE if _cells_together(plan, JOINED_SHARE) < most_together(plan) else JOINED_SHARE


def most_together(plan: Plan) -> int:
    """The most cells of all numbers together that are counted, however many private units there are."""
    return max(FEWEST_CELLS, min(VECTOR_CELLS, MOST_JOINED // len(plan.data.classes)))


def _cells_together(plan: Plan, share: float) -> int:
    """The most cells of all numbers together that are heard with that share of ρ."""
    return cells_that_are_heard(_of_rounds(plan, 1, VECTOR_CELLS), (plan.labeling.rows or 0) * math.sqrt(share))


def joins(plan: Plan, encoding: Encoding) -> bool:
    """Whether all numbers together are counted, if public rows cluster. Never with vectors or a number as label; nor if
    labels alone are secret, or in a stream."""
    vectors = any(isinstance(column, Passed) for column in encoding.columns)
    return plan.labeling.joined and _alone(plan) and not vectors and bool(joinable(encoding.columns))


def planned_tallies(plan: Plan, codes: Codes, rows: int, decided: tuple[int, int] | None = None) -> Tallies:
    """The tallies of a plan, with these codes and `rows` public rows. Raises WrongInput.

    decided  rounds of labels that are decided already, and the fields of the last one
    """
    spaces, width = deepens(codes), len(codes.coarse)
    joined = 0 if codes.joined is None else codes.fields[codes.joined].size
    made = partial(_of_rounds, plan, width, codes.size, spaces=spaces, pairs=asks_pairs(plan, codes))
    share = share_of_joined(plan) if joined else 0.0
    made = partial(made, joined=joined, joined_share=share)
    once = made()
    if isinstance(once, Stream):
        return once
    rows, units = min(rows, most_rows(codes)), plan.labeling.rows or 0
    rho = once.rho * (1 - share)
    if decided is not None:
        rounds, later = decided
    else:
        later = later_fields(width, rho, rows, units)
        if plan.privacy.secret == "labels":
            rounds = 1  # features are known, so one round has all of the budget
        elif plan.data.bounds is not None:
            rounds = 1  # measured on 30,000 and 3,000 synthetic rows: a second one taught nothing more of a number
        elif spaces:
            rounds = rounds_of_spaces(once, codes.size, units)
        elif all(isinstance(field, VectorField) for field in codes.fields):
            rounds = 1  # it measures all cells: a model of cells adds nothing
        else:
            rounds = rounds_of(width, rho, rows, units)
    return once if rounds == 1 else made(rounds=rounds, later=later)


def planned_sketch(plan: Plan, grid: Codes) -> Sketch:
    """The tables and rounds of a plan that declares a schema, for the cells of its grid. Raises WrongInput."""
    narrow = [grid.fields[at].size for at in grid.fine]
    wide = [grid.fields[at].size for at, narrow_view in zip(grid.coarse, grid.fine, strict=True) if at != narrow_view]
    classes = len(plan.data.classes)
    return calibrated_sums(
        Sketch,
        epsilon=plan.privacy.epsilon,
        delta=plan.privacy.delta,
        classes=classes,
        rounds=sketch_rounds(classes=classes, narrow=narrow, wide=wide),
        many=plan.data.unit is not None,
    )


def _of_rounds(plan: Plan, fields: int, codes: int, *, rounds: int = 1, **more: Any) -> Tallies:
    """The tallies of a plan with so many fields, codes and rounds of labels; of a stream, with a single one.

    more    what else `planned_rounds` takes
    """
    classes, secret, units = len(plan.data.classes), plan.privacy.secret, plan.labeling.rows
    given: dict[str, Any] = {
        "epsilon": plan.privacy.epsilon,
        "delta": plan.privacy.delta,
        "classes": classes,
        "rounds": planned_rounds(classes=classes, fields=fields, codes=codes, rounds=rounds, secret=secret, **more),
        "many": plan.data.unit is not None,
    }
    if plan.stream is None:
        return calibrated_sums(Tallies, **given, secret=secret)
    assert units is not None
    return calibrated_sums(Stream, **given, season=plan.stream.season, bits=bits_for(units, plan.stream.season))


def asks_pairs(plan: Plan, codes: Codes) -> bool:
    """Whether pairs of columns are queried if single columns predict poorly. Never with many columns, vectors or a
    number as label; nor if labels alone are secret, or in a stream."""
    vectors = any(isinstance(field, VectorField) for field in codes.fields)
    return _alone(plan) and not vectors and 2 <= len(codes.coarse) <= PAIRED


def _alone(plan: Plan) -> bool:
    """Whether rows are counted by class, once, and not their labels alone."""
    rows_with_class = plan.privacy.secret == "rows" and plan.data.bounds is None
    return rows_with_class and plan.stream is None


def read_at_end(mechanism: Tallies) -> Tallies:
    """The mechanism as it is decoded at the end: for a stream, plain tallies with the noise of its last running
    totals."""
    return as_read(mechanism, mechanism.season) if isinstance(mechanism, Stream) else mechanism


def learning_units(plan: Plan) -> float | None:
    """Number of private units for learning, as the plan states it; None if it does not."""
    rows = plan.labeling.rows
    return None if rows is None else rows * (1 - (plan.test.share if plan.test else 0))


def one_round_error(units: float, public: int) -> float:
    """The variance of a code's sum from the limited number of public rows, if there is a single round."""
    return 0.007 * units**2 / public


def rounds_of(fields_asked: int, rho: float, public: int, guess: float) -> int:
    """Number of rounds to plan, by public facts: one if ν = [F/(8ρ)] / [.007·n²/m] is above .3, otherwise three."""
    return 1 if fields_asked / (8 * rho) > 0.3 * one_round_error(guess, public) else 3


def later_fields(fields_asked: int, rho: float, public: int, guess: float) -> int:
    """Most fields that rounds after the first query, by public facts: all fields if they are few and ν of `rounds_of`
    is below .001.

    Each field then errs by the draw of public rows, and a further round on the same field removes that error: 94.8 %
    became 95.4 % with 1,000,000 private rows of 21 columns and 20,000 public ones (ε = 2).
    """
    quiet = fields_asked / (8 * rho) < 0.001 * one_round_error(guess, public)
    return fields_asked if quiet and fields_asked <= PAIRED else LATER_FIELDS


def cells_that_are_heard(once: Tallies, guess: float) -> int:
    """The most cells of a vector, by public facts: each holds LOUD times as many units as the noise of a single round.

    Measured at ε = 1 on rows that are one vector each (tests/benchmarks/TRIED.md, "Several columns as one list"): 600
    cells of 2,810 private rows lose 5 points.
    """
    return max(2, int(guess / (LOUD * once.rounds[-1].scale / once.steps)))


def rounds_of_spaces(once: Tallies, cells: int, guess: float) -> int:
    """Number of rounds to plan for pictures, by public facts: two if more cells than those would be heard, because
    labels are then good enough to learn a space from.

    Measured on MNIST with simulated noise, on private images set aside for it, one run each: at ε = 0.1, where the
    noise is 0.18 of them, 97.9 to 98.0 % with two rounds and 97.8 % with one. Smaller ε were not tried; totals of codes
    were not asked.
    """
    return 2 if cells <= cells_that_are_heard(once, guess) else 1


NO_PUBLIC_TABLE = "columns alone: there is no public table"
"""The views of a row that a sketch counts, and why."""


def views_in_words(plan: Plan, encoding: Encoding, codes: Codes, ratio: Callable[[], float | None]) -> str | None:
    """Which views of a row tallies count, and why, by public facts alone; None if there is no choice: with lists or a
    number as label, if labels alone are secret, or in a stream.

    ratio  R of the public rows that the codes were learned from
    """
    if any(isinstance(column, Passed) for column in encoding.columns) or not _alone(plan):
        return None
    most = most_ratio(len(codes.coarse))
    if not plan.labeling.joined:
        why = "labeling.joined is false"
    elif not joinable(encoding.columns):
        why = f"there are fewer than {LEAST_NUMBERS} columns of numbers that vary"
    elif (measured := ratio()) is None:
        why = f"there are fewer than {LEAST_ROWS} public rows"
    elif codes.joined is not None:
        return (
            f"columns, and by cells of all numbers together: public rows cluster (R = {measured:.2f}, at most "
            f"{most:.2f}). {RATIO_IN_WORDS}"
        )
    elif not clustered(measured, len(codes.coarse)):
        why = f"public rows do not cluster (R = {measured:.2f}, above {most:.2f}). {RATIO_IN_WORDS}"
    else:
        why = "noise would hide the cells of all numbers together"
    return f"columns alone: {why}"


@dataclass(frozen=True, kw_only=True)
class PlannedVotes:
    """Votes as a plan asks for them.

    mechanism       as the door would calibrate it, for (epsilon, delta); of relabelled rows, the one on their subset
    queries         number of public rows that are asked
    shard           private units of a teacher; None if the plan does not state their number
    subset          share of the units from which teachers learn, a secret subset; None if they learn from all rows
    """

    mechanism: Mechanism
    epsilon: float
    delta: float
    teachers: int
    queries: int
    shard: float | None
    subset: float | None

    @classmethod
    def of(cls, plan: Plan, rows: int, order: float) -> Self:
        """The votes of a plan on so many public rows, in a domain of that Rényi order. Raises WrongInput."""
        plan.labeling.check_end()
        epsilon, delta, units = plan.epsilon_of_labels, plan.privacy.delta, learning_units(plan)
        teachers, paid = plan.teachers.count, plan.labeling.queries or rows
        subset = None if plan.relabel is None else plan.relabel.share or share_for(epsilon)
        if subset is not None:
            epsilon, delta = inner_budget(epsilon, delta, subset, CHOICE_EPSILON)
            units = None if units is None else units * subset
        mechanism = calibrate(
            plan.labeling.mechanism,
            epsilon=epsilon,
            delta=delta,
            cutoff=plan.labeling.cutoff,
            queries=paid,
            classes=len(plan.data.classes),
            teachers=teachers,
            order=order,
        )
        return cls(
            mechanism=mechanism,
            epsilon=epsilon,
            delta=delta,
            teachers=teachers,
            queries=min(rows, paid),
            shard=None if units is None else units / teachers,
            subset=subset,
        )

    def later_rows(self, answered: float) -> str:
        """Whether the session can be extended after `answered` of its rows, in words."""
        mechanism = self.mechanism
        return later_rows_in_words(
            queries=mechanism.queries, cutoff=mechanism.cutoff, asked=self.queries, refused=self.queries - answered
        )


def decided(plan: Plan, encoding: Encoding) -> tuple[Plan, str]:
    """The plan that names what mechanism = "auto" stands for, and the reason; a plan that names another mechanism as it
    is, without a reason. Raises WrongInput if none can run."""
    if not plan.undecided:
        return plan, ""
    against = no_tallies(plan, encoding)
    if against is None:
        return plan.naming(TALLIES), "noisy sums over the private rows label all public rows"
    silent = None
    if not plan.teachers.count:
        silent = "[teachers] does not say who would vote"
    elif plan.student.learner == "linear":
        silent = "student.learner = 'linear' is decoded from tallies alone"
    if silent is not None:
        raise WrongInput(f"labeling.mechanism = 'auto' finds nothing that can work: no tallies: {against}; {silent}")
    votes = "noisy_votes" if plan.labeling.cutoff is None else "stable"
    return plan.naming(votes, plan.labeling.cutoff), f"teachers vote; no tallies: {against}"


def no_tallies(plan: Plan, encoding: Encoding) -> str | None:
    """The reason why rows cannot be asked for tallies, or None."""
    if plan.relabel is not None:
        return "[relabel] is for teachers, who learn from the rows"
    if "hypothesis" in plan.ways:
        return "student.learner = 'universal' is chosen beside votes or alone"
    if plan.labeling.rows is None:
        return "labeling.rows does not say how many private units there are, roughly"
    try:
        check_columns(plan.naming(TALLIES), encoding)
    except WrongInput as wrong:
        return str(wrong)
    return None
